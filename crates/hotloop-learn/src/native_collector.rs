//! Collecting from native envs: each thread carries a group of envs through the whole horizon (act, step, end episodes)
//! and then computes its advantages, with no barrier per step.

use std::sync::Mutex;
use std::time::Instant;

use hotloop_core::env::{Actions, Spec};
use hotloop_core::error::Result;
use hotloop_core::group::{Frames, KeepFinals};
use hotloop_core::parallel::free;
use hotloop_core::pool::{GroupAccess, Pool};
use hotloop_core::simd::{Kernel, Simd};

use crate::cancel::CancelToken;
use crate::collector::{Collection, RolloutCollector, Scope, Workspace};
use crate::nn::net::TILE;
use crate::ppo::advantage::Gae;
use crate::ppo::rollout::Views;
use crate::sampler::RowIndex;

impl RolloutCollector {
    /// Fills the rollout from native envs, advantages included. The pool resets envs in the same step and is idle.
    ///
    /// After an error, or a panic of an env, which the pool's groups label with env and rows, the rollout is incomplete;
    /// the collector can be used again.
    pub fn collect(&mut self, pool: &Pool, iteration: u64, gae: Gae, cancel: &CancelToken<'_>) -> Result<()> {
        self.setup.check_pool(pool, &self.spec, &self.threads)?;
        let isa = self.isa;
        let (collection, threads, workspaces) = self.split(iteration);
        let failure = Mutex::new(None);
        threads.run(pool.groups(), &|group| {
            // There are as many workspaces as threads, so one is free.
            let mut work = workspaces.iter().find_map(free).expect("a free workspace");
            let rows = pool.group_rows(group);
            pool.with_group(group, |access| {
                let (first, count) = (rows.start, rows.len());
                let carry = Carry {
                    collection: &collection,
                    spec: pool.spec(),
                    gae,
                    cancel,
                    first,
                    count,
                    access,
                    work: &mut work,
                };
                if let Err(error) = isa.run(carry) {
                    failure.lock().expect("no thread panics here").get_or_insert(error);
                    cancel.cancel();
                }
            });
        });
        match failure.into_inner().expect("no thread panics here") {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// A group of envs on its way through the horizon.
struct Carry<'a, 'b> {
    collection: &'a Collection<'a>,
    spec: &'a Spec,
    gae: Gae,
    cancel: &'a CancelToken<'a>,
    first: usize,
    count: usize,
    access: GroupAccess<'b>,
    work: &'a mut Workspace,
}

impl Kernel for Carry<'_, '_> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Result<()> {
        let Self { collection, spec, gae, cancel, first, count, mut access, work } = self;
        let views = &collection.views;
        let scope = |slot: usize| Scope::Slot { slot, first, count };
        access.finals.clear();
        work.final_states.clear();
        // SAFETY, throughout: these rows are this group's alone.
        unsafe { observe(views, &mut access, first, count) };
        work.rows.clear();
        work.rows.extend((0..count as u32).map(|row| RowIndex { at: row, row, step: 0 }));
        for step in 0..collection.horizon {
            if cancel.is_cancelled() {
                return Ok(());
            }
            let start = Instant::now();
            work.rows.iter_mut().for_each(|index| index.step = step as u32);
            unsafe { collection.act(simd, work, scope(step))? };
            let acted = Instant::now();
            unsafe { step_group(views, spec, &mut access, step, first, count) };
            work.inference += acted - start;
            work.env += acted.elapsed();
            unsafe { collection.end_episodes(work, scope(step), access.finals) };
        }
        let start = Instant::now();
        unsafe { collection.bootstrap(simd, work, scope(collection.horizon), access.finals) };
        for tile in (0..count).step_by(TILE) {
            unsafe { gae.rows(*views, collection.horizon, first + tile, TILE.min(count - tile)) };
        }
        work.inference += start.elapsed();
        Ok(())
    }
}

/// Writes the observations of a group of envs before the first step.
///
/// # Safety
/// No other thread uses these rows.
pub(crate) unsafe fn observe(views: &Views<'_>, access: &mut GroupAccess<'_>, first: usize, count: usize) {
    // SAFETY: the caller's promise.
    let mut frames = unsafe {
        Frames {
            obs: views.obs.part(0, first, count),
            reward: &mut [],
            terminated: &mut [],
            truncated: &mut [],
            cut: &mut [],
            valid: views.valid.part(0, first, count),
            mask: views.mask.part(0, first, count),
            policy: views.policy.part(0, first, count),
            infos: &mut [],
            finals: access.finals,
            keep: KeepFinals::Truncated,
            slot: 0,
        }
    };
    access.group.observe(access.group_state, access.rules, &mut frames);
}

/// Steps a group of envs with the actions of a slot.
///
/// # Safety
/// No other thread uses these rows.
#[inline(always)]
pub(crate) unsafe fn step_group(
    views: &Views<'_>,
    spec: &Spec,
    access: &mut GroupAccess<'_>,
    slot: usize,
    first: usize,
    count: usize,
) {
    // SAFETY: the caller's promise.
    let (discrete, continuous, mut frames) = unsafe {
        (
            views.discrete.part(slot, first, count),
            views.continuous.part(slot, first, count),
            Frames {
                obs: views.obs.part(slot + 1, first, count),
                reward: views.reward.part(slot, first, count),
                terminated: views.terminated.part(slot, first, count),
                truncated: views.truncated.part(slot, first, count),
                cut: views.cut.part(slot, first, count),
                valid: views.valid.part(slot + 1, first, count),
                mask: views.mask.part(slot + 1, first, count),
                policy: views.policy.part(slot + 1, first, count),
                infos: &mut [],
                finals: access.finals,
                keep: KeepFinals::Truncated,
                slot: slot as u32,
            },
        )
    };
    access.ints[..discrete.len()].copy_from_slice(discrete);
    let (low, high) = spec.action.bounds();
    for (i, (to, from)) in access.floats.iter_mut().zip(continuous.iter()).enumerate() {
        let dim = i % low.len();
        *to = if from.is_finite() { from.clamp(low[dim], high[dim]) } else { low[dim] };
    }
    access.group_state.tick += 1;
    let actions = Actions { ints: access.ints, floats: access.floats, width: spec.action.width() };
    access.group.step(access.group_state, access.rules, &actions, &mut frames);
}
