//! Python bindings of the native PPO learner.

use std::time::{Duration, Instant};

use hotloop_core::rng::{Purpose, Stream};
use hotloop_learn::actor::{ActOutputs, ActingPolicy, Observations, RecurrentState};
use hotloop_learn::collector::RolloutCollector;
use hotloop_learn::features::Features;
use hotloop_learn::learner::{IterationReport, PpoLearner as CoreLearner};
use hotloop_learn::memory::require_rollout;
use hotloop_learn::moments::Moments;
use hotloop_learn::nn::policy::Policy;
use hotloop_learn::ppo::loss::Means;
use hotloop_learn::sampler::Masks;
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping};

use crate::act_request::{ActRequest, ActionBuffers, observation_bytes};
use crate::actions::sampled_actions;
use crate::convert::{spec_from_dict, threads_from, to_py_err};
use crate::guard;
use crate::interrupts::interruptible;
use crate::learning::{iteration_settings, policy_spec, ppo_setup};
use crate::pool::Pool;
use crate::registry;
use crate::rollout::rollout_arrays;
use crate::sequence::Sequence;
use crate::weights::{named, put_moments, put_named, put_statistics, statistics_into};

/// A policy that is trained by PPO.
#[pyclass(module = "hotloop._core")]
pub struct PpoLearner {
    learner: CoreLearner,
}

fn report<'py>(py: Python<'py>, means: &Means) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("policy_loss", means.policy_loss)?;
    dict.set_item("value_loss", means.value_loss)?;
    dict.set_item("entropy", means.entropy)?;
    dict.set_item("kl", means.kl)?;
    dict.set_item("clip_fraction", means.clip_fraction)?;
    Ok(dict)
}

/// Name of a policy's recurrent state in checkpoints.
fn state_name(policy: usize) -> String {
    if policy == 0 { "memory".into() } else { format!("memory.{policy}") }
}

#[guarded("learner")]
#[pymethods]
impl PpoLearner {
    #[new]
    #[pyo3(signature = (env, options, policy, *, sequence_length=None, **setup))]
    fn new(
        py: Python<'_>,
        env: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
        policy: &Bound<'_, PyDict>,
        sequence_length: Option<usize>,
        setup: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let spec = match env.cast::<PyDict>() {
            Ok(spec) => spec_from_dict(spec)?,
            Err(_) => registry::spec(&*registry::find(&env.extract::<String>()?)?, options)?,
        };
        let setup = ppo_setup(setup, sequence_length)?;
        let policy = policy_spec(&spec, policy)?;
        require_rollout(&spec, setup.rows, setup.horizon).map_err(to_py_err)?;
        let learner = py.detach(|| CoreLearner::new(&spec, &policy, setup)).map_err(to_py_err)?;
        Ok(Self { learner })
    }

    #[getter]
    fn num_threads(&self) -> usize {
        self.learner.threads()
    }

    /// Changes the number of threads; results do not depend on it.
    fn set_threads(&mut self, py: Python<'_>, threads: usize) -> PyResult<()> {
        let threads = threads_from(Some(threads))?;
        py.detach(|| self.learner.set_threads(threads)).map_err(to_py_err)
    }

    /// Number of weights of the policy.
    #[getter]
    fn parameters(&self) -> usize {
        self.learner.policy().arrays.iter().map(|array| array.rows * array.cols).sum()
    }

    /// Numbers per recurrent state: for each network and layer `h`, then the LSTM's `c`; 0 for feedforward policies.
    #[getter]
    fn memory_len(&self) -> usize {
        self.learner.policy().state_len()
    }

    /// Messages for a person; the native learner has none.
    #[getter]
    #[allow(clippy::unused_self)] // a property of every learner
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Conditions that must be equal for equal bits: none.
    #[allow(clippy::unused_self)] // a method of every learner
    fn conditions<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        PyDict::new(py)
    }

    /// Conditions that differ from those of a checkpoint: none.
    #[allow(clippy::unused_self)] // a method of every learner
    fn changed_since(&self, kept: &Bound<'_, PyMapping>) -> Vec<String> {
        let _ = kept;
        Vec::new()
    }

    /// Multiply-adds of one row through the policy, forward.
    #[getter]
    fn products(&self) -> usize {
        self.learner.policy().products()
    }

    /// Runs up to `count` iterations with equal settings, or as many as begin within `seconds`.
    fn iterate<'py>(
        &mut self,
        py: Python<'py>,
        pool: &Bound<'py, Pool>,
        settings: &Bound<'py, PyDict>,
        count: u64,
        seconds: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (settings, first) = iteration_settings(settings)?;
        let mut pool = guard::exclusive(pool, "runner")?;
        let pool = pool.open(py)?;
        let learner = &mut self.learner;
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let done = interruptible(py, |cancel| {
            let start = Instant::now();
            let mut all: Vec<IterationReport> = Vec::new();
            while all.is_empty() || ((all.len() as u64) < count && start.elapsed() < limit && !cancel.is_cancelled()) {
                all.push(learner.iterate(pool, &settings, first + all.len() as u64, cancel)?);
            }
            Ok(all)
        })?
        .map_err(to_py_err)?;
        let mut means = Means::default();
        for report in &done {
            let (m, n) = (report.update.means, done.len() as f64);
            means.policy_loss += m.policy_loss / n;
            means.value_loss += m.value_loss / n;
            means.entropy += m.entropy / n;
            means.kl += m.kl / n;
            means.clip_fraction += m.clip_fraction / n;
        }
        let dict = report(py, &means)?;
        let mean = |value: &dyn Fn(&IterationReport) -> f64| done.iter().map(value).sum::<f64>() / done.len() as f64;
        let total = |value: &dyn Fn(&IterationReport) -> f64| done.iter().map(value).sum::<f64>();
        let (threads, setup) = (self.learner.threads() as f64, &self.learner.collector.setup);
        dict.set_item("iterations", done.len())?;
        dict.set_item("steps", done.iter().map(|r| r.steps).sum::<u64>())?;
        dict.set_item("rows", (setup.rows * setup.horizon * done.len()) as u64)?;
        dict.set_item("gradient_norm", mean(&|r| r.update.gradient_norm))?;
        dict.set_item("explained_variance", self.learner.explained_variance())?;
        dict.set_item("epochs", mean(&|r| r.update.epochs as f64))?;
        dict.set_item("gradient_steps", done.iter().map(|r| r.update.steps).sum::<usize>())?;
        dict.set_item("dropped", done.iter().map(|r| r.update.dropped).sum::<usize>())?;
        dict.set_item("seconds_env", total(&|r| r.env.as_secs_f64()) / threads)?;
        dict.set_item("seconds_inference", total(&|r| r.inference.as_secs_f64()) / threads)?;
        dict.set_item("seconds_learn", total(&|r| r.learn.as_secs_f64()))?;
        dict.set_item("seconds_total", total(&|r| r.total.as_secs_f64()))?;
        Ok(dict)
    }

    /// Fills the rollout from native envs, advantages included.
    fn collect(&mut self, py: Python<'_>, pool: &Bound<'_, Pool>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let (settings, iteration) = iteration_settings(settings)?;
        let mut pool = guard::exclusive(pool, "runner")?;
        let pool = pool.open(py)?;
        let learner = &mut self.learner;
        interruptible(py, |cancel| learner.collect(pool, &settings, iteration, cancel))?.map_err(to_py_err)
    }

    /// Fills advantage, target and weight from the rest of the rollout.
    fn advantages(&mut self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let (settings, _) = iteration_settings(settings)?;
        let learner = &mut self.learner;
        py.detach(|| learner.advantages(&settings));
        Ok(())
    }

    /// Updates the policy from the rollout.
    fn update<'py>(&mut self, py: Python<'py>, settings: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
        let (settings, iteration) = iteration_settings(settings)?;
        let learner = &mut self.learner;
        let update = interruptible(py, |cancel| learner.update(&settings, iteration, cancel))?;
        let dict = report(py, &update.means)?;
        dict.set_item("gradient_norm", update.gradient_norm)?;
        dict.set_item("epochs", update.epochs)?;
        dict.set_item("gradient_steps", update.steps)?;
        dict.set_item("dropped", update.dropped)?;
        Ok(dict)
    }

    /// The gradient of the whole rollout as one batch, and the loss.
    fn gradient<'py>(
        &mut self,
        py: Python<'py>,
        settings: &Bound<'py, PyDict>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let (settings, _) = iteration_settings(settings)?;
        let learner = &mut self.learner;
        let (gradient, means) = py.detach(|| learner.gradient(&settings));
        Ok((named(py, self.learner.policy(), &gradient, "")?, report(py, &means)?))
    }

    /// Views of the rollout's arrays, time first.
    fn rollout<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let mut this = guard::exclusive(slf, "learner")?;
        let RolloutCollector { spec, rollout, .. } = &mut this.learner.collector;
        rollout_arrays(slf.as_any(), spec, rollout)
    }

    /// Begins a rollout whose envs are stepped elsewhere, with the observations that the last one ended with.
    fn begin_rollout(&mut self) {
        self.learner.collector.begin();
    }

    /// Chooses the actions of these rows, each at its slot, in one forward pass, and stores them in the rollout.
    fn act_rows<'py>(
        &mut self,
        py: Python<'py>,
        slots: PyReadonlyArray1<'py, i64>,
        rows: PyReadonlyArray1<'py, i64>,
        iteration: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let collector = &mut self.learner.collector;
        collector.act(slots.as_slice()?, rows.as_slice()?, iteration).map_err(to_py_err)?;
        let (discrete, continuous) = collector.actions();
        sampled_actions(py, &collector.spec.action, discrete, continuous)
    }

    /// Ends the episodes of those of these rows that terminated or were truncated at their slots.
    #[pyo3(signature = (slots, rows, final_obs=None))]
    fn end_episodes(
        &mut self,
        slots: PyReadonlyArray1<'_, i64>,
        rows: PyReadonlyArray1<'_, i64>,
        final_obs: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let collector = &mut self.learner.collector;
        let bytes = match final_obs {
            Some(obs) => observation_bytes(&collector.spec, obs)?.0,
            None => Vec::new(),
        };
        collector.end_episodes(slots.as_slice()?, rows.as_slice()?, &bytes).map_err(to_py_err)
    }

    /// Computes bootstrap values and advantages of a rollout whose envs were stepped elsewhere.
    fn finish_rollout(&mut self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let (settings, _) = iteration_settings(settings)?;
        let learner = &mut self.learner;
        py.detach(|| {
            learner.collector.bootstrap();
            learner.advantages(&settings);
        });
        Ok(())
    }

    /// Acts on observations that are no part of a rollout: actions, log-probabilities, values.
    #[allow(clippy::type_complexity)] // a tuple of arrays
    fn act<'py>(
        &self,
        py: Python<'py>,
        mut request: ActRequest<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let RolloutCollector { spec, setup, policies, isa, .. } = &self.learner.collector;
        let (bytes, rows) = observation_bytes(spec, &request.obs)?;
        let mask = request.mask(spec, rows)?;
        let policy = &policies[0];
        let state_len = policy.policy.state_len();
        let valid = request.valid(rows)?;
        let (indices, sampling) = request.indices(rows, Stream::new(request.seed, setup.attempt, Purpose::Eval));
        let mut initial = vec![0.0; if request.state.is_none() { rows * state_len } else { 0 }];
        let state = match &mut request.state {
            Some(state) if state.shape() != [rows, state_len] => {
                let found = state.shape();
                return Err(PyValueError::new_err(format!(
                    "state has shape {found:?}: expected [{rows}, {state_len}]"
                )));
            }
            Some(state) => state.as_slice_mut()?,
            None => &mut initial,
        };
        let mut buffers = ActionBuffers::new(&policy.policy.spec.head, rows);
        let mut value = vec![0.0; rows];
        let masks = Masks { per_row: mask.len() / rows.max(1), entries: &mask };
        policy.act_alone(
            *isa,
            &indices,
            Observations { row_bytes: bytes.len() / rows.max(1), bytes: &bytes, masks },
            sampling,
            RecurrentState { values: state, valid: &valid },
            ActOutputs { actions: buffers.arrays(), value: &mut value },
        );
        let (actions, log_prob) = buffers.into_python(py, &spec.action)?;
        Ok((actions, log_prob, PyArray1::from_vec(py, value).into_any()))
    }

    /// Returns the policy's weights by name.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        named(py, self.learner.policy(), &self.learner.policy().params, "")
    }

    /// Replaces the policy's weights.
    fn set_arrays(&mut self, arrays: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut params = self.learner.policy().params.clone();
        put_named(self.learner.policy(), &mut params, arrays, "")?;
        let policy = &mut self.learner.collector.policies[0].policy;
        policy.params = params;
        policy.refresh();
        Ok(())
    }

    /// Running statistics that belong to the policy.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        statistics_into(&dict, &self.learner.statistics, false)?;
        Ok(dict)
    }

    /// The optimiser's moments, all running statistics and recurrent states.
    fn state<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (policy, adam) = (self.learner.policy(), &self.learner.update.adam);
        let dict = named(py, policy, &adam.mean, "adam.mean.")?;
        dict.update(named(py, policy, &adam.square, "adam.square.")?.as_mapping())?;
        dict.set_item("adam.steps", PyArray1::from_slice(py, &[adam.steps]))?;
        statistics_into(&dict, &self.learner.statistics, true)?;
        let collector = &mut self.learner.collector;
        let rows = collector.setup.rows;
        for policy in 0..collector.policies.len() {
            let state = collector.state(policy);
            if !state.is_empty() {
                let shaped = PyArray1::from_slice(py, state).reshape([rows, state.len() / rows])?;
                dict.set_item(state_name(policy), shaped)?;
            }
        }
        Ok(dict)
    }

    /// Replaces the parts that the state has.
    fn set_state(&mut self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        if let Some(steps) = state.get_item("adam.steps")? {
            let Sequence(steps): Sequence<u64> = steps.extract()?;
            let policy = self.learner.policy();
            let (mut mean, mut square) =
                (self.learner.update.adam.mean.clone(), self.learner.update.adam.square.clone());
            put_named(policy, &mut mean, state, "adam.mean.")?;
            put_named(policy, &mut square, state, "adam.square.")?;
            let adam = &mut self.learner.update.adam;
            adam.mean = mean;
            adam.square = square;
            adam.steps = steps.first().copied().unwrap_or_default();
        }
        put_statistics(&mut self.learner.statistics, state)?;
        let collector = &mut self.learner.collector;
        for policy in 0..collector.policies.len() {
            let name = state_name(policy);
            let Some(value) = state.get_item(&name)? else { continue };
            let value = value.extract::<PyReadonlyArrayDyn<'_, f32>>()?;
            let to = collector.state(policy);
            if value.len() != to.len() {
                let (found, expected) = (value.len(), to.len());
                return Err(PyValueError::new_err(format!("{name:?} has {found} numbers: expected {expected}")));
            }
            to.iter_mut().zip(value.as_array()).for_each(|(to, from)| *to = *from);
        }
        self.learner.refresh_features();
        Ok(())
    }

    /// Sets the frozen policies 1, 2, ...: description, weights and statistics of each.
    fn set_opponents(&mut self, policies: &Bound<'_, PyList>) -> PyResult<()> {
        let env = &self.learner.collector.spec;
        let mut opponents = Vec::new();
        for entry in policies.iter() {
            let (description, arrays, statistics) =
                entry.extract::<(Bound<'_, PyDict>, Bound<'_, PyDict>, Bound<'_, PyDict>)>()?;
            let spec = policy_spec(env, &description)?;
            let mut policy = Policy::new(&spec, 0, 0).map_err(PyValueError::new_err)?;
            let mut params = policy.params.clone();
            put_named(&policy, &mut params, &arrays, "")?;
            policy.params = params;
            policy.refresh();
            let mut features = Features::new(&spec.encoder);
            if statistics.contains("observations.count")? {
                let mut moments = Moments::new(env.observation.len());
                put_moments(&mut moments, "observations", &statistics)?;
                features.set_statistics(&moments);
            }
            opponents.push(ActingPolicy { policy, features });
        }
        self.learner.collector.set_opponents(opponents);
        Ok(())
    }
}
