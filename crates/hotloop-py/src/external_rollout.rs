//! A rollout for policies that are computed elsewhere, as Python sees it.

use hotloop_core::memory::require;
use hotloop_core::rng::{Purpose, Stream};
use hotloop_core::simd::{Kernel, Simd};
use hotloop_learn::acting::Draw;
use hotloop_learn::external_rollout::ExternalRollout as Core;
use hotloop_learn::learner::PpoSetup;
use hotloop_learn::memory::require_rollout;
use hotloop_learn::nn::init::orthogonal;
use hotloop_learn::nn::spec::{Array, Role};
use hotloop_learn::sampling::{Drawn, Outputs, Sampler};
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray2, PyReadonlyArrayDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::actions::drawn_actions;
use crate::convert::{raised, spec_from, threads_from};
use crate::guard;
use crate::learning::iteration_settings;
use crate::pool::Pool;
use crate::reports::rollout_finals;
use crate::rollout::rollout_arrays;
use crate::weights::{moments_into, put_moments};

/// A rollout, its statistics, and everything random about it.
#[pyclass(module = "hotloop._core")]
pub struct ExternalRollout {
    core: Core,
}

struct Act<'a, 'b> {
    sampler: &'a mut Sampler,
    outputs: Outputs<'a>,
    draw: Draw,
    drawn: &'a mut Drawn<'b>,
}

impl Kernel for Act<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.sampler.sample(simd, self.outputs, self.draw, self.drawn);
    }
}

/// The numbers of an array, row after row.
fn numbers(array: &PyReadonlyArray2<'_, f32>) -> Vec<f32> {
    array.as_slice().map_or_else(|_| array.as_array().iter().copied().collect(), <[f32]>::to_vec)
}

#[guarded("rollout")]
#[pymethods]
impl ExternalRollout {
    #[new]
    #[pyo3(signature = (described, *, rows, horizon, seed, attempt=0, num_threads=None, first_row=0,
                        normalize_observations=false, normalize_rewards=false))]
    #[allow(clippy::too_many_arguments)] // Python's keyword arguments
    fn new(
        py: Python<'_>,
        described: &Bound<'_, PyDict>,
        rows: usize,
        horizon: usize,
        seed: u64,
        attempt: u32,
        num_threads: Option<usize>,
        first_row: u32,
        normalize_observations: bool,
        normalize_rewards: bool,
    ) -> PyResult<Self> {
        let spec = spec_from(described)?;
        let threads = threads_from(num_threads)?;
        require_rollout(&spec, rows, horizon).map_err(raised)?;
        let setup = PpoSetup {
            rows,
            horizon,
            sequence_length: horizon,
            seed,
            attempt,
            threads,
            first_row,
            normalize_observations,
            normalize_rewards,
        };
        let core = py.detach(|| Core::new(&spec, setup)).map_err(raised)?;
        Ok(Self { core })
    }

    #[getter]
    fn num_threads(&self) -> usize {
        self.core.threads()
    }

    /// How many numbers a policy puts out for a row, its value not counted.
    #[getter]
    fn outputs(&self) -> usize {
        self.core.outputs()
    }

    /// The rollout's arrays themselves, time first.
    fn rollout<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let mut this = guard::exclusive(slf, "rollout")?;
        let Core { spec, rollout, .. } = &mut this.core;
        rollout_arrays(slf.as_any(), spec, rollout)
    }

    /// Writes what every row of native envs sees now to slot 0.
    fn begin(&mut self, py: Python<'_>, pool: &Bound<'_, Pool>) -> PyResult<()> {
        let mut pool = guard::exclusive(pool, "runner")?;
        let pool = pool.open(py)?;
        let core = &mut self.core;
        py.detach(|| core.begin(pool)).map_err(raised)
    }

    /// Draws every row's action at a slot from a policy's outputs, and steps native envs with them.
    fn step(
        &mut self,
        py: Python<'_>,
        pool: &Bound<'_, Pool>,
        slot: usize,
        outputs: PyReadonlyArray2<'_, f32>,
        iteration: u64,
    ) -> PyResult<()> {
        let mut pool = guard::exclusive(pool, "runner")?;
        let pool = pool.open(py)?;
        let (core, numbers) = (&mut self.core, numbers(&outputs));
        py.detach(|| core.step(pool, slot, &numbers, iteration)).map_err(raised)
    }

    /// What truncated rows of native envs saw last since `begin`: slots, rows and observations, in order.
    #[allow(clippy::unused_self)] // a method to Python
    fn finals<'py>(&self, py: Python<'py>, pool: &Bound<'_, Pool>) -> PyResult<Bound<'py, PyTuple>> {
        rollout_finals(py, guard::exclusive(pool, "runner")?.open(py)?)
    }

    /// Draws the actions of the rows `first..last` at a slot, and keeps them there.
    fn draw<'py>(
        &mut self,
        py: Python<'py>,
        slot: usize,
        rows: (usize, usize),
        outputs: PyReadonlyArray2<'py, f32>,
        iteration: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.core.draw(slot, rows.0..rows.1, &numbers(&outputs), iteration).map_err(raised)?;
        let rollout = &self.core.rollout;
        let (first, last) =
            ((slot * rollout.rows + rows.0) * rollout.width, (slot * rollout.rows + rows.1) * rollout.width);
        let part = |len: usize| if len == 0 { 0..0 } else { first..last };
        let (choices, amounts) =
            (&rollout.choices[part(rollout.choices.len())], &rollout.amounts[part(rollout.amounts.len())]);
        drawn_actions(py, &self.core.spec.action, choices, amounts)
    }

    /// Draws actions from any outputs: actions, and logarithms of their probabilities.
    #[pyo3(signature = (outputs, mask=None, *, deterministic, seed=0, step=0, first_row=0))]
    #[allow(clippy::too_many_arguments)] // Python's keyword arguments
    fn sample<'py>(
        &self,
        py: Python<'py>,
        outputs: PyReadonlyArray2<'py, f32>,
        mask: Option<PyReadonlyArrayDyn<'py, i8>>,
        deterministic: bool,
        seed: u64,
        step: u32,
        first_row: u32,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (core, numbers) = (&self.core, numbers(&outputs));
        let rows = outputs.as_array().nrows();
        if numbers.len() != rows * core.outputs() {
            let (found, expected) = (numbers.len(), rows * core.outputs());
            return Err(PyValueError::new_err(format!("the policy put out {found} numbers: expected {expected}")));
        }
        let mask_len = if core.spec.masked { core.spec.action.mask_len() } else { 0 };
        let allowed: Vec<bool> = match &mask {
            Some(mask) if core.spec.masked => mask.as_array().iter().map(|x| *x != 0).collect(),
            _ => vec![true; rows * mask_len],
        };
        if allowed.len() != rows * mask_len {
            return Err(PyValueError::new_err(format!("the mask has {} entries for {rows} rows", allowed.len())));
        }
        let stream = Stream::new(seed, core.setup.attempt, Purpose::Eval);
        let draw = if deterministic { Draw::Mode } else { Draw::Sample { stream, first_row, step } };
        let (count, discrete) = (rows * core.head.width(), !core.head.sets().is_empty());
        let mut choices = vec![0; if discrete { count } else { 0 }];
        let mut amounts = vec![0.0; if discrete { 0 } else { count }];
        let mut log_prob = vec![0.0; rows];
        core.isa.run(Act {
            sampler: &mut Sampler::new(&core.head, core.spec.masked),
            outputs: Outputs { numbers: &numbers, mask: &allowed },
            draw,
            drawn: &mut Drawn { choices: &mut choices, amounts: &mut amounts, log_prob: &mut log_prob },
        });
        let actions = drawn_actions(py, &core.spec.action, &choices, &amounts)?;
        Ok((actions, PyArray1::from_vec(py, log_prob).into_any()))
    }

    /// Fills advantage, target and weight from the rest of the rollout.
    fn advantages(&mut self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let (settings, _) = iteration_settings(settings)?;
        let core = &mut self.core;
        py.detach(|| core.advantages(&settings));
        Ok(())
    }

    /// Takes the rollout into the running statistics.
    fn watch(&mut self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let (settings, _) = iteration_settings(settings)?;
        let core = &mut self.core;
        py.detach(|| core.watch(&settings));
        Ok(())
    }

    /// How much of the targets' variance the values explain.
    fn explained_variance(&self) -> f64 {
        self.core.explained_variance()
    }

    /// The order of `count` things in an epoch.
    fn order<'py>(
        &self,
        py: Python<'py>,
        iteration: u64,
        epoch: u32,
        count: usize,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        if count > u32::MAX as usize {
            return Err(PyValueError::new_err(format!("count is {count}: expected at most 2**32 - 1")));
        }
        require(&format!("an order of {count} samples"), count as u128 * 12, "use fewer samples").map_err(raised)?;
        let order = self.core.order(iteration, epoch, count);
        Ok(PyArray1::from_iter(py, order.into_iter().map(i64::from)))
    }

    /// Running statistics that belong to the policy.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        if !self.core.observations.mean.is_empty() {
            moments_into(&dict, "observations", &self.core.observations)?;
        }
        if !self.core.running.is_empty() {
            moments_into(&dict, "returns", &self.core.returns)?;
        }
        Ok(dict)
    }

    /// All running statistics.
    fn state<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let dict = Self::statistics(slf, slf.py())?;
        let running = &guard::shared(slf, "rollout")?.core.running;
        if !running.is_empty() {
            dict.set_item("returns.running", PyArray1::from_slice(slf.py(), running))?;
        }
        Ok(dict)
    }

    /// Replaces the statistics that the state names.
    fn set_state(&mut self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        put_moments(&mut self.core.observations, "observations", state)?;
        put_moments(&mut self.core.returns, "returns", state)?;
        if let Some(running) = state.get_item("returns.running")? {
            let running: Vec<f64> = running.extract()?;
            if running.len() != self.core.running.len() {
                let (found, expected) = (running.len(), self.core.running.len());
                return Err(PyValueError::new_err(format!("returns.running has {found} rows: expected {expected}")));
            }
            self.core.running = running;
        }
        Ok(())
    }
}

/// Orthogonal first weights `[outputs, inputs]` of an array that only other learners have; `index` tells it from others.
#[guarded]
#[pyfunction]
#[pyo3(signature = (outputs, inputs, *, gain, seed, attempt, index))]
pub fn orthogonal_weights(
    py: Python<'_>,
    outputs: usize,
    inputs: usize,
    gain: f64,
    seed: u64,
    attempt: u32,
    index: u32,
) -> PyResult<Bound<'_, PyAny>> {
    let bytes = (outputs as u128).saturating_mul(inputs as u128).saturating_mul(4);
    require(&format!("an array of {outputs} by {inputs} weights"), bytes, "use smaller layers").map_err(raised)?;
    let array =
        Array { name: String::new(), role: Role::Outputs, offset: 0, rows: outputs, cols: inputs, stride: inputs };
    let mut params = vec![0.0; outputs * inputs];
    let stream = Stream::new(seed, attempt, Purpose::Init).fold(index);
    orthogonal(&array, stream, |_| gain, &mut params);
    Ok(PyArray1::from_vec(py, params).reshape([outputs, inputs])?.into_any())
}
