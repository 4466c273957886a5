//! Published facts: searched, cited, and compared with the model.

use std::path::Path;

use overside_model::Library;
use overside_model::check::{check, without};
use overside_model::facts::{Fact, Facts, Query};
use overside_model::questions::{OrderingQuestion, Question, Questions};
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
        let query = Query { words, paper, device, purpose: purpose.map(named).transpose()? };
        with(file, |facts| {
            let found = facts.search(&query);
            text(&json!({
                "facts": found.facts,
                "orderings": found.orderings,
                "notes": facts.meta.notes,
                "ids": (facts.facts.iter().map(|fact| &fact.id))
                    .chain(facts.orderings.iter().map(|ordering| &ordering.id))
                    .collect::<Vec<_>>(),
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

#[doc = stub!("facts_without")]
#[pyfunction]
pub(crate) fn facts_without(name: &str) -> PyResult<Option<f64>> {
    guarded(|| {
        let fact = Facts::published().get(name.split('[').next().unwrap_or_default());
        let figures = fact.map(Fact::figures).unwrap_or_default();
        let figure = figures.iter().find(|figure| figure.name() == name);
        Ok(figure.and_then(|figure| without(figure, Library::published())).map(|one| one.factor))
    })
}

#[doc = stub!("facts_ask")]
#[pyfunction]
#[pyo3(signature = (name, file = None))]
pub(crate) fn facts_ask(py: Python<'_>, name: &str, file: Option<&str>) -> PyResult<String> {
    guarded(|| {
        py.detach(|| {
            with(file, |facts| {
                if let Some(ordering) = facts.orderings.iter().find(|one| one.id == name) {
                    let asked = Questions::published().ordering(ordering);
                    let relations = asked.map(OrderingQuestion::commands).unwrap_or_default();
                    let relations = relations.into_iter();
                    return text(&json!({
                        "name": name,
                        "statement": ordering.statement,
                        "not_modelled": asked.and_then(OrderingQuestion::not_modelled),
                        "relations": relations
                            .map(|(says, commands)| json!({ "says": says, "commands": commands }))
                            .collect::<Vec<_>>(),
                    }));
                }
                let figures = facts.get(name).map(Fact::figures).unwrap_or_default();
                let figures = figures.iter().map(|figure| {
                    let asked = Questions::published().of(figure);
                    json!({
                        "name": figure.name(),
                        "published": figure.value.to_string(),
                        "unit": figure.unit,
                        "not_modelled": asked.as_ref().and_then(Question::not_modelled),
                        "commands": asked.as_ref().map_or_else(Vec::new, Question::commands),
                    })
                });
                text(&json!({ "name": name, "figures": figures.collect::<Vec<_>>() }))
            })
        })
    })
}

/// Runs `body` with the collection in `file`, or the built-in one.
fn with<T>(file: Option<&str>, body: impl FnOnce(&Facts) -> PyResult<T>) -> PyResult<T> {
    match file {
        Some(file) => body(&Facts::read(Path::new(file)).map_err(refused)?),
        None => body(Facts::published()),
    }
}
