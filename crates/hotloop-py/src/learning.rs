//! Conversion of policy descriptions and of the settings of learners and iterations.

use hotloop_learn::learner::{IterationSettings, PpoSetup};
use hotloop_learn::memory::require_policy;
use hotloop_learn::nn::activation::Activation;
use hotloop_learn::nn::spec::{Cell, EncoderSpec, Head, PolicySpec, RecurrentSpec};
use hotloop_learn::ppo::config::Settings;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{threads_from, to_py_err};
use crate::sequence::Sequence;

/// Removes and returns the value under a key, or the default: keys that are left over are unknown.
fn take<'py, T>(dict: &Bound<'py, PyDict>, key: &str, default: T) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let Some(value) = dict.get_item(key)? else { return Ok(default) };
    dict.del_item(key)?;
    let shown = value.repr()?.to_string();
    value.extract::<T>().map_err(|error| {
        let error: PyErr = error.into();
        PyTypeError::new_err(format!("{key} is {shown}: {}", error.value(dict.py())))
    })
}

fn check_empty(dict: &Bound<'_, PyDict>, what: &str) -> PyResult<()> {
    match dict.keys().iter().next() {
        Some(key) => Err(PyValueError::new_err(format!("{what} has no {key}"))),
        None => Ok(()),
    }
}

/// Converts the keyword arguments that learners and rollouts share; policies without recurrent state have one sequence per
/// row.
pub fn ppo_setup(arguments: Option<&Bound<'_, PyDict>>, sequence_length: Option<usize>) -> PyResult<PpoSetup> {
    let missing = |key: &str| PyTypeError::new_err(format!("the keyword argument {key} is missing"));
    let arguments = arguments.ok_or_else(|| missing("rows"))?.copy()?;
    let horizon = take(&arguments, "horizon", None)?.ok_or_else(|| missing("horizon"))?;
    let setup = PpoSetup {
        rows: take(&arguments, "rows", None)?.ok_or_else(|| missing("rows"))?,
        horizon,
        sequence_length: sequence_length.unwrap_or(horizon),
        seed: take(&arguments, "seed", None)?.ok_or_else(|| missing("seed"))?,
        attempt: take(&arguments, "attempt", 0)?,
        threads: threads_from(take(&arguments, "num_threads", None)?)?,
        first_row: take(&arguments, "first_row", 0)?,
        normalize_observations: take(&arguments, "normalize_observations", false)?,
        normalize_rewards: take(&arguments, "normalize_rewards", false)?,
    };
    match arguments.keys().iter().next() {
        Some(key) => Err(PyTypeError::new_err(format!("unexpected keyword argument {key}"))),
        None => Ok(setup),
    }
}

/// Converts a policy's description for this env.
pub fn policy_spec(env: &hotloop_core::env::Spec, description: &Bound<'_, PyDict>) -> PyResult<PolicySpec> {
    let description = description.copy()?;
    let embedding = take(&description, "embedding", 0)?;
    let log_std = take(&description, "log_std", 0.0)?;
    let activation: String = take(&description, "activation", "tanh".to_string())?;
    let memory: String = take(&description, "memory", "none".to_string())?;
    let (size, layers) = (take(&description, "memory_size", 128)?, take(&description, "memory_layers", 1)?);
    let cell = Cell::parse(&memory).map_err(PyValueError::new_err)?;
    let spec = PolicySpec {
        encoder: EncoderSpec::for_observation(&env.observation, embedding),
        hidden: take(&description, "hidden", Sequence(vec![64, 64]))?.0,
        activation: Activation::parse(&activation).map_err(PyValueError::new_err)?,
        shared: take(&description, "shared", true)?,
        recurrent: cell.map(|cell| RecurrentSpec { cell, size, layers }),
        head: Head::new(&env.action, log_std),
    };
    check_empty(&description, "a policy")?;
    require_policy(&spec).map_err(to_py_err)?;
    Ok(spec)
}

/// Converts settings; returns them with the index of the first iteration they are for.
pub fn iteration_settings(dict: &Bound<'_, PyDict>) -> PyResult<(IterationSettings, u64)> {
    let dict = dict.copy()?;
    let base = Settings::default();
    let settings = IterationSettings {
        ppo: Settings {
            epochs: take(&dict, "epochs", base.epochs)?,
            minibatch_size: take(&dict, "minibatch_size", base.minibatch_size)?,
            learning_rate: take(&dict, "learning_rate", base.learning_rate)?,
            gamma: take(&dict, "gamma", base.gamma)?,
            gae_lambda: take(&dict, "gae_lambda", base.gae_lambda)?,
            clip: take(&dict, "clip", base.clip)?,
            value_clip: take(&dict, "value_clip", base.value_clip)?,
            value_weight: take(&dict, "value_weight", base.value_weight)?,
            entropy: take(&dict, "entropy", base.entropy)?,
            max_gradient_norm: take(&dict, "max_gradient_norm", base.max_gradient_norm)?,
            normalize_advantages: take(&dict, "normalize_advantages", base.normalize_advantages)?,
            target_kl: take(&dict, "target_kl", base.target_kl)?,
            beta1: take(&dict, "beta1", base.beta1)?,
            beta2: take(&dict, "beta2", base.beta2)?,
            epsilon: take(&dict, "epsilon", base.epsilon)?,
        },
        reward_scale: take(&dict, "reward_scale", 1.0)?,
        reward_clip: take(&dict, "reward_clip", f32::INFINITY)?,
    };
    let iteration = take(&dict, "iteration", 0)?;
    check_empty(&dict, "an iteration's settings")?;
    if settings.ppo.minibatch_size == 0 {
        return Err(PyValueError::new_err("minibatch_size is 0: expected 1 or more"));
    }
    Ok((settings, iteration))
}
