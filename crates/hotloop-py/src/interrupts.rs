//! Native calls of any length that let Python's signal handlers run.

use std::sync::Mutex;

use hotloop_learn::cancel::CancelToken;
use pyo3::prelude::*;

/// Works without the GIL. Signals are looked at meanwhile; if a handler raises, work is given up and that is raised.
pub fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&CancelToken<'_>) -> T + Send) -> PyResult<T> {
    let raised = Mutex::new(None);
    let done = py.detach(|| {
        let ask = || {
            let error = Python::attach(|py| py.check_signals().err());
            let over = error.is_some();
            *raised.lock().expect("no thread panics here") = error;
            over
        };
        work(&CancelToken::new(&ask))
    });
    match raised.into_inner().expect("no thread panics here") {
        Some(error) => Err(error),
        None => Ok(done),
    }
}
