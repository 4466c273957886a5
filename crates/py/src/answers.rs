//! Functions that return JSON.

use std::ffi::OsString;
use std::path::PathBuf;

use overside_backends::{BACKENDS, Backend};
use overside_measure::boxes;
use overside_ops::{Config, MatchKind, Operation, prepare, variants as variants_of};
use overside_probe::perftest::{self, Perftest};
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::value::Error as ValueError;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde_json::json;

use crate::{BoxError, guarded, refused};

/// The version of Overside.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Commit that it was built from, with `-dirty` behind it if files differed; empty if unknown.
#[pyfunction]
pub(crate) fn commit() -> &'static str {
    env!("OVERSIDE_COMMIT")
}

#[doc = stub!("command_line")]
#[pyfunction]
pub(crate) fn command_line(words: Vec<OsString>) -> PyResult<(String, String)> {
    guarded(|| {
        let (verb, answer) = overside_python_verbs::parse(&words);
        Ok((verb.unwrap_or_default(), answer.to_string()))
    })
}

/// A box in its parsed form. Raises `BoxError`.
#[pyfunction]
pub(crate) fn parse_box(text: &str) -> PyResult<String> {
    guarded(|| boxes::parse_json(text).map_err(BoxError::new_err))
}

#[doc = stub!("audit")]
#[pyfunction]
pub(crate) fn audit(py: Python<'_>, scratch: PathBuf) -> PyResult<String> {
    guarded(|| text(&py.detach(|| overside_measure::audit::audit(&scratch))?))
}

#[doc = stub!("perftest_command")]
#[pyfunction]
pub(crate) fn perftest_command(test: &str, port: u16) -> PyResult<Vec<String>> {
    guarded(|| {
        let test: Perftest = serde_json::from_str(test).map_err(refused)?;
        test.check().map_err(refused)?;
        Ok(test.command(port))
    })
}

/// The RDMA devices of this machine.
#[pyfunction]
pub(crate) fn rdma_devices() -> PyResult<String> {
    guarded(|| text(&perftest::devices()))
}

/// The JSON Schema of boxes.
#[pyfunction]
pub(crate) fn box_schema() -> PyResult<String> {
    guarded(|| Ok(boxes::schema()))
}

/// The one of `known` that `word` may have been meant to be.
#[pyfunction]
pub(crate) fn suggest(word: &str, known: Vec<String>) -> PyResult<Option<String>> {
    guarded(|| Ok(overside_config::suggest(word, &known)))
}

/// Returns the reason why the patterns cannot be searched for together; `None` if they can.
#[pyfunction]
pub(crate) fn pattern_problem(py: Python<'_>, patterns: Vec<String>) -> PyResult<Option<String>> {
    guarded(|| {
        let config = Config {
            // Every engine takes what the quickest to compile takes.
            variant: "regex".into(),
            patterns,
            ..Config::new(Operation::Match(MatchKind::Count))
        };
        Ok(py.detach(|| prepare(&config).err()).map(|error| error.to_string()))
    })
}

#[doc = stub!("test_problem")]
#[pyfunction]
pub(crate) fn test_problem(test_json: &str) -> PyResult<Option<String>> {
    guarded(|| Ok(overside_measure::tasks::test_problem(test_json)))
}

/// Returns the specifications of the built-in tasks, as a JSON list.
#[pyfunction]
pub(crate) fn tasks() -> PyResult<String> {
    guarded(|| text(&overside_measure::tasks::tasks()))
}

#[doc = stub!("node_environment")]
#[pyfunction]
pub(crate) fn node_environment(py: Python<'_>, node: &str) -> PyResult<String> {
    guarded(|| {
        let found = py.detach(|| overside_measure::node::node_environment(node));
        text(&found.map_err(refused)?)
    })
}

/// The backends, in the order in which their devices are listed.
#[pyfunction]
pub(crate) fn backends() -> PyResult<String> {
    guarded(|| {
        let about = |backend: &&dyn Backend| {
            json!({
                "prefix": backend.prefix(),
                "wildcard": backend.wildcard(),
                "cost": backend.cost(),
            })
        };
        text(&BACKENDS.iter().map(about).collect::<Vec<_>>())
    })
}

/// The devices of the backend with that prefix, and what they can do. Raises `ValueError`.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>, backend: &str) -> PyResult<String> {
    guarded(|| {
        let found = BACKENDS.iter().find(|one| one.prefix() == backend);
        let found = found.ok_or_else(|| refused(format!("there is no backend {backend:?}")))?;
        text(&py.detach(|| found.list()))
    })
}

/// Returns the findings of all backends on this machine as a JSON list, for `overside doctor`.
#[pyfunction]
pub(crate) fn doctor(py: Python<'_>) -> PyResult<String> {
    guarded(|| {
        let found: Vec<_> =
            py.detach(|| (BACKENDS.iter()).flat_map(|backend| backend.doctor()).collect());
        text(&found)
    })
}

/// All operations and the libraries that do them.
#[pyfunction]
pub(crate) fn variants(py: Python<'_>) -> PyResult<String> {
    guarded(|| {
        let all: Vec<_> = py.detach(|| Operation::all().into_iter().map(operation).collect());
        text(&all)
    })
}

fn operation(operation: Operation) -> serde_json::Value {
    let all: Vec<_> = (variants_of(operation).into_iter())
        .map(|variant| {
            let levels = variant.levels.as_ref().map(|(range, _)| [*range.start(), *range.end()]);
            json!({
                "name": variant.name,
                "label": variant.label,
                "library": variant.library,
                "version": variant.version,
                "simd": variant.simd,
                "levels": levels,
                "default_level": variant.levels.map(|(_, default)| default),
            })
        })
        .collect();
    json!({ "operation": operation.to_string(), "variants": all })
}

/// All profiles. Raises `ValueError` if one of the user's is not right.
#[pyfunction]
pub(crate) fn profiles() -> PyResult<String> {
    guarded(|| text(&overside_model::profiles().map_err(refused)?))
}

/// Several samples' latencies together. Raises `ValueError` if one is no histogram.
#[pyfunction]
pub(crate) fn merge_histograms(py: Python<'_>, histograms: Vec<String>) -> PyResult<String> {
    guarded(|| {
        let merged = py.detach(|| overside_measure::merge_histograms(&histograms));
        text(&merged.map_err(refused)?)
    })
}

pub(crate) fn text(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(refused)
}

/// The variant of an enum that goes by a name.
pub(crate) fn named<T: DeserializeOwned>(name: &str) -> PyResult<T> {
    T::deserialize(name.into_deserializer()).map_err(|error: ValueError| refused(error))
}
