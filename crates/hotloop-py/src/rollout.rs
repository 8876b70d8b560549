//! Numpy views of a rollout's arrays.

use hotloop_core::env::Spec;
use hotloop_core::space::Action;
use hotloop_learn::ppo::rollout::Rollout;
use numpy::npyffi::NPY_TYPES;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::observation_type;
use crate::memory::view_of;

/// Views of the arrays, time first; `owner` keeps the rollout alive, whose arrays never move.
pub fn rollout_arrays<'py>(
    owner: &Bound<'py, PyAny>,
    spec: &Spec,
    rollout: &mut Rollout,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(owner.py());
    let shape = spec.observation.shape().to_vec();
    let kind = observation_type(&spec.observation);
    let (steps, rows, mask_len) = (rollout.horizon, rollout.rows, rollout.mask_len);
    let put = |name: &str, kind: NPY_TYPES, start: *mut u8, slots: usize, rest: &[usize]| -> PyResult<()> {
        let shape: Vec<usize> = [slots, rows].iter().chain(rest).copied().collect();
        dict.set_item(name, view_of(owner, kind, start, &shape)?)
    };
    let sets: &[usize] = if matches!(spec.action, Action::Discrete { .. }) { &[] } else { &[rollout.sets] };
    put("obs", kind, rollout.obs.as_mut_ptr(), steps + 1, &shape)?;
    if mask_len > 0 {
        put("mask", NPY_TYPES::NPY_BOOL, rollout.mask.as_mut_ptr().cast(), steps + 1, &[mask_len])?;
    }
    put("valid", NPY_TYPES::NPY_BOOL, rollout.valid.as_mut_ptr().cast(), steps + 1, &[])?;
    put("policy", NPY_TYPES::NPY_INT, rollout.policy.as_mut_ptr().cast(), steps + 1, &[])?;
    if rollout.sets > 0 {
        put("action", NPY_TYPES::NPY_INT, rollout.discrete.as_mut_ptr().cast(), steps, sets)?;
    }
    if rollout.dims > 0 {
        let name = if rollout.sets > 0 { "continuous_action" } else { "action" };
        put(name, NPY_TYPES::NPY_FLOAT, rollout.continuous.as_mut_ptr().cast(), steps, &[rollout.dims])?;
    }
    put("value", NPY_TYPES::NPY_FLOAT, rollout.value.as_mut_ptr().cast(), steps + 1, &[])?;
    for (name, array) in [
        ("log_prob", &mut rollout.log_prob),
        ("reward", &mut rollout.reward),
        ("bootstrap", &mut rollout.bootstrap),
        ("advantage", &mut rollout.advantage),
        ("target", &mut rollout.target),
        ("weight", &mut rollout.weight),
    ] {
        put(name, NPY_TYPES::NPY_FLOAT, array.as_mut_ptr().cast(), steps, &[])?;
    }
    for (name, array) in
        [("terminated", &mut rollout.terminated), ("truncated", &mut rollout.truncated), ("cut", &mut rollout.cut)]
    {
        put(name, NPY_TYPES::NPY_BOOL, array.as_mut_ptr().cast(), steps, &[])?;
    }
    if rollout.state_len > 0 {
        let sequences = steps / rollout.sequence_length;
        let start = rollout.sequence_starts.as_mut_ptr().cast();
        put("memory", NPY_TYPES::NPY_FLOAT, start, sequences, &[rollout.state_len])?;
    }
    Ok(dict)
}
