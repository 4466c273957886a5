//! Error of each prediction when the model does not know the figure that it predicts.
//!
//! Each figure that parameters may rest on is predicted as if it had never been published. Its score is the
//! amount by which the interval must be widened, beyond the uncertainty of its parameters, to contain the
//! figure. Intervals are widened by the score that nine of ten figures stay below, counted as in conformal
//! prediction: with n facts, the ceil(0.9 (n + 1))th of n. A fact's figures share its vote.

use std::collections::BTreeMap;

use serde::Serialize;

use super::distance;
use crate::Library;
use crate::facts::{Facts, Figure, Use};
use crate::{EvidenceLevel, Interval};

/// Share of figures that an interval shall hold.
const SHARE: f64 = 0.9;

/// A figure that was left out, and how it was predicted nevertheless.
#[derive(Clone, Debug, Serialize)]
pub struct Residual {
    /// Name of the figure.
    pub name: String,
    /// Identifier of the fact that the figure belongs to.
    pub fact: String,
    /// Name of the scenario that predicted the figure.
    pub scenario: String,
    /// Closeness of the evidence that remains without the figure.
    pub closeness: EvidenceLevel,
    /// Typical prediction over published figure.
    pub factor: f64,
    /// Factor by which the interval has to be wider than its parameters make it, to hold it.
    pub needed: f64,
}

/// Factor by which intervals of one closeness are widened.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// The factor.
    pub factor: f64,
    /// Number of facts.
    pub facts: usize,
    /// Number of their figures.
    pub figures: usize,
    /// Typical error of these figures, without sign, as a factor.
    pub median: f64,
    /// `true` if there are so few facts that even the widest score covers less than nine of ten.
    pub too_few: bool,
}

impl Spread {
    /// The factor as `spread.rs` has it: a hundredth up, and never below 1.05: sources print two or three digits.
    pub fn rounded(&self) -> f64 {
        ((self.factor * 100.0 - 1e-6).ceil() / 100.0).max(1.05)
    }
}

/// Predicts each figure that parameters may rest on from a library without it.
pub fn leave_one_out(facts: &Facts, library: &Library) -> Vec<Residual> {
    let figures = (facts.facts.iter())
        .filter(|fact| fact.purpose == Use::Calibrate && !fact.is_doubtful())
        .flat_map(|fact| fact.figures());
    figures.filter_map(|figure| without(&figure, library)).collect()
}

/// Predicts a figure from a library without it. `None` if nothing can be predicted then.
pub fn without(figure: &Figure<'_>, library: &Library) -> Option<Residual> {
    let claim = super::claim(figure)?;
    let prediction = claim.question.answer(&library.without_figure(figure)).ok()?;
    // What a profile cannot do without cannot be left out.
    let stays = prediction.facts.contains(&figure.fact.id);
    if stays && figure.fact.figures().len() == 1 {
        return None;
    }
    let miss = distance(&figure.value, claim.unit_in_base, prediction.interval)?;
    Some(Residual {
        name: figure.name(),
        fact: figure.fact.id.clone(),
        scenario: claim.question.scenario().to_owned(),
        closeness: prediction.closeness,
        factor: miss.exp(),
        needed: needed(miss, prediction.interval, prediction.closeness),
    })
}

/// The own doubt of a prediction that just reaches a figure `miss` away, on a logarithmic scale.
fn needed(miss: f64, interval: Interval, closeness: EvidenceLevel) -> f64 {
    let end = if miss > 0.0 {
        (interval.typ / interval.low).ln()
    } else {
        (interval.high / interval.typ).ln()
    };
    let own = closeness.factor().ln();
    let parameters = (end * end - own * own).max(0.0);
    (miss * miss - parameters).max(0.0).sqrt().exp()
}

/// The factors that the residuals ask for, by closeness.
pub fn spreads(residuals: &[Residual]) -> BTreeMap<EvidenceLevel, Spread> {
    EvidenceLevel::ALL
        .into_iter()
        .filter_map(|closeness| {
            let those: Vec<_> =
                (residuals.iter()).filter(|one| one.closeness == closeness).collect();
            Some((closeness, spread(&those)?))
        })
        .collect()
}

fn spread(residuals: &[&Residual]) -> Option<Spread> {
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for one in residuals {
        *votes.entry(&one.fact).or_default() += 1;
    }
    let mut scores: Vec<(f64, f64)> =
        (residuals.iter()).map(|one| (one.needed, 1.0 / votes[one.fact.as_str()] as f64)).collect();
    scores.sort_by(|a, b| a.0.total_cmp(&b.0));
    let facts = votes.len() as f64;
    let wanted = SHARE * (facts + 1.0);
    let mut counted = 0.0;
    let reached = scores.iter().find(|(_, vote)| {
        counted += vote;
        // Thirds and sevenths do not add up exactly.
        counted + 1e-9 >= wanted
    });
    let errors = residuals.iter().map(|one| one.factor.ln().abs());
    Some(Spread {
        factor: reached.or(scores.last())?.0,
        facts: votes.len(),
        figures: residuals.len(),
        median: overside_base::median(errors)?.exp(),
        too_few: wanted > facts,
    })
}
