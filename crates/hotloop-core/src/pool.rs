//! The native runner: many envs in groups, stepped by a thread pool, with results written to memory of the caller.
//!
//! Results depend on the env, its options, the seed, each env's index and the actions: never on threads or groups.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::checked_group::CheckedGroup;
use crate::cpu;
use crate::env::{EnvKind, Spec};
use crate::error::{Error, Result, input, state};
use crate::group::{Autoreset, Finals, Group, KeepFinals, Rules};
use crate::group_state::GroupState;
use crate::memory;
use crate::options::{Options, Value};
use crate::panics;
use crate::simd::{BLOCK, Isa};
use crate::slot::{Job, Slot, lock, perform};
use crate::thread_pool::ThreadPool;

pub use crate::slot::FramePointers;

/// Minimum duration of a group's step that makes handing it to another thread worthwhile.
const GROUP_NANOSECONDS: u64 = 4_000;
/// Groups per thread, so that a thread that was held up does not hold up the rest.
const GROUPS_PER_THREAD: usize = 2;
/// Target duration of a group's step with many envs: larger groups are no faster, and balance worse.
const LARGE_GROUP_NANOSECONDS: u64 = 10_000;
/// Maximum number of groups per thread; more only add overhead.
const MAX_GROUPS_PER_THREAD: usize = 64;

/// Settings of a pool.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Number of envs.
    pub num_envs: usize,
    /// Number of threads, the waiting caller included; by default the usable cores, at most one per group.
    pub num_threads: Option<usize>,
    /// Number of groups; by default what is fastest.
    pub num_groups: Option<usize>,
    /// Options that differ from the env's defaults.
    pub options: Vec<(String, Value)>,
    /// The index of the first env among all envs of a run, on whatever machines.
    pub first_env: usize,
    /// When a finished env starts again.
    pub autoreset: Autoreset,
    /// Whether to pin each thread to a core.
    pub pin_threads: bool,
    /// Names of the info arrays to compute.
    pub infos: Vec<String>,
    /// Ticks that a step spans.
    pub action_repeat: u32,
}

/// Many envs of one kind.
pub struct Pool {
    pub(crate) env: Arc<EnvKind>,
    pub(crate) spec: Spec,
    pub(crate) base: Arc<Options>,
    pub(crate) slots: Arc<[Mutex<Slot>]>,
    pub(crate) starts: Vec<usize>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) started: bool,
    workers: ThreadPool,
    first_env: usize,
    flying: Vec<bool>,
    done: Vec<usize>,
}

impl Pool {
    /// Makes the envs and starts the threads; no env is reset yet.
    pub fn new(env: Arc<EnvKind>, setup: &Setup) -> Result<Self> {
        let base = Arc::new(Options::defaults(env.options.clone()).with(env.name, &setup.options)?);
        let spec = (env.spec)(&base).map_err(|why| Error::Input(format!("options of {}: {why}", env.name)))?;
        let envs = setup.num_envs;
        if envs == 0 || envs > u32::MAX as usize / spec.seats {
            return input(format!("num_envs is {envs}: expected 1 to {}", u32::MAX as usize / spec.seats));
        }
        require_envs(env.name, &spec, envs)?;
        let max_threads = setup.num_threads.unwrap_or_else(cpu::usable_cores);
        if max_threads == 0 || max_threads > 4096 {
            return input(format!("num_threads is {max_threads}: expected 1 to 4096"));
        }
        let nanoseconds = envs as u64 * u64::from(spec.step_nanoseconds);
        let small = (nanoseconds.div_ceil(GROUP_NANOSECONDS) as usize).min(max_threads * GROUPS_PER_THREAD);
        let large = (nanoseconds / LARGE_GROUP_NANOSECONDS) as usize;
        let enough = small.max(large.min(max_threads * MAX_GROUPS_PER_THREAD)).min(envs);
        let groups = setup.num_groups.unwrap_or(if max_threads == 1 { 1 } else { enough });
        if groups == 0 || groups > envs {
            return input(format!("num_groups is {groups}: expected 1 to num_envs ({envs})"));
        }
        let threads = setup.num_threads.unwrap_or(max_threads.min(groups));
        let infos = setup.infos.iter().map(|name| find_info(&env, &spec, name)).collect::<Result<_>>()?;
        let action_repeat = setup.action_repeat;
        if action_repeat == 0 || action_repeat > 1000 {
            return input(format!("action_repeat is {action_repeat}: expected 1 to 1000"));
        }
        if action_repeat > 1 && spec.masked && spec.masks_bind {
            return input(format!(
                "action_repeat is {action_repeat}, but {} forbids some actions at times, and a repeated one might be among \
                 them: expected 1",
                env.name
            ));
        }
        let rules = Arc::new(Rules {
            autoreset: setup.autoreset,
            weights: vec![1.0; spec.terms.len()],
            isa: Isa::from_env().map_err(Error::Input)?,
            infos,
            action_repeat,
        });
        let starts: Vec<usize> = (0..=groups).map(|group| group * envs / groups).collect();
        let slots: Arc<[Mutex<Slot>]> = starts
            .windows(2)
            .map(|bounds| {
                let count = bounds[1] - bounds[0];
                let numbers = count.next_multiple_of(BLOCK) * spec.seats * spec.action.width();
                let discrete = !spec.action.choices().is_empty();
                Mutex::new(Slot {
                    group: Box::new(CheckedGroup::new(&env, &spec, &base, bounds[0], count)),
                    group_state: GroupState::new(&spec, &base, count, bounds[0], envs),
                    ints: vec![0; if discrete { numbers } else { 0 }],
                    floats: vec![0.0; if discrete { 0 } else { numbers }],
                    rules: rules.clone(),
                    finals: Finals::default(),
                    job: None,
                    failure: None,
                })
            })
            .collect();
        let workers = {
            let (slots, spec) = (slots.clone(), spec.clone());
            ThreadPool::new(threads, setup.pin_threads, move |group| perform(&spec, &mut lock(&slots[group])))
                .map_err(|why| Error::State(format!("cannot start {threads} threads: {why}")))?
        };
        let flying = vec![false; groups];
        let first_env = setup.first_env;
        Ok(Self { env, spec, base, slots, starts, rules, started: false, workers, first_env, flying, done: Vec::new() })
    }

    /// The env.
    pub fn env(&self) -> &EnvKind {
        &self.env
    }

    /// Its spaces.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.base
    }

    /// Settings shared by all envs.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Number of envs.
    pub fn envs(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.envs() * self.spec.seats
    }

    /// Number of groups.
    pub fn groups(&self) -> usize {
        self.slots.len()
    }

    /// The rows of a group.
    pub fn group_rows(&self, group: usize) -> std::ops::Range<usize> {
        self.starts[group] * self.spec.seats..self.starts[group + 1] * self.spec.seats
    }

    /// Number of threads, the waiting caller included.
    pub fn threads(&self) -> usize {
        self.workers.threads()
    }

    /// Number of groups in flight.
    pub fn in_flight(&self) -> usize {
        self.flying.iter().filter(|flying| **flying).count()
    }

    /// Whether a group is in flight.
    pub fn is_flying(&self, group: usize) -> bool {
        self.flying[group]
    }

    /// Whether the envs were reset at least once.
    pub fn started(&self) -> bool {
        self.started
    }

    /// Fails in a forked child, which has no threads and whose locks may stay locked.
    pub fn check_not_forked(&self) -> Result<()> {
        if self.workers.lost() {
            return state(
                "this runner was made before the process forked, and its threads stayed there: make a new one",
            );
        }
        Ok(())
    }

    /// Fails while groups are in flight.
    pub fn check_idle(&self, what: &str) -> Result<()> {
        self.check_not_forked()?;
        match self.in_flight() {
            0 => Ok(()),
            count => state(format!("{what} needs every group at rest: {count} in flight, receive them first")),
        }
    }

    /// Fails before the first reset.
    pub fn check_started(&self, what: &str) -> Result<()> {
        if self.started { Ok(()) } else { state(format!("{what} needs a reset first")) }
    }

    /// Restarts the random streams: of every env by its index, or of each from a seed of its own.
    pub fn seed(&mut self, seeds: &Seeds<'_>, attempt: u32) -> Result<()> {
        self.check_idle("seeding")?;
        let given = match seeds {
            Seeds::One(_) => self.envs(),
            Seeds::Some(_, which) => which.len(),
            Seeds::PerEnv(seeds) => seeds.len(),
        };
        if given != self.envs() {
            return input(format!("{given} seeds for {} envs", self.envs()));
        }
        for slot in self.slots.iter() {
            let group_state = &mut lock(slot).group_state;
            for env in 0..group_state.envs {
                let index = group_state.first_env + env;
                match seeds {
                    Seeds::Some(_, which) if !which[index] => {}
                    Seeds::One(seed) | Seeds::Some(seed, _) => {
                        group_state.seed(env, *seed, attempt, (self.first_env + index) as u32);
                    }
                    Seeds::PerEnv(seeds) => {
                        if let Some(seed) = seeds[index] {
                            group_state.seed(env, seed, attempt, 0);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts a new episode in all envs, or in those that `which` names; writes observations to `frames`.
    ///
    /// # Safety
    /// Every array of `frames` that is not null must have room for all rows.
    pub unsafe fn reset(&mut self, which: Option<&[bool]>, frames: FramePointers) -> Result<()> {
        self.check_idle("reset")?;
        if let Some(which) = which {
            if which.len() != self.envs() {
                return input(format!("the reset mask has {} entries for {} envs", which.len(), self.envs()));
            }
            self.check_started("a reset of some envs")?;
        }
        let all = vec![true; self.envs()];
        for (slot, bounds) in self.slots.iter().zip(self.starts.windows(2)) {
            let slot = &mut *lock(slot);
            slot.rules = self.rules.clone();
            let which = &which.unwrap_or(&all)[bounds[0]..bounds[1]];
            panics::catch(|| slot.group.reset(&mut slot.group_state, &slot.rules, which))
                .map_err(|panic| Error::Env(panic.to_string()))?;
        }
        self.started = true;
        // SAFETY: the caller's promise.
        unsafe { self.observe(frames) }
    }

    /// Writes the current observations.
    ///
    /// # Safety
    /// As for `reset`.
    pub unsafe fn observe(&mut self, frames: FramePointers) -> Result<()> {
        self.check_idle("observing the envs")?;
        self.check_started("observing the envs")?;
        // SAFETY: the caller's promise.
        unsafe { self.launch_all(frames, false, KeepFinals::Ended) };
        self.finish_all()
    }

    /// Steps all envs with the actions set before.
    ///
    /// # Safety
    /// As for `reset`.
    pub unsafe fn step(&mut self, frames: FramePointers) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_all(frames, true, KeepFinals::Ended) };
        self.finish_all()
    }

    unsafe fn launch_all(&mut self, frames: FramePointers, step: bool, keep: KeepFinals) {
        for slot in self.slots.iter() {
            let slot = &mut *lock(slot);
            slot.finals.clear();
            slot.job = Some(Job { frames, step, slot: 0, keep });
        }
        self.workers.submit_all(self.slots.len());
    }

    fn finish_all(&mut self) -> Result<()> {
        while !self.workers.wait(self.slots.len(), Duration::from_secs(3600)) {}
        self.done.clear();
        self.workers.take(self.slots.len(), &mut self.done);
        self.failure()
    }

    fn failure(&self) -> Result<()> {
        for group in &self.done {
            if let Some(message) = lock(&self.slots[*group]).failure.take() {
                return Err(Error::Env(message));
            }
        }
        Ok(())
    }

    /// Starts stepping one group with the actions set before; `frames` holds the results once it is received.
    ///
    /// # Safety
    /// As for `reset`, and until the group was received.
    pub unsafe fn send(&mut self, group: usize, frames: FramePointers, slot: u32, keep: KeepFinals) {
        {
            let entry = &mut *lock(&self.slots[group]);
            if slot == 0 || keep == KeepFinals::Ended {
                entry.finals.clear();
            }
            entry.job = Some(Job { frames, step: true, slot, keep });
        }
        self.flying[group] = true;
        self.workers.submit(group, self.slots.len());
    }

    /// Waits for `count` groups (or for those in flight, if fewer) at most that long; `None` if they are not done yet.
    pub fn recv(&mut self, count: usize, at_most: Duration) -> Result<Option<&[usize]>> {
        self.check_not_forked()?;
        let count = count.min(self.in_flight());
        if count == 0 {
            return state("nothing to receive: no group is in flight");
        }
        if !self.workers.wait(count, at_most) {
            return Ok(None);
        }
        self.done.clear();
        self.workers.take(count, &mut self.done);
        for group in &self.done {
            self.flying[*group] = false;
        }
        self.failure()?;
        Ok(Some(&self.done))
    }

    /// Calls `f` on this thread with exclusive access to a group, for learners that step groups themselves. Waits for the
    /// group if it is in flight.
    pub fn with_group<T>(&self, group: usize, f: impl FnOnce(GroupAccess<'_>) -> T) -> T {
        let Slot { group, group_state, ints, floats, rules, finals, .. } = &mut *lock(&self.slots[group]);
        f(GroupAccess { group: &mut **group, group_state, ints, floats, rules, finals })
    }

    /// Final observations of a group. Waits for the group if it is in flight.
    pub fn finals<T>(&self, group: usize, f: impl FnOnce(&Finals) -> T) -> T {
        f(&lock(&self.slots[group]).finals)
    }

    /// State of a group. Waits for the group if it is in flight.
    pub fn group_state<T>(&self, group: usize, f: impl FnOnce(&mut GroupState) -> T) -> T {
        f(&mut lock(&self.slots[group]).group_state)
    }

    /// State of each group in turn. Waits for those in flight.
    pub fn group_states(&self, mut f: impl FnMut(&mut GroupState)) {
        for slot in self.slots.iter() {
            f(&mut lock(slot).group_state);
        }
    }

    /// Sets the weight of each reward term.
    pub fn set_weights(&mut self, weights: &[f32]) -> Result<()> {
        self.check_idle("changing reward weights")?;
        if let Some(bad) = weights.iter().position(|weight| !weight.is_finite()) {
            return input(format!("the weight of {:?} is {}", self.spec.terms[bad], weights[bad]));
        }
        let mut rules = (*self.rules).clone();
        rules.weights.copy_from_slice(weights);
        self.rules = Arc::new(rules);
        for slot in self.slots.iter() {
            let slot = &mut *lock(slot);
            slot.group_state.sum_apart();
            slot.rules = self.rules.clone();
        }
        Ok(())
    }

    /// Changes options of some envs, from their next reset on.
    pub fn configure(&mut self, changes: &[(String, Value)], envs: Option<&[usize]>) -> Result<()> {
        self.check_idle("configure")?;
        let all: Vec<usize> = (0..self.envs()).collect();
        let envs = envs.unwrap_or(&all);
        if let Some(env) = envs.iter().find(|env| **env >= self.envs()) {
            return input(format!("env {env} does not exist: there are {}", self.envs()));
        }
        // Most envs share their options, and then share the changed ones too.
        let mut changed: Vec<(Arc<Options>, Arc<Options>)> = Vec::new();
        let mut updates = Vec::with_capacity(envs.len());
        for env in envs {
            let (group, local) = self.locate(*env);
            let old = lock(&self.slots[group]).group_state.latest_options(local).clone();
            let new = match changed.iter().find(|(known, _)| Arc::ptr_eq(known, &old)) {
                Some((_, new)) => new.clone(),
                None => {
                    let new = Arc::new(old.with(self.env.name, changes)?);
                    self.accept_options(&new)?;
                    changed.push((old, new.clone()));
                    new
                }
            };
            updates.push((group, local, new));
        }
        for (group, local, options) in updates {
            lock(&self.slots[group]).group_state.set_options(local, options);
        }
        Ok(())
    }

    pub(crate) fn accept_options(&self, options: &Options) -> Result<()> {
        if let Some(name) = self.base.fixed_difference(options) {
            return input(format!(
                "option {name:?} of {} fixes its spaces: make a new runner to change it",
                self.env.name
            ));
        }
        match (self.env.spec)(options) {
            Ok(_) => Ok(()),
            Err(why) => input(format!("options of {}: {why}", self.env.name)),
        }
    }

    /// Sets the policy of each seat (`table[env * seats + seat]`), from each env's next reset on.
    pub fn set_policies(&mut self, table: &[i32]) -> Result<()> {
        self.check_idle("set_policies")?;
        if table.len() != self.rows() {
            return input(format!("the table of policies has {} entries for {} rows", table.len(), self.rows()));
        }
        if let Some(row) = table.iter().position(|policy| *policy < 0) {
            return input(format!("the policy of row {row} is {}: expected 0 or more", table[row]));
        }
        for env in 0..self.envs() {
            let (group, local) = self.locate(env);
            let seats = self.spec.seats;
            lock(&self.slots[group]).group_state.set_policies(local, &table[env * seats..(env + 1) * seats]);
        }
        Ok(())
    }

    /// The group of an env, and the env's index in it.
    pub(crate) fn locate(&self, env: usize) -> (usize, usize) {
        let group = self.starts.partition_point(|start| *start <= env) - 1;
        (group, env - self.starts[group])
    }
}

/// Exclusive access to a group.
#[allow(missing_docs)] // named as in `Slot`
pub struct GroupAccess<'a> {
    pub group: &'a mut dyn Group,
    pub group_state: &'a mut GroupState,
    pub ints: &'a mut [i32],
    pub floats: &'a mut [f32],
    pub rules: &'a Rules,
    pub finals: &'a mut Finals,
}

/// Seeds for a reset.
pub enum Seeds<'a> {
    /// One for all: every env's stream is keyed by it and by the env's index.
    One(u64),
    /// The same for the selected envs; the others keep their streams.
    Some(u64, &'a [bool]),
    /// A separate seed for each env; `None` keeps its stream.
    PerEnv(&'a [Option<u64>]),
}

/// Rejects more envs than fit into memory: their bookkeeping, their state (estimated by their observations) and a frame.
fn require_envs(name: &str, spec: &Spec, envs: usize) -> Result<()> {
    let mask = if spec.masked { spec.action.mask_len() } else { 0 };
    let extra = spec.terms.len() + spec.metrics.len();
    let row = 2 * spec.observation.row_bytes() + 8 * extra + 8 * spec.action.width() + 2 * mask + 48;
    let bytes = envs as u128 * (spec.seats as u128 * row as u128 + 64);
    memory::require(&format!("a runner with {envs} envs of {name}"), bytes, "use fewer envs")
}

fn find_info(env: &EnvKind, spec: &Spec, name: &str) -> Result<(usize, usize)> {
    match spec.infos.iter().position(|(known, _)| *known == name) {
        Some(index) => Ok((index, spec.infos[index].1)),
        None => {
            let known: Vec<&str> = spec.infos.iter().map(|(name, _)| *name).collect();
            let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
            input(format!("{} has no info array {name:?}; it has: {known}", env.name))
        }
    }
}
