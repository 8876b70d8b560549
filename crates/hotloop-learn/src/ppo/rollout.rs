//! What was seen, done and earned: plain arrays, time first.

use hotloop_core::env::Spec;

use crate::nn::spec::Head;

/// The steps of all rows over a horizon.
pub struct Rollout {
    /// Steps per row.
    pub horizon: usize,
    /// Rows.
    pub rows: usize,
    /// Bytes of one row's observation.
    pub obs_bytes: usize,
    /// Entries of one row's mask; 0 if there is none.
    pub mask_len: usize,
    /// Numbers of one row's action.
    pub width: usize,
    /// `[horizon + 1, rows]` observations.
    pub obs: Vec<u8>,
    /// `[horizon + 1, rows, mask_len]` permissions.
    pub mask: Vec<bool>,
    /// `[horizon + 1, rows]` whether the row decides.
    pub valid: Vec<bool>,
    /// `[horizon + 1, rows]` which policy plays the row; 0 learns.
    pub policy: Vec<i32>,
    /// `[horizon, rows, width]` choices; empty for continuous actions.
    pub choices: Vec<i32>,
    /// `[horizon, rows, width]` amounts as drawn, before clipping; empty for discrete actions.
    pub amounts: Vec<f32>,
    /// `[horizon, rows]` logarithms of the probabilities of the actions.
    pub log_prob: Vec<f32>,
    /// `[horizon + 1, rows]` values.
    pub value: Vec<f32>,
    /// `[horizon, rows]` rewards.
    pub reward: Vec<f32>,
    /// `[horizon, rows]` ended by the rules.
    pub terminated: Vec<bool>,
    /// `[horizon, rows]` ended by a time limit.
    pub truncated: Vec<bool>,
    /// `[horizon, rows]` ended by a fault.
    pub cut: Vec<bool>,
    /// `[horizon, rows]` the value of what a truncated row saw last.
    pub bootstrap: Vec<f32>,
    /// `[horizon, rows]` advantages.
    pub advantage: Vec<f32>,
    /// `[horizon, rows]` what the values should have been.
    pub target: Vec<f32>,
    /// `[horizon, rows]` weights in the loss.
    pub weight: Vec<f32>,
    /// Steps of a sequence, which gradients go back through; divides the horizon.
    pub sequence_length: usize,
    /// Numbers of one row's memory; 0 without memory.
    pub memory_len: usize,
    /// `[sequences of a row, rows, memory_len]` what was remembered where each sequence begins.
    pub memory: Vec<f32>,
}

impl Rollout {
    /// Room for `horizon` steps of `rows` rows.
    pub fn new(spec: &Spec, head: &Head, rows: usize, horizon: usize) -> Self {
        let steps = horizon * rows;
        let views = steps + rows;
        let obs_bytes = spec.observation.row_bytes();
        let mask_len = if spec.masked { spec.action.mask_len() } else { 0 };
        let width = head.width();
        let discrete = !head.sets().is_empty();
        Self {
            horizon,
            rows,
            obs_bytes,
            mask_len,
            width,
            obs: vec![0; views * obs_bytes],
            mask: vec![true; views * mask_len],
            valid: vec![true; views],
            policy: vec![0; views],
            choices: vec![0; if discrete { steps * width } else { 0 }],
            amounts: vec![0.0; if discrete { 0 } else { steps * width }],
            log_prob: vec![0.0; steps],
            value: vec![0.0; views],
            reward: vec![0.0; steps],
            terminated: vec![false; steps],
            truncated: vec![false; steps],
            cut: vec![false; steps],
            bootstrap: vec![0.0; steps],
            advantage: vec![0.0; steps],
            target: vec![0.0; steps],
            weight: vec![1.0; steps],
            sequence_length: horizon,
            memory_len: 0,
            memory: Vec::new(),
        }
    }

    /// With room for the memory that sequences begin with.
    pub fn with_memory(mut self, memory_len: usize, sequence_length: usize) -> Self {
        self.memory_len = memory_len;
        self.sequence_length = sequence_length;
        self.memory = vec![0.0; self.horizon / sequence_length * self.rows * memory_len];
        self
    }
}

/// An array of a rollout, shared by threads that each keep to their own rows.
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
    /// Of an array with `width` entries a row.
    pub fn new(data: &'a mut [T], rows: usize, width: usize) -> Self {
        Self { base: data.as_mut_ptr(), rows, width, len: data.len(), lifetime: std::marker::PhantomData }
    }

    /// The entries of `count` rows from `row` on, at one step; nothing if the array is not kept.
    ///
    /// # Safety
    /// Nobody else uses these entries while the slice lives.
    pub unsafe fn part(&self, step: usize, row: usize, count: usize) -> &'a mut [T] {
        if self.len == 0 {
            return &mut [];
        }
        let first = (step * self.rows + row) * self.width;
        assert!(row + count <= self.rows && first + count * self.width <= self.len);
        // SAFETY: within the array, and the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(first), count * self.width) }
    }
}

/// All arrays of a rollout, to be filled by several threads.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // named as in `Rollout`
pub struct Views<'a> {
    pub obs: View<'a, u8>,
    pub mask: View<'a, bool>,
    pub valid: View<'a, bool>,
    pub policy: View<'a, i32>,
    pub choices: View<'a, i32>,
    pub amounts: View<'a, f32>,
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
    pub memory: View<'a, f32>,
}

impl Rollout {
    /// For threads that each fill their own rows.
    pub fn views(&mut self) -> Views<'_> {
        let (rows, width) = (self.rows, self.width);
        Views {
            obs: View::new(&mut self.obs, rows, self.obs_bytes),
            mask: View::new(&mut self.mask, rows, self.mask_len),
            valid: View::new(&mut self.valid, rows, 1),
            policy: View::new(&mut self.policy, rows, 1),
            choices: View::new(&mut self.choices, rows, width),
            amounts: View::new(&mut self.amounts, rows, width),
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
            memory: View::new(&mut self.memory, rows, self.memory_len),
        }
    }
}
