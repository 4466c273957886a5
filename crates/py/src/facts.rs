//! Published facts: searched, cited, and compared with the model.

use std::path::Path;

use overside_model::Library;
use overside_model::check::check;
use overside_model::facts::{Fact, Facts, Query};
use overside_model::questions::Questions;
use pyo3::prelude::*;
use serde_json::json;

use crate::answers::{named, text};
use crate::{guarded, refused};

/// Facts and orderings that hold all words. Raises `ValueError`.
#[pyfunction]
#[pyo3(signature = (words, paper = None, device = None, purpose = None, file = None))]
pub(crate) fn facts(
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
            purpose: purpose.map(named).transpose()?,
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
pub(crate) fn facts_check(py: Python<'_>, file: Option<&str>) -> PyResult<String> {
    guarded(|| py.detach(|| with(file, |facts| text(&check(facts, Library::published())))))
}

/// What to type to see what the model answers about a fact: `figures`, each with `name`,
/// `published`, `unit`, and `commands`. Raises `ValueError`.
#[pyfunction]
#[pyo3(signature = (name, file = None))]
pub(crate) fn facts_ask(py: Python<'_>, name: &str, file: Option<&str>) -> PyResult<String> {
    guarded(|| {
        py.detach(|| {
            with(file, |facts| {
                let figures = facts.get(name).map(Fact::figures).unwrap_or_default();
                let figures = figures.iter().map(|figure| {
                    let asked = Questions::published().of(figure);
                    json!({
                        "name": figure.name(),
                        "published": figure.value.to_string(),
                        "unit": figure.unit,
                        "commands": asked.map_or_else(Vec::new, |question| question.commands()),
                    })
                });
                text(&json!({ "figures": figures.collect::<Vec<_>>() }))
            })
        })
    })
}

/// With the collection in `file`, or the built-in one.
fn with<T>(file: Option<&str>, body: impl FnOnce(&Facts) -> PyResult<T>) -> PyResult<T> {
    match file {
        Some(file) => body(&Facts::read(Path::new(file)).map_err(refused)?),
        None => body(Facts::published()),
    }
}
