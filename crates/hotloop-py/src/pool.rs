//! Python bindings of the pool: converts arguments, selects memory, releases the GIL, wraps results.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hotloop_core::error::Error;
use hotloop_core::group::{Autoreset, KeepFinals};
use hotloop_core::pool::{FramePointers, Pool as CorePool, Seeds, Setup};
use hotloop_py_macros::guarded;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::convert::{options, python_value, spec_dict, to_py_err};
use crate::frame::FrameLayout;
use crate::memory::Memory;
use crate::reports::{self, FaultEntry};
use crate::sequence::Sequence;
use crate::{actions, guard, out, state};

/// Number of result frames that are kept for reuse.
const MAX_RECYCLED: usize = 8;
/// Interval between checks for signals during a native wait.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of `close` for the call of another thread.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Many native envs, stepped by threads.
#[pyclass(module = "hotloop._core")]
pub struct Pool {
    core: Option<CorePool>,
    layout: FrameLayout,
    recycled: Vec<Py<Memory>>,
    flight: Option<Py<Memory>>,
    /// Rollout that each group writes to while in flight.
    held: Vec<Option<Py<Rollout>>>,
    /// Rollout whose final observations each group holds; 0 for none.
    finals_of: Vec<u64>,
    /// Number of faults of each group that were reported.
    faults_reported: Vec<u64>,
}

/// The memory of many steps.
#[pyclass(frozen, module = "hotloop._core")]
pub struct Rollout {
    layout: FrameLayout,
    memory: Py<Memory>,
    horizon: usize,
    id: u64,
}

#[guarded]
#[pymethods]
impl Rollout {
    /// Every array, time first.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.layout.arrays(self.memory.bind(py), true)
    }
}

fn check_slot(slot: usize, slots: usize) -> PyResult<()> {
    if slot < slots {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("slot is {slot}: this rollout takes 0 to {}", slots - 1)))
}

fn closed(py: Python<'_>) -> PyErr {
    let message = "this runner is closed";
    match py.import("gymnasium.error").and_then(|module| module.getattr("ClosedEnvironmentError")) {
        Ok(kind) => kind.call1((message,)).map_or_else(|error| error, PyErr::from_value),
        Err(error) => error,
    }
}

fn state_error(message: String) -> PyErr {
    to_py_err(Error::State(message))
}

/// Checks a count.
fn count(what: &str, value: i64, least: i64) -> PyResult<usize> {
    usize::try_from(value)
        .ok()
        .filter(|_| value >= least && value <= i64::from(u32::MAX))
        .ok_or_else(|| PyValueError::new_err(format!("{what} is {value}: expected {least} or more")))
}

impl Pool {
    pub(crate) fn open(&mut self, py: Python<'_>) -> PyResult<&mut CorePool> {
        let pool = self.core.as_mut().ok_or_else(|| closed(py))?;
        pool.check_not_forked().map_err(to_py_err)?;
        Ok(pool)
    }

    fn core(&self, py: Python<'_>) -> PyResult<&CorePool> {
        self.core.as_ref().ok_or_else(|| closed(py))
    }

    /// Memory for one frame, unused by any array.
    fn unused_frame<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, Memory>> {
        // SAFETY: the pointers are to live objects, and the GIL is held.
        let unused = |memory: &&Py<Memory>| unsafe { pyo3::ffi::Py_REFCNT(memory.as_ptr()) } == 1;
        if let Some(memory) = self.recycled.iter().find(unused) {
            return Ok(memory.bind(py).clone());
        }
        let memory = self.layout.allocate(py)?;
        if self.recycled.len() == MAX_RECYCLED {
            self.recycled.remove(0);
        }
        self.recycled.push(memory.clone().unbind());
        Ok(memory)
    }

    /// Whether an env of these groups has faulted since the last call.
    fn new_faults(&mut self, groups: impl Iterator<Item = usize>) -> bool {
        let Some(pool) = &self.core else { return false };
        let mut any = false;
        for group in groups {
            let faults = pool.group_state(group, |group_state| group_state.fault_count);
            any |= faults != std::mem::replace(&mut self.faults_reported[group], faults);
        }
        any
    }

    /// Runs `work` on a pool with memory to write to; returns observation and info.
    fn run_and_observe<'py>(
        &mut self,
        py: Python<'py>,
        work: impl FnOnce(&mut CorePool, FramePointers) -> hotloop_core::error::Result<()> + Send,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        self.open(py)?;
        let memory = self.unused_frame(py)?;
        let target = Target(self.layout.pointers(memory.get(), 0, 0));
        let pool = self.open(py)?;
        py.detach(|| work(pool, target.get())).map_err(to_py_err)?;
        self.finals_of.fill(0);
        let [obs, ..] = self.layout.outcome(&memory)?;
        let info = PyDict::new(py);
        self.layout.extras(&memory, &info)?;
        Ok((obs, info))
    }

    fn current_observations<'py>(&mut self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        // SAFETY: the memory has room for every row and is held until the call returns.
        self.run_and_observe(py, |pool, frames| unsafe { pool.observe(frames) })
    }

    /// Memory for groups that are sent without a rollout.
    fn flight_memory(&mut self, py: Python<'_>) -> PyResult<&Py<Memory>> {
        if self.flight.is_none() {
            self.flight = Some(self.layout.allocate(py)?.unbind());
        }
        Ok(self.flight.as_ref().expect("just made"))
    }
}

/// Carries pointers into a closure that runs without the GIL.
struct Target(FramePointers);
impl Target {
    fn get(&self) -> FramePointers {
        self.0
    }
}
// SAFETY: the memory is held by the caller for as long as the closure runs.
unsafe impl Send for Target {}
unsafe impl Sync for Target {}

#[guarded("runner")]
#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (name, num_envs, *, num_threads=None, num_groups=None, options=None, first_env=0,
                        autoreset="next_step", pin_threads=false, infos=None, action_repeat=1))]
    #[allow(clippy::too_many_arguments)] // Python's keyword arguments
    fn new(
        py: Python<'_>,
        name: &str,
        num_envs: i64,
        num_threads: Option<i64>,
        num_groups: Option<i64>,
        options: Option<&Bound<'_, PyDict>>,
        first_env: i64,
        autoreset: &str,
        pin_threads: bool,
        infos: Option<Sequence<String>>,
        action_repeat: i64,
    ) -> PyResult<Self> {
        let setup = Setup {
            num_envs: count("num_envs", num_envs, 1)?,
            num_threads: num_threads.map(|n| count("num_threads", n, 1)).transpose()?,
            num_groups: num_groups.map(|n| count("num_groups", n, 1)).transpose()?,
            options: crate::convert::options(options)?,
            first_env: count("first_env", first_env, 0)?,
            autoreset: match autoreset {
                "next_step" => Autoreset::NextStep,
                "same_step" => Autoreset::SameStep,
                "disabled" => Autoreset::Disabled,
                other => {
                    return Err(PyValueError::new_err(format!(
                        "autoreset is {other:?}: expected next_step, same_step or disabled"
                    )));
                }
            },
            pin_threads,
            infos: infos.map_or_else(Vec::new, |infos| infos.0),
            action_repeat: count("action_repeat", action_repeat, 1)? as u32,
        };
        let env = crate::registry::find(name)?;
        let pool = py.detach(|| CorePool::new(env, &setup)).map_err(to_py_err)?;
        let layout = FrameLayout::frame(&pool);
        let groups = pool.groups();
        Ok(Self {
            core: Some(pool),
            layout,
            recycled: Vec::new(),
            flight: None,
            held: (0..groups).map(|_| None).collect(),
            finals_of: vec![0; groups],
            faults_reported: vec![0; groups],
        })
    }

    /// The env's spaces, terms, metrics and infos.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        spec_dict(py, self.core(py)?.spec())
    }

    /// The options the runner was made with, all of them.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (spec, value) in self.core(py)?.options().iter() {
            dict.set_item(spec.name, python_value(py, value)?)?;
        }
        Ok(dict)
    }

    #[getter]
    fn num_threads(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.core(py)?.threads())
    }

    #[getter]
    fn num_groups(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.core(py)?.groups())
    }

    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.core(py)?.in_flight())
    }

    /// The first row of each group, and the number of rows.
    fn group_starts(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let pool = self.core(py)?;
        Ok((0..pool.groups()).map(|group| pool.group_rows(group).start).chain([pool.rows()]).collect())
    }

    /// Restarts the random streams from one seed, for all envs or for those of `which`, or from a seed per env (`None`:
    /// keeps its stream).
    #[pyo3(signature = (seed, attempt=0, which=None))]
    fn seed(
        &mut self,
        py: Python<'_>,
        seed: &Bound<'_, PyAny>,
        attempt: u32,
        which: Option<Sequence<bool>>,
    ) -> PyResult<()> {
        let pool = self.open(py)?;
        if let Ok(seed) = seed.extract::<u64>() {
            let seeds = which.as_ref().map_or(Seeds::One(seed), |which| Seeds::Some(seed, &which.0));
            return pool.seed(&seeds, attempt).map_err(to_py_err);
        }
        let seeds: Sequence<Option<u64>> = seed
            .extract()
            .map_err(|_| PyValueError::new_err(format!("seed is {seed}: expected 0 to 2**64 - 1, or one per env")))?;
        pool.seed(&Seeds::PerEnv(&seeds.0), attempt).map_err(to_py_err)
    }

    /// Starts new episodes; returns observation and info.
    #[pyo3(signature = (which=None))]
    fn reset<'py>(
        &mut self,
        py: Python<'py>,
        which: Option<Sequence<bool>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let which = which.map(|which| which.0);
        // SAFETY: the memory has room for every row and is held until the call returns.
        self.run_and_observe(py, move |pool, frames| unsafe { pool.reset(which.as_deref(), frames) })
    }

    /// Returns the current observation and info.
    fn observe<'py>(&mut self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        self.current_observations(py)
    }

    /// Steps every env; returns observation, reward, terminated, truncated and info. Where rows have ended under
    /// `same_step`, info holds `finals`: rows, observations, infos and masks.
    #[pyo3(signature = (actions, out=None))]
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let pool = self.open(py)?;
        let (groups, flying) = (pool.groups(), pool.in_flight());
        if flying > 0 {
            return Err(state_error(format!("step needs every group at rest: {flying} in flight, receive them first")));
        }
        let memory = self.unused_frame(py)?;
        let mut pointers = self.layout.pointers(memory.get(), 0, 0);
        if let Some(out) = out {
            out::redirect(self.core(py)?, &mut pointers, out)?;
        }
        let pool = self.open(py)?;
        actions::take(pool, 0..groups, actions)?;
        let target = Target(pointers);
        // SAFETY: the memory has room for every row and is held until the call returns.
        py.detach(|| unsafe { pool.step(target.get()) }).map_err(to_py_err)?;
        let info = PyDict::new(py);
        self.layout.extras(&memory, &info)?;
        if self.core(py)?.rules().autoreset == Autoreset::SameStep {
            self.finals_of.fill(0);
            let all: Vec<usize> = (0..groups).collect();
            if let Some(finals) = reports::finals(py, self.core(py)?, &all)? {
                info.set_item("finals", finals)?;
            }
        }
        if self.new_faults(0..groups) {
            info.set_item("cut", self.layout.cut(&memory)?)?;
        }
        if let Some(out) = out {
            return PyTuple::new(py, out.iter().chain([info.into_any()]).collect::<Vec<_>>());
        }
        let [obs, reward, terminated, truncated] = self.layout.outcome(&memory)?;
        PyTuple::new(py, [obs, reward, terminated, truncated, info.into_any()])
    }

    /// Final observations of rows of these groups, which were just received: positions in the batch, observations, infos
    /// and masks.
    fn finals<'py>(&self, py: Python<'py>, groups: Sequence<usize>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        reports::finals(py, self.core(py)?, &groups.0)
    }

    /// Final observations of truncated rows of a whole rollout: slots, rows, observations.
    fn rollout_finals<'py>(&mut self, py: Python<'py>, rollout: &Bound<'_, Rollout>) -> PyResult<Bound<'py, PyTuple>> {
        let flying = self.open(py)?.in_flight();
        if flying > 0 {
            return Err(state_error(format!(
                "final observations need every group at rest: {flying} in flight, receive them first"
            )));
        }
        if let Some(group) = self.finals_of.iter().position(|id| *id != rollout.get().id) {
            return Err(state_error(format!(
                "group {group} was not sent to this rollout, or has moved on since: its final observations are not here"
            )));
        }
        reports::rollout_finals(py, self.core(py)?)
    }

    /// Memory for `horizon` steps.
    fn rollout(&self, py: Python<'_>, horizon: i64) -> PyResult<Rollout> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let horizon = count("horizon", horizon, 1)?;
        let layout = FrameLayout::rollout(self.core(py)?, horizon)?;
        let memory = layout.allocate(py)?.unbind();
        Ok(Rollout { layout, memory, horizon, id: NEXT.fetch_add(1, Ordering::Relaxed) })
    }

    /// Writes the current observations to a slot of a rollout.
    fn observe_into(&mut self, py: Python<'_>, rollout: &Bound<'_, Rollout>, slot: usize) -> PyResult<()> {
        let held = rollout.get();
        check_slot(slot, held.horizon + 1)?;
        let target = Target(held.layout.pointers(held.memory.get(), 0, slot));
        let pool = self.open(py)?;
        // SAFETY: the rollout has room for every row and is held until the call returns.
        py.detach(|| unsafe { pool.observe(target.get()) }).map_err(to_py_err)?;
        self.finals_of.fill(0);
        Ok(())
    }

    /// The arrays that groups sent without a rollout write to.
    fn flight<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.core(py)?;
        let memory = self.flight_memory(py)?.clone_ref(py);
        self.layout.arrays(memory.bind(py), false)
    }

    /// Starts stepping one group.
    #[pyo3(signature = (actions, group, rollout=None, slot=0))]
    fn send(
        &mut self,
        py: Python<'_>,
        actions: &Bound<'_, PyAny>,
        group: i64,
        rollout: Option<&Bound<'_, Rollout>>,
        slot: i64,
    ) -> PyResult<()> {
        let groups = self.open(py)?.groups();
        let Some(group) = usize::try_from(group).ok().filter(|group| *group < groups) else {
            return Err(PyValueError::new_err(format!("group is {group}: expected 0 to {}", groups - 1)));
        };
        let slot = count("slot", slot, 0)?;
        let (pointers, keep) = if let Some(rollout) = rollout {
            let held = rollout.get();
            check_slot(slot, held.horizon)?;
            (held.layout.pointers(held.memory.get(), slot, slot + 1), KeepFinals::Truncated)
        } else {
            let memory = self.flight_memory(py)?.clone_ref(py);
            (self.layout.pointers(memory.get(), 0, 0), KeepFinals::Ended)
        };
        let pool = self.open(py)?;
        actions::take(pool, group..group + 1, actions)?;
        // SAFETY: the memory has room for every row, and is held until the group was received.
        unsafe { pool.send(group, pointers, slot as u32, keep) };
        self.finals_of[group] = rollout.map_or(0, |rollout| rollout.get().id);
        self.held[group] = rollout.map(|rollout| rollout.clone().unbind());
        Ok(())
    }

    /// Waits for groups; returns their indices in the order of arrival, and whether any of their envs has faulted.
    fn recv(slf: &Bound<'_, Self>, count: usize) -> PyResult<(Vec<usize>, bool)> {
        let py = slf.py();
        loop {
            let mut this = guard::exclusive(slf, "runner")?;
            let pool = this.open(py)?;
            let ready = py.detach(|| pool.recv(count, SIGNAL_INTERVAL).map(|groups| groups.map(<[usize]>::to_vec)));
            if let Some(groups) = ready.map_err(to_py_err)? {
                for group in &groups {
                    this.held[*group] = None;
                }
                let faulted = this.new_faults(groups.iter().copied());
                return Ok((groups, faulted));
            }
            // A signal's handler may use the runner, and close it.
            drop(this);
            py.check_signals()?;
        }
    }

    /// Sums over the episodes that ended since the last call, and the last few of each row.
    fn episodes<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        reports::episodes(py, self.open(py)?)
    }

    /// Number of faults since the last call, and the first of them: env, episode, step, cause.
    fn faults(&mut self, py: Python<'_>) -> PyResult<(u64, Vec<FaultEntry>)> {
        let faults = reports::faults(self.open(py)?);
        self.faults_reported.fill(0);
        Ok(faults)
    }

    /// Changes options from the next reset of these envs on.
    #[pyo3(signature = (changes, envs=None))]
    fn configure(
        &mut self,
        py: Python<'_>,
        changes: &Bound<'_, PyDict>,
        envs: Option<Sequence<usize>>,
    ) -> PyResult<()> {
        let changes = options(Some(changes))?;
        self.open(py)?.configure(&changes, envs.as_ref().map(|envs| &envs.0[..])).map_err(to_py_err)
    }

    /// Sets the policy of each row, from its env's next reset on.
    fn set_policies(&mut self, py: Python<'_>, table: Sequence<i32>) -> PyResult<()> {
        self.open(py)?.set_policies(&table.0).map_err(to_py_err)
    }

    /// The weight of each reward term.
    fn weights(&self, py: Python<'_>) -> PyResult<Vec<f32>> {
        Ok(self.core(py)?.rules().weights.clone())
    }

    /// Sets the weight of each reward term.
    fn set_weights(&mut self, py: Python<'_>, weights: Sequence<f32>) -> PyResult<()> {
        let Sequence(weights) = weights;
        let pool = self.open(py)?;
        let terms = pool.spec().terms.len();
        if weights.len() != terms {
            return Err(PyValueError::new_err(format!("{} weights for {terms} reward terms", weights.len())));
        }
        pool.set_weights(&weights).map_err(to_py_err)
    }

    /// The whole state.
    fn snapshot<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let pool = self.open(py)?;
        let bytes = py.detach(|| pool.snapshot()).map_err(to_py_err)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Restores a snapshot; returns observation and info.
    fn restore<'py>(
        &mut self,
        py: Python<'py>,
        state: &Bound<'_, PyBytes>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let pool = self.open(py)?;
        let bytes = state.as_bytes();
        py.detach(|| pool.restore(bytes)).map_err(to_py_err)?;
        self.current_observations(py)
    }

    /// The envs' state by field.
    fn get_state<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        state::get(py, self.open(py)?)
    }

    /// Sets fields of some envs; returns observation and info.
    fn set_state<'py>(
        &mut self,
        py: Python<'py>,
        values: &Bound<'_, PyDict>,
        envs: Sequence<usize>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        state::set(self.open(py)?, values, &envs.0)?;
        self.current_observations(py)
    }

    /// Ends the threads; everything but `close` raises from now on. Waits for a call that another thread makes.
    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let start = Instant::now();
        loop {
            if let Ok(mut this) = slf.try_borrow_mut() {
                let pool = this.core.take();
                // Other threads now find it closed; memory that groups in flight write to lives until they have ended.
                let held = std::mem::take(&mut this.held);
                drop(this);
                py.detach(|| drop(pool));
                drop(held);
                return Ok(());
            }
            if start.elapsed() > CLOSE_TIMEOUT {
                return Err(PyRuntimeError::new_err("another thread is still using this runner"));
            }
            py.detach(|| std::thread::sleep(Duration::from_millis(1)));
            py.check_signals()?;
        }
    }
}
