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
//!     let asked = scenario::Asked::of(scenario.name());
//!     let report = scenario::run(&asked, library)?;
//!     assert_eq!(report.provenance, "modelled");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A new scenario is a module in `scenario/` with a type that implements [`Scenario`], and a line
//! in `SCENARIOS`.

mod arrow;
mod asked;
mod dma;
mod drift;
mod index;
mod interference;
mod key;
mod kv;
mod network;
mod onpath;
mod pairings;
mod pushdown;
mod query;
mod ready;
mod report;
mod split;

pub use asked::{Asked, MAX_FILE_BYTES, MAX_POINTS, Point};
pub use key::{Key, Kind, Refused, Value};
pub use ready::{Ready, ready};
pub use report::{Better, Method, Missing, Report, Row, Shown};

use crate::{Interval, Library, Prediction, suggest};

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
    /// [`ScenarioError`] for values that contradict each other.
    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, ScenarioError>;
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

/// Something in a question that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, or the scenario's name.
    pub from: String,
    /// The key; empty if it is the whole file.
    pub key: String,
    /// What is wrong with its value.
    pub problem: String,
    /// What is allowed.
    pub allowed: String,
    /// The word that was probably meant.
    pub suggestion: Option<String>,
}

impl ScenarioError {
    /// About a key of a scenario.
    pub fn new(key: &str, problem: String, allowed: impl Into<String>) -> Self {
        Self {
            from: String::new(),
            key: key.into(),
            problem,
            allowed: allowed.into(),
            suggestion: None,
        }
    }

    fn meant(mut self, word: &str, known: &[&str]) -> Self {
        self.suggestion = suggest(word, known);
        self
    }

    fn within(mut self, from: &str) -> Self {
        if self.from.is_empty() {
            self.from = from.into();
        }
        self
    }
}

impl std::fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in [&self.from, &self.key] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        write!(f, "{}; allowed: {}", self.problem, self.allowed)?;
        match &self.suggestion {
            Some(word) => write!(f, "; did you mean {word:?}?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// Answers a question, all of its points.
///
/// # Errors
/// [`ScenarioError`], naming the key and what is allowed.
pub fn run(asked: &Asked, library: &Library) -> Result<Report, ScenarioError> {
    let scenario =
        *(SCENARIOS.iter().find(|one| one.name() == asked.scenario)).ok_or_else(|| {
            let names: Vec<_> = SCENARIOS.iter().map(|one| one.name()).collect();
            let problem = format!("no scenario is called {:?}", asked.scenario);
            let error = ScenarioError::new("scenario", problem, names.join(", "));
            error.meant(&asked.scenario, &names).within(&asked.from)
        })?;
    let points = asked.points(scenario, library)?;
    let events = points.iter().map(|point| scenario.events(point));
    let events = events.fold(0, u64::saturating_add);
    if events > MAX_EVENTS {
        let problem = format!("{} points simulate {events} events", points.len());
        let allowed =
            format!("up to {MAX_EVENTS} events in all; ask for fewer points or less work");
        return Err(ScenarioError::new("parameters", problem, allowed).within(&asked.from));
    }
    let mut answered = Vec::with_capacity(points.len());
    for point in points {
        let rows = scenario.rows(&point, library);
        let rows = rows.map_err(|error| error.within(&asked.from))?;
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
