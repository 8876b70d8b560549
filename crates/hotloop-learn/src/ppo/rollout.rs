//! A rollout: the transitions of all rows over a horizon, as plain time-major arrays.

use hotloop_core::env::Spec;

use crate::nn::spec::Head;

/// Transitions of all rows over a horizon.
pub struct Rollout {
    /// Time steps per row.
    pub horizon: usize,
    /// Number of rows.
    pub rows: usize,
    /// Bytes per observation.
    pub obs_bytes: usize,
    /// Entries per action mask; 0 without masks.
    pub mask_len: usize,
    /// Choices per action; 0 for continuous actions.
    pub sets: usize,
    /// Real numbers per action; 0 for discrete actions.
    pub dims: usize,
    /// `[horizon + 1, rows]` observations.
    pub obs: Vec<u8>,
    /// `[horizon + 1, rows, mask_len]` action masks.
    pub mask: Vec<bool>,
    /// `[horizon + 1, rows]` whether the row decides.
    pub valid: Vec<bool>,
    /// `[horizon + 1, rows]` the policy that plays the row; 0 is the learner.
    pub policy: Vec<i32>,
    /// `[horizon, rows, sets]` choices.
    pub discrete: Vec<i32>,
    /// `[horizon, rows, dims]` real numbers before clipping.
    pub continuous: Vec<f32>,
    /// `[horizon, rows]` log-probabilities of the actions.
    pub log_prob: Vec<f32>,
    /// `[horizon + 1, rows]` values.
    pub value: Vec<f32>,
    /// `[horizon, rows]` rewards.
    pub reward: Vec<f32>,
    /// `[horizon, rows]` whether the episode ended by the rules.
    pub terminated: Vec<bool>,
    /// `[horizon, rows]` whether the episode ended by a time limit or a fault.
    pub truncated: Vec<bool>,
    /// `[horizon, rows]` whether a fault ended the episode.
    pub cut: Vec<bool>,
    /// `[horizon, rows]` the value of the final observation, where truncated.
    pub bootstrap: Vec<f32>,
    /// `[horizon, rows]` advantages.
    pub advantage: Vec<f32>,
    /// `[horizon, rows]` value targets.
    pub target: Vec<f32>,
    /// `[horizon, rows]` loss weights.
    pub weight: Vec<f32>,
    /// Time steps per training sequence (truncated backpropagation through time); divides the horizon.
    pub sequence_length: usize,
    /// Numbers per recurrent state; 0 for feedforward policies.
    pub state_len: usize,
    /// `[sequences per row, rows, state_len]` recurrent state at the start of each sequence.
    pub sequence_starts: Vec<f32>,
}

impl Rollout {
    /// Allocates `horizon` steps of `rows` rows.
    pub fn new(spec: &Spec, head: &Head, rows: usize, horizon: usize) -> Self {
        let steps = horizon * rows;
        let slots = steps + rows;
        let obs_bytes = spec.observation.row_bytes();
        let mask_len = if spec.masked { spec.action.mask_len() } else { 0 };
        let (sets, dims) = (head.sets.len(), head.dims);
        Self {
            horizon,
            rows,
            obs_bytes,
            mask_len,
            sets,
            dims,
            obs: vec![0; slots * obs_bytes],
            mask: vec![true; slots * mask_len],
            valid: vec![true; slots],
            policy: vec![0; slots],
            discrete: vec![0; steps * sets],
            continuous: vec![0.0; steps * dims],
            log_prob: vec![0.0; steps],
            value: vec![0.0; slots],
            reward: vec![0.0; steps],
            terminated: vec![false; steps],
            truncated: vec![false; steps],
            cut: vec![false; steps],
            bootstrap: vec![0.0; steps],
            advantage: vec![0.0; steps],
            target: vec![0.0; steps],
            weight: vec![1.0; steps],
            sequence_length: horizon,
            state_len: 0,
            sequence_starts: Vec::new(),
        }
    }

    /// Adds recurrent state at the start of each sequence.
    pub fn with_sequences(mut self, state_len: usize, sequence_length: usize) -> Self {
        self.state_len = state_len;
        self.sequence_length = sequence_length;
        self.sequence_starts = vec![0.0; self.horizon / sequence_length * self.rows * state_len];
        self
    }

    /// Begins the next rollout where this one ended: the last slot's observations become the first slot's.
    pub fn carry_over(&mut self) {
        let last = self.horizon * self.rows;
        self.obs.copy_within(last * self.obs_bytes.., 0);
        self.mask.copy_within(last * self.mask_len.., 0);
        self.valid.copy_within(last.., 0);
        self.policy.copy_within(last.., 0);
        self.cut.fill(false);
    }
}

/// An array of a rollout, shared by threads that each access their own rows only.
pub struct View<'a, T> {
    base: *mut T,
    rows: usize,
    width: usize,
    len: usize,
    lifetime: std::marker::PhantomData<&'a mut [T]>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for View<'_, T> {}
// SAFETY: `part` leaves it to the caller that no two threads touch the same rows.
unsafe impl<T: Send> Send for View<'_, T> {}
unsafe impl<T: Send> Sync for View<'_, T> {}

impl<'a, T> View<'a, T> {
    /// View of an array with `width` entries per row.
    pub fn new(data: &'a mut [T], rows: usize, width: usize) -> Self {
        Self { base: data.as_mut_ptr(), rows, width, len: data.len(), lifetime: std::marker::PhantomData }
    }

    /// The entries of `count` rows from `row` on, at one step; empty if the rollout has no such array.
    ///
    /// # Safety
    /// No other thread uses these entries while the slice lives.
    pub unsafe fn part(&self, step: usize, row: usize, count: usize) -> &'a mut [T] {
        if self.len == 0 {
            return &mut [];
        }
        let first = (step * self.rows + row) * self.width;
        assert!(row + count <= self.rows && first + count * self.width <= self.len);
        // SAFETY: within the array, and the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(first), count * self.width) }
    }

    /// The whole array.
    ///
    /// # Safety
    /// No other thread uses the array while the slice lives.
    pub unsafe fn whole(&self) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }
}

/// All arrays of a rollout, for several threads to fill.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // named as in `Rollout`
pub struct Views<'a> {
    pub obs: View<'a, u8>,
    pub mask: View<'a, bool>,
    pub valid: View<'a, bool>,
    pub policy: View<'a, i32>,
    pub discrete: View<'a, i32>,
    pub continuous: View<'a, f32>,
    pub log_prob: View<'a, f32>,
    pub value: View<'a, f32>,
    pub reward: View<'a, f32>,
    pub terminated: View<'a, bool>,
    pub truncated: View<'a, bool>,
    pub cut: View<'a, bool>,
    pub bootstrap: View<'a, f32>,
    pub advantage: View<'a, f32>,
    pub target: View<'a, f32>,
    pub weight: View<'a, f32>,
    pub sequence_starts: View<'a, f32>,
}

impl Rollout {
    /// Views for threads that each fill their own rows.
    pub fn views(&mut self) -> Views<'_> {
        let rows = self.rows;
        Views {
            obs: View::new(&mut self.obs, rows, self.obs_bytes),
            mask: View::new(&mut self.mask, rows, self.mask_len),
            valid: View::new(&mut self.valid, rows, 1),
            policy: View::new(&mut self.policy, rows, 1),
            discrete: View::new(&mut self.discrete, rows, self.sets),
            continuous: View::new(&mut self.continuous, rows, self.dims),
            log_prob: View::new(&mut self.log_prob, rows, 1),
            value: View::new(&mut self.value, rows, 1),
            reward: View::new(&mut self.reward, rows, 1),
            terminated: View::new(&mut self.terminated, rows, 1),
            truncated: View::new(&mut self.truncated, rows, 1),
            cut: View::new(&mut self.cut, rows, 1),
            bootstrap: View::new(&mut self.bootstrap, rows, 1),
            advantage: View::new(&mut self.advantage, rows, 1),
            target: View::new(&mut self.target, rows, 1),
            weight: View::new(&mut self.weight, rows, 1),
            sequence_starts: View::new(&mut self.sequence_starts, rows, self.state_len),
        }
    }
}
