//! The native envs by name.

use std::sync::{Arc, LazyLock};

use hotloop_core::env::{EnvType, Spec};
use hotloop_core::error::Error;
use hotloop_core::fields::Describe;
use hotloop_core::options::Options;
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{described, entry, field_type, options, raised};

static ENVS: LazyLock<Vec<Arc<EnvType>>> = LazyLock::new(|| hotloop_envs::all().into_iter().map(Arc::new).collect());

/// The env of that name.
pub fn find(name: &str) -> PyResult<Arc<EnvType>> {
    ENVS.iter().find(|env| env.name == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = ENVS.iter().map(|env| env.name).collect();
        PyValueError::new_err(format!("there is no native env {name:?}; there are {}", names.join(", ")))
    })
}

/// Name, description and options of every native env.
#[pyfunction]
pub fn list_envs(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    ENVS.iter().map(|env| entry(py, env)).collect()
}

/// The options of an env with some changed.
pub fn resolve(env: &EnvType, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    Options::defaults(env.options.clone()).with(env.name, &options(changes)?).map_err(raised)
}

fn spec_of(env: &EnvType, options: &Options) -> PyResult<Spec> {
    (env.spec)(options).map_err(|why| raised(Error::Input(format!("options of {}: {why}", env.name))))
}

/// What an env shows and takes under some options.
pub fn spec(env: &EnvType, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Spec> {
    spec_of(env, &resolve(env, changes)?)
}

/// The spaces of an env under some options, and its state: name, type and length of every field.
#[pyfunction]
#[pyo3(signature = (name, options=None))]
pub fn describe<'py>(
    py: Python<'py>,
    name: &str,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let env = find(name)?;
    let options = resolve(&env, options)?;
    let described = described(py, &spec_of(&env, &options)?)?;
    let mut fields = Describe::default();
    (env.build)(&options, 1).fields(0, &mut fields);
    let state: Vec<_> = fields.0.iter().map(|field| (field.name, field_type(field.kind).0, field.len)).collect();
    described.set_item("state", state)?;
    Ok(described)
}

/// The transition table of an env that is one, as arrays; `None` for other envs.
#[pyfunction]
#[pyo3(signature = (name, options=None))]
pub fn transitions<'py>(
    py: Python<'py>,
    name: &str,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let env = find(name)?;
    let Some(table) = hotloop_envs::table_of(name, &resolve(&env, options)?) else { return Ok(None) };
    let dict = PyDict::new(py);
    dict.set_item("states", table.states)?;
    dict.set_item("actions", table.actions)?;
    dict.set_item("offsets", PyArray1::from_slice(py, &table.offsets))?;
    dict.set_item("probability", PyArray1::from_slice(py, &table.probability))?;
    dict.set_item("next", PyArray1::from_slice(py, &table.next))?;
    dict.set_item("reward", PyArray1::from_slice(py, &table.reward))?;
    dict.set_item("terminated", PyArray1::from_slice(py, &table.terminated))?;
    dict.set_item("start", PyArray1::from_slice(py, &table.start))?;
    dict.set_item("goal", PyArray1::from_slice(py, &table.goal))?;
    let legal = (!table.legal.is_empty()).then(|| PyArray1::from_slice(py, &table.legal));
    dict.set_item("legal", legal)?;
    Ok(Some(dict))
}
