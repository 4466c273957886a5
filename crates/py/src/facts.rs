//! Published facts: searched, cited, and compared with the model.

use std::path::Path;

use overside_model::Library;
use overside_model::check::check;
use overside_model::facts::{Facts, Query, Use};
use pyo3::prelude::*;
use serde_json::json;

use crate::answers::text;
use crate::{guarded, refused};

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(facts, module)?)?;
    module.add_function(wrap_pyfunction!(facts_check, module)?)
}

/// Facts and orderings that hold all words. Raises `ValueError`.
#[pyfunction]
#[pyo3(signature = (words, paper = None, device = None, purpose = None, file = None))]
fn facts(
    words: Vec<String>,
    paper: Option<String>,
    device: Option<String>,
    purpose: Option<&str>,
    file: Option<&str>,
) -> PyResult<String> {
    guarded(|| {
        let query = Query {
            words,
            paper,
            device,
            purpose: purpose.map(purpose_of).transpose()?,
        };
        with(file, |facts| {
            let found = facts.search(&query);
            text(&json!({
                "facts": found.facts,
                "orderings": found.orderings,
                "notes": facts.meta.notes,
                "ids": facts.facts.iter().map(|fact| &fact.id).collect::<Vec<_>>(),
            }))
        })
    })
}

/// All figures and orderings beside what the model predicts. Raises `ValueError`.
#[pyfunction]
#[pyo3(signature = (file = None))]
fn facts_check(py: Python<'_>, file: Option<&str>) -> PyResult<String> {
    guarded(|| py.detach(|| with(file, |facts| text(&check(facts, Library::published())))))
}

/// With the collection in `file`, or the built-in one.
fn with<T>(file: Option<&str>, body: impl FnOnce(&Facts) -> PyResult<T>) -> PyResult<T> {
    match file {
        Some(file) => body(&Facts::read(Path::new(file)).map_err(refused)?),
        None => body(Facts::published()),
    }
}

fn purpose_of(name: &str) -> PyResult<Use> {
    match name {
        "calibrate" => Ok(Use::Calibrate),
        "validate" => Ok(Use::Validate),
        "context" => Ok(Use::Context),
        _ => Err(refused(format!(
            "no use is called {name:?}; there are: calibrate, validate, context"
        ))),
    }
}
