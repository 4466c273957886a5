//! Scores of the model over all figures of a kind.

use std::collections::{BTreeMap, BTreeSet};

use overside_base::median;
use serde::Serialize;

use super::{FigureCheck, FigureComparison, Finding, Group, OrderingCheck};
use crate::EvidenceLevel;
use crate::facts::Use;
use crate::questions::{OrderingFinding, OrderingVerdict};

/// Scores of the model over the facts of one use.
///
/// A fact with many figures counts once, with their mean, so that one large table does not dominate. The mean
/// over single figures is reported as well.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Scores {
    /// Facts with a figure that a model could meet: a number, and not a doubtful one.
    pub facts: usize,
    /// Figures of these facts.
    pub figures: usize,
    /// Figures in words.
    pub words: usize,
    /// Figures too doubtful to compare.
    pub doubtful: usize,
    /// Facts of which at least one figure is predicted.
    pub facts_predicted: usize,
    /// Figures that are predicted.
    pub figures_predicted: usize,
    /// Figures whose prediction is too wide; they count as not predicted.
    pub cannot_tell: usize,
    /// Share of the facts without a prediction, whether because nothing supports one or because
    /// no scenario speaks of it.
    pub without_prediction: f64,
    /// Share of the facts that no scenario covers; part of `without_prediction`.
    pub not_covered: f64,
    /// Median over facts of the mean error of a fact's figures, without sign.
    pub median_error: Option<f64>,
    /// Median over figures of the error, without sign.
    pub median_error_of_figures: Option<f64>,
    /// Share of facts inside their interval.
    pub inside: Option<f64>,
    /// Share of figures inside their interval.
    pub inside_of_figures: Option<f64>,
    /// Geometric mean over facts of how many times as large the upper ends of a fact's intervals are
    /// as their lower ends.
    pub width: Option<f64>,
    /// Widths of the intervals, by the closeness of the evidence.
    pub widths: BTreeMap<EvidenceLevel, Width>,
    /// Scores by the evidence that is needed to meet a figure.
    pub groups: BTreeMap<Group, GroupScores>,
    /// Figures predicted, by scenario.
    pub scenarios: BTreeMap<String, usize>,
}

/// Scores of the model over the figures of one [`Group`].
#[derive(Clone, Copy, Debug, Serialize)]
pub struct GroupScores {
    /// Number of predicted figures in the group.
    pub figures: usize,
    /// Number of facts that these figures belong to.
    pub facts: usize,
    /// Median over figures of the error, without sign.
    pub median_error: f64,
    /// Median error from the middle of published ranges.
    pub median_error_of_middle: f64,
    /// Share of the figures that are inside.
    pub inside: f64,
    /// Geometric mean of upper end over lower end.
    pub width: f64,
}

/// Widths of the intervals of predictions with equally close evidence.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Width {
    /// Number of figures that were predicted so.
    pub figures: usize,
    /// Median of upper end over lower end.
    pub median: f64,
    /// Share of the figures that are inside.
    pub inside: f64,
}

/// Numbers of all orderings, of claimed ones, and of claimed ones that hold or likely do.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct OrderingScores {
    /// Number of published orderings.
    pub orderings: usize,
    /// Number of orderings that a scenario claims.
    pub claimed: usize,
    /// Number of claimed orderings that hold.
    pub holding: usize,
    /// Number of claimed orderings that are only likely.
    pub likely: usize,
}

fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

fn share(condition: bool) -> f64 {
    if condition { 1.0 } else { 0.0 }
}

impl FigureCheck {
    /// The prediction, where there is one.
    pub fn compared(&self) -> Option<&FigureComparison> {
        match &self.finding {
            Finding::Predicted(compared) => Some(compared),
            _ => None,
        }
    }

    fn comparable(&self) -> bool {
        !matches!(self.finding, Finding::Words | Finding::Doubtful)
    }
}

impl Scores {
    /// Computes the scores over the figures whose facts are for `purpose`.
    pub fn of(figures: &[FigureCheck], purpose: Use) -> Self {
        let all: Vec<_> = (figures.iter()).filter(|figure| figure.purpose == purpose).collect();
        let count = |what: fn(&Finding) -> bool| {
            (all.iter()).filter(|figure| what(&figure.finding)).count()
        };
        let mut facts: BTreeMap<&str, Vec<&FigureCheck>> = BTreeMap::new();
        for figure in all.iter().filter(|figure| figure.comparable()) {
            facts.entry(&figure.fact).or_default().push(figure);
        }
        let predicted: Vec<&FigureComparison> =
            all.iter().filter_map(|one| one.compared()).collect();
        let by_fact: Vec<Vec<&FigureComparison>> = (facts.values())
            .map(|figures| figures.iter().filter_map(|one| one.compared()).collect())
            .filter(|compared: &Vec<_>| !compared.is_empty())
            .collect();
        let without = |what: fn(&FigureCheck) -> bool| {
            let shares = (facts.values())
                .filter_map(|figures| mean(figures.iter().map(|figure| share(what(figure)))));
            mean(shares).unwrap_or_default()
        };
        let mut scenarios = BTreeMap::new();
        for compared in &predicted {
            *scenarios.entry(compared.scenario.clone()).or_default() += 1;
        }
        let error = |one: &&FigureComparison| one.error.abs();
        Self {
            facts: facts.len(),
            figures: facts.values().map(Vec::len).sum(),
            words: count(|finding| matches!(finding, Finding::Words)),
            doubtful: count(|finding| matches!(finding, Finding::Doubtful)),
            facts_predicted: by_fact.len(),
            figures_predicted: predicted.len(),
            cannot_tell: count(|finding| matches!(finding, Finding::CannotTell { .. })),
            without_prediction: without(|figure| figure.compared().is_none()),
            not_covered: without(|figure| matches!(figure.finding, Finding::NotCovered)),
            median_error: median(by_fact.iter().filter_map(|all| mean(all.iter().map(error)))),
            median_error_of_figures: median(predicted.iter().map(error)),
            inside: mean(
                (by_fact.iter()).filter_map(|all| mean(all.iter().map(|one| share(one.inside)))),
            ),
            inside_of_figures: mean(predicted.iter().map(|one| share(one.inside))),
            width: mean(
                by_fact.iter().filter_map(|all| mean(all.iter().map(|one| one.width.ln()))),
            )
            .map(f64::exp),
            widths: widths(&predicted),
            groups: groups(&all),
            scenarios,
        }
    }
}

fn groups(figures: &[&FigureCheck]) -> BTreeMap<Group, GroupScores> {
    let mut groups: BTreeMap<Group, Vec<(&str, &FigureComparison)>> = BTreeMap::new();
    for figure in figures {
        if let Some(compared) = figure.compared() {
            (groups.entry(compared.group).or_default()).push((&figure.fact, compared));
        }
    }
    let scores = |all: Vec<(&str, &FigureComparison)>| {
        let facts: BTreeSet<&str> = all.iter().map(|(fact, _)| *fact).collect();
        let each = || all.iter().map(|(_, one)| *one);
        Some(GroupScores {
            figures: all.len(),
            facts: facts.len(),
            median_error: median(each().map(|one| one.error.abs()))?,
            median_error_of_middle: median(each().map(|one| one.error_of_middle.abs()))?,
            inside: mean(each().map(|one| share(one.inside)))?,
            width: mean(each().map(|one| one.width.ln()))?.exp(),
        })
    };
    (groups.into_iter()).filter_map(|(group, all)| Some((group, scores(all)?))).collect()
}

fn widths(predicted: &[&FigureComparison]) -> BTreeMap<EvidenceLevel, Width> {
    EvidenceLevel::ALL
        .into_iter()
        .filter_map(|closeness| {
            let those = || predicted.iter().filter(move |one| one.closeness == closeness);
            Some((
                closeness,
                Width {
                    figures: those().count(),
                    median: median(those().map(|one| one.width))?,
                    inside: mean(those().map(|one| share(one.inside)))?,
                },
            ))
        })
        .collect()
}

impl OrderingScores {
    pub(super) fn of(orderings: &[OrderingCheck]) -> Self {
        let verdict = |one: &OrderingCheck| match one.finding {
            OrderingFinding::Claimed { verdict, .. } => Some(verdict),
            OrderingFinding::NotModelled { .. } => None,
        };
        let claimed: Vec<OrderingVerdict> = orderings.iter().filter_map(verdict).collect();
        let count = |wanted: OrderingVerdict| claimed.iter().filter(|one| **one == wanted).count();
        Self {
            orderings: orderings.len(),
            claimed: claimed.len(),
            holding: count(OrderingVerdict::Holds),
            likely: count(OrderingVerdict::Likely),
        }
    }
}
