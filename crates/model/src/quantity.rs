//! Values with a unit and the facts that they come from.

use serde::{Deserialize, Serialize};

use crate::{Interval, Unit};

/// A published value.
///
/// `value` stands for all; `low` and `high` bound it. Without `value` the geometric mean of `low`
/// and `high` stands for all; without bounds `value` is both. With `high` alone it is a limit: no
/// more than that is known, and it stands in for the value itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// What stands for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The smallest published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The largest published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// What the numbers are counted in.
    pub unit: Unit,
    /// Facts that say so, by their ids in the profile's table of facts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// A source that is not among the facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub citation: Option<String>,
    /// What a reader has to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Quantity {
    /// One number that rests on nothing yet.
    pub fn number(value: f64, unit: Unit) -> Self {
        Self {
            value: Some(value),
            low: None,
            high: None,
            unit,
            facts: Vec::new(),
            citation: None,
            note: None,
        }
    }

    /// In bytes, bytes a second or nanoseconds.
    pub fn interval(&self) -> Interval {
        let high = self.high.or(self.value).unwrap_or_default();
        let low = self.low.or(self.value).unwrap_or(high);
        let typ = self.value.unwrap_or_else(|| (low * high).sqrt());
        Interval { low, typ, high }.scale(self.unit.in_base())
    }

    /// Only an upper limit is known.
    pub fn is_limit(&self) -> bool {
        self.value.is_none() && self.low.is_none()
    }
}

/// A rate published for several sizes of buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The sizes in bytes, increasing.
    pub source_bytes: Vec<u64>,
    /// The rate at each.
    pub rate: Vec<f64>,
    /// The rates were cut to whole numbers: 3 says at least 3 and less than 4, and 0 is only a
    /// limit.
    #[serde(default)]
    pub truncated: bool,
    /// What the rates are counted in.
    pub unit: Unit,
    /// Facts that say so.
    pub facts: Vec<String>,
    /// What a reader has to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Sweep {
    /// The rate in bytes a second at one of the sizes, and whether it is only a limit.
    fn point(&self, index: usize) -> (Interval, bool) {
        let rate = self.rate[index];
        let per_s = if !self.truncated {
            Interval::exactly(rate)
        } else if rate == 0.0 {
            Interval::exactly(1.0)
        } else {
            Interval {
                low: rate,
                typ: rate + 0.5,
                high: rate + 1.0,
            }
        };
        (per_s.scale(self.unit.in_base()), rate == 0.0)
    }

    /// Nanoseconds for `bytes`, and whether that is only a lower bound. Between two sizes the rate
    /// is interpolated; a shorter buffer takes as long as the shortest measured, a longer one has
    /// the rate of the longest.
    pub fn time_ns(&self, bytes: u64) -> (Interval, bool) {
        let last = self.source_bytes.len() - 1;
        let after = self.source_bytes.partition_point(|size| *size < bytes);
        let (rate, limit) = if after == 0 || after > last {
            self.point(after.min(last))
        } else {
            let (below, above) = (self.source_bytes[after - 1], self.source_bytes[after]);
            let share = (bytes - below) as f64 / (above - below) as f64;
            let ((a, a_limit), (b, b_limit)) = (self.point(after - 1), self.point(after));
            (a.with(b, |a, b| a + (b - a) * share), a_limit || b_limit)
        };
        (
            rate.divide(bytes.max(self.source_bytes[0]) as f64 * 1e9),
            limit,
        )
    }
}

/// What a table's values depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Bytes of a buffer, a block or a message.
    Bytes,
    /// Cores or threads that work.
    Cores,
    /// Jobs in flight.
    Depth,
    /// Jobs handed over together.
    Batch,
}

impl Axis {
    /// As in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Cores => "cores",
            Self::Depth => "depth",
            Self::Batch => "batch",
        }
    }
}

/// A value published for several sizes, depths or counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What it depends on.
    pub by: Axis,
    /// Where it was measured, increasing and positive.
    pub at: Vec<f64>,
    /// The value at each, positive.
    pub value: Vec<f64>,
    /// What the values are counted in.
    pub unit: Unit,
    /// Facts that say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// A source that is not among the facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub citation: Option<String>,
    /// What a reader has to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Table {
    /// The value at `x` in base units: interpolated on logarithmic axes between two points, which
    /// bound it; the nearest point's beyond the ends.
    pub fn interval(&self, x: f64) -> Interval {
        let last = self.at.len() - 1;
        let after = self.at.partition_point(|at| *at < x);
        let exact = after <= last && self.at[after] == x;
        if exact || after == 0 || after > last {
            return Interval::exactly(self.value[after.min(last)]).scale(self.unit.in_base());
        }
        let (x0, x1) = (self.at[after - 1].ln(), self.at[after].ln());
        let (below, above) = (self.value[after - 1], self.value[after]);
        let share = (x.ln() - x0) / (x1 - x0);
        let typ = (below.ln() + (above.ln() - below.ln()) * share).exp();
        Interval {
            low: below.min(above),
            typ,
            high: below.max(above),
        }
        .scale(self.unit.in_base())
    }
}
