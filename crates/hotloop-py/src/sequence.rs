//! Sequences of Python as vectors.

use hotloop_core::memory::require;
use pyo3::prelude::*;

use crate::convert::to_py_err;

/// Length up to which the memory of a sequence is not checked.
const SMALL: usize = 1 << 16;

/// A sequence, converted to a vector.
///
/// `PyO3` reserves memory for as many elements as an object claims to have, before it looks at the first: for
/// `range(2**62)` that panics while arguments are converted, where no guard is in place yet, and for `range(2**42)` it
/// aborts the process. `#[guarded]` therefore refuses arguments of type `Vec`.
pub struct Sequence<T>(pub Vec<T>);

impl<'a, 'py, T> FromPyObject<'a, 'py> for Sequence<T>
where
    Vec<T>: FromPyObject<'a, 'py, Error = PyErr>,
{
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let length = object.len().unwrap_or(0);
        if length > SMALL {
            let bytes = (length as u128).saturating_mul(size_of::<T>() as u128);
            require(&format!("a sequence of {length} elements"), bytes, "use a shorter one").map_err(to_py_err)?;
        }
        Vec::extract(object).map(Self)
    }
}
