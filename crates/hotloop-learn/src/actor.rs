//! A policy acting on a batch of rows: observations in; actions, log-probabilities and values out. Collecting,
//! evaluating and playing share it.

use hotloop_core::simd::{Isa, Kernel, Simd};

use crate::features::Features;
use crate::nn::net::TILE;
use crate::nn::policy::{Policy, PolicyWork};
use crate::sampler::{ActionArrays, Masks, RowIndex, Sampler, Sampling};

/// A policy and the preprocessing of its observations.
#[derive(Clone)]
pub struct ActingPolicy {
    /// The policy.
    pub policy: Policy,
    /// Preprocessing of observations.
    pub features: Features,
}

/// Observations of a batch.
#[derive(Clone, Copy)]
pub struct Observations<'a> {
    /// Bytes, row by row.
    pub bytes: &'a [u8],
    /// Bytes per row.
    pub row_bytes: usize,
    /// Action masks.
    pub masks: Masks<'a>,
}

/// Recurrent state of a batch.
pub struct RecurrentState<'a> {
    /// [`Policy::state_len`] numbers per row, by [`RowIndex::row`]; empty for feedforward policies.
    pub values: &'a mut [f32],
    /// Whether each row decides, by [`RowIndex::at`]: the others keep their state.
    pub valid: &'a [bool],
}

/// Destination of a batch's outputs, by [`RowIndex::at`].
pub struct ActOutputs<'a> {
    /// Actions and their log-probabilities.
    pub actions: ActionArrays<'a>,
    /// Values.
    pub value: &'a mut [f32],
}

/// Workspace for a tile of rows.
pub struct ActWorkspace {
    net: PolicyWork,
    sampler: Sampler,
    at: [u32; TILE],
}

impl ActWorkspace {
    /// For this policy; `masked` if the env has action masks.
    pub fn new(policy: &Policy, masked: bool) -> Self {
        Self { net: policy.workspace(false), sampler: Sampler::new(&policy.spec.head, masked), at: [0; TILE] }
    }
}

impl ActingPolicy {
    /// Chooses the actions of these rows and advances their recurrent state.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // all that acting involves
    pub fn act<S: Simd>(
        &self,
        simd: S,
        work: &mut ActWorkspace,
        rows: &[RowIndex],
        observations: Observations<'_>,
        sampling: Sampling,
        state: &mut RecurrentState<'_>,
        outputs: &mut ActOutputs<'_>,
    ) {
        let state_len = self.policy.state_len();
        let actions = self.policy.spec.head.outputs();
        let log_std = self.policy.log_std();
        let ActWorkspace { net, sampler, at } = work;
        for tile in rows.chunks(self.policy.tile) {
            at.iter_mut().zip(tile).for_each(|(at, index)| *at = index.at);
            self.features.load(observations.bytes, observations.row_bytes, &at[..tile.len()], net);
            if state_len > 0 {
                for (i, index) in tile.iter().enumerate() {
                    net.load_state(&self.policy.spec, i, &state.values[index.row as usize * state_len..][..state_len]);
                }
            }
            self.policy.forward(simd, net, tile.len());
            if state_len > 0 {
                for (i, index) in tile.iter().enumerate().filter(|(_, index)| state.valid[index.at as usize]) {
                    let values = &mut state.values[index.row as usize * state_len..][..state_len];
                    net.store_state(&self.policy.spec, i, values);
                }
            }
            let (logits, values) = net.outputs(actions);
            let log_std = |dim: usize, _: usize| simd.f(log_std[dim]);
            sampler.sample(simd, tile, logits, log_std, observations.masks, sampling, &mut outputs.actions);
            for (index, value) in tile.iter().zip(values.iter()) {
                outputs.value[index.at as usize] = *value;
            }
        }
    }

    /// Computes the value of each row from its observation and recurrent state, which stays as it is.
    #[inline(always)]
    pub fn values<S: Simd>(
        &self,
        simd: S,
        work: &mut ActWorkspace,
        observations: &[u8],
        row_bytes: usize,
        state: &[f32],
        values: &mut [f32],
    ) {
        let state_len = self.policy.state_len();
        let outputs = self.policy.spec.head.outputs();
        let ActWorkspace { net, at, .. } = work;
        for (tile, values) in values.chunks_mut(self.policy.tile).enumerate() {
            let first = tile * self.policy.tile;
            at.iter_mut().enumerate().for_each(|(i, at)| *at = (first + i) as u32);
            self.features.load(observations, row_bytes, &at[..values.len()], net);
            if state_len > 0 {
                for i in 0..values.len() {
                    net.load_state(&self.policy.spec, i, &state[(first + i) * state_len..][..state_len]);
                }
            }
            self.policy.forward(simd, net, values.len());
            values.copy_from_slice(&net.outputs(outputs).1[..values.len()]);
        }
    }

    /// Acts on rows that are no part of a rollout.
    pub fn act_alone(
        &self,
        isa: Isa,
        rows: &[RowIndex],
        observations: Observations<'_>,
        sampling: Sampling,
        state: RecurrentState<'_>,
        outputs: ActOutputs<'_>,
    ) {
        let masked = observations.masks.per_row > 0;
        let mut work = ActWorkspace::new(&self.policy, masked);
        isa.run(ActAlone { policy: self, work: &mut work, rows, observations, sampling, state, outputs });
    }
}

struct ActAlone<'a> {
    policy: &'a ActingPolicy,
    work: &'a mut ActWorkspace,
    rows: &'a [RowIndex],
    observations: Observations<'a>,
    sampling: Sampling,
    state: RecurrentState<'a>,
    outputs: ActOutputs<'a>,
}

impl Kernel for ActAlone<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { policy, work, rows, observations, sampling, mut state, mut outputs } = self;
        policy.act(simd, work, rows, observations, sampling, &mut state, &mut outputs);
    }
}
