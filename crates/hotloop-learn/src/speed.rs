//! Speed of the update for a policy of any shape, on synthetic rollouts, for benchmarks.

use std::time::Instant;

use hotloop_core::env::Spec;
use hotloop_core::error::Result;
use hotloop_core::rng::{Purpose, Stream};
use hotloop_core::space::{Action, Observation};

use crate::cancel::CancelToken;
use crate::learner::{IterationSettings, PpoLearner, PpoSetup};
use crate::nn::activation::Activation;
use crate::nn::spec::{EncoderSpec, Head, PolicySpec};
use crate::ppo::config::Settings;

/// Steps per row of the synthetic rollout.
const HORIZON: usize = 64;

/// Shape of the policy and the batch.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Size of observations.
    pub inputs: usize,
    /// Sizes of the dense layers.
    pub hidden: Vec<usize>,
    /// Number of actions.
    pub actions: usize,
    /// Rows of the rollout, 64 steps each.
    pub rows: usize,
    /// Rows per gradient step.
    pub minibatch_size: usize,
}

/// Measured speed.
#[derive(Clone, Copy, Debug)]
pub struct UpdateSpeed {
    /// Samples that went through forward, loss, backward and their share of the step, per second.
    pub samples: f64,
    /// Floating-point operations of the products alone, per second.
    pub operations: f64,
}

/// Repeats the update of one epoch for about `seconds`.
pub fn update_speed(shape: &Shape, threads: usize, seconds: f64) -> Result<UpdateSpeed> {
    let spec = Spec {
        seats: 1,
        observation: Observation::uniform(shape.inputs, -1.0, 1.0),
        action: Action::Discrete { n: shape.actions },
        masked: false,
        masks_bind: true,
        terms: vec!["reward"],
        metrics: vec![],
        infos: vec![],
        step_nanoseconds: 1,
        state_version: 1,
    };
    let policy = PolicySpec {
        encoder: EncoderSpec::for_observation(&spec.observation, 0),
        hidden: shape.hidden.clone(),
        activation: Activation::Tanh,
        shared: true,
        recurrent: None,
        head: Head { sets: vec![shape.actions], dims: 0, log_std: 0.0 },
    };
    let setup = PpoSetup {
        rows: shape.rows,
        horizon: HORIZON,
        sequence_length: HORIZON,
        seed: 0,
        attempt: 0,
        threads,
        first_row: 0,
        normalize_observations: false,
        normalize_rewards: false,
    };
    let mut learner = PpoLearner::new(&spec, &policy, setup)?;
    fill(&mut learner, shape);
    let ppo = Settings { epochs: 1, minibatch_size: shape.minibatch_size, learning_rate: 1e-5, ..Settings::default() };
    let settings = IterationSettings { ppo, reward_scale: 1.0, reward_clip: f32::INFINITY };
    learner.update(&settings, 0, &CancelToken::never());
    let start = Instant::now();
    let mut updates = 0;
    while updates == 0 || start.elapsed().as_secs_f64() < seconds {
        updates += 1;
        learner.update(&settings, updates, &CancelToken::never());
    }
    let samples = updates as f64 * (shape.rows * HORIZON) as f64 / start.elapsed().as_secs_f64();
    // Forward, gradient of the weights, and gradient of the inputs, which the first layer does not need.
    let products = 3 * learner.policy().products() - shape.inputs * shape.hidden[0];
    Ok(UpdateSpeed { samples, operations: samples * 2.0 * products as f64 })
}

/// Fills the rollout with random transitions.
fn fill(learner: &mut PpoLearner, shape: &Shape) {
    let stream = Stream::new(0, 0, Purpose::Env);
    let rollout = &mut learner.collector.rollout;
    for (i, word) in rollout.obs.chunks_exact_mut(4).enumerate() {
        word.copy_from_slice(&stream.range(i as u32, -1.0, 1.0).to_ne_bytes());
    }
    let stream = stream.fold(1);
    for (i, choice) in rollout.discrete.iter_mut().enumerate() {
        *choice = stream.below(i as u32, shape.actions as u32) as i32;
    }
    let stream = stream.fold(2);
    for i in 0..rollout.advantage.len() {
        let (advantage, target) = stream.normals(i as u32);
        rollout.advantage[i] = advantage;
        rollout.target[i] = target;
    }
    rollout.log_prob.fill(-(shape.actions as f32).ln());
}
