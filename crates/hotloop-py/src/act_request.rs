//! Requests to act, as Python passes them: `hotloop.policies.protocol.ActRequest`.

use hotloop_core::env::Spec;
use hotloop_core::rng::Stream;
use hotloop_core::space::Action;
use hotloop_learn::nn::spec::Head;
use hotloop_learn::sampler::{ActionArrays, RowIndex, Sampling};
use numpy::npyffi::NPY_TYPES;
use numpy::{PyArray1, PyReadonlyArrayDyn, PyReadwriteArrayDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::actions::sampled_actions;
use crate::convert::{elements, observation_type};

/// The attributes of a request.
#[derive(FromPyObject)]
pub struct ActRequest<'py> {
    pub obs: Bound<'py, PyAny>,
    mask: Option<PyReadonlyArrayDyn<'py, i8>>,
    deterministic: bool,
    pub seed: u64,
    step: u32,
    first_row: u32,
    pub state: Option<PyReadwriteArrayDyn<'py, f32>>,
    valid: Option<PyReadonlyArrayDyn<'py, bool>>,
}

impl ActRequest<'_> {
    /// The action masks; empty if the env has none.
    pub fn mask(&self, spec: &Spec, rows: usize) -> PyResult<Vec<bool>> {
        let mask_len = if spec.masked { spec.action.mask_len() } else { 0 };
        let mask: Vec<bool> = match &self.mask {
            Some(mask) if spec.masked => elements(mask)?.iter().map(|x| *x != 0).collect(),
            _ => vec![true; rows * mask_len],
        };
        if mask.len() != rows * mask_len {
            return Err(PyValueError::new_err(format!("the mask has {} entries for {rows} rows", mask.len())));
        }
        Ok(mask)
    }

    /// Whether each row decides.
    pub fn valid(&self, rows: usize) -> PyResult<Vec<bool>> {
        let valid = match &self.valid {
            Some(valid) => elements(valid)?,
            None => vec![true; rows],
        };
        if valid.len() != rows {
            return Err(PyValueError::new_err(format!("valid has {} entries for {rows} rows", valid.len())));
        }
        Ok(valid)
    }

    /// Indices of all rows, and how their actions are chosen.
    pub fn indices(&self, rows: usize, stream: Stream) -> (Vec<RowIndex>, Sampling) {
        let sampling =
            if self.deterministic { Sampling::Mode } else { Sampling::Random { stream, first_row: self.first_row } };
        ((0..rows as u32).map(|row| RowIndex { at: row, row, step: self.step }).collect(), sampling)
    }
}

/// The bytes of observations, checked against the env's space, and their number.
pub fn observation_bytes(spec: &Spec, obs: &Bound<'_, PyAny>) -> PyResult<(Vec<u8>, usize)> {
    let space = &spec.observation;
    let dtype = match observation_type(space) {
        NPY_TYPES::NPY_FLOAT => "float32",
        NPY_TYPES::NPY_UBYTE => "uint8",
        _ => "int64",
    };
    let array = obs.py().import("numpy")?.call_method1("ascontiguousarray", (obs, dtype))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    if shape.is_empty() || shape[1..] != *space.shape() {
        return Err(PyValueError::new_err(format!(
            "the observations have shape {shape:?}: expected [rows] and then {:?}",
            space.shape()
        )));
    }
    Ok((array.call_method0("tobytes")?.extract()?, shape[0]))
}

/// Actions and log-probabilities of a request.
pub struct ActionBuffers {
    discrete: Vec<i32>,
    continuous: Vec<f32>,
    log_prob: Vec<f32>,
}

impl ActionBuffers {
    /// Allocates buffers for `rows` rows.
    pub fn new(head: &Head, rows: usize) -> Self {
        Self {
            discrete: vec![0; rows * head.sets.len()],
            continuous: vec![0.0; rows * head.dims],
            log_prob: vec![0.0; rows],
        }
    }

    /// The arrays to write to.
    pub fn arrays(&mut self) -> ActionArrays<'_> {
        ActionArrays { discrete: &mut self.discrete, continuous: &mut self.continuous, log_prob: &mut self.log_prob }
    }

    /// Actions and log-probabilities as numpy arrays.
    pub fn into_python<'py>(
        self,
        py: Python<'py>,
        action: &Action,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let actions = sampled_actions(py, action, &self.discrete, &self.continuous)?;
        Ok((actions, PyArray1::from_vec(py, self.log_prob).into_any()))
    }
}
