//! Discrete actions of Python envs, one per row and without masks: checked and written to the memory that workers read.

use hotloop_core::error::Error;
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::to_py_err;
use crate::sequence::Sequence;

/// A runner's history of actions, and the turn of each of its groups.
#[pyclass(frozen, module = "hotloop._core")]
pub struct Choices {
    history: Py<PyArray2<i64>>,
    turns: Py<PyArray1<i64>>,
    /// First row of each group and the one after its last.
    groups: Vec<(usize, usize)>,
    count: i64,
}

#[guarded]
#[pymethods]
impl Choices {
    #[new]
    fn new(
        history: Bound<'_, PyArray2<i64>>,
        turns: Bound<'_, PyArray1<i64>>,
        groups: Sequence<(usize, usize)>,
        count: i64,
    ) -> PyResult<Self> {
        let Sequence(groups) = groups;
        let rows = history.shape()[1];
        let in_order = groups.iter().try_fold(0, |last, (first, end)| (*first == last && *end > last).then_some(*end));
        if in_order != Some(rows)
            || turns.len() != groups.len()
            || !history.is_c_contiguous()
            || !turns.is_c_contiguous()
        {
            return Err(PyValueError::new_err(format!("the groups do not cover the {rows} rows")));
        }
        Ok(Self { history: history.unbind(), turns: turns.unbind(), groups, count })
    }

    /// Writes the actions of a group, or of all; returns `false` and writes nothing unless they are an int64 array within
    /// range.
    #[pyo3(signature = (actions, group=None))]
    fn take(&self, actions: &Bound<'_, PyAny>, group: Option<usize>) -> PyResult<bool> {
        let Ok(actions) = actions.cast_exact::<PyArray1<i64>>() else { return Ok(false) };
        let groups = match group {
            None => &self.groups[..],
            Some(group) => std::slice::from_ref(
                self.groups.get(group).ok_or_else(|| to_py_err(Error::Input(format!("there is no group {group}"))))?,
            ),
        };
        let (first, end) = (groups[0].0, groups[groups.len() - 1].1);
        let Ok(given) = actions.try_readonly() else { return Ok(false) };
        let Ok(given) = given.as_slice() else { return Ok(false) };
        if given.len() != end - first || !given.iter().all(|choice| (0..self.count).contains(choice)) {
            return Ok(false);
        }
        let (history, turns) = (self.history.bind(actions.py()), self.turns.bind(actions.py()));
        let (slots, rows) = (history.shape()[0], history.shape()[1]);
        for (i, (start, stop)) in groups.iter().enumerate() {
            // SAFETY: there is a turn per group and a slot for each turn, as was checked; no worker reads the actions of a
            // group that is not in flight.
            unsafe {
                let turn = turns.data().add(group.unwrap_or(i));
                *turn += 1;
                let to = history.data().add(*turn as usize % slots * rows + start);
                to.copy_from_nonoverlapping(given[start - first..].as_ptr(), stop - start);
            }
        }
        Ok(true)
    }
}
