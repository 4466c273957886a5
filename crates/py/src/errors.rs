//! The exceptions: what of a library's error a program can act on.

use std::ffi::CStr;

use overside_compress::Error as StreamError;
use overside_device::OpenError;
use overside_ops::Error as OperationError;
use overside_placement::Error as ExecutorError;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyType};

use crate::refused;

/// An exception class, once it is made.
struct Class(PyOnceLock<Py<PyType>>);

static ERROR: Class = Class(PyOnceLock::new());
static DATA: Class = Class(PyOnceLock::new());
static TRUNCATED: Class = Class(PyOnceLock::new());
static LIMIT: Class = Class(PyOnceLock::new());
static PATTERN: Class = Class(PyOnceLock::new());
static DEVICE: Class = Class(PyOnceLock::new());

/// Python source of the exception classes, which are executed as part of the module `overside`.
const CLASSES: &CStr = cr#"
class Error(Exception):
    "Base class of the exceptions that Overside raises, other than built-in ones."
class DataError(Error, ValueError):
    "The data are not what their format says they should be."
    output = b""
class TruncatedError(DataError, EOFError):
    "The data end in the middle."
class LimitError(Error, ValueError):
    "The output would be longer than `max_size` allows."
class PatternError(Error, ValueError):
    "A pattern that does not compile."
class DeviceError(Error, RuntimeError):
    "A device that is not there, cannot do it, or was lost with nothing to replace it."
"#;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let made = PyDict::new(py);
    made.set_item("__name__", "overside")?;
    py.run(CLASSES, Some(&made), None)?;
    for (name, class) in [
        ("Error", &ERROR),
        ("DataError", &DATA),
        ("TruncatedError", &TRUNCATED),
        ("LimitError", &LIMIT),
        ("PatternError", &PATTERN),
        ("DeviceError", &DEVICE),
    ] {
        let found = made.as_any().get_item(name)?.cast_into::<PyType>()?;
        module.add(name, &found)?;
        class.0.get_or_init(py, || found.unbind());
    }
    Ok(())
}

impl Class {
    fn error(&self, message: impl std::fmt::Display) -> PyErr {
        let message = message.to_string();
        Python::attach(|py| match self.0.get(py) {
            Some(class) => PyErr::from_type(class.bind(py).clone(), message),
            None => PyRuntimeError::new_err(message),
        })
    }
}

/// The output is longer than allowed.
pub(crate) fn limit(limit_bytes: u64) -> PyErr {
    LIMIT.error(format!(
        "the output is longer than the limit of {limit_bytes} bytes; max_size sets another"
    ))
}

/// Makes the error for invalid data.
pub(crate) fn data(message: impl std::fmt::Display) -> PyErr {
    DATA.error(message)
}

/// Creates the error for a device that does not exist.
pub(crate) fn device(error: impl std::fmt::Display) -> PyErr {
    DEVICE.error(error)
}

/// Maps an error of a compressed stream to the Python exception that is raised for it.
pub(crate) fn stream(error: StreamError) -> PyErr {
    match error {
        StreamError::Read(error) | StreamError::Write(error) => error.into(),
        StreamError::Truncated { .. } => TRUNCATED.error(error),
        StreamError::Empty
        | StreamError::Unrecognized
        | StreamError::Corrupt { .. }
        | StreamError::Unsupported { .. } => DATA.error(error),
        StreamError::TooLong { limit } => self::limit(limit),
        StreamError::ContentBytes { .. }
        | StreamError::Option(_)
        | StreamError::Cancelled
        | StreamError::Spent => refused(error),
        StreamError::Executor(error) => executor(error),
        StreamError::Job(_) => DEVICE.error(error),
    }
}

/// Maps an error of a compressed stream as [`stream`] does. A `DataError` has the output before the error.
pub(crate) fn stream_after(error: StreamError, output: &[u8]) -> PyErr {
    let error = stream(error);
    Python::attach(|py| {
        let value = error.value(py);
        // Only the exceptions of damaged data have the attribute.
        if !output.is_empty() && value.hasattr("output").unwrap_or(false) {
            let _ = value.setattr("output", PyBytes::new(py, output));
        }
    });
    error
}

/// Maps an error of an executor to the Python exception that is raised for it.
pub(crate) fn executor(error: ExecutorError) -> PyErr {
    match error {
        ExecutorError::NoTarget { .. }
        | ExecutorError::Shares { .. }
        | ExecutorError::TooManyDevices(_) => refused(error),
        ExecutorError::Open(OpenError::Operation(error)) => operation(error),
        ExecutorError::Memory(_) => PyMemoryError::new_err(error.to_string()),
        error => DEVICE.error(error),
    }
}

/// Maps an error of setting up an operation to the Python exception that is raised for it.
pub(crate) fn operation(error: OperationError) -> PyErr {
    match error {
        OperationError::Pattern { .. } => PATTERN.error(error),
        OperationError::Level { .. }
        | OperationError::NoLevels { .. }
        | OperationError::NoPattern
        | OperationError::UnknownVariant { .. } => refused(error),
        error => DEVICE.error(error),
    }
}
