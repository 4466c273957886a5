//! Scenarios: questions that `overside simulate` answers.
//!
//! A scenario has keys; a file `scenario/1` or the command line sets them, several values of a key
//! being a sweep. For each point of the product it answers with rows of figures, each an interval
//! with the facts that it rests on, or the reason why there is none.
//!
//! ```
//! use overside_model::{Library, scenario};
//! let library = Library::published();
//! for scenario in scenario::scenarios() {
//!     let asked = scenario::ScenarioArgs::of(scenario.name());
//!     let report = scenario::run(&asked, library)?;
//!     assert_eq!(report.provenance, "modelled");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A new scenario is a module in `scenario/` with a type that implements [`Scenario`], and a line
//! in `SCENARIOS`.

mod args;
mod arrow;
mod dma;
mod drift;
mod index;
mod interference;
mod key;
mod kv;
mod network;
mod onpath;
mod pairings;
mod presets;
mod pushdown;
mod query;
mod report;
mod split;

pub use args::{MAX_POINTS, Point, ScenarioArgs};
pub use key::{Key, Kind, Value};
pub use presets::{Preset, presets};
pub use report::{Better, Method, Metric, Missing, Report, Row};

use overside_config::Error;

use crate::{Interval, Library, Prediction};

/// The most events that one question may simulate: a few minutes' work.
pub const MAX_EVENTS: u64 = 2_000_000_000;

/// A kind of question.
pub trait Scenario: Sync {
    /// Its name: lower-case letters and hyphens.
    fn name(&self) -> &'static str;

    /// What it answers, in a sentence without a full stop.
    fn about(&self) -> &'static str;

    /// What can be set. The profiles that it reads are keys too.
    fn keys(&self) -> &'static [Key];

    /// About how many events one point simulates; 0 for a closed form.
    fn events(&self, _point: &Point) -> u64 {
        0
    }

    /// Answers one point: a row, or several (by time, by stage). What cannot be predicted is a
    /// [`NoPrediction`](crate::NoPrediction) in the row, not an error.
    ///
    /// # Errors
    /// [`Error::of_key`] for values that contradict each other.
    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error>;
}

/// All scenarios, in the order in which they are listed.
#[rustfmt::skip]
const SCENARIOS: &[&dyn Scenario] = &[
    &split::SplitScenario,
    &arrow::Arrow,
    &drift::Drift,
    &kv::Kv,
    &pairings::Pairings,
    &pushdown::PushdownScenario,
    &index::Index,
    &query::QueryScenario,
    &onpath::OnPath,
    &dma::DmaScenario,
    &network::NetworkScenario,
    &interference::Interference,
];

/// All scenarios, in the order in which they are listed.
pub fn scenarios() -> &'static [&'static dyn Scenario] {
    SCENARIOS
}

/// Answers a question, all of its points.
///
/// # Errors
/// [`Error`], naming the key and what is allowed.
pub fn run(asked: &ScenarioArgs, library: &Library) -> Result<Report, Error> {
    let scenario =
        *(SCENARIOS.iter().find(|one| one.name() == asked.scenario)).ok_or_else(|| {
            let names: Vec<_> = SCENARIOS.iter().map(|one| one.name()).collect();
            let problem = format!("no scenario is called {:?}", asked.scenario);
            let error = asked.locate(Error::of_key("scenario", problem, ""));
            error.meant(&asked.scenario, &names)
        })?;
    let points = asked.points(scenario, library)?;
    let events = points.iter().map(|point| scenario.events(point));
    let events = events.fold(0, u64::saturating_add);
    if events > MAX_EVENTS {
        let problem = format!("{} points simulate {events} events", points.len());
        let allowed =
            format!("up to {MAX_EVENTS} events in all; ask for fewer points or less work");
        return Err(asked.locate(Error::of_key("parameters", problem, allowed)));
    }
    let mut answered = Vec::with_capacity(points.len());
    for point in points {
        let rows = scenario.rows(&point, library);
        let rows = rows.map_err(|error| asked.locate(error))?;
        answered.push((point, rows));
    }
    let about = if asked.about.is_empty() {
        scenario.about()
    } else {
        &asked.about
    };
    Ok(Report::of(scenario.name(), about, answered, library))
}

/// What a simulation gave where a formula predicts `closed`: its value in base units, with the
/// formula's doubt about it and what that rests on.
pub fn simulated(closed: &Prediction, value: f64) -> Prediction {
    let Interval { low, typ, high } = closed.interval;
    let interval = Interval {
        low: value * (low / typ),
        typ: value,
        high: value * (high / typ),
    };
    Prediction {
        interval,
        ..closed.clone()
    }
}
