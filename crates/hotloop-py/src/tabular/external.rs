//! Python bindings of the tabular learner for external envs.

use hotloop_core::codec::{Reader, Writer};
use hotloop_learn::tabular::external::ExternalLearner;
use hotloop_learn::tabular::table::Table;
use hotloop_learn::tabular::td_learner::TdLearner;
use hotloop_py_macros::guarded;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::{QTable, get, shape, statistics, td_settings};
use crate::convert::to_py_err;

/// A tabular learner for an env that is stepped by the caller.
#[pyclass(module = "hotloop._core")]
pub struct ExternalTabularLearner {
    core: ExternalLearner,
}

#[guarded("learner")]
#[pymethods]
impl ExternalTabularLearner {
    #[new]
    fn new(settings: &Bound<'_, PyDict>, states: usize, actions: usize) -> PyResult<Self> {
        let td = td_settings(settings)?;
        let table = Table::new(shape(settings, &td, states, actions)?);
        let learner = TdLearner::new(td, get(settings, "seed")?, get(settings, "attempt")?, 0);
        Ok(Self { core: ExternalLearner::new(table, states as u64, learner) })
    }

    /// Begins an episode in `state`; returns the first action.
    fn begin(&mut self, state: i64, legal: u64) -> PyResult<usize> {
        self.core.begin(state, legal).map_err(to_py_err)
    }

    /// Learns from the outcome of the last action; returns the next one.
    fn step(&mut self, reward: f32, terminated: bool, state: i64, legal: u64) -> PyResult<usize> {
        self.core.step(reward, terminated, state, legal).map_err(to_py_err)
    }

    /// Takes the statistics since the last call; the caller, who steps the env, counts episodes.
    fn take_statistics<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        statistics(py, &self.core.take_counters(), &[])
    }

    /// A copy of the table.
    fn table(&self) -> QTable {
        QTable::copy_of(&self.core.table)
    }

    /// Replaces the table.
    fn set_table(&mut self, table: &QTable) {
        self.core.table = table.inner().converted(self.core.table.shape);
    }

    /// Number of states that have a row.
    #[getter]
    fn rows(&self) -> usize {
        self.core.table.rows()
    }

    /// Size of the table in bytes.
    #[getter]
    fn bytes(&self) -> u64 {
        self.core.table.bytes() as u64
    }

    /// Serialises everything except the table and the env.
    fn snapshot<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut out = Writer::default();
        self.core.learner.save(&mut out);
        PyBytes::new(py, out.bytes())
    }

    /// Restores a snapshot; the env begins a new episode.
    fn restore(&mut self, state: &[u8]) -> PyResult<()> {
        self.core.learner.load(&mut Reader::new(state)).map_err(to_py_err)
    }
}
