//! The whole of a native PPO run's learning side: policy, statistics, rollout, optimiser, and the iteration that ties
//! them together.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hotloop_core::env::Spec;
use hotloop_core::error::{Error, Result, input};
use hotloop_core::group::Autoreset;
use hotloop_core::parallel::ParallelFor;
use hotloop_core::pool::Pool;
use hotloop_core::rng::{Purpose, Stream};
use hotloop_core::simd::Isa;
use hotloop_core::space::Observation;

use crate::acting::Player;
use crate::cancel::CancelToken;
use crate::collect::{Collection, Scratch};
use crate::features::Features;
use crate::moments::Moments;
use crate::nn::policy::Policy;
use crate::nn::spec::{Input, PolicySpec};
use crate::ppo::advantage::Gae;
use crate::ppo::config::Settings;
use crate::ppo::rollout::{Rollout, View};
use crate::ppo::update::{PpoUpdate, Report};
use crate::rollout_stats::{explained_variance, fill_advantages, watch_observations, watch_returns};

/// How an agent is made.
#[derive(Clone, Debug)]
pub struct PpoSetup {
    /// Rows it collects from.
    pub rows: usize,
    /// Steps per row and iteration.
    pub horizon: usize,
    /// Steps that gradients go back through the memory; divides the horizon. Without memory it has no meaning.
    pub sequence_length: usize,
    /// The run's seed.
    pub seed: u64,
    /// How often the run was rolled back.
    pub attempt: u32,
    /// Threads, the caller among them.
    pub threads: usize,
    /// The index of the first row among all rows of a run.
    pub first_row: u32,
    /// Whether observations are normalised by running statistics.
    pub normalize_observations: bool,
    /// Whether rewards are scaled by the running deviation of returns.
    pub normalize_rewards: bool,
}

impl PpoSetup {
    /// The streams of an iteration: noise of actions, and order of rows.
    pub(crate) fn stream(&self, purpose: Purpose, iteration: u64) -> Stream {
        let stream = Stream::new(self.seed, self.attempt, purpose);
        stream.fold(iteration as u32).fold((iteration >> 32) as u32)
    }

    /// Whether rollouts can be collected from these envs.
    pub(crate) fn must_fit(&self, pool: &Pool, spec: &Spec, team: &ParallelFor) -> Result<()> {
        pool.must_be_idle("collecting")?;
        pool.must_have_started("collecting")?;
        if team.lost() {
            return Err(Error::State("this learner was made before the process forked: make a new one".into()));
        }
        if pool.rows() != self.rows || !pool.spec().has_spaces_of(spec) {
            return input(format!(
                "the runner has {} rows of {}, the learner {} and its own spaces: they must be the same",
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

/// Settings of an iteration beyond PPO's own.
#[derive(Clone, Debug)]
pub struct IterationSettings {
    /// PPO's.
    pub ppo: Settings,
    /// What rewards are multiplied with.
    pub reward_scale: f32,
    /// The largest scaled reward in size.
    pub reward_clip: f32,
}

impl IterationSettings {
    /// How advantages are made with these settings and the statistics of returns, if there are any.
    pub(crate) fn gae(&self, returns: &Moments, running: &[f64]) -> Gae {
        let normal = if running.is_empty() { 1.0 } else { 1.0 / (returns.variance(0) + 1e-8).sqrt() };
        Gae {
            gamma: self.ppo.gamma,
            lambda: self.ppo.gae_lambda,
            reward_scale: (f64::from(self.reward_scale) * normal) as f32,
            reward_clip: self.reward_clip,
        }
    }
}

/// What an iteration did.
#[derive(Clone, Debug, Default)]
pub struct IterationReport {
    /// The update's.
    pub update: Report,
    /// Rows and steps that trained.
    pub steps: u64,
    /// Thread time in envs.
    pub env: Duration,
    /// Thread time in policies while collecting.
    pub inference: Duration,
    /// Time of the update.
    pub learn: Duration,
    /// Time of all of it.
    pub total: Duration,
}

/// A policy that learns.
pub struct PpoLearner {
    /// The policy, then frozen ones.
    pub players: Vec<Player>,
    /// What each of them remembers, row after row.
    pub memories: Vec<Vec<f32>>,
    /// The last rollout.
    pub rollout: Rollout,
    /// The optimiser.
    pub update: PpoUpdate,
    /// Statistics of observations.
    pub observations: Moments,
    /// Statistics of discounted returns.
    pub returns: Moments,
    /// Each row's discounted return so far.
    pub running: Vec<f64>,
    /// How it was made.
    pub setup: PpoSetup,
    /// What the env shows and takes.
    pub spec: Spec,
    /// The instruction set in use.
    pub isa: Isa,
    team: ParallelFor,
    scratches: Vec<Mutex<Scratch>>,
}

/// What a network is fed for an observation space.
pub fn input_for(observation: &Observation, embedding: usize) -> Input {
    match observation {
        Observation::Box { .. } => Input::Real { len: observation.len() },
        Observation::Bytes { high, .. } => Input::Bytes { len: observation.len(), high: (*high).max(1) },
        Observation::Discrete { n } if embedding > 0 => Input::Embedding { n: *n, dim: embedding },
        Observation::Discrete { n } => Input::OneHot { n: *n },
    }
}

impl PpoLearner {
    /// Builds policy and rollout, and starts the threads.
    pub fn new(spec: &Spec, policy: &PolicySpec, setup: PpoSetup) -> Result<Self> {
        if setup.rows == 0 || setup.horizon == 0 || setup.rows * setup.horizon > u32::MAX as usize {
            return input(format!(
                "a rollout of {} rows and {} steps: expected 1 to 2**32 - 1 in all",
                setup.rows, setup.horizon
            ));
        }
        if setup.sequence_length == 0 || !setup.horizon.is_multiple_of(setup.sequence_length) {
            return input(format!(
                "sequence_length is {}: expected a divisor of the horizon, {}",
                setup.sequence_length, setup.horizon
            ));
        }
        let built = Policy::new(policy, setup.seed, setup.attempt).map_err(Error::Input)?;
        let player = Player { features: Features::new(&built.spec.input), policy: built };
        let numbers = match player.policy.spec.input {
            Input::Real { len } | Input::Bytes { len, .. } if setup.normalize_observations => len,
            _ => 0,
        };
        let team = ParallelFor::new(setup.threads, false)
            .map_err(|why| Error::State(format!("cannot start {} threads: {why}", setup.threads)))?;
        let mut agent = Self {
            rollout: Rollout::new(spec, &policy.head, setup.rows, setup.horizon)
                .with_memory(player.policy.memory_len(), setup.sequence_length),
            update: PpoUpdate::new(&player.policy, spec.masked),
            memories: vec![vec![0.0; setup.rows * player.policy.memory_len()]],
            players: vec![player],
            observations: Moments::new(numbers),
            returns: Moments::new(1),
            running: vec![0.0; if setup.normalize_rewards { setup.rows } else { 0 }],
            isa: Isa::from_env().map_err(Error::Input)?,
            spec: spec.clone(),
            setup,
            team,
            scratches: Vec::new(),
        };
        agent.set_opponents(Vec::new());
        Ok(agent)
    }

    /// Replaces the frozen policies.
    pub fn set_opponents(&mut self, opponents: Vec<Player>) {
        self.players.truncate(1);
        self.players.extend(opponents);
        self.memories.truncate(1);
        let others = self.players[1..].iter();
        self.memories.extend(others.map(|player| vec![0.0; self.setup.rows * player.policy.memory_len()]));
        let scratch = || Mutex::new(Scratch::new(&self.players, self.spec.masked));
        self.scratches = (0..self.team.threads()).map(|_| scratch()).collect();
    }

    /// The policy that learns.
    pub fn policy(&self) -> &Policy {
        &self.players[0].policy
    }

    /// Threads, the caller among them.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }

    /// To be called when the statistics of observations have changed.
    pub fn refresh_features(&mut self) {
        self.players[0].features.set_statistics(&self.observations);
    }

    /// The noise of an iteration's actions.
    pub fn noise(&self, iteration: u64) -> Stream {
        self.setup.stream(Purpose::Action, iteration)
    }

    /// Fills the rollout, advantages included.
    pub fn collect(
        &mut self,
        pool: &mut Pool,
        settings: &IterationSettings,
        iteration: u64,
        patience: &CancelToken<'_>,
    ) -> Result<()> {
        self.setup.must_fit(pool, &self.spec, &self.team)?;
        let (rows, noise, gae) = (self.setup.rows, self.noise(iteration), settings.gae(&self.returns, &self.running));
        let players = self.memories.iter_mut().zip(&self.players);
        let memories: Vec<_> =
            players.map(|(numbers, player)| View::new(numbers, rows, player.policy.memory_len())).collect();
        let (players, first_row) = (&self.players, self.setup.first_row);
        let collection = Collection { players, memories: &memories, noise, first_row, gae, patience };
        collection.run(pool, &mut self.rollout, &self.scratches, self.isa, &mut self.team);
        Ok(())
    }

    /// Fills advantage, target and weight from the rest of the rollout.
    pub fn advantages(&mut self, settings: &IterationSettings) {
        fill_advantages(settings.gae(&self.returns, &self.running), &mut self.rollout, &mut self.team);
    }

    /// Improves the policy from the rollout, then takes the rollout into the statistics.
    pub fn update(&mut self, settings: &IterationSettings, iteration: u64, patience: &CancelToken<'_>) -> Report {
        let stream = self.setup.stream(Purpose::Shuffle, iteration);
        let Player { policy, features } = &mut self.players[0];
        let (isa, team) = (self.isa, &mut self.team);
        let report = self.update.update(policy, &self.rollout, features, &settings.ppo, stream, isa, team, patience);
        self.watch(settings);
        report
    }

    /// One iteration.
    pub fn iterate(
        &mut self,
        pool: &mut Pool,
        settings: &IterationSettings,
        iteration: u64,
        patience: &CancelToken<'_>,
    ) -> Result<IterationReport> {
        let start = Instant::now();
        self.collect(pool, settings, iteration, patience)?;
        let collected = Instant::now();
        let update = self.update(settings, iteration, patience);
        let mut report = IterationReport {
            update,
            steps: self.update.eligible_rows() as u64,
            learn: collected.elapsed(),
            total: start.elapsed(),
            ..IterationReport::default()
        };
        for scratch in &mut self.scratches {
            let scratch = scratch.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
            report.env += std::mem::take(&mut scratch.env);
            report.inference += std::mem::take(&mut scratch.inference);
        }
        Ok(report)
    }

    /// How much of the targets' variance the values explain.
    pub fn explained_variance(&self) -> f64 {
        explained_variance(&self.rollout)
    }

    /// Merges the rollout into the statistics that the next iterations act and learn with.
    fn watch(&mut self, settings: &IterationSettings) {
        if !self.observations.mean.is_empty() {
            let input = &self.players[0].policy.spec.input;
            watch_observations(&self.rollout, input, &mut self.observations, &mut self.team);
            self.refresh_features();
        }
        if !self.running.is_empty() {
            let (gamma, scale) = (settings.ppo.gamma, settings.reward_scale);
            watch_returns(&self.rollout, gamma, scale, &mut self.running, &mut self.returns);
        }
    }

    /// The gradient of the whole rollout as one batch, and the loss.
    pub fn gradient(&mut self, settings: &IterationSettings) -> (Vec<f32>, crate::ppo::loss::Means) {
        let Player { policy, features } = &self.players[0];
        let (gradient, means) =
            self.update.gradient(policy, &self.rollout, features, &settings.ppo, self.isa, &mut self.team);
        (gradient.to_vec(), means)
    }
}
