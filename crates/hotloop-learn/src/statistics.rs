//! Statistics of rollouts: running moments of observations and returns, advantages, and the explained variance.

use std::sync::Mutex;

use hotloop_core::parallel::ParallelFor;

use crate::learner::{IterationSettings, PpoSetup};
use crate::moments::Moments;
use crate::nn::net::TILE;
use crate::nn::spec::EncoderSpec;
use crate::ppo::advantage::Gae;
use crate::ppo::rollout::Rollout;

/// Chunks that moments are computed in, whatever the number of threads.
const CHUNKS: usize = 16;
/// Independent accumulators of sums over a rollout, so that no addition waits for the one before.
const LANES: usize = 8;

/// Running statistics that normalise observations and rewards.
pub struct RunningStatistics {
    /// Moments of observations; empty if they are not normalised.
    pub observations: Moments,
    /// Moments of discounted returns.
    pub returns: Moments,
    /// Each row's discounted return so far; empty if rewards are not normalised.
    pub row_returns: Vec<f64>,
    encoder: EncoderSpec,
}

impl RunningStatistics {
    /// Empty statistics, as the setup asks for.
    pub fn new(setup: &PpoSetup, encoder: &EncoderSpec) -> Self {
        let len = if setup.normalize_observations { encoder.normalizable() } else { 0 };
        Self {
            observations: Moments::new(len),
            returns: Moments::new(1),
            row_returns: vec![0.0; if setup.normalize_rewards { setup.rows } else { 0 }],
            encoder: encoder.clone(),
        }
    }

    /// Whether observations are normalised.
    pub fn normalizes_observations(&self) -> bool {
        !self.observations.mean.is_empty()
    }

    /// Whether rewards are normalised.
    pub fn normalizes_rewards(&self) -> bool {
        !self.row_returns.is_empty()
    }

    /// Parameters of advantage estimation under these settings and statistics.
    pub fn gae(&self, settings: &IterationSettings) -> Gae {
        let scale = if self.normalizes_rewards() { 1.0 / (self.returns.variance(0) + 1e-8).sqrt() } else { 1.0 };
        Gae {
            gamma: settings.ppo.gamma,
            lambda: settings.ppo.gae_lambda,
            reward_scale: (f64::from(settings.reward_scale) * scale) as f32,
            reward_clip: settings.reward_clip,
        }
    }

    /// Merges a rollout into the statistics that later iterations act and learn with.
    pub fn update(&mut self, rollout: &Rollout, settings: &IterationSettings, threads: &mut ParallelFor) {
        if self.normalizes_observations() {
            merge_observations(rollout, &self.encoder, &mut self.observations, threads);
        }
        if self.normalizes_rewards() {
            let (gamma, scale) = (settings.ppo.gamma, settings.reward_scale);
            merge_returns(rollout, gamma, scale, &mut self.row_returns, &mut self.returns);
        }
    }
}

/// Fills advantage, target and weight from the rest of the rollout.
pub fn fill_advantages(gae: Gae, rollout: &mut Rollout, threads: &mut ParallelFor) {
    let (rows, horizon) = (rollout.rows, rollout.horizon);
    let views = rollout.views();
    threads.run(rows.div_ceil(TILE), &|tile| {
        let first = tile * TILE;
        let count = TILE.min(rows - first);
        // SAFETY: each tile has rows of its own.
        unsafe { gae.rows(views, horizon, first, count) };
    });
}

/// Merges the observations that the learner acted on.
fn merge_observations(rollout: &Rollout, encoder: &EncoderSpec, moments: &mut Moments, threads: &mut ParallelFor) {
    let width = moments.mean.len();
    let steps = rollout.horizon;
    let chunks: Vec<Mutex<Moments>> = (0..CHUNKS).map(|_| Mutex::new(Moments::new(width))).collect();
    threads.run(CHUNKS, &|chunk| {
        let mut moments = chunks[chunk].lock().expect("each chunk has one owner");
        for at in chunk * steps / CHUNKS * rollout.rows..(chunk + 1) * steps / CHUNKS * rollout.rows {
            if rollout.valid[at] && rollout.policy[at] == 0 {
                let bytes = &rollout.obs[at * rollout.obs_bytes..][..rollout.obs_bytes];
                match *encoder {
                    EncoderSpec::Bytes { high, .. } => {
                        moments.push(bytes.iter().map(|x| f64::from(f32::from(*x) * (1.0 / f32::from(high)))));
                    }
                    _ => moments
                        .push(bytes.chunks_exact(4).map(|x| f64::from(f32::from_ne_bytes([x[0], x[1], x[2], x[3]])))),
                }
            }
        }
    });
    for chunk in chunks {
        moments.merge(&chunk.into_inner().expect("no thread panicked"));
    }
}

/// Merges the discounted return so far of every row at every step; `row_returns` carries it on.
fn merge_returns(rollout: &Rollout, gamma: f32, reward_scale: f32, row_returns: &mut [f64], returns: &mut Moments) {
    let gamma = f64::from(gamma);
    for step in 0..rollout.horizon {
        for (row, running) in row_returns.iter_mut().enumerate() {
            let at = step * rollout.rows + row;
            *running = *running * gamma + f64::from(rollout.reward[at] * reward_scale);
            if rollout.valid[at] && rollout.policy[at] == 0 {
                returns.push(std::iter::once(*running));
            }
            if rollout.terminated[at] || rollout.truncated[at] {
                *running = 0.0;
            }
        }
    }
}

/// The fraction of the targets' variance that the values explain.
pub fn explained_variance(rollout: &Rollout) -> f64 {
    let (count, target, error) = sums(rollout, |target, error| (target, error));
    let (target, error) = (target / count, error / count);
    let (_, targets, errors) = sums(rollout, |t, e| ((t - target).powi(2), (e - error).powi(2)));
    if targets > 0.0 { 1.0 - errors / targets } else { 0.0 }
}

/// Number of rows with a weight, and sums of two functions of their targets and value errors.
fn sums(rollout: &Rollout, of: impl Fn(f64, f64) -> (f64, f64)) -> (f64, f64, f64) {
    let mut lanes = [(0.0, 0.0, 0.0); LANES];
    let columns = rollout.weight.chunks(LANES).zip(rollout.target.chunks(LANES)).zip(rollout.value.chunks(LANES));
    for ((weights, targets), values) in columns {
        for (((lane, weight), target), value) in lanes.iter_mut().zip(weights).zip(targets).zip(values) {
            if *weight > 0.0 {
                let (target, error) = of(f64::from(*target), f64::from(target - value));
                *lane = (lane.0 + 1.0, lane.1 + target, lane.2 + error);
            }
        }
    }
    lanes.iter().fold((0.0, 0.0, 0.0), |all, lane| (all.0 + lane.0, all.1 + lane.1, all.2 + lane.2))
}
