//! The exceptions: what of a library's error a program can act on.

use overside_compress::Error as StreamError;
use overside_device::OpenError;
use overside_ops::Error as OperationError;
use overside_placement::Error as ExecutorError;
use pyo3::exceptions::{PyEOFError, PyException, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::refused;

/// An exception class, once it is made.
struct Class(PyOnceLock<Py<PyType>>);

static ERROR: Class = Class::new();
static DATA: Class = Class::new();
static TRUNCATED: Class = Class::new();
static LIMIT: Class = Class::new();
static PATTERN: Class = Class::new();
static DEVICE: Class = Class::new();

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let value = || py.get_type::<PyValueError>();
    ERROR.make(
        module,
        "Error",
        "What Overside's functions raise, where it is not a built-in exception.",
        &[py.get_type::<PyException>()],
    )?;
    let base = || ERROR.get(py);
    DATA.make(
        module,
        "DataError",
        "The data are not what their format says they should be.",
        &[base()?, value()],
    )?;
    TRUNCATED.make(
        module,
        "TruncatedError",
        "The data end in the middle.",
        &[DATA.get(py)?, py.get_type::<PyEOFError>()],
    )?;
    LIMIT.make(
        module,
        "LimitError",
        "The output would be longer than max_size allows.",
        &[base()?, value()],
    )?;
    PATTERN.make(
        module,
        "PatternError",
        "A pattern that does not compile.",
        &[base()?, value()],
    )?;
    DEVICE.make(
        module,
        "DeviceError",
        "A device that is not there, cannot do it, or was lost with nothing to replace it.",
        &[base()?, py.get_type::<PyRuntimeError>()],
    )
}

impl Class {
    const fn new() -> Self {
        Self(PyOnceLock::new())
    }

    fn make(
        &self,
        module: &Bound<'_, PyModule>,
        name: &str,
        doc: &str,
        bases: &[Bound<'_, PyType>],
    ) -> PyResult<()> {
        let py = module.py();
        // As `class NAME(BASES)` in the package whose users see it.
        let attributes = PyDict::new(py);
        attributes.set_item("__module__", "overside")?;
        attributes.set_item("__doc__", doc)?;
        let bases = PyTuple::new(py, bases)?;
        let class = py.get_type::<PyType>().call1((name, bases, attributes))?;
        let class = class.cast_into::<PyType>()?;
        module.add(name, &class)?;
        self.0.get_or_init(py, || class.unbind());
        Ok(())
    }

    fn get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyType>> {
        let class = self.0.get(py).map(|class| class.bind(py).clone());
        class.ok_or_else(|| PyRuntimeError::new_err("overside._core was not initialised"))
    }

    fn error(&self, message: impl std::fmt::Display) -> PyErr {
        let message = message.to_string();
        Python::attach(|py| match self.get(py) {
            Ok(class) => PyErr::from_type(class, message),
            Err(error) => error,
        })
    }
}

/// The output is longer than allowed.
pub(crate) fn limit(limit_bytes: u64) -> PyErr {
    LIMIT.error(format!(
        "the output is longer than the limit of {limit_bytes} bytes; max_size sets another"
    ))
}

/// The data are not what they should be.
pub(crate) fn data(message: impl std::fmt::Display) -> PyErr {
    DATA.error(message)
}

/// A device that is not there.
pub(crate) fn device(error: impl std::fmt::Display) -> PyErr {
    DEVICE.error(error)
}

/// What is raised for an error of a compressed stream.
pub(crate) fn stream(error: StreamError) -> PyErr {
    match error {
        StreamError::Read(error) | StreamError::Write(error) => error.into(),
        StreamError::Truncated { .. } => TRUNCATED.error(error),
        StreamError::Empty
        | StreamError::Unrecognized
        | StreamError::Corrupt { .. }
        | StreamError::Unsupported { .. } => DATA.error(error),
        StreamError::TooLong { limit } => self::limit(limit),
        StreamError::ContentBytes { .. } | StreamError::Option(_) | StreamError::Spent => {
            refused(error)
        }
        StreamError::Executor(error) => executor(error),
        StreamError::Job(_) => DEVICE.error(error),
    }
}

/// What is raised for an error of an executor.
pub(crate) fn executor(error: ExecutorError) -> PyErr {
    match error {
        ExecutorError::NoTarget { .. } | ExecutorError::Percent(_) => refused(error),
        ExecutorError::Open(OpenError::Operation(error)) => operation(error),
        ExecutorError::Memory(_) => PyMemoryError::new_err(error.to_string()),
        error => DEVICE.error(error),
    }
}

/// What is raised for an operation that cannot be done like this.
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
