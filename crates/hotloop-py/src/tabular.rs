//! Learning tables as Python sees it: settings, engines, and the exact answers of tasks that are tables.

mod exact;
mod external;
mod table;

use std::time::Duration;

use hotloop_core::discrete::MOST_ACTIONS;
use hotloop_core::env::{EnvKind, MAX_STEPS};
use hotloop_core::memory::require;
use hotloop_core::options::{Options, Value};
use hotloop_core::simd::Isa;
use hotloop_core::space::{Action, Observation};
use hotloop_envs::{cliff_walking, frozen_lake, table::TableEnv, taxi, tictactoe};
use hotloop_learn::tabular::counters::Tally;
use hotloop_learn::tabular::engine::{Engine, Learns, Plan, Sharing};
use hotloop_learn::tabular::merge::{self, Changes};
use hotloop_learn::tabular::rule::{Algorithm, Rule};
use hotloop_learn::tabular::schedule::{Kind, Schedule};
use hotloop_learn::tabular::table::{Shape, Table, Width};
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

pub use exact::{best_values, policy_earnings, reachable_states};
pub use external::ExternalTabularLearner;
pub use table::QTable;

use crate::convert::raised;
use crate::registry;

/// A setting that must be there.
fn get<'py, T: for<'a> FromPyObject<'a, 'py>>(settings: &Bound<'py, PyDict>, key: &str) -> PyResult<T> {
    let value =
        settings.get_item(key)?.ok_or_else(|| PyValueError::new_err(format!("the setting {key:?} is missing")))?;
    value.extract().map_err(|_| PyValueError::new_err(format!("the setting {key:?} is {value:?}")))
}

fn schedule(settings: &Bound<'_, PyDict>, key: &str) -> PyResult<Schedule> {
    let (kind, start, floor, scale): (String, f32, f32, f64) = get(settings, key)?;
    let kind = match kind.as_str() {
        "constant" => Kind::Constant,
        "linear" => Kind::Linear,
        "exponential" => Kind::Exponential,
        "visits" => Kind::Visits,
        _ => return Err(PyValueError::new_err(format!("there is no schedule {kind:?}"))),
    };
    Ok(Schedule { kind, start, floor, scale })
}

fn rule(settings: &Bound<'_, PyDict>) -> PyResult<Rule> {
    let algorithm = match get::<String>(settings, "algorithm")?.as_str() {
        "q-learning" => Algorithm::QLearning,
        "sarsa" => Algorithm::Sarsa,
        "expected-sarsa" => Algorithm::ExpectedSarsa,
        "double-q-learning" => Algorithm::DoubleQLearning,
        other => return Err(PyValueError::new_err(format!("there is no tabular algorithm {other:?}"))),
    };
    let rule = Rule {
        algorithm,
        gamma: get(settings, "gamma")?,
        learning_rate: schedule(settings, "learning_rate")?,
        exploration: schedule(settings, "exploration")?,
        batch: get(settings, "batch")?,
        replay: get(settings, "replay")?,
        replays: get(settings, "replays")?,
    };
    rule.check().map_err(PyValueError::new_err)?;
    Ok(rule)
}

fn check_actions(actions: usize) -> PyResult<()> {
    if (1..=MOST_ACTIONS).contains(&actions) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("a table of {actions} actions: expected 1 to {MOST_ACTIONS}")))
}

fn shape(settings: &Bound<'_, PyDict>, rule: &Rule, states: usize, actions: usize) -> PyResult<Shape> {
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
        planes: rule.algorithm.planes(),
        width,
        initial: width.initial_value(get(settings, "initial_value")?).map_err(PyValueError::new_err)?,
        visits: rule.learning_rate.by_visits() || rule.exploration.by_visits(),
        fresh: private || exchange,
    };
    let tables = if private { get::<usize>(settings, "threads")? } else { 1 };
    require_table(shape, tables)?;
    Ok(shape)
}

/// Refuses dense tables that do not fit into memory; sparse ones grow.
fn require_table(shape: Shape, tables: usize) -> PyResult<()> {
    let what = format!("a table of {} states and {} actions", shape.states, shape.actions);
    let bytes = shape.bytes(shape.states).saturating_mul(tables as u128);
    require(&what, bytes, "use a sparse table or fewer threads").map_err(raised)
}

/// The sums of a tally, as Python takes them.
fn told<'py>(py: Python<'py>, tally: &Tally, recent: &[(f32, u32)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("count", tally.episodes)?;
    dict.set_item("length", tally.length)?;
    dict.set_item("total", tally.total)?;
    dict.set_item("square", tally.square)?;
    dict.set_item("min", tally.min)?;
    dict.set_item("max", tally.max)?;
    dict.set_item("extra", vec![tally.total, tally.successes as f64])?;
    dict.set_item("error", tally.error)?;
    dict.set_item("updates", tally.updates)?;
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

/// Refuses numbers of states and actions that are not the env's.
fn check_spaces(env: &EnvKind, options: &Options, states: usize, actions: usize) -> PyResult<()> {
    let spec = registry::spec_of(env, options)?;
    let (Observation::Discrete { n: own_states }, Action::Discrete { n: own_actions }) = (spec.observation, spec.action)
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

/// An engine for the env, whose rules are compiled into its loop.
fn engine(env: &EnvKind, options: &Options, plan: Plan, table: Table) -> PyResult<Box<dyn Learns>> {
    Ok(match env.name {
        "tictactoe" if options.text("opponent") == "self" => {
            Box::new(Engine::<tictactoe::Duel>::new(options, plan, table))
        }
        "tictactoe" => Box::new(Engine::<tictactoe::TicTacToe>::new(options, plan, table)),
        "frozen-lake" => Box::new(Engine::<TableEnv<frozen_lake::FrozenLake>>::new(options, plan, table)),
        "cliff-walking" => Box::new(Engine::<TableEnv<cliff_walking::CliffWalking>>::new(options, plan, table)),
        "taxi" => Box::new(Engine::<taxi::Taxi>::new(options, plan, table)),
        other => return Err(PyValueError::new_err(format!("{other} is not compiled into the tabular engine"))),
    })
}

/// A table that learns from a native env.
#[pyclass(module = "hotloop._core")]
pub struct TabularLearner {
    engine: Box<dyn Learns>,
}

// The engine is only used by whoever holds it mutably.
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
        let rule = rule(settings)?;
        let private: bool = get(settings, "private")?;
        let shape = shape(settings, &rule, states, actions)?;
        check_spaces(&env, &options, states, actions)?;
        let table = Table::new(shape);
        let plan = Plan {
            rule,
            iteration: get(settings, "iteration")?,
            threads: get(settings, "threads")?,
            sharing: if private { Sharing::Nothing } else { Sharing::Table },
            max_steps: max_steps(&options),
            seed: get(settings, "seed")?,
            attempt: get(settings, "attempt")?,
            first_worker: get(settings, "first_worker")?,
            isa: Isa::from_env().map_err(PyValueError::new_err)?,
        };
        Ok(Self { engine: engine(&env, &options, plan, table)? })
    }

    /// Makes up to so many iterations, none of which begins after these seconds; how many were made.
    fn advance(&mut self, py: Python<'_>, iterations: usize, seconds: f64) -> usize {
        let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let engine = &mut self.engine;
        py.detach(|| engine.advance(iterations, time))
    }

    /// What was counted since the last call.
    fn tally<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (tally, recent) = self.engine.tally();
        told(py, &tally, &recent)
    }

    /// A copy of the table.
    fn table(&self) -> QTable {
        QTable::copy_of(self.engine.table())
    }

    /// Goes on with another table.
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
        let found = merge::changes(self.engine.table());
        (
            PyArray1::from_vec(py, found.states),
            PyArray1::from_vec(py, found.values),
            PyArray1::from_vec(py, found.visits),
        )
    }

    /// Takes over rows that another process learned.
    fn absorb(
        &mut self,
        states: PyReadonlyArray1<'_, u64>,
        values: PyReadonlyArray1<'_, f32>,
        visits: PyReadonlyArray1<'_, u32>,
    ) -> PyResult<()> {
        let changes = Changes {
            states: states.as_array().to_vec(),
            values: values.as_array().to_vec(),
            visits: visits.as_array().to_vec(),
        };
        self.engine.absorb(&changes).map_err(raised)
    }

    /// Steps made by all threads.
    #[getter]
    fn steps(&self) -> u64 {
        self.engine.steps()
    }

    /// States that have a row.
    #[getter]
    fn rows(&self) -> usize {
        self.engine.table().rows()
    }

    /// Bytes of all tables.
    #[getter]
    fn bytes(&self) -> u64 {
        self.engine.bytes() as u64
    }

    /// All but the table.
    fn snapshot<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.engine.save())
    }

    /// Goes to what was saved; its table must be in place.
    fn restore(&mut self, state: &[u8]) -> PyResult<()> {
        self.engine.load(state).map_err(raised)
    }
}

/// The bytes of a table with so many states.
#[guarded]
#[pyfunction]
pub fn table_bytes(settings: &Bound<'_, PyDict>, states: usize, actions: usize) -> PyResult<u128> {
    let rule = rule(settings)?;
    let one = shape(settings, &rule, states, actions)?.bytes(states);
    let private: bool = get(settings, "private")?;
    Ok(if private { one * get::<usize>(settings, "threads")? as u128 } else { one })
}
