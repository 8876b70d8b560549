//! A table that learns from an env that somebody else steps.

use hotloop_core::codec::{Reader, Writer};
use hotloop_learn::tabular::external::External;
use hotloop_learn::tabular::table::Table;
use hotloop_learn::tabular::td_learner::TdLearner;
use hotloop_py_macros::guarded;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::{QTable, get, rule, shape, told};
use crate::convert::raised;

/// Learns one step at a time.
#[pyclass(module = "hotloop._core")]
pub struct ExternalTabularLearner {
    external: External,
}

#[guarded("learner")]
#[pymethods]
impl ExternalTabularLearner {
    #[new]
    fn new(settings: &Bound<'_, PyDict>, states: usize, actions: usize) -> PyResult<Self> {
        let rule = rule(settings)?;
        let table = Table::new(shape(settings, &rule, states, actions)?);
        let mind = TdLearner::new(rule, get(settings, "seed")?, get(settings, "attempt")?, 0);
        Ok(Self { external: External::new(table, states as u64, mind) })
    }

    /// An episode begins in this state; what to do there.
    fn begin(&mut self, state: i64, legal: u64) -> PyResult<usize> {
        self.external.begin(state, legal).map_err(raised)
    }

    /// Learns from what that led to; what to do next.
    fn step(&mut self, reward: f32, terminated: bool, state: i64, legal: u64) -> PyResult<usize> {
        self.external.step(reward, terminated, state, legal).map_err(raised)
    }

    /// What was counted since the last call: only errors, for episodes are counted by who steps the env.
    fn tally<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        told(py, &self.external.take_tally(), &[])
    }

    /// A copy of the table.
    fn table(&self) -> QTable {
        QTable::copy_of(&self.external.table)
    }

    /// Goes on with another table.
    fn set_table(&mut self, table: &QTable) {
        self.external.table = table.inner().converted(self.external.table.shape);
    }

    /// States that have a row.
    #[getter]
    fn rows(&self) -> usize {
        self.external.table.rows()
    }

    /// Bytes of the table.
    #[getter]
    fn bytes(&self) -> u64 {
        self.external.table.bytes() as u64
    }

    /// All but the table and the env.
    fn snapshot<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut out = Writer::default();
        self.external.mind.save(&mut out);
        PyBytes::new(py, out.bytes())
    }

    /// Goes to what was saved; the env begins a new episode.
    fn restore(&mut self, state: &[u8]) -> PyResult<()> {
        self.external.mind.load(&mut Reader::new(state)).map_err(raised)
    }
}
