//! The model against published figures and orderings.
//!
//! [`check`] predicts every figure that a claim recognises, with its error. Facts that parameters
//! may be taken from show whether the formulas fit; those that none may be taken from judge the
//! model.

mod leave_one_out;
pub mod page;
mod score;

use serde::Serialize;

use crate::facts::question::Change;
use crate::facts::{Fact, Facts, Figure, FigureValue, Ordering, Use};
use crate::questions::{OrderingFinding, Question, Questions};
use crate::{Dimension, EvidenceLevel, Interval, Library, NoPrediction, Prediction};

pub use leave_one_out::{Residual, Spread, leave_one_out, spreads, without};
pub use score::{GroupScores, OrderingScores, Scores, Width};

/// All figures and orderings of a collection, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The figures, in the collection's order.
    pub figures: Vec<FigureCheck>,
    /// The orderings, in the collection's order.
    pub orderings: Vec<OrderingCheck>,
    /// Scores over the facts that judge the model.
    pub validation: Scores,
    /// Scores over the facts that parameters may rest on.
    pub calibration: Scores,
    /// Numbers of all orderings, of claimed ones, and of claimed ones that hold or likely do.
    pub ordering_scores: OrderingScores,
}

/// One figure, compared.
#[derive(Clone, Debug, Serialize)]
pub struct FigureCheck {
    /// The fact's name and the keys inside it.
    pub name: String,
    /// The fact.
    pub fact: String,
    /// Device that the figure was measured on.
    pub device: String,
    /// Workload that the device ran.
    pub workload: String,
    /// Name of the figure.
    pub metric: String,
    /// Permitted use of the fact: parameters may rest on it, or it judges the model.
    pub purpose: Use,
    /// Published value as the source prints it, with its sign for a bound.
    pub published: String,
    /// Unit of the figure.
    pub unit: String,
    /// Result of comparing the figure with the model.
    #[serde(flatten)]
    pub finding: Finding,
}

/// Result of comparing one figure with the model.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "finding")]
pub enum Finding {
    /// The figure was predicted.
    Predicted(FigureComparison),
    /// A scenario claims it but nothing known supports a prediction.
    NoPrediction {
        /// The scenario.
        scenario: String,
        /// Reason why there is no prediction, such as a parameter that is not known.
        why: String,
        /// Measurement or other step that would make a prediction possible.
        remedy: String,
    },
    /// The figure was predicted, but with an interval that is too wide: it is more than
    /// [`TELLING_MAX`] times wide, or reaches down to no difference at all. Never a hit.
    CannotTell {
        /// The scenario.
        scenario: String,
        /// The prediction, in the source's unit.
        modelled: Interval,
    },
    /// No scenario covers the figure.
    NotCovered,
    /// The fact's number is in doubt: the figure counts for orderings only.
    Doubtful,
    /// The figure is in words.
    Words,
}

/// High end over low end of the widest interval that counts.
pub const TELLING_MAX: f64 = 10.0;

/// A prediction compared with a published figure.
#[derive(Clone, Debug, Serialize)]
pub struct FigureComparison {
    /// Name of the scenario that predicts the figure.
    pub scenario: String,
    /// Prediction in the source's unit. If the source prints a reduction as a negative number,
    /// `low` is the smaller reduction.
    pub modelled: Interval,
    /// Typical prediction / published - 1. Of a published range the nearest point counts, and a
    /// bound that is kept is met exactly. Of a difference that may be zero, of which nothing is a
    /// multiple, the ratio of the two sides counts: 2 % instead of none is 2 % off.
    pub error: f64,
    /// Error from the middle of a published range, its geometric mean.
    pub error_of_middle: f64,
    /// `true` if the prediction's interval contains the published figure. For a range: if it
    /// contains the geometric mean, or if the typical prediction lies in the range.
    pub inside: bool,
    /// Upper end of the interval over the lower one.
    pub width: f64,
    /// Closeness of the evidence to the predicted figure.
    pub closeness: EvidenceLevel,
    /// `true` if the prediction rests on this very fact.
    pub fitted: bool,
    /// Kind of evidence that the prediction comes from.
    pub group: Group,
    /// Facts that it rests on.
    pub facts: Vec<String>,
    /// Resource that limits the predicted value; `None` if the formula names none.
    pub bottleneck: Option<String>,
    /// Parameters that dominate it, with the factor that each is worth.
    pub influences: Vec<(String, f64)>,
}

/// Kind of evidence that the prediction of a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// The figure itself: parameters were taken from it.
    Itself,
    /// Other facts have it for the same card: as it is, or as a ratio, a mean or an extreme of
    /// their figures.
    Restated,
    /// A formula.
    Predicted,
    /// The formula of TPC-H's queries: they are many, and count apart.
    Queries,
}

/// One ordering, compared.
#[derive(Clone, Debug, Serialize)]
pub struct OrderingCheck {
    /// Identifier of the ordering in the collection.
    pub id: String,
    /// Statement in words.
    pub statement: String,
    /// Result of comparing the ordering with the model.
    #[serde(flatten)]
    pub finding: OrderingFinding,
}

/// Compares all of `facts` with the model's predictions from `library`.
pub fn check(facts: &Facts, library: &Library) -> Check {
    let figures: Vec<_> = (facts.facts.iter())
        .flat_map(Fact::figures)
        .map(|figure| figure_check(&figure, library))
        .collect();
    let orderings: Vec<_> = (facts.orderings.iter())
        .map(|ordering| OrderingCheck {
            id: ordering.id.clone(),
            statement: ordering.statement.clone(),
            finding: ordering_finding(ordering, library),
        })
        .collect();
    Check {
        validation: Scores::of(&figures, Use::Validate),
        calibration: Scores::of(&figures, Use::Calibrate),
        ordering_scores: OrderingScores::of(&orderings),
        figures,
        orderings,
    }
}

/// A figure that the model predicts.
pub(crate) struct Claim {
    /// Question that asks for the figure.
    pub question: Question,
    /// The figure's unit in base units; negative where the source prints a reduction as a negative
    /// number.
    pub unit_in_base: f64,
}

/// Returns the claim about a figure, ready to be predicted. `None` if no question asks about the
/// figure or its unit does not fit.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    let question = Questions::published().of(figure)?;
    let unit_in_base = question.unit_in_base(figure).ok()?;
    Some(Claim { question, unit_in_base })
}

fn ordering_finding(ordering: &Ordering, library: &Library) -> OrderingFinding {
    match Questions::published().ordering(ordering) {
        Some(question) => question.answer(library),
        None => OrderingFinding::NotModelled { reason: "nothing is asked about it".into() },
    }
}

fn figure_check(figure: &Figure<'_>, library: &Library) -> FigureCheck {
    let fact = figure.fact;
    FigureCheck {
        name: figure.name(),
        fact: fact.id.clone(),
        device: figure.device().to_owned(),
        workload: fact.workload.clone(),
        metric: fact.metric.clone(),
        purpose: fact.purpose,
        published: figure.value.to_string(),
        unit: figure.unit.to_owned(),
        finding: find(figure, library),
    }
}

fn find(figure: &Figure<'_>, library: &Library) -> Finding {
    if !figure.value.is_number() {
        return Finding::Words;
    }
    if figure.fact.is_doubtful() {
        return Finding::Doubtful;
    }
    let Some(claim) = claim(figure) else {
        return Finding::NotCovered;
    };
    let scenario = claim.question.scenario().to_owned();
    match measure(figure, &claim, library) {
        Ok(mut compared) => {
            if scenario == "query" && !compared.fitted {
                compared.group = Group::Queries;
            }
            Finding::Predicted(FigureComparison { scenario, ..compared })
        }
        Err(Unmet::MissingParameter(NoPrediction { why, remedy })) => {
            Finding::NoPrediction { scenario, why, remedy }
        }
        Err(Unmet::Vague(modelled)) => Finding::CannotTell { scenario, modelled },
        Err(Unmet::Sign) => Finding::NoPrediction {
            scenario,
            why: "the published figure has the other sign, or is next to nothing".into(),
            remedy: "look at its conditions: `overside facts show`".into(),
        },
    }
}

/// Reason why a figure and a prediction cannot be compared.
enum Unmet {
    MissingParameter(NoPrediction),
    Vague(Interval),
    Sign,
}

impl From<NoPrediction> for Unmet {
    fn from(none: NoPrediction) -> Self {
        Self::MissingParameter(none)
    }
}

/// The ends of the published range, in base units; open ends of bounds are 0 and infinite.
fn all_ends(value: &FigureValue, unit: f64) -> Option<(f64, f64)> {
    let (a, b) = match value {
        FigureValue::Number(one) => (one * unit, one * unit),
        FigureValue::Range(low, high) => (low * unit, high * unit),
        FigureValue::Below(high) => (0.0, high * unit),
        FigureValue::Above(low) => (low * unit, f64::INFINITY),
        FigureValue::Series(_) | FigureValue::Words(_) => return None,
    };
    (!a.is_nan() && !b.is_nan()).then_some((a.min(b), a.max(b)))
}

/// The ends of a published range that factors reach; `None` for one that starts below zero.
fn ends(value: &FigureValue, unit: f64) -> Option<(f64, f64)> {
    let (low, high) = all_ends(value, unit)?;
    (low >= 0.0 && (high > 0.0 || low == high)).then_some((low, high))
}

/// Returns the value that a prediction has to reach. For a published range it is the geometric
/// mean, or the prediction itself if that lies in the range. For a bound it is the bound.
fn middle(low: f64, high: f64, typ: f64) -> f64 {
    let nearest = typ.clamp(low, high);
    if nearest == typ { nearest } else { center(low, high, typ) }
}

/// Returns the geometric mean of a range. For a bound, which has none, it is the nearest point.
fn center(low: f64, high: f64, typ: f64) -> f64 {
    if low == 0.0 || high.is_infinite() { typ.clamp(low, high) } else { (low * high).sqrt() }
}

/// Returns the natural logarithm of the typical prediction over the value that it has to reach:
/// positive if the prediction is too high. `None` if that is not finite or nothing comparable was
/// published.
pub(crate) fn distance(value: &FigureValue, unit: f64, modelled: Interval) -> Option<f64> {
    let (low, high) = ends(value, unit)?;
    let distance = (modelled.typ / middle(low, high, modelled.typ)).ln();
    distance.is_finite().then_some(distance)
}

fn measure(
    figure: &Figure<'_>,
    claim: &Claim,
    library: &Library,
) -> Result<FigureComparison, Unmet> {
    let (question, unit) = (&claim.question, claim.unit_in_base);
    let answered = question.unchanged(library)?;
    if unit == 0.0 {
        return Err(Unmet::Sign);
    }
    let change = question.change;
    let fact = figure.fact.id.as_str();
    let compare = |ends: (f64, f64), scale: &Scale, prediction: Prediction| {
        let compared = scale.compare(ends, prediction, unit)?;
        Ok::<_, Unmet>(compared.grouped(fact, answered.is_given))
    };
    let published = all_ends(&figure.value, unit).ok_or(Unmet::Sign)?;
    let is_bound = matches!(figure.value, FigureValue::Below(_) | FigureValue::Above(_));
    let may_be_zero = published.0 <= 0.0 && published.1 >= 0.0 && !is_bound;
    let is_difference = change.is_some()
        || (published == (0.0, 0.0) || published.0 < 0.0)
            && question.dimension().is_ok_and(|one| one == Dimension::Count);
    if may_be_zero && is_difference {
        return compare(published, &Scale::Ratio(change), answered.prediction.clone());
    }
    let known = ends(&figure.value, unit).ok_or(Unmet::Sign)?;
    let Some(change) = change else {
        return compare(known, &Scale::Figure, answered.prediction.clone());
    };
    match change.of(answered.prediction.clone()) {
        Ok(difference) => compare(known, &Scale::Figure, difference),
        Err(_) => {
            let ratio = answered.prediction.interval;
            let scale = Scale::Ratio(Some(change));
            if ratio.low <= 1.0 && 1.0 <= ratio.high {
                return Err(Unmet::Vague(scale.shown(ratio).scale(1.0 / unit)));
            }
            // The other way round than published.
            compare(known, &scale, answered.prediction.clone())
        }
    }
}

/// Scale on which a prediction and a published figure are compared.
enum Scale {
    /// Scale of the figure itself.
    Figure,
    /// Ratio of the two sides of a difference, in the form in which it is stated;
    /// `None` if the figure itself is the difference.
    Ratio(Option<Change>),
}

impl Scale {
    /// Returns the place on the scale of a published number.
    fn place(&self, number: f64) -> f64 {
        match self {
            Self::Figure => number,
            Self::Ratio(Some(Change::Less)) => 1.0 - number,
            Self::Ratio(_) => 1.0 + number,
        }
    }

    /// Returns a prediction on the scale as the figure that it is.
    fn shown(&self, modelled: Interval) -> Interval {
        let Interval { low, typ, high } = modelled;
        match self {
            Self::Figure => modelled,
            Self::Ratio(Some(Change::Less)) => {
                Interval { low: 1.0 - high, typ: 1.0 - typ, high: 1.0 - low }
            }
            Self::Ratio(_) => modelled.map(|ratio| ratio - 1.0),
        }
    }

    /// Compares a prediction with the ends of a published range.
    fn compare(
        &self,
        published: (f64, f64),
        prediction: Prediction,
        unit: f64,
    ) -> Result<FigureComparison, Unmet> {
        let modelled = match self {
            Self::Ratio(None) => prediction.interval.map(|difference| 1.0 + difference),
            _ => prediction.interval,
        };
        let (a, b) = (self.place(published.0), self.place(published.1));
        let (low, high) = (a.min(b), a.max(b));
        let is_sound = modelled.low >= 0.0
            && modelled.low <= modelled.typ
            && modelled.typ <= modelled.high
            && modelled.high.is_finite()
            && low >= 0.0;
        if !is_sound {
            return Err(Unmet::Sign);
        }
        let shown = self.shown(modelled).scale(1.0 / unit);
        if modelled.low * TELLING_MAX < modelled.high {
            return Err(Unmet::Vague(shown));
        }
        // None of what was counted is met by none.
        let over = |a: f64, b: f64| if a == b { 1.0 } else { a / b };
        let error = over(modelled.typ, modelled.typ.clamp(low, high)) - 1.0;
        if !error.is_finite() {
            return Err(Unmet::Sign);
        }
        let figure_at = middle(low, high, modelled.typ);
        Ok(FigureComparison {
            scenario: String::new(),
            modelled: shown,
            error,
            error_of_middle: over(modelled.typ, center(low, high, modelled.typ)) - 1.0,
            group: Group::Predicted,
            inside: (modelled.low..=modelled.high).contains(&figure_at),
            width: over(modelled.high, modelled.low),
            closeness: prediction.closeness,
            fitted: false,
            facts: prediction.facts,
            bottleneck: prediction.bottleneck,
            influences: (prediction.influences.into_iter())
                .map(|influence| (influence.parameter, influence.factor))
                .collect(),
        })
    }
}

impl FigureComparison {
    /// Notes the kind of evidence of a figure of the fact `fact`.
    fn grouped(mut self, fact: &str, is_given: bool) -> Self {
        self.fitted = self.facts.iter().any(|one| one == fact);
        self.group = match (self.fitted, is_given) {
            (true, _) => Group::Itself,
            (false, true) => Group::Restated,
            (false, false) => Group::Predicted,
        };
        self
    }
}
