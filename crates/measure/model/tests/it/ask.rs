//! Asking scenarios, reading their answers, and listing the errors of files.

use std::fmt::Display;

use overside_config::Error;
use overside_model::scenario::{Metric, Report, Row, ScenarioArgs, presets, run};
use overside_model::{Interval, Library};

pub(crate) fn ask_of(
    library: &Library,
    scenario: &str,
    set: &[(&str, &str)],
) -> Result<Report, Error> {
    let mut asked = ScenarioArgs::of(scenario);
    for (key, value) in set {
        asked.set(key, value);
    }
    run(&asked, library)
}

pub(crate) fn refused(scenario: &str, set: &[(&str, &str)]) -> Error {
    ask_of(Library::published(), scenario, set).expect_err("it is wrong")
}

/// Lists the cases, each with the error that refuses it below it.
pub(crate) fn refusals<E: Display>(cases: impl IntoIterator<Item = (String, E)>) -> String {
    let lines = cases.into_iter().map(|(case, error)| format!("{case}\n    {error}\n"));
    lines.collect()
}

/// Asserts that at least one of several sentences contains `of`.
#[track_caller]
pub(crate) fn assert_says(sentences: &[String], of: &str) {
    assert!(sentences.iter().any(|one| one.contains(of)), "{sentences:?} should say {of}");
}

pub(crate) fn ask(scenario: &str, set: &[(&str, &str)]) -> Report {
    ask_of(Library::published(), scenario, set).unwrap()
}

/// Answers the question in the text of a scenario file.
pub(crate) fn answered(text: &str) -> Result<Report, Error> {
    run(&ScenarioArgs::parse("mine.toml", text)?, Library::published())
}

pub(crate) fn preset(name: &str) -> Report {
    let text = presets().iter().find(|one| one.name == name).unwrap().text;
    answered(text).unwrap()
}

pub(crate) fn figure(metric: &Metric) -> Interval {
    let name = &metric.kind.name;
    (metric.answer.as_ref()).unwrap_or_else(|none| panic!("{name}: {none}")).interval
}

pub(crate) fn rate(row: &Row) -> f64 {
    figure(row.throughput.as_ref().unwrap()).typ
}

pub(crate) fn latency_ns(row: &Row) -> f64 {
    figure(row.latency.as_ref().unwrap()).typ
}

pub(crate) fn metric(row: &Row, name: &str) -> f64 {
    figure(row.shown().find(|one| one.kind.name == name).unwrap()).typ
}
