//! Python bindings of rollouts for policies that are computed elsewhere.

use hotloop_core::memory::require;
use hotloop_core::rng::{Purpose, Stream};
use hotloop_learn::external_rollout::ExternalRollout as Core;
use hotloop_learn::memory::require_rollout;
use hotloop_learn::nn::init::orthogonal;
use hotloop_learn::nn::spec::{Array, Role};
use hotloop_learn::sampler::Masks;
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::act_request::{ActRequest, ActionBuffers};
use crate::actions::sampled_actions;
use crate::convert::{elements, spec_from_dict, to_py_err};
use crate::guard;
use crate::learning::{iteration_settings, ppo_setup};
use crate::pool::Pool;
use crate::reports::rollout_finals;
use crate::rollout::rollout_arrays;
use crate::weights::{put_statistics, statistics_into};

/// A rollout, its statistics and its random streams.
#[pyclass(module = "hotloop._core")]
pub struct ExternalRollout {
    core: Core,
}

/// The outputs of a policy, row by row; an array of another width is refused before it is copied.
fn outputs_of(core: &Core, outputs: &PyReadonlyArray2<'_, f32>) -> PyResult<Vec<f32>> {
    let (width, expected) = (outputs.shape()[1], core.outputs());
    if width != expected {
        return Err(PyValueError::new_err(format!("the policy has {width} outputs per row: expected {expected}")));
    }
    elements(outputs)
}

#[guarded("rollout")]
#[pymethods]
impl ExternalRollout {
    #[new]
    #[pyo3(signature = (spec, **setup))]
    fn new(py: Python<'_>, spec: &Bound<'_, PyDict>, setup: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let spec = spec_from_dict(spec)?;
        let setup = ppo_setup(setup, None)?;
        require_rollout(&spec, setup.rows, setup.horizon).map_err(to_py_err)?;
        let core = py.detach(|| Core::new(&spec, setup)).map_err(to_py_err)?;
        Ok(Self { core })
    }

    #[getter]
    fn num_threads(&self) -> usize {
        self.core.threads()
    }

    /// Numbers per row that the policy passes in, its value not counted.
    #[getter]
    fn outputs(&self) -> usize {
        self.core.outputs()
    }

    /// Views of the rollout's arrays, time first.
    fn rollout<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let mut this = guard::exclusive(slf, "rollout")?;
        let Core { spec, rollout, .. } = &mut this.core;
        rollout_arrays(slf.as_any(), spec, rollout)
    }

    /// Writes the current observations of native envs to slot 0.
    fn observe(&mut self, py: Python<'_>, pool: &Bound<'_, Pool>) -> PyResult<()> {
        let mut pool = guard::exclusive(pool, "runner")?;
        let pool = pool.open(py)?;
        let core = &mut self.core;
        py.detach(|| core.observe(pool)).map_err(to_py_err)
    }

    /// Samples every row's action at a slot from a policy's outputs, and steps native envs with them.
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
        let outputs = outputs_of(&self.core, &outputs)?;
        let core = &mut self.core;
        py.detach(|| core.step(pool, slot, &outputs, iteration)).map_err(to_py_err)
    }

    /// Final observations of rows that were truncated since `observe`: slots, rows and observations, in order.
    #[allow(clippy::unused_self)] // a method to Python
    fn finals<'py>(&self, py: Python<'py>, pool: &Bound<'_, Pool>) -> PyResult<Bound<'py, PyTuple>> {
        rollout_finals(py, guard::exclusive(pool, "runner")?.open(py)?)
    }

    /// Begins a rollout whose envs are stepped elsewhere, with the observations that the last one ended with.
    fn begin(&mut self) {
        self.core.begin();
    }

    /// Samples the actions of these rows, each at its slot, and stores them in the rollout.
    fn sample_rows<'py>(
        &mut self,
        py: Python<'py>,
        slots: PyReadonlyArray1<'py, i64>,
        rows: PyReadonlyArray1<'py, i64>,
        outputs: PyReadonlyArray2<'py, f32>,
        iteration: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let outputs = outputs_of(&self.core, &outputs)?;
        self.core.sample_rows(slots.as_slice()?, rows.as_slice()?, &outputs, iteration).map_err(to_py_err)?;
        let (discrete, continuous) = self.core.actions();
        sampled_actions(py, &self.core.spec.action, discrete, continuous)
    }

    /// Samples the actions of a request from a policy's outputs: actions and log-probabilities.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        outputs: PyReadonlyArray2<'py, f32>,
        request: ActRequest<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (core, rows) = (&self.core, outputs.shape()[0]);
        let outputs = outputs_of(core, &outputs)?;
        let mask = request.mask(&core.spec, rows)?;
        let masks = Masks { per_row: mask.len() / rows.max(1), entries: &mask };
        let (indices, sampling) = request.indices(rows, Stream::new(request.seed, core.setup.attempt, Purpose::Eval));
        let mut buffers = ActionBuffers::new(&core.head, rows);
        core.sample_alone(&indices, &outputs, masks, sampling, buffers.arrays()).map_err(to_py_err)?;
        buffers.into_python(py, &core.spec.action)
    }

    /// Fills advantage, target and weight from the rest of the rollout.
    fn advantages(&mut self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let (settings, _) = iteration_settings(settings)?;
        let core = &mut self.core;
        py.detach(|| core.advantages(&settings));
        Ok(())
    }

    /// Merges the rollout into the running statistics.
    fn update_statistics(&mut self, py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<()> {
        let (settings, _) = iteration_settings(settings)?;
        let core = &mut self.core;
        py.detach(|| core.update_statistics(&settings));
        Ok(())
    }

    /// The fraction of the targets' variance that the values explain.
    fn explained_variance(&self) -> f64 {
        self.core.explained_variance()
    }

    /// A random permutation of `count` items for an epoch.
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
        require(&format!("an order of {count} samples"), count as u128 * 12, "use fewer samples").map_err(to_py_err)?;
        let order = self.core.order(iteration, epoch, count);
        Ok(PyArray1::from_iter(py, order.into_iter().map(i64::from)))
    }

    /// Running statistics that belong to the policy.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        statistics_into(&dict, &self.core.statistics, false)?;
        Ok(dict)
    }

    /// All running statistics.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        statistics_into(&dict, &self.core.statistics, true)?;
        Ok(dict)
    }

    /// Replaces the statistics that the state has.
    fn set_state(&mut self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        put_statistics(&mut self.core.statistics, state)
    }
}

/// Orthogonal initial weights `[outputs, inputs]` of an array that only other learners have; `index` is its key.
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
    require(&format!("an array of {outputs} by {inputs} weights"), bytes, "use smaller layers").map_err(to_py_err)?;
    let array =
        Array { name: String::new(), role: Role::Outputs, offset: 0, rows: outputs, cols: inputs, stride: inputs };
    let mut params = vec![0.0; outputs * inputs];
    let stream = Stream::new(seed, attempt, Purpose::Init).fold(index);
    orthogonal(&array, stream, |_| gain, &mut params);
    Ok(PyArray1::from_vec(py, params).reshape([outputs, inputs])?.into_any())
}
