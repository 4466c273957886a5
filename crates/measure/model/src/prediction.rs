//! Predictions: formulas over known parameters, with the doubt about each carried through.
//!
//! A formula is a plain function of [`Values`]. [`Evidence::predict`] evaluates it with all
//! parameters at their typical value, then with one of them at a time at either end of its
//! interval. That gives the interval, the facts that it rests on and the parameters that dominate
//! it, and no formula has to keep books.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{Dimension, Interval, Parameter, Quantity, Table, spread};

/// Closeness of the evidence: how far a formula's answer may lie from the truth beyond the doubt
/// about its parameters.
///
/// The widths come from leaving one published figure out at a time and predicting it from the
/// rest; see [`EvidenceLevel::factor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceLevel {
    /// The very quantity was published, for this card and these conditions.
    Same,
    /// The same card and the same code or codec, at another size, depth or number of cores.
    Card,
    /// Another application, codec or card.
    Application,
}

/// A value that formulas read: one number, or one for each of several sizes or counts.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterValue {
    /// One number.
    Quantity(Quantity),
    /// A number by size, depth or count.
    Table(Table),
}

impl From<Quantity> for ParameterValue {
    fn from(quantity: Quantity) -> Self {
        Self::Quantity(quantity)
    }
}

impl From<Table> for ParameterValue {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl ParameterValue {
    /// Facts with the value.
    pub fn facts(&self) -> &[String] {
        match self {
            Self::Quantity(quantity) => &quantity.facts,
            Self::Table(table) => &table.facts,
        }
    }

    /// Returns the dimension of the value's unit, such as a time or a rate.
    pub fn dimension(&self) -> Dimension {
        match self {
            Self::Quantity(quantity) => quantity.unit.dimension(),
            Self::Table(table) => table.unit.dimension(),
        }
    }
}

/// All that is known when a question is asked, by the parameters' names.
///
/// Parameters of several machines stand side by side under a prefix each, as in
/// `bf2/tcp.stream.rate` and `host/tcp.stream.rate`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    known: BTreeMap<String, ParameterValue>,
}

/// Reason why a formula has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingParameter {
    /// The formula reads an unpublished parameter.
    #[error("{name} is not known")]
    Parameter {
        /// Name of the parameter, after a machine's name and `/` where several machines are asked
        /// about.
        name: String,
    },
    /// No measurement can give such a figure.
    #[error("{why}; {remedy}")]
    Nothing {
        /// Reason why there is no such figure.
        why: String,
        /// Question or step to try instead.
        remedy: String,
    },
}

impl MissingParameter {
    /// An unpublished parameter.
    pub fn parameter(name: impl Into<String>) -> Self {
        Self::Parameter { name: name.into() }
    }

    /// Error for a figure that does not exist; the remedy names one to ask for instead.
    pub fn nothing(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Nothing { why: why.into(), remedy: remedy.into() }
    }
}

/// Value of a formula, or the reason why it has none.
pub type Evaluation<T = f64> = Result<T, MissingParameter>;

/// Value of a formula, and the resource that limits it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Value in bytes, bytes per second, nanoseconds, operations per second or a plain number.
    pub value: f64,
    /// Resource that limits the value; `None` if the formula names none.
    pub bottleneck: Option<String>,
}

impl From<f64> for Outcome {
    fn from(value: f64) -> Self {
        Self { value, bottleneck: None }
    }
}

/// An end of a parameter's interval.
type End = fn(Interval) -> f64;

/// Parameters that a formula reads. Records which ones were read.
#[derive(Debug)]
pub struct Values<'a> {
    evidence: &'a Evidence,
    moved: Option<(&'a str, End)>,
    /// Names of the parameters that were read; `true` if there is any doubt about the value.
    read: RefCell<BTreeMap<String, bool>>,
}

impl Values<'_> {
    /// A parameter in base units (bytes, bytes a second, nanoseconds, operations a second).
    ///
    /// # Errors
    /// [`MissingParameter`]. A table is not a number.
    pub fn get(&self, name: &str) -> Evaluation {
        match self.evidence.known.get(name) {
            Some(ParameterValue::Quantity(quantity)) => Ok(self.pick(name, quantity.interval())),
            _ => Err(MissingParameter::parameter(name)),
        }
    }

    /// A parameter that depends on a size, a depth or a count, at `x` of it. Between two points
    /// it is interpolated on logarithmic axes; beyond the ends the nearest point stands.
    ///
    /// # Errors
    /// [`MissingParameter`]. A number that does not depend on anything is the same at every `x`.
    pub fn at(&self, name: &str, x: f64) -> Evaluation {
        match self.evidence.known.get(name) {
            Some(ParameterValue::Table(table)) => Ok(self.pick(name, table.interval(x))),
            Some(ParameterValue::Quantity(quantity)) => Ok(self.pick(name, quantity.interval())),
            None => Err(MissingParameter::parameter(name)),
        }
    }

    /// Returns `true` if the evidence contains the parameter.
    pub fn has(&self, name: &str) -> bool {
        self.evidence.known.contains_key(name)
    }

    fn pick(&self, name: &str, interval: Interval) -> f64 {
        if self.moved.is_none() {
            let in_doubt = interval.low != interval.typ || interval.high != interval.typ;
            let mut read = self.read.borrow_mut();
            match read.get_mut(name) {
                Some(known) => *known |= in_doubt,
                None => {
                    read.insert(name.to_owned(), in_doubt);
                }
            }
        }
        match self.moved {
            Some((moved, end)) if moved == name => end(interval),
            _ => interval.typ,
        }
    }
}

/// Effect on a prediction of moving one parameter from end to end of its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Influence {
    /// The parameter's name.
    pub parameter: String,
    /// Largest prediction divided by the smallest, with only this parameter changed; 1 without an effect.
    pub factor: f64,
    /// The prediction divided by the typical one, with this parameter at its lower and at its upper end;
    /// 1 if the formula has no answer. Parameters that several predictions share cancel out.
    #[serde(skip, default = "unmoved")]
    ends: [f64; 2],
}

const fn unmoved() -> [f64; 2] {
    [1.0; 2]
}

impl Influence {
    fn of(parameter: &str, ends: [f64; 2]) -> Self {
        let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        Self { parameter: parameter.to_owned(), factor: most.max(1.0) / least.min(1.0), ends }
    }
}

/// The interval of a prediction from the effect of each parameter, the most influential first.
fn in_quadrature(
    typ: f64,
    closeness: EvidenceLevel,
    mut influences: Vec<Influence>,
) -> (Interval, Vec<Influence>) {
    let own = closeness.factor().ln();
    let (mut below, mut above) = (own * own, own * own);
    for one in &influences {
        let effects = one.ends.map(f64::ln);
        let (least, most) = (effects[0].min(effects[1]), effects[0].max(effects[1]));
        below += least.min(0.0).powi(2);
        above += most.max(0.0).powi(2);
    }
    influences.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    let interval =
        Interval { low: typ * (-below.sqrt()).exp(), typ, high: typ * above.sqrt().exp() };
    (interval, influences)
}

/// A predicted figure. Its provenance is `modelled`, always.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The figure, in base units.
    pub interval: Interval,
    /// Closeness of the evidence to the predicted figure.
    pub closeness: EvidenceLevel,
    /// Resource that limits the value; `None` if the formula names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<String>,
    /// Parameters that were read, the most influential first.
    pub influences: Vec<Influence>,
    /// Facts that it rests on.
    pub facts: Vec<String>,
}

/// Reason why there is no prediction, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("no prediction: {why}; {remedy}")]
pub struct NoPrediction {
    /// Reason, such as a parameter that is not known.
    pub why: String,
    /// Measurement or other step that would give a prediction.
    pub remedy: String,
}

impl From<MissingParameter> for NoPrediction {
    fn from(unknown: MissingParameter) -> Self {
        match unknown {
            MissingParameter::Parameter { name } => Self {
                why: format!("no published fact gives {name}"),
                remedy: Parameter::remedy(&name),
            },
            MissingParameter::Nothing { why, remedy } => Self { why, remedy },
        }
    }
}

impl NoPrediction {
    /// Returns the reason for a formula whose value cannot be a figure.
    fn of_value(value: f64) -> Self {
        Self {
            why: format!("the formula gives {value}"),
            remedy: "look at the parameters' values: `overside profile show`".into(),
        }
    }

    /// Error of a formula without a value.
    pub(crate) fn not_evaluated() -> Self {
        Self {
            why: "the formula was not evaluated".into(),
            remedy: "look at the parameters' values: `overside profile show`".into(),
        }
    }
}

impl Prediction {
    /// No more than `bound`; if that decides, `limit` is the bottleneck.
    #[must_use]
    pub fn bounded_by(mut self, bound: &Self, limit: &str) -> Self {
        if self.interval.typ >= bound.interval.typ {
            self.bottleneck = Some(limit.into());
        }
        if self.interval.high > bound.interval.low {
            let missing = (bound.facts.iter()).filter(|fact| !self.facts.contains(fact));
            let missing: Vec<String> = missing.cloned().collect();
            self.facts.extend(missing);
        }
        let (own, most) = (self.interval, bound.interval);
        self.interval = Interval {
            low: own.low.min(most.low),
            typ: own.typ.min(most.typ),
            high: own.high.min(most.high),
        };
        self
    }

    /// Combines several predictions by a formula. A parameter that they share moves in all of them
    /// at once, so that it cancels out of a ratio. The result has the furthest evidence level of
    /// its parts.
    ///
    /// # Errors
    /// [`NoPrediction`] where the formula gives no positive number.
    pub fn combined(parts: &[Self], of: impl Fn(&[f64]) -> f64) -> Answer {
        let typical: Vec<f64> = parts.iter().map(|one| one.interval.typ).collect();
        let typ = of(&typical);
        if !(typ.is_finite() && typ > 0.0) {
            return Err(NoPrediction::of_value(typ));
        }
        let mut moved: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
        for (index, part) in parts.iter().enumerate() {
            for influence in &part.influences {
                let both = (moved.entry(&influence.parameter))
                    .or_insert_with(|| [typical.clone(), typical.clone()]);
                for (values, end) in both.iter_mut().zip(influence.ends) {
                    values[index] *= end;
                }
            }
        }
        let influences = moved.into_iter().map(|(name, both)| {
            let effect = |values: Vec<f64>| {
                let moved = of(&values) / typ;
                if moved.is_finite() && moved > 0.0 { moved } else { 1.0 }
            };
            Influence::of(name, both.map(effect))
        });
        let closeness = parts.iter().map(|one| one.closeness).max();
        let closeness = closeness.unwrap_or(EvidenceLevel::Same);
        let (interval, influences) = in_quadrature(typ, closeness, influences.collect());
        let facts: BTreeSet<&String> = parts.iter().flat_map(|one| &one.facts).collect();
        Ok(Self {
            interval,
            closeness,
            bottleneck: None,
            influences,
            facts: facts.into_iter().cloned().collect(),
        })
    }

    /// Returns this figure over another of the same kind, for a choice between the two: their
    /// combination, in which a doubt that both share cancels. Figures of one formula over the same
    /// values are exactly equal, and no end is further than the ends of the two allow: a figure may
    /// be limited more closely than its parameters say.
    ///
    /// # Errors
    /// [`NoPrediction`] where the ratio is no positive number.
    pub fn over(&self, other: &Self) -> Answer {
        let is_exact = |one: &Self| one.interval == Interval::exactly(one.interval.typ);
        let is_same = !self.influences.is_empty()
            && (self.interval, &self.influences) == (other.interval, &other.influences);
        let outer = self.interval.over(other.interval);
        let parts = [self.with_own_doubt("this"), other.with_own_doubt("the other")];
        let ratio = Self::combined(&parts, |typ| typ[0] / typ[1])?;
        let interval = if is_same || (is_exact(self) && is_exact(other)) {
            Interval::exactly(ratio.interval.typ)
        } else {
            let Interval { low, typ, high } = ratio.interval;
            Interval { low: low.max(outer.low), typ, high: high.min(outer.high) }
        };
        Ok(Self { interval, ..ratio })
    }

    /// Returns how far a ratio is above or below 1, with the uncertainty of the ratio. If the ratio may be
    /// 1, the interval reaches down to 0.
    ///
    /// # Errors
    /// [`NoPrediction`] if the typical ratio is on the other side of 1.
    pub fn shifted(self, shift: fn(f64) -> f64) -> Answer {
        let Interval { low, typ, high } = self.interval.map(shift);
        if !(typ.is_finite() && typ > 0.0) {
            return Err(NoPrediction {
                why: "the two are about equal, or the other way round".into(),
                remedy: "compare them by their ratio".into(),
            });
        }
        let ratio = self.interval.typ;
        let influences = self.influences.iter().map(|one| {
            let moved = one.ends.map(|end| (shift(ratio * end) / typ).max(f64::MIN_POSITIVE));
            Influence::of(&one.parameter, moved)
        });
        Ok(Self {
            interval: Interval { low: low.min(high).max(0.0), typ, high: low.max(high) },
            influences: influences.collect(),
            ..self
        })
    }

    /// The same figure; the doubt about one that was measured or given, and follows from no
    /// parameter, as one of its own.
    fn with_own_doubt(&self, name: &str) -> Self {
        let Interval { low, typ, high } = self.interval;
        let mut own = self.clone();
        if own.influences.is_empty() && (low < typ || high > typ) {
            own.influences.push(Influence::of(name, [low / typ, high / typ]));
        }
        own
    }

    /// A figure that was measured or given: its doubt is `interval`.
    pub(crate) fn given(interval: Interval) -> Self {
        Self {
            interval,
            closeness: EvidenceLevel::Same,
            bottleneck: None,
            influences: Vec::new(),
            facts: Vec::new(),
        }
    }
}

/// Prediction, or the reason for having none.
pub type Answer = Result<Prediction, NoPrediction>;

impl Evidence {
    /// A collection without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces the value of `name`.
    pub fn insert(&mut self, name: impl Into<String>, known: impl Into<ParameterValue>) {
        self.known.insert(name.into(), known.into());
    }

    /// Adds all of `other` under `prefix/`.
    pub fn insert_all(&mut self, prefix: &str, other: &Evidence) {
        for (name, known) in &other.known {
            (self.known).insert(format!("{prefix}/{name}"), known.clone());
        }
    }

    /// Returns the value of the parameter `name`; `None` if it is not known.
    pub fn get(&self, name: &str) -> Option<&ParameterValue> {
        self.known.get(name)
    }

    /// All that is known, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParameterValue)> {
        self.known.iter().map(|(name, known)| (name.as_str(), known))
    }

    /// Evaluates `formula`, with the doubt about its parameters and that of `closeness`.
    ///
    /// The one-at-a-time effects are combined in quadrature on a logarithmic scale: the
    /// parameters were published independently of each other.
    ///
    /// # Errors
    /// [`NoPrediction`] where the formula reads something that is not known, or its result is not
    /// a positive number.
    pub fn predict<F, O>(&self, closeness: EvidenceLevel, formula: F) -> Answer
    where
        F: Fn(&Values<'_>) -> Evaluation<O>,
        O: Into<Outcome>,
    {
        // Formulas are many and this is long: it is compiled once.
        self.evaluate(closeness, &|values| formula(values).map(Into::into))
    }

    fn evaluate(
        &self,
        closeness: EvidenceLevel,
        formula: &dyn Fn(&Values<'_>) -> Evaluation<Outcome>,
    ) -> Answer {
        let run = |moved: Option<(&str, End)>| {
            let values = Values { evidence: self, moved, read: RefCell::default() };
            formula(&values).map(|outcome| (outcome, values.read.into_inner()))
        };
        let (outcome, read) = run(None)?;
        let typ = outcome.value;
        if !(typ.is_finite() && typ > 0.0) {
            return Err(NoPrediction::of_value(typ));
        }
        let ends: [End; 2] = [|one| one.low, |one| one.high];
        let influences = read.iter().map(|(name, in_doubt)| {
            // Nothing moves with what has no ends, and an end without an answer bounds nothing.
            let moved = |end: End| match run(Some((name, end))) {
                Ok((moved, _)) if moved.value.is_finite() && moved.value > 0.0 => moved.value / typ,
                _ => 1.0,
            };
            Influence::of(name, if *in_doubt { ends.map(moved) } else { unmoved() })
        });
        let (interval, influences) = in_quadrature(typ, closeness, influences.collect());
        let mut facts = BTreeSet::new();
        for name in read.keys() {
            if let Some(known) = self.known.get(name) {
                facts.extend(known.facts().iter().cloned());
            }
        }
        Ok(Prediction {
            interval,
            closeness,
            bottleneck: outcome.bottleneck,
            influences,
            facts: facts.into_iter().collect(),
        })
    }
}

/// Verdict on whether one thing is better than another, by a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval of the ratio is above 1.
    Yes,
    /// The whole interval of the ratio is below 1.
    No,
    /// The interval straddles 1.
    CannotTell,
}

impl Verdict {
    /// Returns the verdict on the interval of a ratio.
    pub fn of(ratio: Interval) -> Self {
        if ratio.low > 1.0 {
            Self::Yes
        } else if ratio.high < 1.0 {
            Self::No
        } else {
            Self::CannotTell
        }
    }
}

impl EvidenceLevel {
    /// The nearest first.
    pub(crate) const ALL: [Self; 3] = [Self::Same, Self::Card, Self::Application];

    /// Upper end over typical value of an interval of this closeness, from leave-one-figure-out
    /// errors on the facts that may be used for fitting (`docs/measure/model.md` lists them).
    pub fn factor(self) -> f64 {
        match self {
            Self::Same => spread::SAME,
            Self::Card => spread::CARD,
            Self::Application => spread::APPLICATION,
        }
    }
}
