//! Long native calls during which Python's signal handlers run.

use std::sync::Mutex;

use hotloop_learn::cancel::CancelToken;
use pyo3::prelude::*;

/// Runs `work` without the GIL, checking for signals; if a handler raises, `work` is cancelled and the exception raised.
pub fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&CancelToken<'_>) -> T + Send) -> PyResult<T> {
    let exception = Mutex::new(None);
    let done = py.detach(|| {
        let poll = || {
            let error = Python::attach(|py| py.check_signals().err());
            let cancelled = error.is_some();
            *exception.lock().expect("no thread panics here") = error;
            cancelled
        };
        work(&CancelToken::new(&poll))
    });
    match exception.into_inner().expect("no thread panics here") {
        Some(error) => Err(error),
        None => Ok(done),
    }
}
