//! The runner as Python sees it: converts arguments, picks memory, releases the GIL, and wraps the results.

use std::time::Duration;

use hotloop_core::episodes::Totals;
use hotloop_core::group::{Autoreset, Keep};
use hotloop_core::pool::{FramePointers, Pool as CorePool, Seeds, Setup};
use numpy::npyffi::NPY_TYPES;
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::actions;
use crate::convert::{described, field_type, observation_type, options, python_value, raised};
use crate::frame::FrameLayout;
use crate::memory::{Memory, copied};

/// Results that callers may still hold are set aside; past this many they are left to Python's own accounting.
const RECYCLED: usize = 8;
/// How long a native wait may keep Ctrl-C waiting.
const PATIENCE: Duration = Duration::from_millis(50);

/// Many native envs, stepped by threads.
#[pyclass(module = "hotloop._core")]
pub struct Pool {
    pool: Option<CorePool>,
    layout: FrameLayout,
    recycled: Vec<Py<Memory>>,
    flight: Option<Py<Memory>>,
    /// What groups in flight write to.
    held: Vec<Py<PyAny>>,
    faults_seen: u64,
}

/// The memory of many steps.
#[pyclass(frozen, module = "hotloop._core")]
pub struct Rollout {
    layout: FrameLayout,
    memory: Py<Memory>,
    horizon: usize,
}

#[pymethods]
impl Rollout {
    /// Every array, time first.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.layout.arrays(self.memory.bind(py), true)
    }
}

fn closed(py: Python<'_>) -> PyErr {
    let message = "this runner is closed";
    match py.import("gymnasium.error").and_then(|module| module.getattr("ClosedEnvironmentError")) {
        Ok(kind) => kind.call1((message,)).map_or_else(|error| error, PyErr::from_value),
        Err(error) => error,
    }
}

impl Pool {
    fn open(&mut self, py: Python<'_>) -> PyResult<&mut CorePool> {
        self.pool.as_mut().ok_or_else(|| closed(py))
    }

    fn look(&self, py: Python<'_>) -> PyResult<&CorePool> {
        self.pool.as_ref().ok_or_else(|| closed(py))
    }

    /// Memory for one frame that nobody looks at any more.
    fn fresh<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, Memory>> {
        // SAFETY: the pointers are to live objects, and the GIL is held.
        let unused = |memory: &&Py<Memory>| unsafe { pyo3::ffi::Py_REFCNT(memory.as_ptr()) } == 1;
        if let Some(memory) = self.recycled.iter().find(unused) {
            return Ok(memory.bind(py).clone());
        }
        let memory = self.layout.allocate(py)?;
        if self.recycled.len() == RECYCLED {
            self.recycled.remove(0);
        }
        self.recycled.push(memory.clone().unbind());
        Ok(memory)
    }

    fn info<'py>(&mut self, py: Python<'py>, memory: &Bound<'py, Memory>) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        self.layout.extras(memory, &info)?;
        let faults = self.count_faults();
        if faults != self.faults_seen {
            self.faults_seen = faults;
            info.set_item("cut", self.layout.cut(memory)?)?;
        }
        Ok(info)
    }

    fn count_faults(&self) -> u64 {
        let mut count = 0;
        if let Some(pool) = &self.pool {
            pool.ledgers(|ledger| count += ledger.fault_count);
        }
        count
    }

    /// Runs `look` on a pool with memory to write to; gives observation and info.
    fn shown<'py>(
        &mut self,
        py: Python<'py>,
        look: impl FnOnce(&mut CorePool, FramePointers) -> hotloop_core::error::Result<()> + Send,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        self.look(py)?;
        let memory = self.fresh(py)?;
        let pointers = self.layout.pointers(memory.get(), 0, 0);
        let target = Target(pointers);
        let pool = self.open(py)?;
        py.detach(|| look(pool, target.get())).map_err(raised)?;
        let [obs, ..] = self.layout.outcome(&memory)?;
        Ok((obs, self.info(py, &memory)?))
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

#[pymethods]
impl Pool {
    #[new]
    #[pyo3(signature = (name, num_envs, *, num_threads=None, num_groups=None, options=None, first_env=0,
                        autoreset="next_step", pin_threads=false, infos=vec![]))]
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
        infos: Vec<String>,
    ) -> PyResult<Self> {
        let count = |what: &str, value: i64, least: i64| {
            usize::try_from(value)
                .ok()
                .filter(|_| value >= least && value <= i64::from(u32::MAX))
                .ok_or_else(|| PyValueError::new_err(format!("{what} is {value}: expected {least} or more")))
        };
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
            infos,
        };
        let env = crate::registry::find(name)?;
        let pool = py.detach(|| CorePool::new(env, &setup)).map_err(raised)?;
        let layout = FrameLayout::frame(&pool);
        Ok(Self { pool: Some(pool), layout, recycled: Vec::new(), flight: None, held: Vec::new(), faults_seen: 0 })
    }

    /// The env's spaces, terms, metrics and infos.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        described(py, self.look(py)?.spec())
    }

    /// The options the runner was made with, all of them.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (spec, value) in self.look(py)?.options().iter() {
            dict.set_item(spec.name, python_value(py, value)?)?;
        }
        Ok(dict)
    }

    #[getter]
    fn num_threads(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.look(py)?.threads())
    }

    #[getter]
    fn num_groups(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.look(py)?.groups())
    }

    #[getter]
    fn in_flight(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.look(py)?.in_flight())
    }

    /// The first row of each group, and the number of rows.
    fn group_starts(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let pool = self.look(py)?;
        Ok((0..pool.groups()).map(|group| pool.group_rows(group).start).chain([pool.rows()]).collect())
    }

    /// Restarts the random streams from one seed, or from a seed per env (`None`: goes on as it was).
    #[pyo3(signature = (seed, attempt=0))]
    fn seed(&mut self, py: Python<'_>, seed: &Bound<'_, PyAny>, attempt: u32) -> PyResult<()> {
        let pool = self.open(py)?;
        if let Ok(seed) = seed.extract::<u64>() {
            return pool.seed(&Seeds::One(seed), attempt).map_err(raised);
        }
        let seeds: Vec<Option<u64>> = seed
            .extract()
            .map_err(|_| PyValueError::new_err(format!("seed is {seed}: expected 0 to 2**64 - 1, or one per env")))?;
        pool.seed(&Seeds::Each(&seeds), attempt).map_err(raised)
    }

    /// Starts new episodes; gives observation and info.
    #[pyo3(signature = (which=None))]
    fn reset<'py>(
        &mut self,
        py: Python<'py>,
        which: Option<Vec<bool>>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        // SAFETY: the memory has room for every row and is held until the call returns.
        self.shown(py, move |pool, frames| unsafe { pool.reset(which.as_deref(), frames) })
    }

    /// What every row sees now; gives observation and info.
    fn observe<'py>(&mut self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        // SAFETY: as above.
        self.shown(py, |pool, frames| unsafe { pool.observe(frames) })
    }

    /// Steps every env; gives observation, reward, terminated, truncated and info.
    #[pyo3(signature = (actions, out=None))]
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let groups = self.look(py)?.groups();
        if self.look(py)?.in_flight() > 0 {
            let count = self.look(py)?.in_flight();
            return Err(raised(hotloop_core::error::Error::State(format!(
                "step needs every group at rest: {count} in flight, receive them first"
            ))));
        }
        let memory = self.fresh(py)?;
        let mut pointers = self.layout.pointers(memory.get(), 0, 0);
        if let Some(out) = out {
            self.aim(py, &mut pointers, out)?;
        }
        let pool = self.open(py)?;
        actions::take(pool, 0..groups, actions)?;
        let target = Target(pointers);
        // SAFETY: the memory has room for every row and is held until the call returns.
        py.detach(|| unsafe { pool.step(target.get()) }).map_err(raised)?;
        let info = self.info(py, &memory)?;
        if let Some(out) = out {
            let mut items: Vec<Bound<'py, PyAny>> = out.iter().collect();
            items.push(info.into_any());
            return PyTuple::new(py, items);
        }
        let [obs, reward, terminated, truncated] = self.layout.outcome(&memory)?;
        PyTuple::new(py, [obs, reward, terminated, truncated, info.into_any()])
    }

    /// What rows saw last before their envs were reset in the same step: slots, rows, observations and infos.
    fn finals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let pool = self.look(py)?;
        let row_bytes = pool.spec().observation.row_bytes();
        let info_len: usize = pool.rules().infos.iter().map(|(_, len)| len).sum();
        let mut entries: Vec<(u32, u32, Vec<u8>, Vec<f32>)> = Vec::new();
        pool.finals(|first, finals| {
            for (i, (slot, row)) in finals.slots.iter().zip(&finals.rows).enumerate() {
                let obs = finals.obs[i * row_bytes..(i + 1) * row_bytes].to_vec();
                let infos = finals.infos[i * info_len..(i + 1) * info_len].to_vec();
                entries.push((*slot, first as u32 + row, obs, infos));
            }
        });
        entries.sort_by_key(|entry| (entry.0, entry.1));
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.2.iter().copied()).collect();
        let infos: Vec<u8> = entries.iter().flat_map(|e| &e.3).flat_map(|x| x.to_ne_bytes()).collect();
        let shape: Vec<usize> = [entries.len()].iter().chain(pool.spec().observation.shape()).copied().collect();
        PyTuple::new(
            py,
            [
                PyArray1::from_iter(py, entries.iter().map(|entry| i64::from(entry.0))).into_any(),
                PyArray1::from_iter(py, entries.iter().map(|entry| i64::from(entry.1))).into_any(),
                copied(py, observation_type(&pool.spec().observation), &shape, &bytes)?,
                copied(py, NPY_TYPES::NPY_FLOAT, &[entries.len(), info_len], &infos)?,
            ],
        )
    }

    /// Memory for `horizon` steps.
    fn rollout(&self, py: Python<'_>, horizon: usize) -> PyResult<Rollout> {
        let layout = FrameLayout::rollout(self.look(py)?, horizon);
        let memory = layout.allocate(py)?.unbind();
        Ok(Rollout { layout, memory, horizon })
    }

    /// Writes what every row sees now to a slot of a rollout.
    fn observe_into(&mut self, py: Python<'_>, rollout: &Bound<'_, Rollout>, slot: usize) -> PyResult<()> {
        let held = rollout.get();
        held.check_slot(slot, held.horizon + 1)?;
        let target = Target(held.layout.pointers(held.memory.get(), 0, slot));
        let pool = self.open(py)?;
        // SAFETY: the rollout has room for every row and is held until the call returns.
        py.detach(|| unsafe { pool.observe(target.get()) }).map_err(raised)
    }

    /// The arrays that groups sent without a rollout write to.
    fn flight<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.look(py)?;
        if self.flight.is_none() {
            self.flight = Some(self.layout.allocate(py)?.unbind());
        }
        let memory = self.flight.as_ref().expect("just made").bind(py);
        self.layout.arrays(memory, false)
    }

    /// Sends one group on its way.
    #[pyo3(signature = (actions, group, rollout=None, slot=0))]
    fn send(
        &mut self,
        py: Python<'_>,
        actions: &Bound<'_, PyAny>,
        group: usize,
        rollout: Option<&Bound<'_, Rollout>>,
        slot: usize,
    ) -> PyResult<()> {
        let groups = self.look(py)?.groups();
        if group >= groups {
            return Err(PyValueError::new_err(format!("group is {group}: expected 0 to {}", groups - 1)));
        }
        let (pointers, keep) = if let Some(rollout) = rollout {
            let held = rollout.get();
            held.check_slot(slot, held.horizon)?;
            (held.layout.pointers(held.memory.get(), slot, slot + 1), Keep::Truncated)
        } else {
            self.flight(py)?;
            let memory = self.flight.as_ref().expect("just made").get();
            (self.layout.pointers(memory, 0, 0), Keep::Ended)
        };
        let pool = self.open(py)?;
        actions::take(pool, group..group + 1, actions)?;
        // SAFETY: the memory has room for every row, and is held until no group is in flight.
        unsafe { pool.send(group, pointers, slot as u32, keep) };
        if let Some(rollout) = rollout
            && !self.held.iter().any(|held| held.is(rollout))
        {
            self.held.push(rollout.clone().into_any().unbind());
        }
        Ok(())
    }

    /// Waits for groups; gives their numbers in the order they came back.
    fn recv(&mut self, py: Python<'_>, count: usize) -> PyResult<Vec<usize>> {
        loop {
            let pool = self.open(py)?;
            let ready = py.detach(|| pool.recv(count, PATIENCE).map(|groups| groups.map(<[usize]>::to_vec)));
            if let Some(groups) = ready.map_err(raised)? {
                if pool.in_flight() == 0 {
                    self.held.clear();
                }
                return Ok(groups);
            }
            py.check_signals()?;
        }
    }

    /// Sums over the episodes that ended since the last call, and the last few of each row.
    fn episodes<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pool = self.open(py)?;
        let spec = pool.spec();
        let (terms, seats) = (spec.terms.len(), spec.seats);
        let extra = terms + spec.metrics.len();
        let mut totals = Totals::new(extra);
        let mut recent = Vec::new();
        let mut rows = Vec::new();
        pool.ledgers(|ledger| {
            let before = recent.len();
            ledger.episodes.report(&mut totals, &mut recent);
            ledger.episodes.clear();
            rows.extend(recent[before..].iter().map(|e| e.row as usize + ledger.first_env * seats));
        });
        let mut order: Vec<usize> = (0..recent.len()).collect();
        order.sort_by_key(|i| (recent[*i].tick, rows[*i]));
        let sorted = || order.iter().map(|i| &recent[*i]);
        let dict = PyDict::new(py);
        dict.set_item("count", totals.count)?;
        dict.set_item("length", totals.length)?;
        dict.set_item("total", totals.total)?;
        dict.set_item("square", totals.square)?;
        dict.set_item("min", totals.min)?;
        dict.set_item("max", totals.max)?;
        dict.set_item("extra", totals.extra)?;
        dict.set_item("row", PyArray1::from_iter(py, order.iter().map(|i| rows[*i] as i64)))?;
        dict.set_item("episode", PyArray1::from_iter(py, sorted().map(|e| i64::from(e.episode))))?;
        dict.set_item("lengths", PyArray1::from_iter(py, sorted().map(|e| i64::from(e.length))))?;
        dict.set_item("returns", PyArray1::from_iter(py, sorted().map(|e| e.total)))?;
        let extras = PyArray1::from_iter(py, sorted().flat_map(|e| e.extra.iter().copied()));
        dict.set_item("extras", extras.reshape([recent.len(), extra])?)?;
        Ok(dict)
    }

    /// How many envs faulted since the last call, and the first of them: env, episode, step, what.
    fn faults(&mut self, py: Python<'_>) -> PyResult<(u64, Vec<(usize, u32, u32, String)>)> {
        let (mut count, mut faults) = (0, Vec::new());
        self.open(py)?.ledgers(|ledger| {
            count += std::mem::take(&mut ledger.fault_count);
            let first = ledger.first_env;
            faults.extend(ledger.faults.drain(..).map(|f| (first + f.env, f.episode, f.step, f.what)));
        });
        self.faults_seen = 0;
        Ok((count, faults))
    }

    /// Changes options from the next reset of these envs on.
    #[pyo3(signature = (changes, envs=None))]
    fn configure(&mut self, py: Python<'_>, changes: &Bound<'_, PyDict>, envs: Option<Vec<usize>>) -> PyResult<()> {
        let changes = options(Some(changes))?;
        self.open(py)?.configure(&changes, envs.as_deref()).map_err(raised)
    }

    /// Which policy plays each row from its env's next reset on.
    fn set_policies(&mut self, py: Python<'_>, table: Vec<i32>) -> PyResult<()> {
        self.open(py)?.set_policies(&table).map_err(raised)
    }

    /// The weight of each reward term.
    fn weights(&self, py: Python<'_>) -> PyResult<Vec<f32>> {
        Ok(self.look(py)?.rules().weights.clone())
    }

    /// Sets the weight of each reward term.
    fn set_weights(&mut self, py: Python<'_>, weights: Vec<f32>) -> PyResult<()> {
        let pool = self.open(py)?;
        let terms = pool.spec().terms.len();
        if weights.len() != terms {
            return Err(PyValueError::new_err(format!("{} weights for {terms} reward terms", weights.len())));
        }
        pool.set_weights(&weights).map_err(raised)
    }

    /// The whole state.
    fn snapshot<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let pool = self.open(py)?;
        let bytes = py.detach(|| pool.snapshot()).map_err(raised)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Goes back to a snapshot; gives observation and info.
    fn restore<'py>(
        &mut self,
        py: Python<'py>,
        state: &Bound<'_, PyBytes>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let pool = self.open(py)?;
        let bytes = state.as_bytes();
        py.detach(|| pool.restore(bytes)).map_err(raised)?;
        self.observe(py)
    }

    /// The envs' state by field.
    fn get_state<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pool = self.open(py)?;
        let dict = PyDict::new(py);
        for field in pool.fields() {
            let bytes = pool.get_field(&field).map_err(raised)?;
            let shape = if field.len == 1 { vec![pool.envs()] } else { vec![pool.envs(), field.len] };
            dict.set_item(field.name, copied(py, field_type(field.kind).1, &shape, &bytes)?)?;
        }
        Ok(dict)
    }

    /// Sets fields of some envs; gives observation and info.
    fn set_state<'py>(
        &mut self,
        py: Python<'py>,
        values: &Bound<'_, PyDict>,
        envs: Vec<usize>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyDict>)> {
        let pool = self.open(py)?;
        let fields = pool.fields();
        let mut wanted = Vec::new();
        for (name, value) in values.iter() {
            let name: String = name.extract()?;
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
                return Err(PyValueError::new_err(format!("no field {name:?}; the state has {}", known.join(", "))));
            };
            let (dtype, _, size) = field_type(field.kind);
            let array = py.import("numpy")?.call_method1("ascontiguousarray", (&value, dtype))?;
            let bytes: Vec<u8> = array.call_method0("tobytes")?.extract()?;
            if bytes.len() != envs.len() * field.len * size {
                let shape = array.getattr("shape")?;
                return Err(PyValueError::new_err(format!(
                    "field {name:?} has shape {shape}: expected {} values for each of {} envs",
                    field.len,
                    envs.len()
                )));
            }
            wanted.push((field.clone(), bytes));
        }
        pool.set_fields(&wanted, &envs).map_err(raised)?;
        self.observe(py)
    }

    /// Ends the threads; everything but `close` raises from now on.
    fn close(&mut self, py: Python<'_>) {
        let pool = self.pool.take();
        py.detach(|| drop(pool));
        self.held.clear();
    }
}

impl Pool {
    /// Makes a step write into the caller's arrays.
    fn aim(&self, py: Python<'_>, pointers: &mut FramePointers, out: &Bound<'_, PyTuple>) -> PyResult<()> {
        let pool = self.look(py)?;
        let shape: Vec<usize> = [pool.rows()].iter().chain(pool.spec().observation.shape()).copied().collect();
        if out.len() != 4 {
            return Err(PyTypeError::new_err("out: expected (observation, reward, terminated, truncated)"));
        }
        let obs = out.get_item(0)?;
        pointers.obs = match observation_type(&pool.spec().observation) {
            NPY_TYPES::NPY_FLOAT => target::<f32>(&obs, "observation", &shape)?.cast(),
            NPY_TYPES::NPY_UBYTE => target::<u8>(&obs, "observation", &shape)?,
            _ => target::<i64>(&obs, "observation", &shape)?.cast(),
        };
        let rows = [pool.rows()];
        pointers.reward = target(&out.get_item(1)?, "reward", &rows)?;
        pointers.terminated = target(&out.get_item(2)?, "terminated", &rows)?;
        pointers.truncated = target(&out.get_item(3)?, "truncated", &rows)?;
        Ok(())
    }
}

/// Where a caller's array begins, if results can be written to it.
fn target<T: numpy::Element>(array: &Bound<'_, PyAny>, name: &str, shape: &[usize]) -> PyResult<*mut T> {
    let wrong = |why: String| PyValueError::new_err(format!("out: {name} {why}"));
    let Ok(array) = array.cast::<PyArrayDyn<T>>() else {
        let kind = std::any::type_name::<T>();
        return Err(PyTypeError::new_err(format!("out: {name} is not an array of {kind}")));
    };
    if array.shape() != shape {
        return Err(wrong(format!("has shape {:?}: expected {shape:?}", array.shape())));
    }
    let flags = array.getattr("flags")?;
    if !array.is_c_contiguous() || !flags.getattr("writeable")?.extract::<bool>()? {
        return Err(wrong("must be C-contiguous and writable".into()));
    }
    if !flags.getattr("aligned")?.extract::<bool>()? {
        return Err(wrong("must be aligned".into()));
    }
    Ok(array.data())
}

impl Rollout {
    fn check_slot(&self, slot: usize, slots: usize) -> PyResult<()> {
        if slot < slots {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("slot is {slot}: this rollout takes 0 to {}", slots - 1)))
    }
}

