//! A learner's arrays by name: weights, optimiser moments, running statistics.

use hotloop_learn::moments::Moments;
use hotloop_learn::nn::policy::Policy;
use hotloop_learn::statistics::RunningStatistics;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::sequence::Sequence;

/// Splits a vector that is laid out like a policy's parameters into named arrays.
pub fn named<'py>(py: Python<'py>, policy: &Policy, numbers: &[f32], prefix: &str) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for array in &policy.arrays {
        let values = PyArray1::from_iter(py, array.indices().map(|index| numbers[index]));
        dict.set_item(format!("{prefix}{}", array.name), values.reshape(array.shape())?)?;
    }
    Ok(dict)
}

/// Writes named arrays into a vector laid out like a policy's parameters; all or nothing.
pub fn put_named(policy: &Policy, numbers: &mut [f32], arrays: &Bound<'_, PyDict>, prefix: &str) -> PyResult<()> {
    let mut parts = Vec::new();
    for array in &policy.arrays {
        let name = format!("{prefix}{}", array.name);
        let Some(value) = arrays.get_item(&name)? else {
            return Err(PyValueError::new_err(format!("the array {name:?} is missing")));
        };
        let Ok(value) = value.extract::<PyReadonlyArrayDyn<'_, f32>>() else {
            return Err(PyTypeError::new_err(format!("the array {name:?} is not of float32")));
        };
        if value.shape() != array.shape() {
            let (found, expected) = (value.shape(), array.shape());
            return Err(PyValueError::new_err(format!(
                "the array {name:?} has shape {found:?}: expected {expected:?}"
            )));
        }
        parts.push((array, value.as_array().iter().copied().collect::<Vec<f32>>()));
    }
    for (array, values) in parts {
        array.indices().zip(values).for_each(|(index, value)| numbers[index] = value);
    }
    Ok(())
}

/// Replaces moments by those of this name in `state`, if there are any.
pub fn put_moments(moments: &mut Moments, name: &str, state: &Bound<'_, PyDict>) -> PyResult<()> {
    let Some(count) = state.get_item(format!("{name}.count"))? else { return Ok(()) };
    let numbers = |key: &str| -> PyResult<Vec<f64>> {
        let Some(value) = state.get_item(format!("{name}.{key}"))? else {
            return Err(PyValueError::new_err(format!("the array \"{name}.{key}\" is missing")));
        };
        let Sequence(values): Sequence<f64> = value.extract()?;
        if values.len() != moments.mean.len() {
            let (found, expected) = (values.len(), moments.mean.len());
            return Err(PyValueError::new_err(format!("\"{name}.{key}\" has {found} numbers: expected {expected}")));
        }
        Ok(values)
    };
    let (mean, squares) = (numbers("mean")?, numbers("m2")?);
    let Sequence(count): Sequence<f64> = count.extract()?;
    moments.count = count.first().copied().unwrap_or_default();
    moments.mean = mean;
    moments.squares = squares;
    Ok(())
}

fn moments_into(dict: &Bound<'_, PyDict>, name: &str, moments: &Moments) -> PyResult<()> {
    let py = dict.py();
    dict.set_item(format!("{name}.count"), PyArray1::from_slice(py, &[moments.count]))?;
    dict.set_item(format!("{name}.mean"), PyArray1::from_slice(py, &moments.mean))?;
    dict.set_item(format!("{name}.m2"), PyArray1::from_slice(py, &moments.squares))
}

/// Adds running statistics to a dict; `rows` adds each row's return so far, which only a run's state needs.
pub fn statistics_into(dict: &Bound<'_, PyDict>, statistics: &RunningStatistics, rows: bool) -> PyResult<()> {
    if statistics.normalizes_observations() {
        moments_into(dict, "observations", &statistics.observations)?;
    }
    if statistics.normalizes_rewards() {
        moments_into(dict, "returns", &statistics.returns)?;
        if rows {
            dict.set_item("returns.running", PyArray1::from_slice(dict.py(), &statistics.row_returns))?;
        }
    }
    Ok(())
}

/// Replaces the running statistics that `state` has.
pub fn put_statistics(statistics: &mut RunningStatistics, state: &Bound<'_, PyDict>) -> PyResult<()> {
    put_moments(&mut statistics.observations, "observations", state)?;
    put_moments(&mut statistics.returns, "returns", state)?;
    if let Some(running) = state.get_item("returns.running")? {
        let Sequence(running): Sequence<f64> = running.extract()?;
        if running.len() != statistics.row_returns.len() {
            let (found, expected) = (running.len(), statistics.row_returns.len());
            return Err(PyValueError::new_err(format!("returns.running has {found} rows: expected {expected}")));
        }
        statistics.row_returns = running;
    }
    Ok(())
}
