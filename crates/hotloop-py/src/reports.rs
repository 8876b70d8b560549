//! Reports of the core for Python: finished episodes, faults, final observations.

use hotloop_core::episodes::Totals;
use hotloop_core::pool::Pool;
use numpy::npyffi::NPY_TYPES;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::convert::observation_type;
use crate::memory::copied;

/// Converts sums over episodes to a dict.
pub fn totals_dict<'py>(py: Python<'py>, totals: &Totals) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", totals.count)?;
    dict.set_item("length", totals.length)?;
    dict.set_item("total", totals.total)?;
    dict.set_item("square", totals.square)?;
    dict.set_item("min", totals.min)?;
    dict.set_item("max", totals.max)?;
    dict.set_item("extra", &totals.extra)?;
    Ok(dict)
}

/// Sums over the episodes that ended since the last call, and the last few of each row.
pub fn episodes<'py>(py: Python<'py>, pool: &Pool) -> PyResult<Bound<'py, PyDict>> {
    let spec = pool.spec();
    let extra = spec.terms.len() + spec.metrics.len();
    let mut totals = Totals::new(extra);
    let mut recent = Vec::new();
    let mut rows = Vec::new();
    pool.group_states(|group_state| {
        let before = recent.len();
        group_state.episodes.report(&mut totals, &mut recent);
        group_state.episodes.clear();
        rows.extend(recent[before..].iter().map(|e| e.row as usize + group_state.first_env * spec.seats));
    });
    let mut order: Vec<usize> = (0..recent.len()).collect();
    order.sort_by_key(|i| (recent[*i].tick, rows[*i]));
    let sorted = || order.iter().map(|i| &recent[*i]);
    let dict = totals_dict(py, &totals)?;
    dict.set_item("rows", PyArray1::from_iter(py, order.iter().map(|i| rows[*i] as i64)))?;
    dict.set_item("numbers", PyArray1::from_iter(py, sorted().map(|e| i64::from(e.episode))))?;
    dict.set_item("lengths", PyArray1::from_iter(py, sorted().map(|e| i64::from(e.length))))?;
    dict.set_item("returns", PyArray1::from_iter(py, sorted().map(|e| e.total)))?;
    let extras = PyArray1::from_iter(py, sorted().flat_map(|e| e.extra.iter().copied()));
    dict.set_item("extras", extras.reshape([recent.len(), extra])?)?;
    Ok(dict)
}

/// A fault: env, episode, step, cause.
pub type FaultEntry = (usize, u32, u32, String);

/// Number of faults since the last call, and the first of them.
pub fn faults(pool: &Pool) -> (u64, Vec<FaultEntry>) {
    let (mut count, mut faults) = (0, Vec::new());
    pool.group_states(|group_state| {
        count += std::mem::take(&mut group_state.fault_count);
        let first = group_state.first_env;
        faults.extend(group_state.faults.drain(..).map(|f| (first + f.env, f.episode, f.step, f.what)));
    });
    (count, faults)
}

/// Final observations and infos of rows whose envs were reset in the same step.
#[derive(Default)]
struct FinalObservations {
    slots: Vec<i64>,
    rows: Vec<i64>,
    obs: Vec<u8>,
    infos: Vec<u8>,
    mask: Vec<u8>,
}

impl FinalObservations {
    fn observations<'py>(&self, py: Python<'py>, pool: &Pool) -> PyResult<Bound<'py, PyAny>> {
        let observation = &pool.spec().observation;
        let shape: Vec<usize> = [self.rows.len()].iter().chain(observation.shape()).copied().collect();
        copied(py, observation_type(observation), &shape, &self.obs)
    }
}

/// Collects the final observations of these groups; rows are numbered through all of them.
fn collect(pool: &Pool, groups: &[usize]) -> FinalObservations {
    let mut all = FinalObservations::default();
    let mut first = 0;
    for group in groups {
        pool.finals(*group, |finals| {
            all.slots.extend(finals.slots.iter().map(|slot| i64::from(*slot)));
            all.rows.extend(finals.rows.iter().map(|row| first + i64::from(*row)));
            all.obs.extend_from_slice(&finals.obs);
            all.infos.extend(finals.infos.iter().flat_map(|x| x.to_ne_bytes()));
            all.mask.extend(finals.mask.iter().map(|x| u8::from(*x)));
        });
        first += pool.group_rows(*group).len() as i64;
    }
    all
}

/// Final observations of one step of these groups: positions in their batch, observations, infos, masks. `None` if no row
/// ended.
pub fn finals<'py>(py: Python<'py>, pool: &Pool, groups: &[usize]) -> PyResult<Option<Bound<'py, PyTuple>>> {
    if groups.iter().all(|group| pool.finals(*group, |finals| finals.rows.is_empty())) {
        return Ok(None);
    }
    let all = collect(pool, groups);
    let count = all.rows.len();
    let items = [
        PyArray1::from_slice(py, &all.rows).into_any(),
        all.observations(py, pool)?,
        copied(py, NPY_TYPES::NPY_FLOAT, &[count, all.infos.len() / (4 * count)], &all.infos)?,
        copied(py, NPY_TYPES::NPY_BYTE, &[count, all.mask.len() / count], &all.mask)?,
    ];
    PyTuple::new(py, items).map(Some)
}

/// Final observations of a whole rollout: slots, rows, observations, ordered by slot and row.
pub fn rollout_finals<'py>(py: Python<'py>, pool: &Pool) -> PyResult<Bound<'py, PyTuple>> {
    let groups: Vec<usize> = (0..pool.groups()).collect();
    let all = collect(pool, &groups);
    let mut order: Vec<usize> = (0..all.rows.len()).collect();
    order.sort_by_key(|i| (all.slots[*i], all.rows[*i]));
    let bytes = pool.spec().observation.row_bytes();
    let sorted = FinalObservations {
        slots: order.iter().map(|i| all.slots[*i]).collect(),
        rows: order.iter().map(|i| all.rows[*i]).collect(),
        obs: order.iter().flat_map(|i| &all.obs[i * bytes..(i + 1) * bytes]).copied().collect(),
        ..FinalObservations::default()
    };
    let items = [
        PyArray1::from_slice(py, &sorted.slots).into_any(),
        PyArray1::from_slice(py, &sorted.rows).into_any(),
        sorted.observations(py, pool)?,
    ];
    PyTuple::new(py, items)
}
