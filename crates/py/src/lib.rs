//! The Python module `overside._core`: conversions only. What is not a word or a number crosses
//! as JSON text; `python/overside/_core.pyi` says what is in it.

mod advise;
mod answers;
mod arrow;
mod asked;
mod codec;
mod errors;
mod facts;
mod log;
mod matching;
mod memory;
mod output;
mod profiles;
mod result;
mod simulate;
mod streams;
mod units;
mod worker;

use overside_base::panic_text;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

create_exception!(
    _core,
    BoxError,
    PyValueError,
    "A box that is not valid; its text is a JSON list of {pointer, message, suggestion}."
);

/// What the harness and the package's users need of the native code.
#[pymodule(name = "_core")]
fn core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("BoxError", module.py().get_type::<BoxError>())?;
    module.add_class::<worker::Worker>()?;
    log::add(module)?;
    errors::add(module)?;
    codec::add(module)?;
    matching::add(module)?;
    answers::add(module)?;
    profiles::add(module)?;
    facts::add(module)?;
    simulate::add(module)?;
    units::add(module)?;
    advise::add(module)?;
    Ok(())
}

/// Runs what must not fail with a panic: one becomes a `RuntimeError`, because the exception that
/// PyO3 would make of it passes every `except Exception`.
fn guarded<T>(body: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(PyRuntimeError::new_err(panic_text(&*panic).to_owned())))
}

/// A value that was refused.
fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
