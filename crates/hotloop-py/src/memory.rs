//! Memory that results are written to, and numpy's views of it. A view keeps its memory alive; memory without
//! views is reused.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use numpy::npyffi::{NPY_ARRAY_CARRAY, NPY_TYPES, NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

const ALIGNMENT: usize = 64;

/// One block of zeroed, aligned memory.
#[pyclass(frozen, module = "hotloop._core")]
pub struct Memory {
    start: *mut u8,
    layout: Layout,
}

// SAFETY: the block is plain bytes; who writes where is decided by the runner.
unsafe impl Send for Memory {}
unsafe impl Sync for Memory {}

impl Memory {
    /// `bytes` zeros.
    pub fn new(bytes: usize) -> PyResult<Self> {
        let refused = || PyMemoryError::new_err(format!("the system does not grant {bytes} bytes of memory"));
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).map_err(|_| refused())?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() { Err(refused()) } else { Ok(Self { start, layout }) }
    }

    /// The address of a byte of the block.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.layout.size());
        // SAFETY: within the block, or one past it.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start, self.layout) };
    }
}

/// An array over part of the block. The part must lie inside it and be aligned for the type.
pub fn view<'py>(
    owner: &Bound<'py, Memory>,
    kind: NPY_TYPES,
    offset: usize,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    view_of(owner.as_any(), kind, owner.get().at(offset), shape)
}

/// An array over memory that `owner` keeps. The memory must be aligned for the type and stay where it is.
pub fn view_of<'py>(
    owner: &Bound<'py, PyAny>,
    kind: NPY_TYPES,
    start: *mut u8,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let mut dims: [npy_intp; 8] = [0; 8];
    for (dim, size) in dims.iter_mut().zip(shape) {
        *dim = *size as npy_intp;
    }
    // SAFETY: numpy copies the dimensions; the array holds a reference to the owner of the data.
    unsafe {
        let descr = PY_ARRAY_API.PyArray_DescrFromType(py, kind as _);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descr,
            shape.len() as _,
            dims.as_mut_ptr(),
            std::ptr::null_mut(),
            start.cast(),
            NPY_ARRAY_CARRAY,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let status = PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.clone().into_ptr());
        if status < 0 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }
}

/// A fresh array that owns a copy of the bytes.
pub fn copied<'py>(py: Python<'py>, kind: NPY_TYPES, shape: &[usize], bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let memory = Bound::new(py, Memory::new(bytes.len())?)?;
    // SAFETY: the block is as long as the bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.get().at(0), bytes.len()) };
    view(&memory, kind, 0, shape)
}
