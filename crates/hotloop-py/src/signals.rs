//! Python bindings of the words with which a runner and its worker processes wake each other.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use hotloop_core::signals;
use hotloop_py_macros::guarded;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::sequence::Sequence;

/// Words in the memory of an array, which it keeps alive.
#[pyclass(frozen, module = "hotloop._core")]
pub struct Signals {
    start: *const AtomicU32,
    workers: usize,
    groups: usize,
    _memory: Py<PyArray1<u32>>,
}

// SAFETY: the words are only touched as atomics.
unsafe impl Send for Signals {}
unsafe impl Sync for Signals {}

impl Signals {
    fn core(&self) -> signals::Signals<'_> {
        let count = signals::Signals::words(self.workers, self.groups);
        // SAFETY: the size was checked, the array is kept alive, and atomics have the layout of their numbers.
        let words = unsafe { std::slice::from_raw_parts(self.start, count) };
        signals::Signals::new(words, self.workers, self.groups)
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[guarded]
#[pymethods]
impl Signals {
    #[new]
    fn new(memory: Bound<'_, PyArray1<u32>>, workers: usize, groups: usize) -> PyResult<Self> {
        let needed = signals::Signals::words(workers, groups);
        // SAFETY: nothing is read here.
        let found = unsafe { memory.as_slice() }.map_or(0, <[u32]>::len);
        if found < needed {
            return Err(PyValueError::new_err(format!("the signals need {needed} words, the array has {found}")));
        }
        Ok(Self { start: memory.data().cast::<AtomicU32>().cast_const(), workers, groups, _memory: memory.unbind() })
    }

    /// Number of words that a runner needs.
    #[staticmethod]
    fn words(workers: usize, groups: usize) -> usize {
        signals::Signals::words(workers, groups)
    }

    fn send(&self, group: usize, worker: usize, command: u32) {
        self.core().send(group, worker, command);
    }

    /// Sends every group to its worker.
    fn send_all(&self, workers: Sequence<usize>, command: u32) {
        workers.0.iter().enumerate().for_each(|(group, worker)| self.core().send(group, *worker, command));
    }

    fn take_back(&self, group: usize) {
        self.core().take_back(group);
    }

    fn receive(&self, py: Python<'_>, flying: Sequence<usize>, count: usize, seconds: f64) -> Vec<usize> {
        py.detach(|| self.core().receive(&flying.0, count, duration(seconds)))
    }

    fn alarm(&self) {
        self.core().alarm();
    }

    fn next(
        &self,
        py: Python<'_>,
        worker: usize,
        groups: Sequence<usize>,
        seconds: f64,
        awake: bool,
    ) -> Option<(usize, u32)> {
        py.detach(|| self.core().next(worker, &groups.0, duration(seconds), awake))
    }

    fn done(&self, group: usize) {
        self.core().done(group);
    }
}
