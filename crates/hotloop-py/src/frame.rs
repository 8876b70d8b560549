//! Memory layout of a frame, or of a rollout of many.

use hotloop_core::memory::require;
use hotloop_core::pool::{FramePointers, Pool};
use numpy::npyffi::NPY_TYPES;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{observation_type, to_py_err};
use crate::memory::{Memory, view};

/// An array with one entry per row, repeated over slots.
#[derive(Clone, Debug)]
struct Part {
    offset: usize,
    kind: NPY_TYPES,
    row_bytes: usize,
    row_shape: Vec<usize>,
    slots: usize,
}

/// Offsets of every array of a frame.
#[derive(Clone, Debug)]
pub struct FrameLayout {
    rows: usize,
    bytes: usize,
    obs: Part,
    reward: Part,
    terminated: Part,
    truncated: Part,
    cut: Part,
    valid: Option<Part>,
    mask: Option<Part>,
    policy: Option<Part>,
    infos: Option<Part>,
}

impl FrameLayout {
    /// One frame: the result of `reset` or `step`.
    pub fn frame(pool: &Pool) -> Self {
        Self::new(pool, 1, 1, pool.spec().seats > 1)
    }

    /// A rollout of `horizon` steps, with the observation before the first one.
    pub fn rollout(pool: &Pool, horizon: usize) -> PyResult<Self> {
        let spec = pool.spec();
        let infos: usize = pool.rules().infos.iter().map(|(_, len)| len).sum();
        // Observation, mask and info arrays; reward, policy and four flags.
        let row = spec.observation.row_bytes() + spec.action.mask_len() + 4 * infos + 12;
        let bytes = (pool.rows() as u128).saturating_mul(horizon as u128 + 1).saturating_mul(row as u128);
        let what = format!("a rollout of {} rows and {horizon} steps", pool.rows());
        require(&what, bytes, "use fewer envs or a shorter horizon").map_err(to_py_err)?;
        Ok(Self::new(pool, horizon, horizon + 1, true))
    }

    fn new(pool: &Pool, steps: usize, views: usize, whole: bool) -> Self {
        let rows = pool.rows();
        let spec = pool.spec();
        let mut bytes = 0;
        let mut part = |kind, slots: usize, row_bytes: usize, row_shape: &[usize]| {
            let offset = bytes;
            bytes += (slots * rows * row_bytes).next_multiple_of(64);
            Part { offset, kind, row_bytes, row_shape: row_shape.to_vec(), slots }
        };
        let mask_len = spec.action.mask_len();
        let info_len: usize = pool.rules().infos.iter().map(|(_, len)| len).sum();
        let obs =
            part(observation_type(&spec.observation), views, spec.observation.row_bytes(), spec.observation.shape());
        let reward = part(NPY_TYPES::NPY_FLOAT, steps, 4, &[]);
        let terminated = part(NPY_TYPES::NPY_BOOL, steps, 1, &[]);
        let truncated = part(NPY_TYPES::NPY_BOOL, steps, 1, &[]);
        let cut = part(NPY_TYPES::NPY_BOOL, steps, 1, &[]);
        let valid = whole.then(|| part(NPY_TYPES::NPY_BOOL, views, 1, &[]));
        let mask = spec.masked.then(|| part(NPY_TYPES::NPY_BYTE, views, mask_len, &[mask_len]));
        let policy = whole.then(|| part(NPY_TYPES::NPY_INT, views, 4, &[]));
        let infos = (info_len > 0).then(|| part(NPY_TYPES::NPY_FLOAT, views, info_len * 4, &[info_len]));
        Self { rows, bytes, obs, reward, terminated, truncated, cut, valid, mask, policy, infos }
    }

    /// Allocates its memory.
    pub fn allocate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Memory>> {
        Bound::new(py, Memory::new(self.bytes)?)
    }

    fn pointer<T>(&self, memory: &Memory, part: &Part, slot: usize) -> *mut T {
        assert!(slot < part.slots);
        memory.at(part.offset + slot * self.rows * part.row_bytes).cast()
    }

    /// Destination of a step: outcomes go to the slot `step`, the next observations to the slot `next`.
    pub fn pointers(&self, memory: &Memory, step: usize, next: usize) -> FramePointers {
        fn optional<T>(layout: &FrameLayout, memory: &Memory, part: Option<&Part>, slot: usize) -> *mut T {
            part.map_or(std::ptr::null_mut(), |part| layout.pointer(memory, part, slot))
        }
        FramePointers {
            obs: self.pointer(memory, &self.obs, next),
            reward: self.pointer(memory, &self.reward, step),
            terminated: self.pointer(memory, &self.terminated, step),
            truncated: self.pointer(memory, &self.truncated, step),
            cut: self.pointer(memory, &self.cut, step),
            valid: optional(self, memory, self.valid.as_ref(), next),
            mask: optional(self, memory, self.mask.as_ref(), next),
            policy: optional(self, memory, self.policy.as_ref(), next),
            infos: optional(self, memory, self.infos.as_ref(), next),
        }
    }

    fn array<'py>(&self, memory: &Bound<'py, Memory>, part: &Part, slots: bool) -> PyResult<Bound<'py, PyAny>> {
        let mut shape = [0; 8];
        let mut dims = 0;
        for size in slots.then_some(part.slots).iter().chain([&self.rows]).chain(&part.row_shape) {
            shape[dims] = *size;
            dims += 1;
        }
        view(memory, part.kind, part.offset, &shape[..dims])
    }

    /// Observation, reward, terminated and truncated of a single frame.
    pub fn outcome<'py>(&self, memory: &Bound<'py, Memory>) -> PyResult<[Bound<'py, PyAny>; 4]> {
        Ok([
            self.array(memory, &self.obs, false)?,
            self.array(memory, &self.reward, false)?,
            self.array(memory, &self.terminated, false)?,
            self.array(memory, &self.truncated, false)?,
        ])
    }

    /// The arrays that go into `info`: mask, valid, policy, and `infos` as one array.
    pub fn extras<'py>(&self, memory: &Bound<'py, Memory>, info: &Bound<'py, PyDict>) -> PyResult<()> {
        let parts =
            [("action_mask", &self.mask), ("valid", &self.valid), ("policy", &self.policy), ("infos", &self.infos)];
        for (name, part) in parts {
            if let Some(part) = part {
                info.set_item(name, self.array(memory, part, false)?)?;
            }
        }
        Ok(())
    }

    /// The array that marks rows that ended by a fault.
    pub fn cut<'py>(&self, memory: &Bound<'py, Memory>) -> PyResult<Bound<'py, PyAny>> {
        self.array(memory, &self.cut, false)
    }

    /// Every array, time first where there are slots.
    pub fn arrays<'py>(&self, memory: &Bound<'py, Memory>, slots: bool) -> PyResult<Bound<'py, PyDict>> {
        let arrays = PyDict::new(memory.py());
        for (name, part) in [
            ("obs", Some(&self.obs)),
            ("reward", Some(&self.reward)),
            ("terminated", Some(&self.terminated)),
            ("truncated", Some(&self.truncated)),
            ("cut", Some(&self.cut)),
            ("valid", self.valid.as_ref()),
            ("action_mask", self.mask.as_ref()),
            ("policy", self.policy.as_ref()),
            ("infos", self.infos.as_ref()),
        ] {
            if let Some(part) = part {
                arrays.set_item(name, self.array(memory, part, slots)?)?;
            }
        }
        Ok(arrays)
    }
}
