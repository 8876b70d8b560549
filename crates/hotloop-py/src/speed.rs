//! Properties of the machine, for benchmarks.

use hotloop_core::memory::require;
use hotloop_core::simd::Isa;
use hotloop_learn::speed::Shape;
use hotloop_py_macros::guarded;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::convert::to_py_err;
use crate::sequence::Sequence;

/// The instruction set that vectorised code uses.
#[guarded]
#[pyfunction]
pub fn isa() -> PyResult<String> {
    Isa::from_env().map(|isa| isa.to_string()).map_err(PyValueError::new_err)
}

/// The number of cores that this process may use.
#[guarded]
#[pyfunction]
pub fn usable_cores() -> usize {
    hotloop_core::cpu::usable_cores()
}

/// Floating-point operations per second of a loop of multiply-adds and nothing else.
#[guarded]
#[pyfunction]
#[pyo3(signature = (num_threads=1, seconds=0.2))]
pub fn fma_peak(py: Python<'_>, num_threads: usize, seconds: f64) -> PyResult<f64> {
    let isa = Isa::from_env().map_err(PyValueError::new_err)?;
    let threads = num_threads.clamp(1, 4096);
    py.detach(|| hotloop_core::peak::fma_peak(isa, threads, seconds)).map_err(|why| PyOSError::new_err(why.to_string()))
}

/// Samples and floating-point operations per second of the update of a policy of any shape, on made-up rows.
#[guarded]
#[pyfunction]
#[pyo3(signature = (inputs, hidden, actions, *, rows=1024, minibatch_size=16384, num_threads=1, seconds=0.5))]
#[allow(clippy::too_many_arguments)] // Python's keyword arguments
pub fn update_speed(
    py: Python<'_>,
    inputs: usize,
    hidden: Sequence<usize>,
    actions: usize,
    rows: usize,
    minibatch_size: usize,
    num_threads: usize,
    seconds: f64,
) -> PyResult<(f64, f64)> {
    if minibatch_size == 0 {
        return Err(PyValueError::new_err("minibatch_size is 0: expected 1 or more"));
    }
    let bytes = (rows as u128).saturating_mul(4 * (inputs as u128 + actions as u128 + 16));
    require(&format!("a rollout of {rows} rows"), bytes, "use fewer rows").map_err(to_py_err)?;
    let shape = Shape { inputs, hidden: hidden.0, actions, rows, minibatch_size };
    let threads = num_threads.clamp(1, 4096);
    let speed = py.detach(|| hotloop_learn::speed::update_speed(&shape, threads, seconds)).map_err(to_py_err)?;
    Ok((speed.samples, speed.operations))
}
