//! Choices for Python envs, checked and written where workers read them: whole numbers, one per row, without masks.

use hotloop_core::error::Error;
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::raised;

/// The actions that a runner keeps, and the turn of each of its groups.
#[pyclass(frozen, module = "hotloop._core")]
pub struct Choices {
    kept: Py<PyArray2<i64>>,
    turns: Py<PyArray1<i64>>,
    /// The first row and the one after the last, by group.
    groups: Vec<(usize, usize)>,
    count: i64,
}

#[guarded]
#[pymethods]
impl Choices {
    #[new]
    fn new(
        kept: Bound<'_, PyArray2<i64>>,
        turns: Bound<'_, PyArray1<i64>>,
        groups: Vec<(usize, usize)>,
        count: i64,
    ) -> PyResult<Self> {
        let rows = kept.shape()[1];
        let in_order = groups.iter().try_fold(0, |last, (first, end)| (*first == last && *end > last).then_some(*end));
        if in_order != Some(rows) || turns.len() != groups.len() || !kept.is_c_contiguous() || !turns.is_c_contiguous()
        {
            return Err(PyValueError::new_err(format!("the groups do not make up the {rows} rows")));
        }
        Ok(Self { kept: kept.unbind(), turns: turns.unbind(), groups, count })
    }

    /// Takes the actions of a group, or of all; `false` if they are not plain, and then nothing is written.
    #[pyo3(signature = (actions, group=None))]
    fn take(&self, actions: &Bound<'_, PyAny>, group: Option<usize>) -> PyResult<bool> {
        let Ok(actions) = actions.cast_exact::<PyArray1<i64>>() else { return Ok(false) };
        let groups = match group {
            None => &self.groups[..],
            Some(group) => std::slice::from_ref(
                self.groups.get(group).ok_or_else(|| raised(Error::Input(format!("there is no group {group}"))))?,
            ),
        };
        let (first, end) = (groups[0].0, groups[groups.len() - 1].1);
        let Ok(given) = actions.try_readonly() else { return Ok(false) };
        let Ok(given) = given.as_slice() else { return Ok(false) };
        if given.len() != end - first || !given.iter().all(|choice| (0..self.count).contains(choice)) {
            return Ok(false);
        }
        let (kept, turns) = (self.kept.bind(actions.py()), self.turns.bind(actions.py()));
        let (history, rows) = (kept.shape()[0], kept.shape()[1]);
        for (i, (start, stop)) in groups.iter().enumerate() {
            // SAFETY: a turn per group and a row of actions for each turn kept, as was checked; no worker reads the
            // actions of a group that is not in flight.
            unsafe {
                let turn = turns.data().add(group.unwrap_or(i));
                *turn += 1;
                let to = kept.data().add(*turn as usize % history * rows + start);
                to.copy_from_nonoverlapping(given[start - first..].as_ptr(), stop - start);
            }
        }
        Ok(true)
    }
}
