//! Actions from Python: arrays of the usual types are read in place, anything else is converted by numpy first.

use std::ops::Range;

use hotloop_core::pool::Pool;
use hotloop_core::space::Action;
use numpy::{Element, PyArray1, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::convert::to_py_err;

/// Checks the actions of these groups and passes them to the pool.
pub fn take(pool: &mut Pool, groups: Range<usize>, actions: &Bound<'_, PyAny>) -> PyResult<()> {
    let rows = pool.group_rows(groups.end - 1).end - pool.group_rows(groups.start).start;
    let width = pool.spec().action.width();
    let flat = matches!(pool.spec().action, Action::Discrete { .. });
    let shape: &[usize] = if flat { &[rows] } else { &[rows, width] };
    if matches!(pool.spec().action, Action::Continuous { .. }) {
        if let Some(numbers) = plain::<f32>(actions, shape)? {
            return pool.set_continuous_actions(groups, numbers).map_err(to_py_err);
        }
        if let Some(numbers) = plain::<f64>(actions, shape)? {
            return pool.set_continuous_actions(groups, numbers).map_err(to_py_err);
        }
        let array = converted(actions, "fiu", "float64", "numbers")?;
        let numbers = plain::<f64>(&array, shape)?.expect("just converted");
        pool.set_continuous_actions(groups, numbers).map_err(to_py_err)
    } else {
        if let Some(choices) = plain::<i64>(actions, shape)? {
            return pool.set_discrete_actions(groups, choices).map_err(to_py_err);
        }
        if let Some(choices) = plain::<i32>(actions, shape)? {
            return pool.set_discrete_actions(groups, choices).map_err(to_py_err);
        }
        let array = converted(actions, "iu", "int64", "whole numbers")?;
        let choices = plain::<i64>(&array, shape)?.expect("just converted");
        pool.set_discrete_actions(groups, choices).map_err(to_py_err)
    }
}

/// The elements of a contiguous array of that type; `None` for anything else.
fn plain<'a, T: Element>(actions: &'a Bound<'_, PyAny>, shape: &[usize]) -> PyResult<Option<&'a [T]>> {
    let Ok(array) = actions.cast::<PyArrayDyn<T>>() else { return Ok(None) };
    if array.shape() != shape {
        return Err(PyValueError::new_err(format!("the actions have shape {:?}: expected {shape:?}", array.shape())));
    }
    if !array.is_c_contiguous() {
        return Ok(None);
    }
    // SAFETY: the elements are read before Python code can run again.
    Ok(unsafe { array.as_slice() }.ok())
}

fn converted<'py>(actions: &Bound<'py, PyAny>, kinds: &str, to: &str, what: &str) -> PyResult<Bound<'py, PyAny>> {
    let numpy = actions.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (actions,))?;
    let dtype = array.getattr("dtype")?;
    let kind: String = dtype.getattr("kind")?.extract()?;
    if !kinds.contains(&kind) {
        return Err(PyTypeError::new_err(format!("the actions have dtype {}: expected {what}", dtype.str()?)));
    }
    array.call_method("astype", (to, "C"), None)
}

/// Sampled actions as an array for runners; a row of a hybrid one has the choices, then the real numbers.
pub fn sampled_actions<'py>(
    py: Python<'py>,
    action: &Action,
    discrete: &[i32],
    continuous: &[f32],
) -> PyResult<Bound<'py, PyAny>> {
    match action {
        Action::Discrete { .. } => Ok(PyArray1::from_iter(py, discrete.iter().map(|x| i64::from(*x))).into_any()),
        Action::MultiDiscrete { n } => {
            let flat = PyArray1::from_iter(py, discrete.iter().map(|x| i64::from(*x)));
            Ok(flat.reshape([discrete.len() / n.len(), n.len()])?.into_any())
        }
        Action::Continuous { low, high } | Action::Hybrid { low, high, .. } => {
            let (sets, dims) = (action.choices().len(), low.len());
            let rows = continuous.len() / dims;
            let mut flat = Vec::with_capacity(rows * (sets + dims));
            for row in 0..rows {
                flat.extend(discrete[row * sets..][..sets].iter().map(|choice| *choice as f32));
                let numbers = continuous[row * dims..][..dims].iter().zip(low.iter().zip(high));
                flat.extend(numbers.map(|(x, (low, high))| x.clamp(*low, *high)));
            }
            Ok(PyArray1::from_vec(py, flat).reshape([rows, sets + dims])?.into_any())
        }
    }
}
