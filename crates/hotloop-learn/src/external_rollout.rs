//! The rollout of a policy that is computed elsewhere: drawing actions, stepping native envs, advantages, statistics and
//! the order of rows are the native learner's; only the networks are not here.

use std::sync::Mutex;

use hotloop_core::env::{Actions, Spec};
use hotloop_core::error::{Error, Result, input};
use hotloop_core::group::{Frames, Keep};
use hotloop_core::parallel::{ParallelFor, free};
use hotloop_core::pool::{Pool, Visit};
use hotloop_core::rng::Purpose;
use hotloop_core::simd::{Isa, Kernel, Simd};
use hotloop_core::space::Action;

use crate::acting::Draw;
use crate::learner::{IterationSettings, PpoSetup, input_for};
use crate::moments::Moments;
use crate::nn::spec::{Head, Input};
use crate::ppo::rollout::{Rollout, Views};
use crate::ppo::shuffle::Shuffle;
use crate::rollout_stats::{explained_variance, fill_advantages, watch_observations, watch_returns};
use crate::sampling::{Drawn, Outputs, Sampler, outputs_per_row};

/// Nanoseconds of work below which waking another thread costs more than it brings.
const WORTH_SHARING: usize = 150_000;

/// A rollout and what goes with it.
pub struct ExternalRollout {
    /// The last rollout.
    pub rollout: Rollout,
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
    /// How actions are drawn.
    pub head: Head,
    /// The instruction set in use.
    pub isa: Isa,
    input: Input,
    team: ParallelFor,
    samplers: Vec<Mutex<Sampler>>,
}

/// How actions of this kind are drawn; the spread of continuous ones comes with the policy's outputs.
pub fn head_for(action: &Action) -> Head {
    match action {
        Action::Discrete { n } => Head::Categorical { n: *n },
        Action::MultiDiscrete { n } => Head::MultiCategorical { n: n.clone() },
        Action::Continuous { low, .. } => Head::Gaussian { dims: low.len(), log_std: 0.0 },
    }
}

impl ExternalRollout {
    /// Makes room, and starts the threads.
    pub fn new(spec: &Spec, setup: PpoSetup) -> Result<Self> {
        if setup.rows == 0 || setup.horizon == 0 || setup.rows * setup.horizon > u32::MAX as usize {
            return input(format!(
                "a rollout of {} rows and {} steps: expected 1 to 2**32 - 1 in all",
                setup.rows, setup.horizon
            ));
        }
        let fed = input_for(&spec.observation, 0);
        let numbers = match fed {
            Input::Real { len } | Input::Bytes { len, .. } if setup.normalize_observations => len,
            _ => 0,
        };
        let head = head_for(&spec.action);
        let team = ParallelFor::new(setup.threads, false)
            .map_err(|why| Error::State(format!("cannot start {} threads: {why}", setup.threads)))?;
        Ok(Self {
            rollout: Rollout::new(spec, &head, setup.rows, setup.horizon),
            observations: Moments::new(numbers),
            returns: Moments::new(1),
            running: vec![0.0; if setup.normalize_rewards { setup.rows } else { 0 }],
            samplers: (0..team.threads()).map(|_| Mutex::new(Sampler::new(&head, spec.masked))).collect(),
            isa: Isa::from_env().map_err(Error::Input)?,
            spec: spec.clone(),
            input: fed,
            head,
            setup,
            team,
        })
    }

    /// How many numbers a policy puts out for a row, its value not counted.
    pub fn outputs(&self) -> usize {
        outputs_per_row(&self.head)
    }

    /// Threads, the caller among them.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }

    /// Writes what every row sees now to slot 0.
    pub fn begin(&mut self, pool: &Pool) -> Result<()> {
        self.setup.must_fit(pool, &self.spec, &self.team)?;
        let views = self.rollout.views();
        for group in 0..pool.groups() {
            let rows = pool.group_rows(group);
            pool.visit(group, |visit| {
                visit.finals.clear();
                // SAFETY: one group after the other, each with its own rows.
                unsafe { look(&views, visit, rows.start, rows.len()) };
            });
        }
        Ok(())
    }

    /// Draws every row's action at this slot from a policy's outputs, and steps the envs with them.
    pub fn step(&mut self, pool: &Pool, slot: usize, outputs: &[f32], iteration: u64) -> Result<()> {
        self.setup.must_fit(pool, &self.spec, &self.team)?;
        self.must_have(slot, 0, self.setup.rows, outputs)?;
        let noise = self.setup.stream(Purpose::Action, iteration);
        let (first_row, per_row, isa) = (self.setup.first_row, self.outputs(), self.isa);
        let (samplers, spec) = (&self.samplers, &self.spec);
        let views = self.rollout.views();
        let work = |group: usize| {
            // There are as many samplers as threads, so one is free.
            let mut sampler = samplers.iter().find_map(free).expect("a free sampler");
            let rows = pool.group_rows(group);
            let part = Part { views, slot, first: rows.start, count: rows.len() };
            let draw =
                Draw::Sample { stream: noise, first_row: first_row.wrapping_add(rows.start as u32), step: slot as u32 };
            pool.visit(group, |visit| {
                let outputs = &outputs[rows.start * per_row..rows.end * per_row];
                isa.run(Sample { sampler: &mut sampler, outputs, draw, part });
                // SAFETY: these rows are this group's alone.
                unsafe { part.step(spec, visit) };
            });
        };
        let costs = self.setup.rows * (pool.spec().step_nanoseconds as usize + 10 * per_row);
        if costs < WORTH_SHARING {
            (0..pool.groups()).for_each(work);
        } else {
            self.team.run(pool.groups(), &work);
        }
        Ok(())
    }

    /// Draws the actions of some rows at a slot, and keeps them there.
    pub fn draw(&mut self, slot: usize, rows: std::ops::Range<usize>, outputs: &[f32], iteration: u64) -> Result<()> {
        self.must_have(slot, rows.start, rows.end, outputs)?;
        let stream = self.setup.stream(Purpose::Action, iteration);
        let first_row = self.setup.first_row.wrapping_add(rows.start as u32);
        let part = Part { views: self.rollout.views(), slot, first: rows.start, count: rows.len() };
        let sampler = self.samplers[0].get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.isa.run(Sample { sampler, outputs, draw: Draw::Sample { stream, first_row, step: slot as u32 }, part });
        Ok(())
    }

    fn must_have(&self, slot: usize, first: usize, last: usize, outputs: &[f32]) -> Result<()> {
        let (horizon, rows) = (self.rollout.horizon, self.rollout.rows);
        if slot >= horizon || first >= last || last > rows {
            return input(format!(
                "slot {slot}, rows {first} to {last}: the rollout has {horizon} slots of {rows} rows"
            ));
        }
        let expected = (last - first) * self.outputs();
        if outputs.len() != expected {
            return input(format!("the policy put out {} numbers: expected {expected}", outputs.len()));
        }
        Ok(())
    }

    /// Fills advantage, target and weight from the rest of the rollout.
    pub fn advantages(&mut self, settings: &IterationSettings) {
        fill_advantages(settings.gae(&self.returns, &self.running), &mut self.rollout, &mut self.team);
    }

    /// Merges the rollout into the statistics that the next iterations act and learn with.
    pub fn watch(&mut self, settings: &IterationSettings) {
        if !self.observations.mean.is_empty() {
            watch_observations(&self.rollout, &self.input, &mut self.observations, &mut self.team);
        }
        if !self.running.is_empty() {
            let (gamma, scale) = (settings.ppo.gamma, settings.reward_scale);
            watch_returns(&self.rollout, gamma, scale, &mut self.running, &mut self.returns);
        }
    }

    /// How much of the targets' variance the values explain.
    pub fn explained_variance(&self) -> f64 {
        explained_variance(&self.rollout)
    }

    /// The order of `count` things in an epoch.
    pub fn order(&self, iteration: u64, epoch: u32, count: usize) -> Vec<u32> {
        let mut order = vec![0; count];
        Shuffle::new(self.setup.stream(Purpose::Shuffle, iteration).fold(epoch), count).fill(self.isa, 0, &mut order);
        order
    }
}

/// Rows of one slot.
#[derive(Clone, Copy)]
struct Part<'a> {
    views: Views<'a>,
    slot: usize,
    first: usize,
    count: usize,
}

struct Sample<'a, 'b> {
    sampler: &'a mut Sampler,
    outputs: &'a [f32],
    draw: Draw,
    part: Part<'b>,
}

impl Kernel for Sample<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Part { views, slot, first, count } = self.part;
        // SAFETY: whoever runs this has these rows alone.
        let (mask, mut drawn) = unsafe {
            (
                views.mask.part(slot, first, count),
                Drawn {
                    choices: views.choices.part(slot, first, count),
                    amounts: views.amounts.part(slot, first, count),
                    log_prob: views.log_prob.part(slot, first, count),
                },
            )
        };
        self.sampler.sample(simd, Outputs { numbers: self.outputs, mask }, self.draw, &mut drawn);
    }
}

impl Part<'_> {
    /// Steps a group with the actions of the slot.
    ///
    /// # Safety
    /// Nobody else uses these rows.
    #[allow(clippy::needless_pass_by_value)] // its parts are written to
    unsafe fn step(&self, spec: &Spec, visit: Visit<'_>) {
        let Self { views, slot, first, count } = *self;
        // SAFETY: the caller's promise.
        let (choices, amounts, mut frames) = unsafe {
            (
                views.choices.part(slot, first, count),
                views.amounts.part(slot, first, count),
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
                    finals: visit.finals,
                    keep: Keep::Truncated,
                    slot: slot as u32,
                },
            )
        };
        visit.ints[..choices.len()].copy_from_slice(choices);
        if let Action::Continuous { low, high } = &spec.action {
            for (i, (to, from)) in visit.floats.iter_mut().zip(amounts.iter()).enumerate() {
                let dim = i % low.len();
                *to = if from.is_finite() { from.clamp(low[dim], high[dim]) } else { low[dim] };
            }
        }
        visit.group_state.tick += 1;
        let actions = Actions { ints: visit.ints, floats: visit.floats, width: spec.action.width() };
        visit.group.step(visit.group_state, visit.rules, &actions, &mut frames);
    }
}

/// Writes what the rows of a group see before the first step.
///
/// # Safety
/// Nobody else uses these rows.
#[allow(clippy::needless_pass_by_value)] // its parts are written to
unsafe fn look(views: &Views<'_>, visit: Visit<'_>, first: usize, count: usize) {
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
            finals: visit.finals,
            keep: Keep::Truncated,
            slot: 0,
        }
    };
    visit.group.observe(visit.group_state, visit.rules, &mut frames);
}
