//! The native PPO learner: policy, rollout, statistics and optimiser, and the iteration that ties them together.

use std::time::{Duration, Instant};

use hotloop_core::env::Spec;
use hotloop_core::error::{Error, Result, input};
use hotloop_core::group::Autoreset;
use hotloop_core::parallel::ParallelFor;
use hotloop_core::pool::Pool;
use hotloop_core::rng::{Purpose, Stream};

use crate::actor::ActingPolicy;
use crate::cancel::CancelToken;
use crate::collector::RolloutCollector;
use crate::features::Features;
use crate::nn::policy::Policy;
use crate::nn::spec::PolicySpec;
use crate::ppo::config::Settings;
use crate::ppo::loss::Means;
use crate::ppo::update::{PpoUpdate, Report};
use crate::statistics::{RunningStatistics, explained_variance, fill_advantages};

/// Shape, seed and threads of a learner or collector.
#[derive(Clone, Debug)]
pub struct PpoSetup {
    /// Rows to collect from.
    pub rows: usize,
    /// Steps per row and iteration.
    pub horizon: usize,
    /// Steps of truncated backpropagation through time; divides the horizon. Unused by feedforward policies.
    pub sequence_length: usize,
    /// The run's seed.
    pub seed: u64,
    /// Number of times the run was rolled back.
    pub attempt: u32,
    /// Number of threads, including the caller's.
    pub threads: usize,
    /// Index of the first row among all rows of a run.
    pub first_row: u32,
    /// Whether observations are normalised by running statistics.
    pub normalize_observations: bool,
    /// Whether rewards are scaled by the running standard deviation of returns.
    pub normalize_rewards: bool,
}

impl PpoSetup {
    /// Rejects sizes that cannot be indexed or divided.
    pub(crate) fn check(&self) -> Result<()> {
        if self.rows == 0 || self.horizon == 0 || self.rows * (self.horizon + 1) > u32::MAX as usize {
            return input(format!(
                "a rollout of {} rows and {} steps: expected at least 1 of each, and rows * (steps + 1) below 2**32",
                self.rows, self.horizon
            ));
        }
        if self.sequence_length == 0 || !self.horizon.is_multiple_of(self.sequence_length) {
            return input(format!(
                "sequence_length is {}: expected a divisor of the horizon, {}",
                self.sequence_length, self.horizon
            ));
        }
        Ok(())
    }

    pub(crate) fn start_threads(&self) -> Result<ParallelFor> {
        ParallelFor::new(self.threads, false)
            .map_err(|why| Error::State(format!("cannot start {} threads: {why}", self.threads)))
    }

    /// The random stream of an iteration: action noise, or the order of minibatches.
    pub(crate) fn stream(&self, purpose: Purpose, iteration: u64) -> Stream {
        let stream = Stream::new(self.seed, self.attempt, purpose);
        stream.fold(iteration as u32).fold((iteration >> 32) as u32)
    }

    /// Rejects a pool that rollouts cannot be collected from.
    pub(crate) fn check_pool(&self, pool: &Pool, spec: &Spec, threads: &ParallelFor) -> Result<()> {
        pool.check_idle("collecting")?;
        pool.check_started("collecting")?;
        if threads.lost() {
            return Err(Error::State("this learner was made before the process forked: make a new one".into()));
        }
        if pool.rows() != self.rows || !pool.spec().has_spaces_of(spec) {
            return input(format!(
                "the runner has {} rows of {}, the learner {} rows and other spaces: they must be the same",
                pool.rows(),
                pool.env().name,
                self.rows
            ));
        }
        if pool.rules().autoreset != Autoreset::SameStep {
            return input("collecting needs a runner with autoreset same_step");
        }
        Ok(())
    }
}

/// Settings of an iteration.
#[derive(Clone, Debug)]
pub struct IterationSettings {
    /// PPO's hyperparameters.
    pub ppo: Settings,
    /// Factor of rewards.
    pub reward_scale: f32,
    /// Bound on the absolute value of scaled rewards.
    pub reward_clip: f32,
}

/// Report of an iteration.
#[derive(Clone, Debug, Default)]
pub struct IterationReport {
    /// Report of the update.
    pub update: Report,
    /// Transitions that were trained on.
    pub steps: u64,
    /// Thread time in envs.
    pub env: Duration,
    /// Thread time in policies while collecting.
    pub inference: Duration,
    /// Duration of the update.
    pub learn: Duration,
    /// Duration of the iteration.
    pub total: Duration,
}

/// A policy that is trained by PPO.
pub struct PpoLearner {
    /// Policy, opponents and rollout.
    pub collector: RolloutCollector,
    /// The optimiser.
    pub update: PpoUpdate,
    /// Running statistics of observations and returns.
    pub statistics: RunningStatistics,
}

impl PpoLearner {
    /// Builds the policy and starts the threads.
    pub fn new(spec: &Spec, policy: &PolicySpec, setup: PpoSetup) -> Result<Self> {
        setup.check()?;
        let policy = Policy::new(policy, setup.seed, setup.attempt).map_err(Error::Input)?;
        let features = Features::new(&policy.spec.encoder);
        Ok(Self {
            update: PpoUpdate::new(&policy, spec.masked),
            statistics: RunningStatistics::new(&setup, &policy.spec.encoder),
            collector: RolloutCollector::new(spec, ActingPolicy { policy, features }, setup)?,
        })
    }

    /// The policy that learns.
    pub fn policy(&self) -> &Policy {
        &self.collector.policies[0].policy
    }

    /// Number of threads, including the caller's.
    pub fn threads(&self) -> usize {
        self.collector.threads()
    }

    /// Changes the number of threads; results do not depend on it.
    pub fn set_threads(&mut self, threads: usize) -> Result<()> {
        self.collector.set_threads(threads)
    }

    /// Normalises observations by the current statistics; to be called when these have changed.
    pub fn refresh_features(&mut self) {
        self.collector.policies[0].features.set_statistics(&self.statistics.observations);
    }

    /// Fills the rollout from native envs, advantages included.
    pub fn collect(
        &mut self,
        pool: &Pool,
        settings: &IterationSettings,
        iteration: u64,
        cancel: &CancelToken<'_>,
    ) -> Result<()> {
        self.collector.collect(pool, iteration, self.statistics.gae(settings), cancel)
    }

    /// Fills advantage, target and weight from the rest of the rollout.
    pub fn advantages(&mut self, settings: &IterationSettings) {
        let gae = self.statistics.gae(settings);
        fill_advantages(gae, &mut self.collector.rollout, &mut self.collector.threads);
    }

    /// Updates the policy from the rollout, then the statistics.
    pub fn update(&mut self, settings: &IterationSettings, iteration: u64, cancel: &CancelToken<'_>) -> Report {
        let RolloutCollector { policies, rollout, setup, isa, threads, .. } = &mut self.collector;
        let stream = setup.stream(Purpose::Shuffle, iteration);
        let ActingPolicy { policy, features } = &mut policies[0];
        let report = self.update.update(policy, rollout, features, &settings.ppo, stream, *isa, threads, cancel);
        self.statistics.update(rollout, settings, threads);
        if self.statistics.normalizes_observations() {
            self.refresh_features();
        }
        report
    }

    /// Runs one iteration: collects a rollout from native envs and updates the policy.
    pub fn iterate(
        &mut self,
        pool: &Pool,
        settings: &IterationSettings,
        iteration: u64,
        cancel: &CancelToken<'_>,
    ) -> Result<IterationReport> {
        let start = Instant::now();
        self.collect(pool, settings, iteration, cancel)?;
        let collected = Instant::now();
        let update = self.update(settings, iteration, cancel);
        let (learn, total) = (collected.elapsed(), start.elapsed());
        let (env, inference) = self.collector.take_times();
        Ok(IterationReport { update, steps: self.update.eligible_rows() as u64, env, inference, learn, total })
    }

    /// The fraction of the targets' variance that the values explain.
    pub fn explained_variance(&self) -> f64 {
        explained_variance(&self.collector.rollout)
    }

    /// The gradient of the whole rollout as one batch, and the loss.
    pub fn gradient(&mut self, settings: &IterationSettings) -> (Vec<f32>, Means) {
        let RolloutCollector { policies, rollout, isa, threads, .. } = &mut self.collector;
        let ActingPolicy { policy, features } = &policies[0];
        let (gradient, means) = self.update.gradient(policy, rollout, features, &settings.ppo, *isa, threads);
        (gradient.to_vec(), means)
    }
}
