//! Exact solutions of finite Markov decision processes.

use std::sync::Arc;

use hotloop_envs::table::Table;
use hotloop_learn::tabular::exact::Mdp;
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::registry;

fn table(name: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Arc<Table>> {
    let env = registry::find(name)?;
    hotloop_envs::table_of(name, &registry::resolve(&env, options)?)
        .ok_or_else(|| PyValueError::new_err(format!("{name} with these options cannot be enumerated")))
}

fn mdp(table: &Table) -> Mdp<'_> {
    Mdp {
        actions: table.actions,
        offsets: &table.offsets,
        probability: &table.probability,
        next: &table.next,
        reward: &table.reward,
        terminated: &table.terminated,
        start: &table.start,
        goal: &table.goal,
        legal: &table.legal,
    }
}

/// Optimal value of every state and action, by value iteration; minus infinity for illegal actions.
#[guarded]
#[pyfunction]
#[pyo3(signature = (env, options, gamma, tolerance=1e-12))]
pub fn optimal_values<'py>(
    py: Python<'py>,
    env: &str,
    options: Option<&Bound<'py, PyDict>>,
    gamma: f64,
    tolerance: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let table = table(env, options)?;
    let values = py.detach(|| mdp(&table).optimal_values(gamma, tolerance)).map_err(PyValueError::new_err)?;
    Ok(PyArray1::from_vec(py, values))
}

/// States that some policy reaches and has to act in.
#[guarded]
#[pyfunction]
#[pyo3(signature = (env, options=None))]
pub fn reachable_states<'py>(
    py: Python<'py>,
    env: &str,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    Ok(PyArray1::from_vec(py, mdp(&*table(env, options)?).reachable()))
}

/// Exact statistics of a policy's episodes of at most `limit` steps.
#[guarded]
#[pyfunction]
pub fn evaluate_policy<'py>(
    py: Python<'py>,
    env: &str,
    options: Option<&Bound<'py, PyDict>>,
    policy: PyReadonlyArray1<'py, u32>,
    limit: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let table = table(env, options)?;
    let policy = policy.as_array().to_vec();
    if policy.len() != table.states || policy.iter().any(|action| *action as usize >= table.actions) {
        let (states, actions) = (table.states, table.actions);
        return Err(PyValueError::new_err(format!("expected one of {actions} actions for each of {states} states")));
    }
    let result = py.detach(|| mdp(&table).evaluate(&policy, limit));
    let dict = PyDict::new(py);
    dict.set_item("mean", result.mean)?;
    dict.set_item("length", result.length)?;
    dict.set_item("success", result.success)?;
    dict.set_item("worst", result.worst)?;
    dict.set_item("unfinished", result.unfinished)?;
    Ok(dict)
}
