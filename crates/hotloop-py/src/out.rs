//! Arrays of the caller as the destination of a step.

use hotloop_core::pool::{FramePointers, Pool};
use numpy::npyffi::NPY_TYPES;
use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::convert::observation_type;

/// Redirects a step's outcome to the arrays of `out`, after checking them.
pub fn redirect(pool: &Pool, pointers: &mut FramePointers, out: &Bound<'_, PyTuple>) -> PyResult<()> {
    if out.len() != 4 {
        return Err(PyTypeError::new_err("out: expected (observation, reward, terminated, truncated)"));
    }
    let observation = &pool.spec().observation;
    let shape: Vec<usize> = [pool.rows()].iter().chain(observation.shape()).copied().collect();
    let obs = out.get_item(0)?;
    let (first, bytes): (*mut u8, usize) = match observation_type(observation) {
        NPY_TYPES::NPY_FLOAT => target::<f32>(&obs, "observation", &shape)?,
        NPY_TYPES::NPY_UBYTE => target::<u8>(&obs, "observation", &shape)?,
        _ => target::<i64>(&obs, "observation", &shape)?,
    };
    let rows = [pool.rows()];
    let reward = target::<f32>(&out.get_item(1)?, "reward", &rows)?;
    let terminated = target::<bool>(&out.get_item(2)?, "terminated", &rows)?;
    let truncated = target::<bool>(&out.get_item(3)?, "truncated", &rows)?;
    let mut spans = [(first, bytes), reward, terminated, truncated];
    spans.sort_unstable();
    if spans.windows(2).any(|pair| pair[0].0.wrapping_add(pair[0].1) > pair[1].0) {
        return Err(PyValueError::new_err("out: the arrays overlap"));
    }
    pointers.obs = first;
    pointers.reward = reward.0.cast();
    pointers.terminated = terminated.0.cast();
    pointers.truncated = truncated.0.cast();
    Ok(())
}

/// Start and size in bytes of a caller's array, after checking that results can be written to it.
fn target<T: numpy::Element>(array: &Bound<'_, PyAny>, name: &str, shape: &[usize]) -> PyResult<(*mut u8, usize)> {
    let wrong = |why: String| PyValueError::new_err(format!("out: {name} {why}"));
    let Ok(array) = array.cast::<PyArrayDyn<T>>() else {
        let kind = std::any::type_name::<T>();
        return Err(PyTypeError::new_err(format!("out: {name} is not an array of {kind}")));
    };
    if array.shape() != shape {
        return Err(wrong(format!("has shape {:?}: expected {shape:?}", array.shape())));
    }
    let writable: bool = array.getattr("flags")?.getattr("writeable")?.extract()?;
    if !array.is_c_contiguous() || !array.is_aligned() || !writable {
        return Err(wrong("must be C-contiguous, aligned and writable".into()));
    }
    Ok((array.data().cast(), array.len() * size_of::<T>()))
}
