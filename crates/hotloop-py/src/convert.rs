//! Conversion between Python's values and the core's: options, specs, errors.

use hotloop_core::env::{EnvKind, Spec};
use hotloop_core::error::Error;
use hotloop_core::fields::FieldKind;
use hotloop_core::memory::require;
use hotloop_core::options::{Allowed, OptionSpec, Value};
use hotloop_core::space::{Action, Observation};
use numpy::ndarray::Dimension;
use numpy::npyffi::NPY_TYPES;
use numpy::{Element, PyReadonlyArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::sequence::Sequence;

/// Converts an error of the core to a Python exception.
pub fn to_py_err(error: Error) -> PyErr {
    match error {
        Error::Input(message) => PyValueError::new_err(message),
        Error::State(message) => PyRuntimeError::new_err(message),
        Error::Memory(message) => PyMemoryError::new_err(message),
        Error::Env(message) => env_error(message),
    }
}

/// Copies an array's elements. A broadcast view can have far more of them than its memory, so their size is checked first.
pub fn elements<T: Element + Copy, D: Dimension>(array: &PyReadonlyArray<'_, T, D>) -> PyResult<Vec<T>> {
    let bytes = (array.len() as u128).saturating_mul(size_of::<T>() as u128);
    require("a copy of the array", bytes, "use a smaller one").map_err(to_py_err)?;
    Ok(array.as_array().iter().copied().collect())
}

/// Creates the exception for an env that failed.
pub fn env_error(message: String) -> PyErr {
    let raise = |py: Python<'_>| -> PyResult<PyErr> {
        let class = py.import("hotloop.errors")?.getattr("EnvError")?;
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    Python::attach(|py| raise(py).unwrap_or_else(|error| error))
}

/// Converts options from a dict.
pub fn options(dict: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, Value)>> {
    let Some(dict) = dict else { return Ok(Vec::new()) };
    dict.iter()
        .map(|(name, value)| {
            let name: String =
                name.extract().map_err(|_| PyTypeError::new_err(format!("option names are text, not {name:?}")))?;
            let value = option_value(&value).map_err(|_| {
                PyTypeError::new_err(format!("option {name:?} is {value:?}: expected a number, a text, or a list"))
            })?;
            Ok((name, value))
        })
        .collect()
}

fn option_value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_instance_of::<PyBool>() {
        Ok(Value::Bool(value.extract()?))
    } else if value.is_instance_of::<PyInt>() {
        Ok(Value::Int(value.extract()?))
    } else if value.is_instance_of::<PyFloat>() {
        Ok(Value::Float(value.extract()?))
    } else if value.is_instance_of::<PyString>() {
        Ok(Value::Text(value.extract()?))
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        Ok(Value::Ints(value.extract::<Sequence<_>>()?.0))
    } else if let Ok(item) = value.call_method0("item") {
        // A numpy scalar.
        option_value(&item)
    } else {
        Err(PyTypeError::new_err("not an option"))
    }
}

/// Converts an option's value to Python.
pub fn python_value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(x) => PyBool::new(py, *x).to_owned().into_any(),
        Value::Int(x) => x.into_pyobject(py)?.into_any(),
        Value::Float(x) => x.into_pyobject(py)?.into_any(),
        Value::Text(x) => x.into_pyobject(py)?.into_any(),
        Value::Ints(x) => x.into_pyobject(py)?.into_any(),
    })
}

/// Name, description and options of an env as a dict.
pub fn entry<'py>(py: Python<'py>, env: &EnvKind) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("name", env.name)?;
    entry.set_item("gymnasium_id", env.gymnasium_id)?;
    entry.set_item("about", env.about)?;
    let options = env.options.iter().map(|spec| option_entry(py, spec)).collect::<PyResult<Vec<_>>>()?;
    entry.set_item("options", options)?;
    Ok(entry)
}

fn option_entry<'py>(py: Python<'py>, spec: &OptionSpec) -> PyResult<Bound<'py, PyDict>> {
    let option = PyDict::new(py);
    option.set_item("name", spec.name)?;
    option.set_item("about", spec.about)?;
    option.set_item("default", python_value(py, &spec.default)?)?;
    option.set_item("fixed", spec.fixed)?;
    let (low, high, choices) = match &spec.allowed {
        Allowed::Any => (None, None, None),
        Allowed::Range(low, high) => (Some(*low), Some(*high), None),
        Allowed::Choice(words) => (None, None, Some(words.to_vec())),
    };
    option.set_item("low", low)?;
    option.set_item("high", high)?;
    option.set_item("choices", choices)?;
    Ok(option)
}

/// Converts an env's spec to a dict.
pub fn spec_dict<'py>(py: Python<'py>, spec: &Spec) -> PyResult<Bound<'py, PyDict>> {
    let observation = PyDict::new(py);
    match &spec.observation {
        Observation::Box { shape, low, high } => {
            observation.set_item("kind", "box")?;
            observation.set_item("shape", shape)?;
            observation.set_item("low", low)?;
            observation.set_item("high", high)?;
        }
        Observation::Bytes { shape, high } => {
            observation.set_item("kind", "bytes")?;
            observation.set_item("shape", shape)?;
            observation.set_item("high", high)?;
        }
        Observation::Discrete { n } => {
            observation.set_item("kind", "discrete")?;
            observation.set_item("n", n)?;
        }
    }
    let action = PyDict::new(py);
    match &spec.action {
        Action::Discrete { n } => {
            action.set_item("kind", "discrete")?;
            action.set_item("n", n)?;
        }
        Action::MultiDiscrete { n } => {
            action.set_item("kind", "multi-discrete")?;
            action.set_item("n", n)?;
        }
        Action::Continuous { low, high } => {
            action.set_item("kind", "continuous")?;
            action.set_item("low", low)?;
            action.set_item("high", high)?;
        }
        Action::Hybrid { n, low, high } => {
            action.set_item("kind", "hybrid")?;
            action.set_item("n", n)?;
            action.set_item("low", low)?;
            action.set_item("high", high)?;
        }
    }
    let dict = PyDict::new(py);
    dict.set_item("seats", spec.seats)?;
    dict.set_item("observation", observation)?;
    dict.set_item("action", action)?;
    dict.set_item("masked", spec.masked)?;
    dict.set_item("state_version", spec.state_version)?;
    dict.set_item("terms", &spec.terms)?;
    dict.set_item("metrics", &spec.metrics)?;
    dict.set_item("infos", &spec.infos)?;
    Ok(dict)
}

/// Converts a dict such as [`spec_dict`] returns, for envs that are not native.
pub fn spec_from_dict(dict: &Bound<'_, PyDict>) -> PyResult<Spec> {
    let observation: Bound<'_, PyDict> = required(dict, "observation")?;
    let action: Bound<'_, PyDict> = required(dict, "action")?;
    let observation = match required::<String>(&observation, "kind")?.as_str() {
        "box" => Observation::Box {
            shape: sequence(&observation, "shape")?,
            low: sequence(&observation, "low")?,
            high: sequence(&observation, "high")?,
        },
        "bytes" => {
            Observation::Bytes { shape: sequence(&observation, "shape")?, high: required(&observation, "high")? }
        }
        "discrete" => Observation::Discrete { n: required(&observation, "n")? },
        kind => {
            return Err(PyValueError::new_err(format!(
                "observations are of kind {kind:?}: expected box, bytes or discrete"
            )));
        }
    };
    let action = match required::<String>(&action, "kind")?.as_str() {
        "discrete" => Action::Discrete { n: required(&action, "n")? },
        "multi-discrete" => Action::MultiDiscrete { n: sequence(&action, "n")? },
        "continuous" => Action::Continuous { low: sequence(&action, "low")?, high: sequence(&action, "high")? },
        "hybrid" => Action::Hybrid {
            n: sequence(&action, "n")?,
            low: sequence(&action, "low")?,
            high: sequence(&action, "high")?,
        },
        kind => {
            return Err(PyValueError::new_err(format!(
                "actions are of kind {kind:?}: expected discrete, multi-discrete, continuous or hybrid"
            )));
        }
    };
    if observation.is_empty() || action.width() == 0 || action.choices().contains(&0) {
        return Err(PyValueError::new_err("observations and actions need at least one element and one choice"));
    }
    let (low, high) = action.bounds();
    if low.len() != high.len() {
        let (low, high) = (low.len(), high.len());
        return Err(PyValueError::new_err(format!("actions have {low} lower and {high} upper bounds")));
    }
    Ok(Spec {
        seats: required(dict, "seats")?,
        observation,
        action,
        masked: required(dict, "masked")?,
        masks_bind: true,
        terms: vec!["reward"],
        metrics: Vec::new(),
        infos: Vec::new(),
        step_nanoseconds: 1000,
        state_version: 0,
    })
}

/// Checks a learner's number of threads; one per core by default.
pub fn threads_from(num_threads: Option<usize>) -> PyResult<usize> {
    let threads = num_threads.unwrap_or_else(hotloop_core::cpu::usable_cores);
    if threads == 0 || threads > 4096 {
        return Err(PyValueError::new_err(format!("num_threads is {threads}: expected 1 to 4096")));
    }
    Ok(threads)
}

fn sequence<'py, T>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<Vec<T>>
where
    Sequence<T>: for<'a> FromPyObject<'a, 'py>,
{
    required::<Sequence<T>>(dict, key).map(|sequence| sequence.0)
}

fn required<'py, T>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let value = dict.get_item(key)?.ok_or_else(|| PyValueError::new_err(format!("the env's spec lacks {key:?}")))?;
    value.extract().map_err(|_| PyTypeError::new_err(format!("{key:?} in the env's spec is {value:?}")))
}

/// Numpy's type of an observation.
pub fn observation_type(observation: &Observation) -> NPY_TYPES {
    match observation {
        Observation::Box { .. } => NPY_TYPES::NPY_FLOAT,
        Observation::Bytes { .. } => NPY_TYPES::NPY_UBYTE,
        // `np.int64` is C's `long` where that has 64 bits.
        Observation::Discrete { .. } if size_of::<std::ffi::c_long>() == 8 => NPY_TYPES::NPY_LONG,
        Observation::Discrete { .. } => NPY_TYPES::NPY_LONGLONG,
    }
}

/// Numpy's name and type of a field, and the bytes of one element.
pub fn field_type(kind: FieldKind) -> (&'static str, NPY_TYPES, usize) {
    match kind {
        FieldKind::F32 => ("float32", NPY_TYPES::NPY_FLOAT, 4),
        FieldKind::I32 => ("int32", NPY_TYPES::NPY_INT, 4),
        FieldKind::U8 => ("uint8", NPY_TYPES::NPY_UBYTE, 1),
        FieldKind::F64 => ("float64", NPY_TYPES::NPY_DOUBLE, 8),
        FieldKind::I64 if size_of::<std::ffi::c_long>() == 8 => ("int64", NPY_TYPES::NPY_LONG, 8),
        FieldKind::I64 => ("int64", NPY_TYPES::NPY_LONGLONG, 8),
    }
}
