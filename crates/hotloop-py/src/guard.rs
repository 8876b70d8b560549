//! The guard at the boundary to Python, which `#[guarded]` puts around every function and method: no panic and no borrow
//! error of `PyO3` gets through.

use hotloop_core::panics;
use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::False;

use crate::convert::env_error;
use crate::testing;

/// Runs the body of the entry point `name`; a panic becomes a `RuntimeError`.
pub fn call<T>(name: &str, body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let result = panics::catch(|| {
        testing::panic_if_requested();
        body()
    });
    result.unwrap_or_else(|panic| {
        if panic.in_env {
            return Err(env_error(panic.message));
        }
        Err(PyRuntimeError::new_err(format!(
            "{panic}, in {name}. This is a bug in Hotloop: please report it. The object may be left half-changed: close it \
             and make a new one"
        )))
    })
}

fn in_use(noun: &str) -> PyErr {
    PyRuntimeError::new_err(format!(
        "another thread is using this {noun}: one thread at a time may call it. Give each thread a {noun} of its own, or \
         hold a lock around its calls"
    ))
}

/// The object for a call that changes it.
pub fn exclusive<'py, T: PyClass<Frozen = False>>(object: &Bound<'py, T>, noun: &str) -> PyResult<PyRefMut<'py, T>> {
    object.try_borrow_mut().map_err(|_| in_use(noun))
}

/// The object for a call that only reads it.
pub fn shared<'py, T: PyClass>(object: &Bound<'py, T>, noun: &str) -> PyResult<PyRef<'py, T>> {
    object.try_borrow().map_err(|_| in_use(noun))
}
