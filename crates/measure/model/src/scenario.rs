//! Scenarios: questions that `overside simulate` answers.
//!
//! A scenario has keys, which a file `scenario/1` or the command line sets; several values of a key are a
//! sweep. For each point of the product it answers with rows of figures. Each figure is an interval with
//! the facts that it rests on, or the reason for having none.
//!
//! ```
//! use overside_model::{Library, scenario};
//! let library = Library::published();
//! for scenario in scenario::scenarios() {
//!     let asked = scenario::ScenarioArgs::of(&scenario.name);
//!     let report = scenario::run(&asked, library)?;
//!     assert_eq!(report.provenance, "modelled");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A new scenario is an entry in `scenario/scenarios.toml`, which defines its keys and its figures,
//! and a function in a module of `scenario/` with a line in `functions`.

mod args;
mod arrow;
mod codec;
mod compare;
mod dma;
mod drift;
mod index;
mod interference;
mod key;
mod kv;
mod kv_stages;
mod machine;
mod matching;
mod network;
mod onpath;
mod pairings;
mod presets;
mod pushdown;
mod query;
mod report;
mod row;
mod split;

use std::sync::LazyLock;

pub use args::{MAX_POINTS, Point, ScenarioArgs};
pub use compare::{Choice, Compare, ComparedRow, ComparedRows};
pub use key::{Condition, Key, Kind, Value};
pub use presets::{Preset, presets};
pub use report::{Missing, Report};
pub use row::{Better, Method, Metric, MetricKind, Row};

use overside_config::Error;
use serde::Deserialize;

use crate::{Answer, Library, Parameter, Prediction, Profile};

/// Maximum number of events that one question may simulate: a few minutes' work.
pub const MAX_EVENTS: u64 = 2_000_000_000;

/// A kind of question, as `scenarios.toml` declares it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario: lower-case letters and hyphens.
    pub name: String,
    /// Question that the scenario answers, in a sentence without a full stop.
    pub about: String,
    /// Parameters that it reads of a machine that was measured; `None` if it reads none.
    pub measured: Option<Measured>,
    /// Keys that can be set. The profiles that it reads are keys too.
    pub keys: Vec<Key>,
    /// Figures that its rows may have.
    pub metrics: Vec<MetricKind>,
    /// Comparison that a report begins with; `None` if there is no baseline.
    pub compare: Option<Compare>,
    /// Figure whose best and worst row a report begins with, where nothing is compared; the first
    /// that gets better one way if `None`.
    pub lead: Option<String>,
}

/// Parameters that a scenario reads of a machine that was measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The key that names the machine.
    pub key: String,
    /// Prefixes of the names of the parameters that it reads.
    pub reads: Vec<String>,
}

/// Answers one point: a row, or several (by time, by stage). A figure that cannot be predicted is a
/// [`NoPrediction`](crate::NoPrediction) in the row; an [`Error::of_key`] is for values that
/// contradict each other.
type Rows = fn(&Point, &Library) -> Result<Vec<Row>, Error>;

/// About how many events one point simulates.
type Events = fn(&Point) -> u64;

/// Returns the functions that answer a point of the scenario of that name and count its events.
/// `None` if there is no such scenario.
fn functions(name: &str) -> Option<(Rows, Events)> {
    let closed_form: Events = |_| 0;
    Some(match name {
        "split" => (split::rows, closed_form),
        "codec" => (codec::rows, closed_form),
        "match" => (matching::rows, closed_form),
        "arrow" => (arrow::rows, closed_form),
        "coprocessing-drift" => (drift::rows, drift::events),
        "kv" => (kv::rows, kv::events),
        "kv-stages" => (kv_stages::rows, kv_stages::events),
        "pairings" => (pairings::rows, closed_form),
        "machine" => (machine::rows, closed_form),
        "pushdown" => (pushdown::rows, closed_form),
        "index" => (index::rows, closed_form),
        "query" => (query::rows, closed_form),
        "onpath" => (onpath::rows, onpath::events),
        "dma" => (dma::rows, closed_form),
        "network" => (network::rows, closed_form),
        "interference" => (interference::rows, interference::events),
        _ => return None,
    })
}

/// All scenarios, in the order in which they are listed.
///
/// # Panics
/// Never: a test reads the declarations.
pub fn scenarios() -> &'static [Scenario] {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Declarations {
        scenario: Vec<Scenario>,
    }
    static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| {
        let all = toml::from_str(include_str!("scenario/scenarios.toml"));
        let all: Declarations = all.expect("a test reads the declarations");
        all.scenario
    });
    &SCENARIOS
}

impl Scenario {
    /// About how many events one point simulates; 0 for a closed form.
    pub fn events(&self, point: &Point) -> u64 {
        functions(&self.name).map_or(0, |(_, events)| events(point))
    }
}

/// The scenario of a question, and the functions that answer it.
fn find(asked: &ScenarioArgs) -> Result<(&'static Scenario, (Rows, Events)), Error> {
    let named = scenarios().iter().find(|one| one.name == asked.scenario);
    let found = named.and_then(|one| Some((one, functions(&one.name)?)));
    found.ok_or_else(|| {
        let names: Vec<_> = scenarios().iter().map(|one| &one.name).collect();
        let problem = format!("no scenario is called {:?}", asked.scenario);
        let error = asked.locate(Error::of_key("scenario", problem, ""));
        error.meant(&asked.scenario, &names)
    })
}

/// Sets the key that names the machine of a question to the one that was measured, unless it is set.
///
/// # Errors
/// [`Error`]: the scenario reads no value of `own`.
pub fn set_measured(asked: &mut ScenarioArgs, own: &Profile) -> Result<(), Error> {
    let (scenario, _) = find(asked)?;
    let name = &scenario.name;
    let Some(Measured { key, reads }) = &scenario.measured else {
        let problem = format!("{name} reads no costs of a machine from a run");
        let remedy = "its costs are those of `overside kv profile --json`";
        return Err(Error::of_file(&own.name, problem, remedy));
    };
    let names = own.values.keys().chain(own.tables.keys());
    let is_read = |name: &&String| reads.iter().any(|prefix| name.starts_with(prefix.as_str()));
    if names.clone().find(is_read).is_none() {
        let wanted = crate::PARAMETERS.iter().map(|one| one.name);
        let mut wanted = wanted.filter(|one| reads.iter().any(|prefix| one.starts_with(prefix)));
        let found: Vec<&str> = names.map(String::as_str).collect();
        let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
        let problem = format!(
            "nothing in it is of use to {name}, which reads {}: there is {found}",
            reads.iter().map(|one| format!("{one}*")).collect::<Vec<_>>().join(", ")
        );
        let remedy = wanted.next().map_or_else(String::new, Parameter::remedy);
        return Err(Error::of_file(&own.name, problem, remedy));
    }
    if !asked.values.contains_key(key) {
        asked.set(key, &own.name);
    }
    Ok(())
}

/// Answers a question, all of its points.
///
/// # Errors
/// [`Error`], naming the key and the allowed values.
pub fn run(asked: &ScenarioArgs, library: &Library) -> Result<Report, Error> {
    let (scenario, (answer, events)) = find(asked)?;
    let points = asked.points(scenario, library)?;
    let events = points.iter().map(events).fold(0, u64::saturating_add);
    if events > MAX_EVENTS {
        let problem = format!("{} points simulate {events} events", points.len());
        let allowed =
            format!("up to {MAX_EVENTS} events in all; ask for fewer points or less work");
        return Err(asked.locate(Error::of_key("parameters", problem, allowed)));
    }
    let mut answered = Vec::with_capacity(points.len());
    for point in points {
        let rows = answer(&point, library).map_err(|error| asked.locate(error))?;
        answered.push((point, rows));
    }
    let about = if asked.about.is_empty() { &scenario.about } else { &asked.about };
    Ok(Report::of(scenario, about, answered, library))
}

/// Returns the figure `name` of the answer to a question of one point, or the reason for having none.
///
/// # Errors
/// Those of [`run`]; also if several rows answer, or none has that figure.
pub fn figure(asked: &ScenarioArgs, name: &str, library: &Library) -> Result<Answer, Error> {
    let (scenario, (answer, _)) = find(asked)?;
    let mut found = Vec::new();
    for point in asked.points(scenario, library)? {
        for row in answer(&point, library).map_err(|error| asked.locate(error))? {
            let those = row.shown().filter(|metric| metric.kind.name == name);
            found.extend(those.map(|metric| metric.answer.clone()));
        }
    }
    if found.len() == 1 {
        return Ok(found.swap_remove(0));
    }
    let problem = format!("{} rows answer with {name:?}", found.len());
    let remedy = "set the keys so that one does";
    Err(asked.locate(Error::of_key("figure", problem, remedy)))
}

/// Builds a prediction from a simulated `value` in base units, where a formula predicts `closed`.
/// The formula's doubt and facts apply to the value.
pub fn simulated(closed: &Prediction, value: f64) -> Prediction {
    let typ = closed.interval.typ;
    let interval = closed.interval.map(|end| value * (end / typ));
    Prediction { interval, ..closed.clone() }
}
