//! Python bindings of tabular learning: settings and engines.

mod exact;
mod external;
mod table;

use std::time::Duration;

use hotloop_core::discrete::MAX_ACTIONS;
use hotloop_core::env::{EnvKind, MAX_STEPS};
use hotloop_core::episodes::Totals;
use hotloop_core::memory::require;
use hotloop_core::options::{Options, Value};
use hotloop_core::simd::Isa;
use hotloop_core::space::{Action, Observation};
use hotloop_envs::{cliff_walking, frozen_lake, table::TableEnv, taxi, tictactoe};
use hotloop_learn::tabular::algorithm::{Algorithm, TdSettings};
use hotloop_learn::tabular::counters::Counters;
use hotloop_learn::tabular::engine::{Engine, EngineSettings, TableSharing, TabularEngine};
use hotloop_learn::tabular::merge::{self, Changes};
use hotloop_learn::tabular::schedule::{Kind, Schedule};
use hotloop_learn::tabular::table::{Shape, Table, Width};
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

pub use exact::{evaluate_policy, optimal_values, reachable_states};
pub use external::ExternalTabularLearner;
pub use table::QTable;

use crate::convert::{elements, to_py_err};
use crate::registry;
use crate::reports::totals_dict;

/// Convert a required setting.
fn get<'py, T: for<'a> FromPyObject<'a, 'py>>(settings: &Bound<'py, PyDict>, key: &str) -> PyResult<T> {
    let value =
        settings.get_item(key)?.ok_or_else(|| PyValueError::new_err(format!("the setting {key:?} is missing")))?;
    value.extract().map_err(|_| PyValueError::new_err(format!("the setting {key:?} is {value:?}")))
}

fn unknown(what: &str, name: &str, known: &str) -> PyErr {
    PyValueError::new_err(format!("there is no {what} {name:?}: expected {known}"))
}

fn schedule(settings: &Bound<'_, PyDict>, key: &str) -> PyResult<Schedule> {
    let (kind, start, floor, scale): (String, f32, f32, f64) = get(settings, key)?;
    let kind = match kind.as_str() {
        "constant" => Kind::Constant,
        "linear" => Kind::Linear,
        "exponential" => Kind::Exponential,
        "visits" => Kind::Visits,
        _ => return Err(unknown("schedule", &kind, "constant, linear, exponential or visits")),
    };
    Ok(Schedule { kind, start, floor, scale })
}

fn td_settings(settings: &Bound<'_, PyDict>) -> PyResult<TdSettings> {
    let algorithm = match get::<String>(settings, "algorithm")?.as_str() {
        "q-learning" => Algorithm::QLearning,
        "sarsa" => Algorithm::Sarsa,
        "expected-sarsa" => Algorithm::ExpectedSarsa,
        "double-q-learning" => Algorithm::DoubleQLearning,
        other => {
            return Err(unknown("tabular algorithm", other, "q-learning, sarsa, expected-sarsa or double-q-learning"));
        }
    };
    let converted = TdSettings {
        algorithm,
        gamma: get(settings, "gamma")?,
        learning_rate: schedule(settings, "learning_rate")?,
        exploration: schedule(settings, "exploration")?,
        batch: get(settings, "batch")?,
        replay: get(settings, "replay")?,
        replays: get(settings, "replays")?,
    };
    converted.check().map_err(PyValueError::new_err)?;
    Ok(converted)
}

fn check_actions(actions: usize) -> PyResult<()> {
    if (1..=MAX_ACTIONS).contains(&actions) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("a table of {actions} actions: expected 1 to {MAX_ACTIONS}")))
}

fn shape(settings: &Bound<'_, PyDict>, learner: &TdSettings, states: usize, actions: usize) -> PyResult<Shape> {
    check_actions(actions)?;
    if states == 0 {
        return Err(PyValueError::new_err("a table of 0 states: expected at least 1"));
    }
    let private: bool = get(settings, "private")?;
    let exchange: bool = get(settings, "exchange")?;
    let width = if get::<String>(settings, "storage")? == "f16" { Width::Half } else { Width::Full };
    let shape = Shape {
        states: if get::<String>(settings, "table")? == "sparse" { 0 } else { states },
        actions,
        planes: learner.algorithm.planes(),
        width,
        initial: width.initial_value(get(settings, "initial_value")?).map_err(PyValueError::new_err)?,
        visits: learner.learning_rate.by_visits() || learner.exploration.by_visits(),
        exchange: private || exchange,
    };
    let tables = if private { get::<usize>(settings, "threads")? } else { 1 };
    require_table(shape, tables)?;
    Ok(shape)
}

/// Reject dense tables that do not fit into memory; sparse ones grow.
fn require_table(shape: Shape, tables: usize) -> PyResult<()> {
    let what = format!("a table of {} states and {} actions", shape.states, shape.actions);
    let bytes = shape.bytes(shape.states).saturating_mul(tables as u128);
    require(&what, bytes, "use a sparse table or fewer threads").map_err(to_py_err)
}

/// Statistics as a dict.
fn statistics<'py>(py: Python<'py>, counters: &Counters, recent: &[(f32, u32)]) -> PyResult<Bound<'py, PyDict>> {
    let Counters { episodes: count, length, total, square, min, max, .. } = *counters;
    let extra = vec![total, counters.successes as f64];
    let dict = totals_dict(py, &Totals { count, length, total, square, min, max, extra })?;
    dict.set_item("error", counters.error)?;
    dict.set_item("updates", counters.updates)?;
    dict.set_item("returns", PyArray1::from_iter(py, recent.iter().map(|(total, _)| *total)))?;
    dict.set_item("lengths", PyArray1::from_iter(py, recent.iter().map(|(_, length)| i64::from(*length))))?;
    Ok(dict)
}

fn max_steps(options: &Options) -> u32 {
    match options.iter().find(|(spec, _)| spec.name == MAX_STEPS) {
        Some((_, Value::Int(steps))) if *steps > 0 => *steps as u32,
        _ => u32::MAX,
    }
}

/// Rejects numbers of states and actions that are not the env's.
fn check_spaces(env: &EnvKind, options: &Options, states: usize, actions: usize) -> PyResult<()> {
    let spec = registry::spec_of(env, options)?;
    let (Observation::Discrete { n: own_states }, Action::Discrete { n: own_actions }) =
        (spec.observation, spec.action)
    else {
        return Err(PyValueError::new_err(format!("{} has no numbered states and actions", env.name)));
    };
    if (states, actions) != (own_states, own_actions) {
        return Err(PyValueError::new_err(format!(
            "{states} states and {actions} actions: {} has {own_states} and {own_actions}",
            env.name
        )));
    }
    Ok(())
}

/// Create the engine whose inner loop has this env compiled in.
fn engine(
    env: &EnvKind,
    options: &Options,
    settings: EngineSettings,
    table: Table,
) -> PyResult<Box<dyn TabularEngine>> {
    Ok(match env.name {
        "tictactoe" if options.text("opponent") == "self" => {
            Box::new(Engine::<tictactoe::Duel>::new(options, settings, table))
        }
        "tictactoe" => Box::new(Engine::<tictactoe::TicTacToe>::new(options, settings, table)),
        "frozen-lake" => Box::new(Engine::<TableEnv<frozen_lake::FrozenLake>>::new(options, settings, table)),
        "cliff-walking" => Box::new(Engine::<TableEnv<cliff_walking::CliffWalking>>::new(options, settings, table)),
        "taxi" => Box::new(Engine::<taxi::Taxi>::new(options, settings, table)),
        other => return Err(PyValueError::new_err(format!("{other} is not compiled into the tabular engine"))),
    })
}

/// A tabular learner for a native env.
#[pyclass(module = "hotloop._core")]
pub struct TabularLearner {
    engine: Box<dyn TabularEngine>,
}

// SAFETY: shared references only read the table and its counters, which are atomic.
unsafe impl Sync for TabularLearner {}

#[guarded("learner")]
#[pymethods]
impl TabularLearner {
    #[new]
    #[pyo3(signature = (env, options, settings, states, actions))]
    fn new(
        env: &str,
        options: Option<&Bound<'_, PyDict>>,
        settings: &Bound<'_, PyDict>,
        states: usize,
        actions: usize,
    ) -> PyResult<Self> {
        let env = registry::find(env)?;
        let options = registry::resolve(&env, options)?;
        let learner = td_settings(settings)?;
        let private: bool = get(settings, "private")?;
        let shape = shape(settings, &learner, states, actions)?;
        check_spaces(&env, &options, states, actions)?;
        let table = Table::new(shape);
        let engine_settings = EngineSettings {
            learner,
            iteration: get(settings, "iteration")?,
            threads: get(settings, "threads")?,
            sharing: if private { TableSharing::Private } else { TableSharing::Shared },
            max_steps: max_steps(&options),
            seed: get(settings, "seed")?,
            attempt: get(settings, "attempt")?,
            first_worker: get(settings, "first_worker")?,
            isa: Isa::from_env().map_err(PyValueError::new_err)?,
        };
        Ok(Self { engine: engine(&env, &options, engine_settings, table)? })
    }

    /// Runs up to `iterations` iterations, none of which begins after `seconds`; returns their number.
    fn advance(&mut self, py: Python<'_>, iterations: usize, seconds: f64) -> usize {
        let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let engine = &mut self.engine;
        py.detach(|| engine.advance(iterations, time))
    }

    /// Takes the statistics since the last call.
    fn take_statistics<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (counters, recent) = self.engine.take_counters();
        statistics(py, &counters, &recent)
    }

    /// A copy of the table.
    fn table(&self) -> QTable {
        QTable::copy_of(self.engine.table())
    }

    /// Replaces the table.
    fn set_table(&mut self, table: &QTable) -> PyResult<()> {
        let own = self.engine.table().shape;
        let theirs = table.shape();
        if own.actions != theirs.actions || (own.states != 0 && theirs.states != 0 && own.states != theirs.states) {
            return Err(PyValueError::new_err(format!(
                "the table has {} states and {} actions: expected {} and {}",
                theirs.states, theirs.actions, own.states, own.actions
            )));
        }
        if let Some((_, state)) =
            table.inner().states().into_iter().find(|(_, s)| own.states != 0 && *s >= own.states as u64)
        {
            return Err(PyValueError::new_err(format!(
                "the table has state {state}: expected less than {}",
                own.states
            )));
        }
        self.engine.set_table(table.inner().converted(own));
        Ok(())
    }

    /// Takes the rows that changed since the last call: states, values, visits.
    #[allow(clippy::type_complexity)]
    fn changes<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<u32>>) {
        let changes = merge::changes(self.engine.table());
        (
            PyArray1::from_vec(py, changes.states),
            PyArray1::from_vec(py, changes.values),
            PyArray1::from_vec(py, changes.visits),
        )
    }

    /// Merges rows that another process changed.
    fn absorb(
        &mut self,
        states: PyReadonlyArray1<'_, u64>,
        values: PyReadonlyArray1<'_, f32>,
        visits: PyReadonlyArray1<'_, u32>,
    ) -> PyResult<()> {
        let changes = Changes { states: elements(&states)?, values: elements(&values)?, visits: elements(&visits)? };
        self.engine.absorb(&changes).map_err(to_py_err)
    }

    /// Steps made by all threads.
    #[getter]
    fn steps(&self) -> u64 {
        self.engine.steps()
    }

    /// Number of states that have a row.
    #[getter]
    fn rows(&self) -> usize {
        self.engine.table().rows()
    }

    /// Size of all tables in bytes.
    #[getter]
    fn bytes(&self) -> u64 {
        self.engine.bytes() as u64
    }

    /// Serialises everything except the table.
    fn snapshot<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.engine.save())
    }

    /// Restores a snapshot; its table must be set before.
    fn restore(&mut self, state: &[u8]) -> PyResult<()> {
        self.engine.load(state).map_err(to_py_err)
    }
}

/// Size in bytes of the tables for `states` states.
#[guarded]
#[pyfunction]
pub fn table_bytes(settings: &Bound<'_, PyDict>, states: usize, actions: usize) -> PyResult<u128> {
    let learner = td_settings(settings)?;
    let one = shape(settings, &learner, states, actions)?.bytes(states);
    let private: bool = get(settings, "private")?;
    Ok(if private { one * get::<usize>(settings, "threads")? as u128 } else { one })
}
