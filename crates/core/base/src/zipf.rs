//! Zipf distribution of keys, of which some are requested more often than others.

use crate::Random;

/// Ranks from 0 below `items`, rank k with a probability in proportion to (k + 1)^-skew.
///
/// Drawn by rejection-inversion (Hörmann and Derflinger, 1996): no table, about one draw each.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: f64,
    skew: f64,
    area_low: f64,
    area_high: f64,
    shortcut: f64,
}

impl Zipf {
    /// Makes a distribution over `items` items, at least one. A skew of 0 is uniform; the published workloads
    /// use 0.99.
    pub fn new(items: u64, skew: f64) -> Self {
        let items = items.max(1) as f64;
        let skew = skew.max(0.0);
        let mut zipf = Self { items, skew, area_low: 0.0, area_high: 0.0, shortcut: 0.0 };
        zipf.area_low = zipf.area(1.5) - 1.0;
        zipf.area_high = zipf.area(items + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.area(2.5) - zipf.density(2.0));
        zipf
    }

    /// A rank; 0 is the most frequent.
    pub fn draw(&self, random: &mut Random) -> u64 {
        if self.skew == 0.0 {
            return random.below(self.items as u64);
        }
        loop {
            let area = self.area_high + random.uniform() * (self.area_low - self.area_high);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.items);
            if rank - x <= self.shortcut || area >= self.area(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.skew * x.ln()).exp()
    }

    /// The integral of the density from 1 to `x`.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        exp_m1_over((1.0 - self.skew) * log) * log
    }

    fn inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.skew)).max(-1.0);
        (ln_1p_over(t) * area).exp()
    }
}

/// (e^x - 1) / x, also near 0.
fn exp_m1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, also near 0.
fn ln_1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}
