//! Slowdown of transfers and traffic that share a path.
//!
//! Bandwidth is shared by weighted max-min fairness: no flow gets more than it asks for, and the
//! rest goes to those that ask for more. Latency grows as `1 / (1 - load)`. A flow that is far from
//! its share of the bandwidth still slows down, because it waits.

use crate::dma::of;
use crate::{Evaluation, Values};

/// Demand of one flow for a share of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Bandwidth that the flow would take alone, in bytes a second.
    pub bytes_per_s: f64,
    /// Weight of the flow's share of the path, relative to the weights of the others.
    pub weight: f64,
}

/// Returns the part of `capacity_bytes_per_s` that each demand gets: weighted max-min shares, in
/// bytes a second.
///
/// A demand or weight that is not positive gets nothing.
pub fn shares(capacity_bytes_per_s: f64, demands: &[Demand]) -> Vec<f64> {
    let mut got = vec![0.0; demands.len()];
    let wants = |one: &Demand| one.bytes_per_s > 0.0 && one.weight > 0.0;
    let mut open: Vec<usize> = (0..demands.len()).filter(|index| wants(&demands[*index])).collect();
    // Whoever needs the least for its weight is satisfied first.
    let need = |index: usize| demands[index].bytes_per_s / demands[index].weight;
    open.sort_by(|a, b| need(*b).total_cmp(&need(*a)));
    let mut left = capacity_bytes_per_s.max(0.0);
    let mut weights: f64 = open.iter().map(|index| demands[*index].weight).sum();
    while let Some(index) = open.pop() {
        let Demand { bytes_per_s, weight } = demands[index];
        got[index] = bytes_per_s.min(left * weight / weights);
        left -= got[index];
        weights -= weight;
    }
    got
}

/// Returns the factor by which a request takes longer on a path that is busy for `load` of the
/// time, 0 to 1. It is infinite at 1.
pub fn stretch(load: f64) -> f64 {
    1.0 / (1.0 - load.clamp(0.0, 1.0))
}

/// The load at which a path is slower by the factor `stretch`.
pub fn load_of(stretch: f64) -> f64 {
    1.0 - 1.0 / stretch.max(1.0)
}

/// Slowdown of traffic on the path that it shares with DMAs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedPath {
    /// Factor by which a request on the path takes longer beside a full stream of DMAs.
    pub full_stretch: f64,
    /// The time that traffic spends on it alone, over all of its time elsewhere and there.
    pub share: f64,
}

impl SharedPath {
    /// Reads the parameters of `card`: at full intensity a request on the path takes
    /// `dma.contended.stretch` times as long, and traffic loses `dma.contended.drop`.
    pub fn of_card(values: &Values<'_>, card: &str) -> Evaluation<Self> {
        let full_stretch = values.get(&of(card, "dma.contended.stretch"))?;
        let drop = values.get(&of(card, "dma.contended.drop"))?;
        Ok(Self { full_stretch, share: (1.0 / (1.0 - drop) - 1.0) / (full_stretch - 1.0) })
    }

    /// The share of the path's time that a stream of DMAs takes at `intensity`, 0 to 1.
    pub fn load(self, intensity: f64) -> f64 {
        load_of(self.full_stretch) * intensity.clamp(0.0, 1.0)
    }
}

/// Share by which traffic slows down beside a DMA stream that takes `intensity` (0 to 1) of the
/// engine's capacity. Jobs of the compression engines do not cross the shared path and cost traffic
/// nothing.
pub fn traffic_loss(values: &Values<'_>, card: &str, intensity: f64) -> Evaluation {
    let path = SharedPath::of_card(values, card)?;
    let time = 1.0 + path.share * (stretch(path.load(intensity)) - 1.0);
    Ok(1.0 - 1.0 / time)
}
