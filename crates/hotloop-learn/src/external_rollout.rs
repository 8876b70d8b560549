//! The rollout of a policy that is computed elsewhere: sampling, stepping native envs, advantages, statistics and the
//! order of minibatches are the native learner's; only the networks are not here.

use std::sync::{Mutex, PoisonError};

use hotloop_core::env::Spec;
use hotloop_core::error::{Error, Result, input};
use hotloop_core::parallel::{ParallelFor, free};
use hotloop_core::pool::Pool;
use hotloop_core::rng::Purpose;
use hotloop_core::simd::{Isa, Kernel, Simd};

use crate::collector::{gather, select};
use crate::learner::{IterationSettings, PpoSetup};
use crate::native_collector::{observe, step_group};
use crate::nn::spec::{EncoderSpec, Head};
use crate::ppo::rollout::Rollout;
use crate::ppo::shuffle::Shuffle;
use crate::sampler::{ActionArrays, Masks, OutputSampler, RowIndex, Sampling, outputs_per_row};
use crate::statistics::{RunningStatistics, explained_variance, fill_advantages};

/// Nanoseconds of work below which waking another thread costs more than it brings.
const WORTH_SHARING: usize = 150_000;

/// A rollout, its statistics and its random streams.
pub struct ExternalRollout {
    /// The last rollout.
    pub rollout: Rollout,
    /// Running statistics of observations and returns.
    pub statistics: RunningStatistics,
    /// Setup.
    pub setup: PpoSetup,
    /// The env's spaces.
    pub spec: Spec,
    /// Distribution of actions.
    pub head: Head,
    /// The instruction set in use.
    pub isa: Isa,
    threads: ParallelFor,
    /// One per thread.
    workspaces: Vec<Mutex<Workspace>>,
    discrete: Vec<i32>,
    continuous: Vec<f32>,
}

struct Workspace {
    sampler: OutputSampler,
    rows: Vec<RowIndex>,
}

impl ExternalRollout {
    /// Allocates the rollout and starts the threads.
    pub fn new(spec: &Spec, setup: PpoSetup) -> Result<Self> {
        setup.check()?;
        // The standard deviations are among the policy's outputs.
        let head = Head::new(&spec.action, 0.0);
        let threads = setup.start_threads()?;
        let workspace = || Workspace { sampler: OutputSampler::new(&head, spec.masked), rows: Vec::new() };
        Ok(Self {
            rollout: Rollout::new(spec, &head, setup.rows, setup.horizon),
            statistics: RunningStatistics::new(&setup, &EncoderSpec::for_observation(&spec.observation, 0)),
            workspaces: (0..threads.threads()).map(|_| Mutex::new(workspace())).collect(),
            isa: Isa::from_env().map_err(Error::Input)?,
            spec: spec.clone(),
            discrete: Vec::new(),
            continuous: Vec::new(),
            head,
            setup,
            threads,
        })
    }

    /// Numbers per row that the policy passes in, its value not counted.
    pub fn outputs(&self) -> usize {
        outputs_per_row(&self.head)
    }

    /// Number of threads, including the caller's.
    pub fn threads(&self) -> usize {
        self.threads.threads()
    }

    /// Writes the current observations of native envs to slot 0.
    pub fn observe(&mut self, pool: &Pool) -> Result<()> {
        self.setup.check_pool(pool, &self.spec, &self.threads)?;
        let views = self.rollout.views();
        for group in 0..pool.groups() {
            let rows = pool.group_rows(group);
            pool.with_group(group, |mut access| {
                access.finals.clear();
                // SAFETY: one group after the other, each with its own rows.
                unsafe { observe(&views, &mut access, rows.start, rows.len()) };
            });
        }
        Ok(())
    }

    /// Samples every row's action at this slot from a policy's outputs, and steps native envs with them.
    pub fn step(&mut self, pool: &Pool, slot: usize, outputs: &[f32], iteration: u64) -> Result<()> {
        self.setup.check_pool(pool, &self.spec, &self.threads)?;
        if slot >= self.rollout.horizon {
            return input(format!("slot {slot}: the rollout has {}", self.rollout.horizon));
        }
        self.check_outputs(self.setup.rows, outputs)?;
        let sampling = self.sampling(iteration);
        let (per_row, isa) = (self.outputs(), self.isa);
        let (workspaces, spec, mask_len) = (&self.workspaces, &self.spec, self.rollout.mask_len);
        let views = self.rollout.views();
        let work = |group: usize| {
            // There are as many workspaces as threads, so one is free.
            let mut work = workspaces.iter().find_map(free).expect("a free workspace");
            let Workspace { sampler, rows: indices } = &mut *work;
            let rows = pool.group_rows(group);
            let (first, count) = (rows.start, rows.len());
            indices.clear();
            indices.extend(rows.clone().enumerate().map(|(i, row)| RowIndex {
                at: i as u32,
                row: row as u32,
                step: slot as u32,
            }));
            // SAFETY: these rows are this group's alone.
            let (entries, actions) = unsafe {
                (
                    views.mask.part(slot, first, count),
                    ActionArrays {
                        discrete: views.discrete.part(slot, first, count),
                        continuous: views.continuous.part(slot, first, count),
                        log_prob: views.log_prob.part(slot, first, count),
                    },
                )
            };
            let outputs = &outputs[rows.start * per_row..rows.end * per_row];
            let masks = Masks { entries, per_row: mask_len };
            isa.run(Sample { sampler, rows: indices, outputs, masks, sampling, actions });
            // SAFETY: as above.
            pool.with_group(group, |mut access| unsafe { step_group(&views, spec, &mut access, slot, first, count) });
        };
        let nanoseconds = self.setup.rows * (pool.spec().step_nanoseconds as usize + 10 * per_row);
        if nanoseconds < WORTH_SHARING {
            (0..pool.groups()).for_each(work);
        } else {
            self.threads.run(pool.groups(), &work);
        }
        Ok(())
    }

    /// Begins a rollout whose envs are stepped elsewhere, with the observations that the last one ended with.
    pub fn begin(&mut self) {
        self.rollout.carry_over();
    }

    /// Samples and stores the actions of these rows, each at its slot; `outputs` follow the order of the rows.
    /// [`ExternalRollout::actions`] has the actions in that order.
    pub fn sample_rows(&mut self, slots: &[i64], rows: &[i64], outputs: &[f32], iteration: u64) -> Result<()> {
        self.check_outputs(rows.len(), outputs)?;
        let sampling = self.sampling(iteration);
        let Workspace { sampler, rows: indices } = self.workspaces[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        select(&self.rollout, slots, rows, indices)?;
        let Rollout { mask, mask_len, sets, dims, discrete, continuous, log_prob, .. } = &mut self.rollout;
        let masks = Masks { entries: mask, per_row: *mask_len };
        let actions = ActionArrays { discrete, continuous, log_prob };
        self.isa.run(Sample { sampler, rows: indices, outputs, masks, sampling, actions });
        let positions = indices.iter().map(|index| index.at as usize);
        gather(discrete, *sets, positions.clone(), &mut self.discrete);
        gather(continuous, *dims, positions, &mut self.continuous);
        Ok(())
    }

    /// Discrete and continuous actions of the last call of [`ExternalRollout::sample_rows`].
    pub fn actions(&self) -> (&[i32], &[f32]) {
        (&self.discrete, &self.continuous)
    }

    /// Samples actions from outputs that are no part of the rollout.
    pub fn sample_alone(
        &self,
        rows: &[RowIndex],
        outputs: &[f32],
        masks: Masks<'_>,
        sampling: Sampling,
        actions: ActionArrays<'_>,
    ) -> Result<()> {
        self.check_outputs(rows.len(), outputs)?;
        let sampler = &mut OutputSampler::new(&self.head, self.spec.masked);
        self.isa.run(Sample { sampler, rows, outputs, masks, sampling, actions });
        Ok(())
    }

    fn sampling(&self, iteration: u64) -> Sampling {
        Sampling::Random { stream: self.setup.stream(Purpose::Action, iteration), first_row: self.setup.first_row }
    }

    fn check_outputs(&self, rows: usize, outputs: &[f32]) -> Result<()> {
        let expected = rows * self.outputs();
        if outputs.len() != expected {
            return input(format!("the policy has {} outputs for {rows} rows: expected {expected}", outputs.len()));
        }
        Ok(())
    }

    /// Fills advantage, target and weight from the rest of the rollout.
    pub fn advantages(&mut self, settings: &IterationSettings) {
        fill_advantages(self.statistics.gae(settings), &mut self.rollout, &mut self.threads);
    }

    /// Merges the rollout into the running statistics.
    pub fn update_statistics(&mut self, settings: &IterationSettings) {
        self.statistics.update(&self.rollout, settings, &mut self.threads);
    }

    /// The fraction of the targets' variance that the values explain.
    pub fn explained_variance(&self) -> f64 {
        explained_variance(&self.rollout)
    }

    /// A random permutation of `count` items for an epoch.
    pub fn order(&self, iteration: u64, epoch: u32, count: usize) -> Vec<u32> {
        let mut order = vec![0; count];
        Shuffle::new(self.setup.stream(Purpose::Shuffle, iteration).fold(epoch), count).fill(self.isa, 0, &mut order);
        order
    }
}

struct Sample<'a, 'b> {
    sampler: &'a mut OutputSampler,
    rows: &'a [RowIndex],
    outputs: &'a [f32],
    masks: Masks<'a>,
    sampling: Sampling,
    actions: ActionArrays<'b>,
}

impl Kernel for Sample<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        self.sampler.sample(simd, self.rows, self.outputs, self.masks, self.sampling, &mut self.actions);
    }
}
