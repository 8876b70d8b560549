//! The native envs by name.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use hotloop_core::env::{EnvKind, Spec};
use hotloop_core::error::Error;
use hotloop_core::fields::Describe;
use hotloop_core::foreign;
use hotloop_core::options::Options;
use hotloop_py_macros::guarded;
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{entry, field_type, options, spec_dict, to_py_err};

static ENVS: LazyLock<Vec<Arc<EnvKind>>> =
    LazyLock::new(|| hotloop_envs::all().into_iter().map(|env| Arc::new(env.into())).collect());
/// Foreign envs, by name.
static FOREIGN: LazyLock<RwLock<HashMap<String, Arc<EnvKind>>>> = LazyLock::new(RwLock::default);

/// The env of that name.
pub fn find(name: &str) -> PyResult<Arc<EnvKind>> {
    if let Some(env) = FOREIGN.read().unwrap_or_else(PoisonError::into_inner).get(name) {
        return Ok(env.clone());
    }
    ENVS.iter().find(|env| env.name == name).cloned().ok_or_else(|| {
        if name.contains(':') {
            return PyValueError::new_err(format!("{name} is not loaded"));
        }
        let names: Vec<&str> = ENVS.iter().map(|env| env.name).collect();
        PyValueError::new_err(format!("there is no native env {name:?}; there are {}", names.join(", ")))
    })
}

/// Name, description and options of every native env.
#[guarded]
#[pyfunction]
pub fn list_envs(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    ENVS.iter().map(|env| entry(py, env)).collect()
}

/// Name, description and options of one env, native or foreign.
#[guarded]
#[pyfunction]
pub fn env_entry<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    entry(py, &*find(name)?)
}

/// Registers a foreign env by the address of its table (`hotloop_env` of `hotloop.h`), which must stay valid for the
/// life of the process. An earlier env of that name is replaced; runners that have it keep it.
#[guarded]
#[pyfunction]
pub fn add_env(name: String, table: usize) -> PyResult<()> {
    // SAFETY: the caller vouches for the table; a foreign address cannot be checked.
    let env = unsafe { foreign::kind(&name, table as *const foreign::Table) }
        .map_err(|why| PyValueError::new_err(format!("{name} cannot be used: {why}")))?;
    insert(env);
    Ok(())
}

/// Registers an env under its name.
pub fn insert(env: EnvKind) {
    FOREIGN.write().unwrap_or_else(PoisonError::into_inner).insert(env.name.into(), Arc::new(env));
}

/// Whether there is an env of that name, native or foreign.
#[guarded]
#[pyfunction]
pub fn has_env(name: &str) -> bool {
    find(name).is_ok()
}

/// The options of an env with some changed.
pub fn resolve(env: &EnvKind, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    Options::defaults(env.options.clone()).with(env.name, &options(changes)?).map_err(to_py_err)
}

/// The spec of an env with these options.
pub fn spec_of(env: &EnvKind, options: &Options) -> PyResult<Spec> {
    (env.spec)(options).map_err(|why| to_py_err(Error::Input(format!("options of {}: {why}", env.name))))
}

/// The spec of an env with some options.
pub fn spec(env: &EnvKind, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Spec> {
    spec_of(env, &resolve(env, changes)?)
}

/// The spaces of an env under some options, and its state: name, type and length of every field.
#[guarded]
#[pyfunction]
#[pyo3(signature = (name, options=None))]
pub fn describe<'py>(
    py: Python<'py>,
    name: &str,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let env = find(name)?;
    let options = resolve(&env, options)?;
    let description = spec_dict(py, &spec_of(&env, &options)?)?;
    let mut fields = Describe::default();
    (env.build)(&options, 1).fields(0, &mut fields);
    let state: Vec<_> = fields.0.iter().map(|field| (field.name, field_type(field.kind).0, field.len)).collect();
    description.set_item("state", state)?;
    Ok(description)
}

/// The transition table of an env that is one, as arrays; `None` for other envs.
#[guarded]
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
