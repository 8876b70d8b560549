//! A group with everything needed to step it, and its next job.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::env::{Actions, Spec};
use crate::group::{Finals, Frames, Group, KeepFinals, Rules};
use crate::group_state::GroupState;
use crate::panics;

/// Destination of results: the first row of each array, null for arrays that are not wanted. Arrays have a row per pool row.
#[derive(Clone, Copy, Debug)]
pub struct FramePointers {
    /// Observations.
    pub obs: *mut u8,
    /// Rewards.
    pub reward: *mut f32,
    /// Ended by the rules of the task.
    pub terminated: *mut bool,
    /// Ended by the time limit or by a fault.
    pub truncated: *mut bool,
    /// Ended by a fault.
    pub cut: *mut bool,
    /// Whether the row decides next.
    pub valid: *mut bool,
    /// Actions that the row may take next.
    pub mask: *mut bool,
    /// Policy of the row.
    pub policy: *mut i32,
    /// Info arrays.
    pub infos: *mut f32,
}

// SAFETY: the pointers are used by one group at a time, each for its own rows.
unsafe impl Send for FramePointers {}

/// The next task of a group.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) frames: FramePointers,
    pub(crate) step: bool,
    pub(crate) slot: u32,
    pub(crate) keep: KeepFinals,
}

pub(crate) struct Slot {
    pub(crate) group: Box<dyn Group>,
    pub(crate) group_state: GroupState,
    pub(crate) ints: Vec<i32>,
    pub(crate) floats: Vec<f32>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) finals: Finals,
    pub(crate) job: Option<Job>,
    pub(crate) failure: Option<String>,
}

pub(crate) fn lock(slot: &Mutex<Slot>) -> MutexGuard<'_, Slot> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a slot's job; a panic in an env becomes a message.
pub(crate) fn perform(spec: &Spec, slot: &mut Slot) {
    let Some(job) = slot.job.take() else { return };
    let outcome = panics::catch(|| {
        let Slot { group, group_state, ints, floats, rules, finals, .. } = slot;
        // SAFETY: the creator of the job guarantees room for every row of the pool, and these rows are this group's alone.
        let mut frames = unsafe { frames(spec, group_state, rules, &job, finals) };
        if job.step {
            group_state.tick += 1;
            let actions = Actions { ints, floats, width: spec.action.width() };
            group.step(group_state, rules, &actions, &mut frames);
        } else {
            group.observe(group_state, rules, &mut frames);
        }
    });
    slot.failure = outcome.err().map(|panic| panic.to_string());
}

unsafe fn frames<'a>(
    spec: &Spec,
    group_state: &GroupState,
    rules: &Rules,
    job: &Job,
    finals: &'a mut Finals,
) -> Frames<'a> {
    unsafe fn part<'a, T>(base: *mut T, first: usize, count: usize, width: usize) -> &'a mut [T] {
        if base.is_null() || width == 0 {
            return &mut [];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(base.add(first * width), count * width) }
    }
    let (first, count) = (group_state.first_env * spec.seats, group_state.envs * spec.seats);
    let mask_len = if spec.masked { spec.action.mask_len() } else { 0 };
    let info_len = rules.infos.iter().map(|(_, len)| len).sum();
    let to = &job.frames;
    // SAFETY: the caller's promise.
    unsafe {
        Frames {
            obs: part(to.obs, first, count, spec.observation.row_bytes()),
            reward: part(to.reward, first, count, 1),
            terminated: part(to.terminated, first, count, 1),
            truncated: part(to.truncated, first, count, 1),
            cut: part(to.cut, first, count, 1),
            valid: part(to.valid, first, count, 1),
            mask: part(to.mask, first, count, mask_len),
            policy: part(to.policy, first, count, 1),
            infos: part(to.infos, first, count, info_len),
            finals,
            keep: job.keep,
            slot: job.slot,
        }
    }
}
