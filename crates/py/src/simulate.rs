//! Scenarios for Python.

use overside_config::Error;
use overside_model::scenario::{self, Kind, Report, ScenarioArgs};
use overside_model::{Library, Profile, profiles};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::{guarded, refused};

#[doc = stub!("scenarios")]
#[pyfunction]
pub(crate) fn scenarios() -> PyResult<String> {
    guarded(|| {
        let library = Library::installed().map_err(refused)?;
        let kinds: Vec<Value> = scenario::scenarios()
            .iter()
            .map(|one| {
                let keys = one.keys.iter().map(|key| {
                    json!({
                        "name": key.name,
                        "about": key.about,
                        "kind": match key.kind {
                            Kind::Count(..) => "count",
                            Kind::Amount(..) => "amount",
                            Kind::Words(_) | Kind::WordsOrCount(..) => "choice",
                            Kind::Pattern(_) => "pattern",
                            Kind::Profile => "profile",
                        },
                        "default": key.default,
                        "allowed": key.allowed(&library),
                    })
                });
                let keys: Vec<_> = keys.collect();
                let figures = one
                    .metrics
                    .iter()
                    .map(|metric| json!({ "name": metric.name, "unit": metric.unit.symbol() }));
                let figures: Vec<_> = figures.collect();
                json!({
                    "name": one.name, "about": one.about, "keys": keys, "figures": figures,
                })
            })
            .collect();
        let presets: Vec<Value> = scenario::presets()
            .iter()
            .map(|one| {
                let asked = ScenarioArgs::parse(one.name, one.text).map_err(refused)?;
                Ok(json!({ "name": one.name, "scenario": asked.scenario, "about": asked.about }))
            })
            .collect::<PyResult<_>>()?;
        Ok(json!({ "scenarios": kinds, "presets": presets }).to_string())
    })
}

#[doc = stub!("simulate")]
#[pyfunction]
#[pyo3(signature = (name, text, settings, profile, measured=None))]
pub(crate) fn simulate(
    py: Python<'_>,
    name: &str,
    text: Option<&str>,
    settings: Vec<(String, String)>,
    profile: Option<(String, Option<String>)>,
    measured: Option<(String, String)>,
) -> PyResult<String> {
    guarded(|| {
        let answer =
            py.detach(|| answer(name, text, &settings, profile.as_ref(), measured.as_ref()));
        serde_json::to_string(&answer.map_err(refused)?).map_err(refused)
    })
}

fn answer(
    name: &str,
    text: Option<&str>,
    settings: &[(String, String)],
    profile: Option<&(String, Option<String>)>,
    measured: Option<&(String, String)>,
) -> Result<Report, Box<dyn std::error::Error + Send + Sync>> {
    let mut asked = match text {
        Some(text) => ScenarioArgs::parse(name, text)?,
        None => ScenarioArgs::named(name)?,
    };
    let mut known = profiles()?;
    let mut replace = |own: Profile| {
        known.retain(|profile| profile.name != own.name);
        known.push(own);
    };
    if let Some((name, text)) = profile {
        match text {
            Some(text) => {
                let own = Profile::parse(name, text)?;
                asked.set("profile", &own.name);
                replace(own);
            }
            None => asked.set("profile", name),
        }
    }
    for (key, values) in settings {
        asked.set(key, values);
    }
    if let Some((name, text)) = measured {
        let own = Profile::parse(name, text)?;
        scenario::set_measured(&mut asked, &own)
            .map_err(|error| Error { file: name.clone(), ..error })?;
        replace(own);
    }
    Ok(scenario::run(&asked, &Library::new(known))?)
}
