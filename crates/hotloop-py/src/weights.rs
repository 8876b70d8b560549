//! A learner's numbers by name: weights, the optimiser's moments, running statistics.

use hotloop_learn::moments::Moments;
use hotloop_learn::nn::policy::Policy;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The named arrays of a policy, taken from a vector laid out like its parameters.
pub fn named<'py>(py: Python<'py>, policy: &Policy, numbers: &[f32], prefix: &str) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for array in &policy.arrays {
        let values = PyArray1::from_iter(py, array.places().map(|place| numbers[place]));
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
        array.places().zip(values).for_each(|(place, value)| numbers[place] = value);
    }
    Ok(())
}

/// Replaces running statistics by those that `state` holds under this name, if it holds any.
pub fn put_moments(moments: &mut Moments, name: &str, state: &Bound<'_, PyDict>) -> PyResult<()> {
    let Some(count) = state.get_item(format!("{name}.count"))? else { return Ok(()) };
    let numbers = |key: &str| -> PyResult<Vec<f64>> {
        let Some(value) = state.get_item(format!("{name}.{key}"))? else {
            return Err(PyValueError::new_err(format!("the array \"{name}.{key}\" is missing")));
        };
        let values: Vec<f64> = value.extract()?;
        if values.len() != moments.mean.len() {
            let (found, expected) = (values.len(), moments.mean.len());
            return Err(PyValueError::new_err(format!("\"{name}.{key}\" has {found} numbers: expected {expected}")));
        }
        Ok(values)
    };
    let (mean, squares) = (numbers("mean")?, numbers("m2")?);
    let count: Vec<f64> = count.extract()?;
    moments.count = count.first().copied().unwrap_or_default();
    moments.mean = mean;
    moments.squares = squares;
    Ok(())
}

/// Puts running statistics under this name.
pub fn moments_into(dict: &Bound<'_, PyDict>, name: &str, moments: &Moments) -> PyResult<()> {
    let py = dict.py();
    dict.set_item(format!("{name}.count"), PyArray1::from_slice(py, &[moments.count]))?;
    dict.set_item(format!("{name}.mean"), PyArray1::from_slice(py, &moments.mean))?;
    dict.set_item(format!("{name}.m2"), PyArray1::from_slice(py, &moments.squares))
}
