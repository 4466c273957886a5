//! What transfers and traffic that share a path cost each other.
//!
//! Bandwidth is shared by weighted max-min fairness: nobody gets more than it asks for, and what
//! is left over goes to those that ask for more. Latency grows as `1 / (1 - load)`. A flow that is
//! far from its share of the bandwidth still slows down, because it waits.

use crate::dma::of;
use crate::{Evaluation, Values};

/// What asks for a share of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// What it would take alone, in bytes a second.
    pub bytes_per_s: f64,
    /// How much of the path it gets beside others, relative to them.
    pub weight: f64,
}

/// What each gets of `capacity_bytes_per_s`: weighted max-min shares, in bytes a second.
///
/// A demand or weight that is not positive gets nothing.
pub fn shares(capacity_bytes_per_s: f64, demands: &[Demand]) -> Vec<f64> {
    let mut got = vec![0.0; demands.len()];
    let wants = |one: &Demand| one.bytes_per_s > 0.0 && one.weight > 0.0;
    let mut open: Vec<usize> = (0..demands.len())
        .filter(|index| wants(&demands[*index]))
        .collect();
    // Whoever needs the least for its weight is satisfied first.
    let need = |index: usize| demands[index].bytes_per_s / demands[index].weight;
    open.sort_by(|a, b| need(*b).total_cmp(&need(*a)));
    let mut left = capacity_bytes_per_s.max(0.0);
    let mut weights: f64 = open.iter().map(|index| demands[*index].weight).sum();
    while let Some(index) = open.pop() {
        let Demand {
            bytes_per_s,
            weight,
        } = demands[index];
        got[index] = bytes_per_s.min(left * weight / weights);
        left -= got[index];
        weights -= weight;
    }
    got
}

/// How many times as long a request takes on a path that is busy for `load` of the time, 0 to 1.
pub fn stretch(load: f64) -> f64 {
    1.0 / (1.0 - load.clamp(0.0, 1.0))
}

/// The load at which a path is so many times as slow.
pub fn load_of(stretch: f64) -> f64 {
    1.0 - 1.0 / stretch.max(1.0)
}

/// What traffic meets on the path that it shares with DMAs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedPath {
    /// How many times as long a request takes on it beside a full stream of DMAs.
    pub full_stretch: f64,
    /// The time that traffic spends on it alone, over all of its time elsewhere and there.
    pub share: f64,
}

impl SharedPath {
    /// Of `card`: at full intensity a request on the path takes `dma.contended.stretch` times as
    /// long, and traffic loses `dma.contended.drop`.
    pub fn of_card(values: &Values<'_>, card: &str) -> Evaluation<Self> {
        let full_stretch = values.get(&of(card, "dma.contended.stretch"))?;
        let drop = values.get(&of(card, "dma.contended.drop"))?;
        Ok(Self {
            full_stretch,
            share: (1.0 / (1.0 - drop) - 1.0) / (full_stretch - 1.0),
        })
    }

    /// The share of the path's time that a stream of DMAs takes at `intensity`, 0 to 1.
    pub fn load(self, intensity: f64) -> f64 {
        load_of(self.full_stretch) * intensity.clamp(0.0, 1.0)
    }
}

/// By which share traffic slows down beside a DMA stream that takes `intensity` (0 to 1) of what
/// the engine could move. Jobs of the compression engines do not cross the shared path and cost
/// traffic nothing.
pub fn traffic_loss(values: &Values<'_>, card: &str, intensity: f64) -> Evaluation {
    let path = SharedPath::of_card(values, card)?;
    let time = 1.0 + path.share * (stretch(path.load(intensity)) - 1.0);
    Ok(1.0 - 1.0 / time)
}
