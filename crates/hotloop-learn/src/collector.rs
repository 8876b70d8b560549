//! Collecting rollouts: acting, ending episodes and bootstrapping, written once for every way of stepping envs.
//!
//! Native envs are stepped by [`RolloutCollector::collect`], a whole horizon per call. Any other runner writes
//! observations and outcomes into the rollout itself and calls [`RolloutCollector::begin`], then
//! [`RolloutCollector::act`] and [`RolloutCollector::end_episodes`] for whichever rows are ready, then
//! [`RolloutCollector::bootstrap`]. Noise is keyed by the run's row index, so a collector of some of a run's rows
//! (`first_row` and `rows` of its setup), given the policy's weights and statistics, fills exactly those rows of the
//! run's rollout: collecting can be spread over machines.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hotloop_core::env::Spec;
use hotloop_core::error::{Error, Result, input};
use hotloop_core::group::Finals;
use hotloop_core::parallel::ParallelFor;
use hotloop_core::rng::{Purpose, Stream};
use hotloop_core::simd::{Isa, Kernel, Simd};

use crate::actor::{ActOutputs, ActWorkspace, ActingPolicy, Observations, RecurrentState};
use crate::learner::PpoSetup;
use crate::ppo::rollout::{Rollout, View, Views};
use crate::sampler::{ActionArrays, Masks, RowIndex, Sampling};

/// Collects rollouts with a policy that learns and, if there are any, frozen opponents.
pub struct RolloutCollector {
    /// The learner's policy, then its opponents'.
    pub policies: Vec<ActingPolicy>,
    /// The last rollout.
    pub rollout: Rollout,
    /// Setup.
    pub setup: PpoSetup,
    /// The env's spaces.
    pub spec: Spec,
    /// The instruction set in use.
    pub isa: Isa,
    pub(crate) threads: ParallelFor,
    /// One per thread.
    pub(crate) workspaces: Vec<Mutex<Workspace>>,
    states: Vec<f32>,
    state_offsets: Vec<usize>,
    /// Final observations that wait for [`RolloutCollector::bootstrap`].
    finals: Finals,
    discrete: Vec<i32>,
    continuous: Vec<f32>,
}

impl RolloutCollector {
    /// Allocates the rollout and starts the threads.
    pub fn new(spec: &Spec, policy: ActingPolicy, setup: PpoSetup) -> Result<Self> {
        setup.check()?;
        let (head, state_len) = (&policy.policy.spec.head, policy.policy.state_len());
        let threads = setup.start_threads()?;
        let mut collector = Self {
            rollout: Rollout::new(spec, head, setup.rows, setup.horizon)
                .with_sequences(state_len, setup.sequence_length),
            policies: vec![policy],
            spec: spec.clone(),
            isa: Isa::from_env().map_err(Error::Input)?,
            threads,
            workspaces: Vec::new(),
            states: vec![0.0; setup.rows * state_len],
            state_offsets: Vec::new(),
            finals: Finals::default(),
            discrete: Vec::new(),
            continuous: Vec::new(),
            setup,
        };
        collector.set_opponents(Vec::new());
        Ok(collector)
    }

    /// Replaces the frozen policies 1, 2, ...; their recurrent state starts at zero.
    pub fn set_opponents(&mut self, opponents: Vec<ActingPolicy>) {
        self.policies.truncate(1);
        self.policies.extend(opponents);
        let mut end = 0;
        self.state_offsets.clear();
        for policy in &self.policies {
            self.state_offsets.push(end);
            end += self.setup.rows * policy.policy.state_len();
        }
        self.states.truncate(self.setup.rows * self.policies[0].policy.state_len());
        self.states.resize(end, 0.0);
        let workspace = || Mutex::new(Workspace::new(&self.policies, self.spec.masked));
        self.workspaces = (0..self.threads.threads()).map(|_| workspace()).collect();
    }

    /// The recurrent state of a policy, row by row; empty if it is feedforward.
    pub fn state(&mut self, policy: usize) -> &mut [f32] {
        let first = self.state_offsets[policy];
        &mut self.states[first..first + self.setup.rows * self.policies[policy].policy.state_len()]
    }

    /// Number of threads, including the caller's.
    pub fn threads(&self) -> usize {
        self.threads.threads()
    }

    /// Changes the number of threads; results do not depend on it.
    pub fn set_threads(&mut self, threads: usize) -> Result<()> {
        if threads != self.threads.threads() {
            let setup = PpoSetup { threads, ..self.setup };
            self.threads = setup.start_threads()?;
            self.setup = setup;
            let workspace = || Mutex::new(Workspace::new(&self.policies, self.spec.masked));
            self.workspaces = (0..threads).map(|_| workspace()).collect();
        }
        Ok(())
    }

    /// Thread time in envs and in policies since the last call.
    pub fn take_times(&mut self) -> (Duration, Duration) {
        let (mut env, mut inference) = (Duration::ZERO, Duration::ZERO);
        for work in &mut self.workspaces {
            let work = work.get_mut().unwrap_or_else(PoisonError::into_inner);
            env += std::mem::take(&mut work.env);
            inference += std::mem::take(&mut work.inference);
        }
        (env, inference)
    }

    /// Splits what threads share while they collect from what each of them has.
    pub(crate) fn split(&mut self, iteration: u64) -> (Collection<'_>, &mut ParallelFor, &mut [Mutex<Workspace>]) {
        let len = self.states.len();
        let collection = Collection {
            policies: &self.policies,
            states: View::new(&mut self.states, len, 1),
            state_offsets: &self.state_offsets,
            horizon: self.rollout.horizon,
            rows: self.rollout.rows,
            seats: self.spec.seats,
            sequence_length: self.rollout.sequence_length,
            obs_bytes: self.rollout.obs_bytes,
            mask_len: self.rollout.mask_len,
            noise: self.setup.stream(Purpose::Action, iteration),
            first_row: self.setup.first_row,
            views: self.rollout.views(),
        };
        (collection, &mut self.threads, &mut self.workspaces)
    }

    /// Begins a rollout whose envs are stepped elsewhere, with the observations that the last one ended with.
    pub fn begin(&mut self) {
        self.rollout.carry_over();
        self.finals.clear();
        self.workspaces[0].get_mut().unwrap_or_else(PoisonError::into_inner).final_states.clear();
    }

    /// Chooses the actions of these rows, each at its slot, in one forward pass, and stores actions, log-probabilities
    /// and values there. [`RolloutCollector::actions`] has the actions in the order of the rows.
    pub fn act(&mut self, slots: &[i64], rows: &[i64], iteration: u64) -> Result<()> {
        let isa = self.isa;
        select(&self.rollout, slots, rows, &mut first_workspace(&mut self.workspaces).rows)?;
        let (collection, _, workspaces) = self.split(iteration);
        isa.run(Act { collection: &collection, work: first_workspace(workspaces) })?;
        let Rollout { rows: all, sets, dims, discrete, continuous, .. } = &self.rollout;
        let positions = slots.iter().zip(rows).map(|(slot, row)| *slot as usize * all + *row as usize);
        gather(discrete, *sets, positions.clone(), &mut self.discrete);
        gather(continuous, *dims, positions, &mut self.continuous);
        Ok(())
    }

    /// Discrete and continuous actions of the last call of [`RolloutCollector::act`].
    pub fn actions(&self) -> (&[i32], &[f32]) {
        (&self.discrete, &self.continuous)
    }

    /// Ends the episodes of those of these rows that terminated or were truncated at their slots. `final_obs` has the
    /// final observations of the truncated ones, in order.
    pub fn end_episodes(&mut self, slots: &[i64], rows: &[i64], final_obs: &[u8]) -> Result<()> {
        let work = first_workspace(&mut self.workspaces);
        select(&self.rollout, slots, rows, &mut work.rows)?;
        let truncated = work.rows.iter().filter(|index| self.rollout.truncated[index.at as usize]);
        let expected = truncated.clone().count() * self.rollout.obs_bytes;
        if final_obs.len() != expected {
            return input(format!(
                "final observations of {} bytes: expected {expected}, one observation per truncated row",
                final_obs.len()
            ));
        }
        for index in truncated {
            self.finals.slots.push(index.step);
            self.finals.rows.push(index.row);
        }
        self.finals.obs.extend_from_slice(final_obs);
        let finals = std::mem::take(&mut self.finals);
        let (collection, _, workspaces) = self.split(0);
        // SAFETY: the collector is borrowed exclusively.
        unsafe { collection.end_episodes(first_workspace(workspaces), Scope::Whole, &finals) };
        self.finals = finals;
        Ok(())
    }

    /// Computes the values that the rollout is bootstrapped with: of the last slot and of final observations.
    pub fn bootstrap(&mut self) {
        let finals = std::mem::take(&mut self.finals);
        let isa = self.isa;
        let (collection, _, workspaces) = self.split(0);
        isa.run(Bootstrap { collection: &collection, work: first_workspace(workspaces), finals: &finals });
        self.finals = finals;
    }
}

fn first_workspace(workspaces: &mut [Mutex<Workspace>]) -> &mut Workspace {
    workspaces[0].get_mut().unwrap_or_else(PoisonError::into_inner)
}

/// Turns slots and rows of a rollout into indices of its arrays.
pub(crate) fn select(rollout: &Rollout, slots: &[i64], rows: &[i64], to: &mut Vec<RowIndex>) -> Result<()> {
    if slots.len() != rows.len() {
        return input(format!("{} slots for {} rows", slots.len(), rows.len()));
    }
    to.clear();
    for (slot, row) in slots.iter().zip(rows) {
        let inside = |x: i64, len: usize| usize::try_from(x).is_ok_and(|x| x < len);
        if !inside(*slot, rollout.horizon) || !inside(*row, rollout.rows) {
            let (horizon, rows) = (rollout.horizon, rollout.rows);
            return input(format!("slot {slot}, row {row}: the rollout has {horizon} slots of {rows} rows"));
        }
        let at = *slot as usize * rollout.rows + *row as usize;
        to.push(RowIndex { at: at as u32, row: *row as u32, step: *slot as u32 });
    }
    Ok(())
}

/// Copies the `width` entries of each position; nothing if the rollout has no such array.
pub(crate) fn gather<T: Copy>(from: &[T], width: usize, positions: impl Iterator<Item = usize>, to: &mut Vec<T>) {
    to.clear();
    if width > 0 {
        positions.for_each(|at| to.extend_from_slice(&from[at * width..(at + 1) * width]));
    }
}

/// Workspace of one thread.
pub(crate) struct Workspace {
    policies: Vec<ActWorkspace>,
    /// The rows at hand.
    pub(crate) rows: Vec<RowIndex>,
    by_policy: Vec<Vec<RowIndex>>,
    /// Recurrent state that belongs to final observations: what it was before the reset.
    pub(crate) final_states: Vec<f32>,
    final_values: Vec<f32>,
    /// Time spent in envs.
    pub(crate) env: Duration,
    /// Time spent in policies.
    pub(crate) inference: Duration,
}

impl Workspace {
    fn new(policies: &[ActingPolicy], masked: bool) -> Self {
        Self {
            policies: policies.iter().map(|policy| ActWorkspace::new(&policy.policy, masked)).collect(),
            rows: Vec::new(),
            by_policy: vec![Vec::new(); policies.len()],
            final_states: Vec::new(),
            final_values: Vec::new(),
            env: Duration::ZERO,
            inference: Duration::ZERO,
        }
    }
}

/// The part of a rollout that a thread has for itself, to which the indices of its rows refer.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    /// `count` rows from `first` on at one slot.
    Slot { slot: usize, first: usize, count: usize },
    /// All rows at all slots.
    Whole,
}

impl Scope {
    /// SAFETY: no other thread uses these rows while the slice lives.
    unsafe fn of<'a, T>(self, view: &View<'a, T>) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Slot { slot, first, count } => view.part(slot, first, count),
                Self::Whole => view.whole(),
            }
        }
    }
}

/// The parts of a collector that threads share while they collect.
#[derive(Clone, Copy)]
pub(crate) struct Collection<'a> {
    policies: &'a [ActingPolicy],
    /// Recurrent states: a block per policy.
    states: View<'a, f32>,
    state_offsets: &'a [usize],
    pub(crate) views: Views<'a>,
    pub(crate) horizon: usize,
    rows: usize,
    seats: usize,
    sequence_length: usize,
    obs_bytes: usize,
    mask_len: usize,
    noise: Stream,
    first_row: u32,
}

impl Collection<'_> {
    // SAFETY, throughout: the caller promises that no other thread uses the rows of the scope.

    fn rows_of(&self, scope: Scope) -> (usize, usize) {
        match scope {
            Scope::Slot { first, count, .. } => (first, count),
            Scope::Whole => (0, self.rows),
        }
    }

    /// Recurrent state of the scope's rows; empty for a feedforward policy.
    #[allow(clippy::mut_from_ref)] // the rows are the caller's alone
    unsafe fn state(&self, policy: usize, scope: Scope) -> &mut [f32] {
        let len = self.policies[policy].policy.state_len();
        let (first, count) = self.rows_of(scope);
        unsafe { self.states.part(0, self.state_offsets[policy] + first * len, count * len) }
    }

    /// Chooses the actions of the workspace's rows and stores them with their log-probabilities and values.
    #[inline(always)]
    pub(crate) unsafe fn act<S: Simd>(&self, simd: S, work: &mut Workspace, scope: Scope) -> Result<()> {
        let Workspace { policies: workspaces, rows, by_policy, .. } = work;
        let (first, _) = self.rows_of(scope);
        let views = &self.views;
        let (playing, valid) = unsafe { (scope.of(&views.policy), scope.of(&views.valid)) };
        // A negative index is a large one.
        let highest = match scope {
            Scope::Slot { .. } => playing.iter().fold(0, |highest, policy| highest.max(*policy as u32)),
            Scope::Whole => rows.iter().fold(0, |highest, index| highest.max(playing[index.at as usize] as u32)),
        };
        if highest as usize >= self.policies.len() {
            return self.unknown_policy(highest, playing, rows, first);
        }
        unsafe { self.store_sequence_starts(rows, scope) };
        let observations = unsafe {
            Observations {
                bytes: scope.of(&views.obs),
                row_bytes: self.obs_bytes,
                masks: Masks { entries: scope.of(&views.mask), per_row: self.mask_len },
            }
        };
        let mut outputs = unsafe {
            ActOutputs {
                actions: ActionArrays {
                    discrete: scope.of(&views.discrete),
                    continuous: scope.of(&views.continuous),
                    log_prob: scope.of(&views.log_prob),
                },
                value: scope.of(&views.value),
            }
        };
        let sampling = Sampling::Random { stream: self.noise, first_row: self.first_row.wrapping_add(first as u32) };
        if let [policy] = self.policies {
            let mut state = RecurrentState { values: unsafe { self.state(0, scope) }, valid };
            policy.act(simd, &mut workspaces[0], rows, observations, sampling, &mut state, &mut outputs);
            return Ok(());
        }
        by_policy.iter_mut().for_each(Vec::clear);
        for index in rows.iter() {
            by_policy[playing[index.at as usize] as usize].push(*index);
        }
        let policies = self.policies.iter().zip(workspaces).zip(by_policy);
        for (i, ((policy, work), rows)) in policies.enumerate() {
            let mut state = RecurrentState { values: unsafe { self.state(i, scope) }, valid };
            policy.act(simd, work, rows, observations, sampling, &mut state, &mut outputs);
        }
        Ok(())
    }

    #[cold]
    fn unknown_policy(&self, policy: u32, playing: &[i32], rows: &[RowIndex], first: usize) -> Result<()> {
        let policy = policy as i32;
        let index = rows.iter().find(|index| playing[index.at as usize] == policy);
        let row = first + index.map_or(0, |index| index.row as usize);
        let (env, seat, count) = (row / self.seats, row % self.seats, self.policies.len());
        input(format!(
            "env {env}, seat {seat} is to be played by policy {policy}, but there are {count} (0 is the learner, frozen \
             opponents follow): pass the opponents to the learner first, or change the table of policies"
        ))
    }

    /// Stores the learner's recurrent state of rows that begin a training sequence.
    #[inline(always)]
    unsafe fn store_sequence_starts(&self, rows: &[RowIndex], scope: Scope) {
        let len = self.policies[0].policy.state_len();
        if len == 0 {
            return;
        }
        let state = unsafe { self.state(0, scope) };
        let (starts, stride) = match scope {
            Scope::Slot { slot, first, count } if slot.is_multiple_of(self.sequence_length) => {
                (unsafe { self.views.sequence_starts.part(slot / self.sequence_length, first, count) }, 0)
            }
            Scope::Slot { .. } => return,
            Scope::Whole => (unsafe { self.views.sequence_starts.whole() }, self.rows),
        };
        for index in rows.iter().filter(|index| (index.step as usize).is_multiple_of(self.sequence_length)) {
            let row = index.row as usize;
            let start = index.step as usize / self.sequence_length * stride + row;
            starts[start * len..(start + 1) * len].copy_from_slice(&state[row * len..(row + 1) * len]);
        }
    }

    /// Resets the recurrent state of those of the workspace's rows whose episodes ended at their slots, after copying
    /// what belongs to the final observations of truncated ones.
    #[inline(always)]
    pub(crate) unsafe fn end_episodes(&self, work: &mut Workspace, scope: Scope, finals: &Finals) {
        let len = self.policies[0].policy.state_len();
        if let Some(copied) = work.final_states.len().checked_div(len) {
            let state = unsafe { self.state(0, scope) };
            for row in &finals.rows[copied..] {
                work.final_states.extend_from_slice(&state[*row as usize * len..][..len]);
            }
        }
        for (i, policy) in self.policies.iter().enumerate() {
            let len = policy.policy.state_len();
            if len == 0 {
                continue;
            }
            let (terminated, truncated, state) =
                unsafe { (scope.of(&self.views.terminated), scope.of(&self.views.truncated), self.state(i, scope)) };
            let ended = |index: &&RowIndex| terminated[index.at as usize] || truncated[index.at as usize];
            for index in work.rows.iter().filter(ended) {
                state[index.row as usize * len..][..len].fill(0.0);
            }
        }
    }

    /// Computes the values of the observations after the last step, and of final observations.
    #[inline(always)]
    pub(crate) unsafe fn bootstrap<S: Simd>(&self, simd: S, work: &mut Workspace, scope: Scope, finals: &Finals) {
        let (first, count) = self.rows_of(scope);
        let learner = &self.policies[0];
        let Workspace { policies, final_states, final_values, .. } = work;
        let (obs, values, state) = unsafe {
            let views = &self.views;
            (
                views.obs.part(self.horizon, first, count),
                views.value.part(self.horizon, first, count),
                self.state(0, scope),
            )
        };
        learner.values(simd, &mut policies[0], obs, self.obs_bytes, state, values);
        final_values.resize(finals.rows.len(), 0.0);
        learner.values(simd, &mut policies[0], &finals.obs, self.obs_bytes, final_states, final_values);
        for ((slot, row), value) in finals.slots.iter().zip(&finals.rows).zip(final_values) {
            unsafe { self.views.bootstrap.part(*slot as usize, first + *row as usize, 1)[0] = *value };
        }
    }
}

struct Act<'a, 'b> {
    collection: &'a Collection<'b>,
    work: &'a mut Workspace,
}

impl Kernel for Act<'_, '_> {
    type Output = Result<()>;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Result<()> {
        // SAFETY: the caller has exclusive access to the rollout.
        unsafe { self.collection.act(simd, self.work, Scope::Whole) }
    }
}

struct Bootstrap<'a, 'b> {
    collection: &'a Collection<'b>,
    work: &'a mut Workspace,
    finals: &'a Finals,
}

impl Kernel for Bootstrap<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // SAFETY: the caller has exclusive access to the rollout.
        unsafe { self.collection.bootstrap(simd, self.work, Scope::Whole, self.finals) };
    }
}
