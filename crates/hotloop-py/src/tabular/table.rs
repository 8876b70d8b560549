//! A table of action values apart from a learner: to act with, to store, to convert.

use std::sync::atomic::Ordering::Relaxed;

use hotloop_core::rng::{Purpose, Stream};
use hotloop_learn::tabular::half;
use hotloop_learn::tabular::table::{BLOCK, Cells, FREE, Shape, Table, Width, check_value};
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{check_actions, require_table};

/// A table of action values.
#[pyclass(module = "hotloop._core", frozen)]
pub struct QTable {
    table: Table,
}

impl QTable {
    /// Copy of a learner's table.
    pub fn copy_of(table: &Table) -> Self {
        Self { table: table.converted(Shape { exchange: false, ..table.shape }) }
    }

    /// Size and kind.
    pub fn shape(&self) -> Shape {
        self.table.shape
    }

    /// Table of the core.
    pub fn inner(&self) -> &Table {
        &self.table
    }

    /// Rows in the order of their states.
    fn ordered(&self) -> Vec<(usize, u64)> {
        let mut rows = self.table.states();
        rows.sort_unstable_by_key(|(_, state)| *state);
        rows
    }
}

#[guarded]
#[pymethods]
impl QTable {
    /// Creates a table from arrays such as `arrays` returns; `states` is 0 for a sparse one.
    #[new]
    fn new(states: usize, actions: usize, initial_value: f64, arrays: &Bound<'_, PyDict>) -> PyResult<Self> {
        let missing =
            |name: &str| PyValueError::new_err(format!("the array {name:?} is missing or has the wrong type"));
        let item = |name: &str| -> PyResult<Option<Bound<'_, PyAny>>> { arrays.get_item(name) };
        let given = item("states")?;
        let has_keys = given.is_some();
        let keys: Vec<u64> = match given {
            Some(keys) => {
                keys.extract::<PyReadonlyArray1<'_, u64>>().map_err(|_| missing("states"))?.as_array().to_vec()
            }
            None if states == 0 => return Err(missing("states")),
            None => Vec::new(),
        };
        let values = item("values")?.ok_or_else(|| missing("values"))?;
        let (width, numbers): (Width, Vec<f32>) = if let Ok(full) = values.extract::<PyReadonlyArray1<'_, f32>>() {
            (Width::Full, full.as_array().to_vec())
        } else {
            let bits = values.extract::<PyReadonlyArray1<'_, u16>>().map_err(|_| missing("values"))?;
            if bits.as_array().iter().any(|bits| !half::is_finite(*bits)) {
                return Err(PyValueError::new_err("the table has f16 values that are not finite"));
            }
            (Width::Half, bits.as_array().iter().map(|bits| half::decode(*bits)).collect())
        };
        let visits: Option<Vec<u32>> = match item("visits")? {
            Some(visits) => {
                Some(visits.extract::<PyReadonlyArray1<'_, u32>>().map_err(|_| missing("visits"))?.as_array().to_vec())
            }
            None => None,
        };
        check_actions(actions)?;
        let rows = if has_keys { keys.len() } else { states };
        let cells = rows.saturating_mul(actions);
        let planes = numbers.len().checked_div(cells).unwrap_or(1);
        let fits = numbers.len() == planes * cells && (1..=2).contains(&planes);
        if !fits || visits.as_ref().is_some_and(|visits| visits.len() != cells) {
            return Err(PyValueError::new_err(format!(
                "the table has {} values for {rows} states: expected {actions} or twice as many for each",
                numbers.len(),
            )));
        }
        numbers.iter().try_for_each(|value| check_value(*value)).map_err(PyValueError::new_err)?;
        let keys = if has_keys { keys } else { (0..states as u64).collect() };
        if states != 0 && keys.iter().any(|state| *state >= states as u64) {
            return Err(PyValueError::new_err(format!("the table has states that are not below {states}")));
        }
        if keys.contains(&FREE) {
            return Err(PyValueError::new_err(format!("the table has state {FREE}, which marks unused slots")));
        }
        let initial = width.initial_value(initial_value).map_err(PyValueError::new_err)?;
        let shape = Shape { states, actions, planes, width, initial, visits: visits.is_some(), exchange: false };
        require_table(shape, 1)?;
        let mut table = Table::new(shape);
        for (index, state) in keys.iter().enumerate() {
            table.reserve(1);
            let row = table.find(*state);
            for action in 0..actions {
                for plane in 0..planes {
                    table.set(row, plane, action, numbers[(index * planes + plane) * actions + action], 0);
                }
                if let Some(visits) = &visits {
                    let line = &table.visits[row * shape.blocks() + action / BLOCK];
                    line.0[action % BLOCK].store(visits[index * actions + action], Relaxed);
                }
            }
        }
        Ok(Self { table })
    }

    /// Arrays of the table: `values` by state, plane and action (f16 as its bits), `states` of a sparse one, `visits` if
    /// they are counted.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (shape, rows) = (self.table.shape, self.ordered());
        let dict = PyDict::new(py);
        if self.table.is_sparse() {
            dict.set_item("states", PyArray1::from_iter(py, rows.iter().map(|(_, state)| *state)))?;
        }
        let entries = || rows.iter().flat_map(|(row, _)| (0..shape.planes * shape.actions).map(move |i| (*row, i)));
        let value = |(row, i): (usize, usize)| self.table.get(row, i / shape.actions, i % shape.actions);
        match &self.table.cells {
            Cells::Full(_) => dict.set_item("values", PyArray1::from_iter(py, entries().map(value)))?,
            Cells::Half(_) => {
                let bits = entries().map(|entry| half::encode(value(entry), 0));
                dict.set_item("values", PyArray1::from_iter(py, bits))?;
            }
        }
        if shape.visits {
            let counts = rows.iter().flat_map(|(row, _)| {
                (0..shape.actions).map(|action| self.table.count(&self.table.visits, *row, action))
            });
            dict.set_item("visits", PyArray1::from_iter(py, counts.collect::<Vec<u32>>()))?;
        }
        Ok(dict)
    }

    /// Copies the values to another kind of table.
    #[pyo3(signature = (states, half))]
    fn converted(&self, states: usize, half: bool) -> PyResult<Self> {
        if let Some((_, state)) = self.table.states().into_iter().find(|(_, s)| states != 0 && *s >= states as u64) {
            return Err(PyValueError::new_err(format!("the table has state {state}: expected less than {states}")));
        }
        let width = if half { Width::Half } else { Width::Full };
        let shape = Shape { states, width, ..self.table.shape };
        require_table(shape, 1)?;
        Ok(Self { table: self.table.converted(shape) })
    }

    /// Greedy action in each state: the first of equal ones, or a random one of them if a seed is given.
    #[pyo3(signature = (states, mask=None, seed=None))]
    fn act<'py>(
        &self,
        py: Python<'py>,
        states: PyReadonlyArray1<'py, i64>,
        mask: Option<PyReadonlyArray2<'py, i8>>,
        seed: Option<u64>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let actions = self.table.shape.actions;
        let draws = seed.map(|seed| Stream::new(seed, 0, Purpose::Action));
        let mask = mask.as_ref().map(PyReadonlyArray2::as_array);
        let states = states.as_array();
        if mask.as_ref().is_some_and(|mask| mask.dim() != (states.len(), actions)) {
            return Err(PyValueError::new_err(format!("the mask must have {actions} entries for each state")));
        }
        let act = |(index, state): (usize, &i64)| -> i64 {
            let row = self.table.look_up(*state as u64);
            let value = |action: usize| row.map_or(self.table.shape.initial, |row| self.table.value(row, action));
            let legal: Vec<usize> =
                (0..actions).filter(|action| mask.as_ref().is_none_or(|mask| mask[[index, *action]] != 0)).collect();
            let best = legal.iter().map(|action| value(*action)).fold(f32::NEG_INFINITY, f32::max);
            let ties: Vec<usize> = legal.into_iter().filter(|action| value(*action) == best).collect();
            let nth = draws.map_or(0, |draws| draws.below(index as u32, ties.len().max(1) as u32) as usize);
            ties.get(nth).map_or(0, |action| *action as i64)
        };
        Ok(PyArray1::from_iter(py, states.iter().enumerate().map(act)))
    }

    /// Action values of a state; the initial value if it was never visited.
    fn values_of<'py>(&self, py: Python<'py>, state: u64) -> Bound<'py, PyArray1<f32>> {
        let row = self.table.look_up(state);
        let value = |action| row.map_or(self.table.shape.initial, |row| self.table.value(row, action));
        PyArray1::from_iter(py, (0..self.table.shape.actions).map(value))
    }

    /// Number of states that have a row.
    #[getter]
    fn rows(&self) -> usize {
        self.table.rows()
    }

    /// Number of states of a dense table; 0 for a sparse one.
    #[getter]
    fn states(&self) -> usize {
        self.table.shape.states
    }

    /// Actions per state.
    #[getter]
    fn actions(&self) -> usize {
        self.table.shape.actions
    }

    /// Whether values are f16.
    #[getter]
    fn half(&self) -> bool {
        self.table.shape.width == Width::Half
    }

    /// Size in bytes.
    #[getter]
    fn bytes(&self) -> u64 {
        self.table.bytes() as u64
    }
}
