//! Python envs of one worker's group, stepped in one native call without the overhead of a Python loop.
//!
//! It handles the common case: one seat, observations that can be copied as they are, no infos, no masks. Any other
//! result (another shape or type, numbers that are not finite, flags that are not bools) is left to the worker's Python
//! code, which converts it or raises a specific error; exceptions are passed on, too.

use hotloop_core::clock::monotonic;
use hotloop_py_macros::guarded;
use numpy::npyffi::{NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, PyArrayObject};
use numpy::{Element, PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods, dtype};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple};

const IDLE: f64 = f64::INFINITY;
/// Flag of a group's step: an episode ended.
const ENDED: i64 = 1;
/// Work that is left to Python: start an env's episode; handle the result of its step or its reset.
const DUE: u8 = 0;
const STEPPED: u8 = 1;
const BEGUN: u8 = 2;

/// An env that needs Python, the kind of work, and the result to handle.
type PythonWork<'py> = (usize, u8, Option<Bound<'py, PyAny>>);

/// Arrays of a group's rows; see `Worker` and `Layout`.
struct Rows {
    obs: *mut u8,
    final_obs: *mut u8,
    reward: *mut f32,
    terminated: *mut bool,
    truncated: *mut bool,
    cut: *mut bool,
    finished: *mut bool,
    returned: *mut f32,
    lasted: *mut i64,
    valid: *mut bool,
    over: *mut bool,
    seeded: *mut bool,
    number: *mut i64,
    policy: *mut i32,
    next_policy: *const i32,
    total: *mut f64,
    length: *mut i64,
    brought: *mut i64,
    weight: *const f32,
    pulse: *mut f64,
    cursor: *mut i64,
}

/// The envs of a group, one row each.
#[pyclass(module = "hotloop._core")]
pub struct Stepper {
    envs: Vec<(Py<PyAny>, Py<PyAny>)>,
    first: i64,
    same_step: bool,
    rows: Rows,
    shape: Vec<isize>,
    row_bytes: usize,
    floats: bool,
    descr: Py<PyAny>,
    array_type: Py<PyAny>,
    bools: (Py<PyAny>, Py<PyAny>),
    unseeded: Py<PyDict>,
    /// Info of the last step of each episode that is over, by env, until it is taken; `None` if nobody wants it.
    last_infos: Option<Py<PyDict>>,
    _memory: Py<PyDict>,
}

// SAFETY: the rows belong to the worker while it has the group; Python's lock keeps its threads apart.
unsafe impl Send for Stepper {}
unsafe impl Sync for Stepper {}

fn array<'py>(arrays: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    arrays.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("there is no array {name}")))
}

/// Start of an array with one entry per row.
fn column<T: Element>(arrays: &Bound<'_, PyDict>, name: &str, count: usize) -> PyResult<*mut T> {
    let array = array(arrays, name)?.cast_into::<PyArray1<T>>()?;
    if array.len() < count || !array.is_c_contiguous() {
        return Err(PyValueError::new_err(format!("the array {name} does not hold {count} entries in a row")));
    }
    Ok(array.data())
}

fn matrix(arrays: &Bound<'_, PyDict>, name: &str, count: usize) -> PyResult<(*mut u8, Vec<isize>)> {
    let array = array(arrays, name)?.cast_into::<PyUntypedArray>()?;
    if array.shape().first() != Some(&count) || !array.is_c_contiguous() {
        return Err(PyValueError::new_err(format!("the array {name} does not hold {count} rows")));
    }
    // SAFETY: it is an array; only its address is taken.
    let data = unsafe { (*array.as_ptr().cast::<PyArrayObject>()).fields.data.cast() };
    Ok((data, array.shape()[1..].iter().map(|size| *size as isize).collect()))
}

#[guarded("stepper")]
#[pymethods]
impl Stepper {
    #[new]
    fn new(arrays: Bound<'_, PyDict>, count: usize, first: i64, same_step: bool, keeps_infos: bool) -> PyResult<Self> {
        let py = arrays.py();
        let (obs, shape) = matrix(&arrays, "obs", count)?;
        let (final_obs, _) = matrix(&arrays, "final_obs", count)?;
        let descr = array(&arrays, "obs")?.cast_into::<PyUntypedArray>()?.dtype();
        let row_bytes = shape.iter().product::<isize>() as usize * descr.itemsize();
        let floats = descr.is_equiv_to(&dtype::<f32>(py));
        let rows = Rows {
            obs,
            final_obs,
            reward: column(&arrays, "reward", count)?,
            terminated: column(&arrays, "terminated", count)?,
            truncated: column(&arrays, "truncated", count)?,
            cut: column(&arrays, "cut", count)?,
            finished: column(&arrays, "finished", count)?,
            returned: column(&arrays, "return", count)?,
            lasted: column(&arrays, "length", count)?,
            valid: column(&arrays, "valid", count)?,
            over: column(&arrays, "over", count)?,
            seeded: column(&arrays, "seeded", count)?,
            number: column(&arrays, "number", count)?,
            policy: column(&arrays, "policy", count)?,
            next_policy: column(&arrays, "next_policy", count)?,
            total: column(&arrays, "total", count)?,
            length: column(&arrays, "played", count)?,
            brought: column(&arrays, "brought", 1)?,
            weight: column(&arrays, "weight", 1)?,
            pulse: column(&arrays, "pulse", 2)?,
            cursor: column(&arrays, "cursor", 1)?,
        };
        let numpy = py.import("numpy")?;
        let unseeded = PyDict::new(py);
        unseeded.set_item(intern!(py, "seed"), py.None())?;
        Ok(Self {
            envs: Vec::with_capacity(count),
            first,
            same_step,
            rows,
            shape,
            row_bytes,
            floats,
            descr: descr.into_any().unbind(),
            array_type: numpy.getattr("ndarray")?.unbind(),
            bools: (numpy.getattr("False_")?.unbind(), numpy.getattr("True_")?.unbind()),
            unseeded: unseeded.unbind(),
            last_infos: keeps_infos.then(|| PyDict::new(py).unbind()),
            _memory: arrays.unbind(),
        })
    }

    /// Sets the `step` and `reset` of env `at`: the next one, or one that is replaced.
    fn put(&mut self, at: usize, step: Py<PyAny>, reset: Py<PyAny>) -> PyResult<()> {
        if at > self.envs.len() {
            return Err(PyValueError::new_err(format!("there is no env {at}")));
        }
        self.envs.splice(at..self.envs.len().min(at + 1), [(step, reset)]);
        Ok(())
    }

    /// Clears the results of the last step.
    fn clear(&self) {
        let (rows, count) = (&self.rows, self.envs.len());
        // SAFETY: each array has `count` rows, as was checked.
        unsafe {
            for flags in [rows.terminated, rows.truncated, rows.cut, rows.finished] {
                flags.write_bytes(0, count);
            }
            rows.reward.write_bytes(0, count);
            rows.brought.write(0);
        }
    }

    /// Steps the envs from `start` on, each with its action, until one needs Python. Due episodes are begun here if
    /// `may_begin`; the cursor holds the current env, also when an exception is raised.
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyList>,
        start: usize,
        may_begin: bool,
    ) -> PyResult<Option<PythonWork<'py>>> {
        let rows = &self.rows;
        for at in start..self.envs.len() {
            // SAFETY: each array holds a row for every env, as was checked.
            let over = unsafe {
                rows.cursor.write(self.first + at as i64);
                rows.over.add(at).read()
            };
            if !over {
                unsafe { rows.pulse.write(monotonic()) };
                let result = self.envs[at].0.bind(py).call1((actions.get_item(at)?,))?;
                match self.write_result(&result, at) {
                    None => return Ok(Some((at, STEPPED, Some(result)))),
                    Some(false) => continue,
                    Some(true) => {
                        if let Some(infos) = &self.last_infos {
                            infos.bind(py).set_item(at, result.get_item(4)?)?;
                        }
                        self.finish(at);
                    }
                }
                if !self.same_step {
                    continue;
                }
            }
            let work = self.begin(py, at, may_begin)?;
            if work.is_some() {
                return Ok(work);
            }
        }
        unsafe { rows.pulse.write(IDLE) };
        Ok(None)
    }

    /// Removes and returns the infos of the episodes that ended since the last call, by env.
    fn take_infos<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(infos) = &self.last_infos else { return Ok(PyDict::new(py)) };
        let taken = infos.bind(py).copy()?;
        infos.bind(py).clear();
        Ok(taken)
    }
}

impl Stepper {
    /// Writes the result of a step; returns whether the episode is over. Writes nothing if Python must handle the result.
    fn write_result(&self, result: &Bound<'_, PyAny>, at: usize) -> Option<bool> {
        let items = result.cast_exact::<PyTuple>().ok()?;
        if items.len() != 5 {
            return None;
        }
        let reward = items.get_borrowed_item(1).ok()?.extract::<f64>().ok()? as f32;
        let terminated = self.flag(items.get_borrowed_item(2).ok()?)?;
        let truncated = self.flag(items.get_borrowed_item(3).ok()?)?;
        let rows = &self.rows;
        // SAFETY: rows as above.
        unsafe {
            let reward = reward * rows.weight.read();
            if !reward.is_finite() || !self.copy_observation(items.get_borrowed_item(0).ok()?, at) {
                return None;
            }
            rows.reward.add(at).write(reward);
            *rows.total.add(at) += f64::from(reward);
            *rows.length.add(at) += 1;
            rows.terminated.add(at).write(terminated);
            rows.truncated.add(at).write(truncated && !terminated);
        }
        Some(terminated || truncated)
    }

    fn flag(&self, value: Borrowed<'_, '_, PyAny>) -> Option<bool> {
        match value.cast_exact::<PyBool>() {
            Ok(value) => Some(value.is_true()),
            Err(_) if value.is(&self.bools.0) => Some(false),
            Err(_) if value.is(&self.bools.1) => Some(true),
            Err(_) => None,
        }
    }

    /// Copies an observation to its row if it can be copied as it is.
    fn copy_observation(&self, obs: Borrowed<'_, '_, PyAny>, at: usize) -> bool {
        if obs.get_type_ptr().cast() != self.array_type.as_ptr() {
            return false;
        }
        let plain = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;
        // SAFETY: it is an array by its type, with `nd` sizes; a contiguous one of these sizes has as many bytes as a row.
        unsafe {
            let array = &(*obs.as_ptr().cast::<PyArrayObject>()).fields;
            let sizes: &[isize] = match array.nd {
                0 => &[],
                count => std::slice::from_raw_parts(array.dimensions, count as usize),
            };
            if array.descr.cast() != self.descr.as_ptr() || sizes != self.shape || array.flags & plain != plain {
                return false;
            }
            let data = array.data.cast::<u8>();
            let finite = |i| data.cast::<f32>().add(i).read().is_finite();
            if self.floats && !(0..self.row_bytes / 4).all(finite) {
                return false;
            }
            self.rows.obs.add(at * self.row_bytes).copy_from_nonoverlapping(data, self.row_bytes);
        }
        true
    }

    /// Counts the episode that is over.
    fn finish(&self, at: usize) {
        let rows = &self.rows;
        // SAFETY: rows as above.
        unsafe {
            rows.finished.add(at).write(true);
            rows.returned.add(at).write(rows.total.add(at).read() as f32);
            rows.lasted.add(at).write(rows.length.add(at).read());
            *rows.brought |= ENDED;
            if self.same_step {
                let row = at * self.row_bytes;
                rows.final_obs.add(row).copy_from_nonoverlapping(rows.obs.add(row), self.row_bytes);
            } else {
                rows.over.add(at).write(true);
                rows.valid.add(at).write(false);
            }
        }
    }

    /// Begins the next episode, unless its seed or its options are special.
    fn begin<'py>(&self, py: Python<'py>, at: usize, may_begin: bool) -> PyResult<Option<PythonWork<'py>>> {
        let rows = &self.rows;
        // SAFETY: rows as above.
        unsafe {
            if !may_begin || rows.seeded.add(at).read() {
                return Ok(Some((at, DUE, None)));
            }
            rows.pulse.add(1).write(monotonic());
            let result = self.envs[at].1.bind(py).call((), Some(self.unseeded.bind(py)))?;
            rows.pulse.write(IDLE);
            rows.pulse.add(1).write(IDLE);
            let copied = result.cast_exact::<PyTuple>().is_ok_and(|items| {
                items.len() == 2 && items.get_borrowed_item(0).is_ok_and(|obs| self.copy_observation(obs, at))
            });
            if !copied {
                return Ok(Some((at, BEGUN, Some(result))));
            }
            rows.over.add(at).write(false);
            rows.valid.add(at).write(true);
            *rows.number.add(at) += 1;
            rows.policy.add(at).write(rows.next_policy.add(at).read());
            rows.total.add(at).write(0.0);
            rows.length.add(at).write(0);
        }
        Ok(None)
    }
}
