//! The gradient of recurrent policies: truncated backpropagation through time over whole sequences.

use hotloop_core::simd::{Kernel, Simd};

use super::gather::gather;
use super::loss::{Batch, Terms, loss};
use super::rollout::Rollout;
use super::update::Chunk;
use crate::features::Features;
use crate::nn::net::TILE;
use crate::nn::policy::{Policy, PolicyWork};
use crate::nn::recurrent::StateGradient;

/// Sequences per tile.
pub fn sequences(policy: &Policy) -> usize {
    policy.tile.min(32)
}

/// Workspace of a tile of sequences.
pub struct SequenceWork {
    steps: Vec<PolicyWork>,
    state_gradients: Vec<StateGradient>,
    valid: Vec<[bool; TILE]>,
    ended: Vec<[bool; TILE]>,
}

impl SequenceWork {
    /// For sequences of this length.
    pub fn new(policy: &Policy, length: usize) -> Self {
        Self {
            steps: (0..length).map(|_| policy.workspace(true)).collect(),
            state_gradients: policy.state_gradients(),
            valid: vec![[false; TILE]; length],
            ended: vec![[false; TILE]; length],
        }
    }

    /// Steps per sequence.
    pub fn length(&self) -> usize {
        self.steps.len()
    }
}

/// Finds the sequences that have a step with a weight. Sequence `b * rows + r` is the `b`-th of row `r`.
pub fn find_sequences(rollout: &Rollout, sequences: &mut Vec<u32>) {
    let (rows, length) = (rollout.rows, rollout.sequence_length);
    let counts = |sequence: usize| {
        let (block, row) = (sequence / rows, sequence % rows);
        (0..length).any(|step| rollout.weight[(block * length + step) * rows + row] > 0.0)
    };
    sequences.clear();
    let all = rollout.horizon / length * rows;
    sequences.extend((0..all).filter(|sequence| counts(*sequence)).map(|sequence| sequence as u32));
}

/// Indices of a sequence's steps in the rollout.
pub fn step_indices(rollout: &Rollout, sequence: u32) -> impl Iterator<Item = usize> {
    let (rows, length) = (rollout.rows, rollout.sequence_length);
    let (block, row) = (sequence as usize / rows, sequence as usize % rows);
    (0..length).map(move |step| (block * length + step) * rows + row)
}

/// Fills a chunk's gradient from its sequences.
pub(super) struct SequenceGradient<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The rollout.
    pub rollout: &'a Rollout,
    /// Preprocessing of observations.
    pub features: &'a Features,
    /// Constants of the loss.
    pub terms: &'a Terms<'a>,
    /// The sequences.
    pub order: &'a [u32],
    /// Destination of the gradient.
    pub chunk: &'a mut Chunk,
    /// Columns of the current tile.
    pub batch: &'a mut Batch,
    /// Workspace.
    pub work: &'a mut SequenceWork,
}

impl Kernel for SequenceGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        self.chunk.clear();
        for tile in self.order.chunks(sequences(self.policy)) {
            self.forward(simd, tile);
            let SequenceWork { steps, state_gradients, valid, ended } = &mut *self.work;
            state_gradients.iter_mut().for_each(StateGradient::clear);
            for ((step, valid), ended) in steps.iter_mut().zip(valid).zip(ended).rev() {
                state_gradients.iter_mut().for_each(|gradient| gradient.cut(&ended[..tile.len()]));
                self.policy.step_back(simd, step, &valid[..tile.len()], state_gradients, &mut self.chunk.gradient);
            }
        }
        self.chunk.finish(self.policy);
    }
}

impl SequenceGradient<'_> {
    /// Computes all steps forward, with the loss of each and its gradient back to the recurrent layers' outputs.
    #[inline(always)]
    fn forward<S: Simd>(&mut self, simd: S, tile: &[u32]) {
        let Self { policy, rollout, features, terms, chunk, batch, work, .. } = self;
        let (count, len) = (tile.len(), rollout.state_len);
        for (i, sequence) in tile.iter().enumerate() {
            work.steps[0].load_state(&policy.spec, i, &rollout.sequence_starts[*sequence as usize * len..][..len]);
        }
        let mut rows = [0_u32; TILE];
        for step in 0..work.length() {
            for (row, sequence) in rows.iter_mut().zip(tile) {
                let (block, own) = (*sequence as usize / rollout.rows, *sequence as usize % rollout.rows);
                *row = ((block * rollout.sequence_length + step) * rollout.rows + own) as u32;
            }
            let rows = &rows[..count];
            for (i, row) in rows.iter().enumerate() {
                let row = *row as usize;
                work.valid[step][i] = rollout.valid[row];
                work.ended[step][i] = rollout.terminated[row] || rollout.truncated[row];
            }
            let (earlier, later) = work.steps.split_at_mut(step + 1);
            let now = &mut earlier[step];
            features.load(&rollout.obs, rollout.obs_bytes, rows, now);
            policy.forward(simd, now, count);
            if let Some(next) = later.first_mut() {
                next.carry_state(now, &work.valid[step][..count], &work.ended[step][..count]);
            }
            gather(rollout, rows, terms, batch);
            loss(simd, policy, batch, terms, now.outputs(policy.spec.head.outputs()), &mut chunk.trace);
            policy.outputs_back(simd, now, count, &mut chunk.gradient);
        }
    }
}
