//! The Python module `overside._core`: conversions only. Values other than words and numbers are
//! passed as JSON text; `python/overside/_core.pyi` describes them.

/// Documentation of a function, class or method, as the stub has it.
macro_rules! stub {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

mod advise;
mod answers;
mod arguments;
mod arrow;
mod arrow_import;
mod asynchronous;
mod codec;
mod errors;
mod facts;
mod kv;
mod lending;
mod log;
mod matching;
mod memory;
mod output;
mod probe;
mod process;
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

/// Native code for the measuring harness and for users of the Python package.
#[pymodule(name = "_core")]
mod core {
    #[pymodule_export]
    use crate::BoxError;
    #[pymodule_export]
    use crate::advise::{advise, placement, placement_file, published_question, workload};
    #[pymodule_export]
    use crate::answers::{
        audit, backends, box_schema, command_line, commit, devices, doctor, merge_histograms,
        node_environment, parse_box, pattern_problem, perftest_command, profiles, rdma_devices,
        suggest, tasks, test_problem, variants, version,
    };
    #[pymodule_export]
    const MAX_SIZE: u64 = crate::codec::MAX_SIZE;
    #[pymodule_export]
    use crate::asynchronous::{Call, start_compress, start_decompress};
    #[pymodule_export]
    use crate::codec::{compress, decompress};
    #[pymodule_export]
    use crate::facts::{facts, facts_ask, facts_check, facts_without};
    #[pymodule_export]
    use crate::kv::kv_info;
    #[pymodule_export]
    use crate::log::{log_event, start_log};
    #[pymodule_export]
    use crate::matching::{Matches, find};
    #[pymodule_export]
    use crate::probe::AgentProbe;
    #[pymodule_export]
    use crate::profiles::{
        memory_latency, memory_stream, parameters, profile_check, profile_show, profile_toml,
    };
    #[pymodule_export]
    use crate::result::Output;
    #[pymodule_export]
    use crate::simulate::{scenarios, simulate};
    #[pymodule_export]
    use crate::streams::{PyCompressor, PyDecompressor};
    #[pymodule_export]
    use crate::units::{duration, number, size};
    #[pymodule_export]
    use crate::worker::Worker;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::errors::add(module)
    }
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
