//! The envs' state as arrays by field name.

use hotloop_core::pool::Pool;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::{field_type, to_py_err};
use crate::memory::copied;

/// Every field, an entry per env.
pub fn get<'py>(py: Python<'py>, pool: &mut Pool) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for field in pool.fields() {
        let bytes = pool.get_field(&field).map_err(to_py_err)?;
        let shape = if field.len == 1 { vec![pool.envs()] } else { vec![pool.envs(), field.len] };
        dict.set_item(field.name, copied(py, field_type(field.kind).1, &shape, &bytes)?)?;
    }
    Ok(dict)
}

/// Sets fields of some envs.
pub fn set(pool: &mut Pool, values: &Bound<'_, PyDict>, envs: &[usize]) -> PyResult<()> {
    let fields = pool.fields();
    let mut wanted = Vec::new();
    for (name, value) in values.iter() {
        let name: String = name.extract()?;
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
            return Err(PyValueError::new_err(format!("no field {name:?}; the state has {}", known.join(", "))));
        };
        wanted.push((field.clone(), bytes(&name, &value, field_type(field.kind).0, envs.len(), field.len)?));
    }
    pool.set_fields(&wanted, envs).map_err(to_py_err)
}

/// The bytes of an array that holds `len` values for each of `envs` envs, converted only where nothing is lost.
fn bytes(name: &str, value: &Bound<'_, PyAny>, dtype: &str, envs: usize, len: usize) -> PyResult<Vec<u8>> {
    let numpy = value.py().import("numpy")?;
    let given = numpy.call_method1("asarray", (value,))?;
    let array = numpy.call_method1("ascontiguousarray", (&given, dtype))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    if shape != [envs, len] && !(len == 1 && shape == [envs]) {
        let expected = if len == 1 { format!("[{envs}]") } else { format!("[{envs}, {len}]") };
        return Err(PyValueError::new_err(format!("field {name:?} has shape {shape:?}: expected {expected}")));
    }
    if !dtype.starts_with("float") && !numpy.call_method1("array_equal", (&given, &array))?.extract::<bool>()? {
        return Err(PyValueError::new_err(format!("field {name:?} takes {dtype}: {given} does not fit")));
    }
    array.call_method0("tobytes")?.extract()
}
