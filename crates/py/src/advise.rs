//! Advice: what should run where.

use overside_model::advice::{Question, advise as ask, published_question as of_published};
use overside_model::{Library, Profile, Workload};
use overside_placement::{PlacementFile, Policy, Rule};
use pyo3::prelude::*;

use crate::{answers::text, guarded, refused};

#[doc = stub!("advise")]
#[pyfunction]
#[pyo3(signature = (question, profiles, files, workload))]
pub(crate) fn advise(
    py: Python<'_>,
    question: &str,
    profiles: Vec<String>,
    files: Vec<(String, String)>,
    workload: Option<(String, String)>,
) -> PyResult<String> {
    guarded(|| {
        let question: Question = serde_json::from_str(question).map_err(refused)?;
        let mut known = overside_model::profiles().map_err(refused)?;
        let mut chosen = Vec::new();
        for name in &profiles {
            match known.iter().position(|one| one.name == *name) {
                Some(at) => chosen.push(known.swap_remove(at)),
                // It says which there are.
                None if chosen.iter().all(|one: &Profile| one.name != *name) => {
                    chosen.push(overside_model::profile(name).map_err(refused)?);
                }
                None => {}
            }
        }
        for (file, text) in &files {
            chosen.push(Profile::parse(file, text).map_err(refused)?);
        }
        let workload = (workload.as_ref())
            .map(|(file, text)| Workload::parse(file, text))
            .transpose()
            .map_err(refused)?;
        let advice = py.detach(|| ask(&question, &chosen, workload.as_ref()));
        text(&advice.map_err(refused)?)
    })
}

/// Builds a question for `advise` from published figures of a host with `cores` cores, as JSON.
#[pyfunction]
pub(crate) fn published_question(cores: u32) -> PyResult<String> {
    guarded(|| text(&of_published(Library::published(), cores)))
}

/// A workload in its parsed form, as JSON. Raises `ValueError`.
#[pyfunction]
pub(crate) fn workload(file: &str, text_of: &str) -> PyResult<String> {
    guarded(|| text(&Workload::parse(file, text_of).map_err(refused)?))
}

/// A placement file of rules, which are JSON. Raises `ValueError`.
#[pyfunction]
pub(crate) fn placement_file(rules: &str) -> PyResult<String> {
    guarded(|| {
        let rules: Vec<Rule> = serde_json::from_str(rules).map_err(refused)?;
        let file = PlacementFile::new("the placement file", rules).map_err(refused)?;
        Ok(file.to_toml())
    })
}

/// The one way to write a placement. Raises `ValueError`.
#[pyfunction]
pub(crate) fn placement(text: &str) -> PyResult<String> {
    guarded(|| {
        let policy: Policy = text.parse().map_err(refused)?;
        Ok(policy.simplest().to_string())
    })
}
