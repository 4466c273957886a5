//! Units that figures are written in.

use serde::{Deserialize, Serialize};

/// A unit that sources print figures in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bytes.
    B,
    /// 2^10 bytes.
    KiB,
    /// 2^20 bytes.
    MiB,
    /// 2^30 bytes.
    GiB,
    /// 10^6 bytes.
    MB,
    /// 10^9 bytes.
    GB,
    /// 10^6 bytes a second.
    #[serde(rename = "MB/s")]
    MBPerS,
    /// 10^9 bytes a second.
    #[serde(rename = "GB/s")]
    GBPerS,
    /// 2^20 bytes a second.
    #[serde(rename = "MiB/s")]
    MiBPerS,
    /// 2^30 bytes a second.
    #[serde(rename = "GiB/s")]
    GiBPerS,
    /// 10^9 bits a second.
    #[serde(rename = "Gb/s")]
    GbPerS,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Ns,
    /// Microseconds.
    #[serde(rename = "us")]
    Us,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Ms,
    /// Seconds.
    #[serde(rename = "s")]
    S,
    /// 10^6 operations a second.
    #[serde(rename = "Mops/s")]
    MopsPerS,
    /// 10^9 operations a second.
    #[serde(rename = "Gops/s")]
    GopsPerS,
    /// 10^6 a second, of a clock.
    #[serde(rename = "MHz")]
    MHz,
    /// 10^9 a second, of a clock.
    #[serde(rename = "GHz")]
    GHz,
    /// Watts.
    W,
    /// A hundredth.
    #[serde(rename = "%")]
    Percent,
    /// A plain number, or a ratio.
    #[serde(rename = "count")]
    Count,
}

/// What a unit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Counted in bytes.
    Size,
    /// Counted in bytes a second.
    Rate,
    /// Counted in nanoseconds.
    Time,
    /// Counted in operations, or ticks of a clock, a second.
    Frequency,
    /// Counted in watts.
    Power,
    /// A plain number.
    Count,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 22] = [
        Self::B,
        Self::KiB,
        Self::MiB,
        Self::GiB,
        Self::MB,
        Self::GB,
        Self::MBPerS,
        Self::GBPerS,
        Self::MiBPerS,
        Self::GiBPerS,
        Self::GbPerS,
        Self::Ns,
        Self::Us,
        Self::Ms,
        Self::S,
        Self::MopsPerS,
        Self::GopsPerS,
        Self::MHz,
        Self::GHz,
        Self::W,
        Self::Percent,
        Self::Count,
    ];

    /// As files and tables write it; nothing for a plain number.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::B => "B",
            Self::KiB => "KiB",
            Self::MiB => "MiB",
            Self::GiB => "GiB",
            Self::MB => "MB",
            Self::GB => "GB",
            Self::MBPerS => "MB/s",
            Self::GBPerS => "GB/s",
            Self::MiBPerS => "MiB/s",
            Self::GiBPerS => "GiB/s",
            Self::GbPerS => "Gb/s",
            Self::Ns => "ns",
            Self::Us => "us",
            Self::Ms => "ms",
            Self::S => "s",
            Self::MopsPerS => "Mops/s",
            Self::GopsPerS => "Gops/s",
            Self::MHz => "MHz",
            Self::GHz => "GHz",
            Self::W => "W",
            Self::Percent => "%",
            Self::Count => "",
        }
    }

    /// What it measures.
    pub const fn dimension(self) -> Dimension {
        match self {
            Self::B | Self::KiB | Self::MiB | Self::GiB | Self::MB | Self::GB => Dimension::Size,
            Self::MBPerS | Self::GBPerS | Self::MiBPerS | Self::GiBPerS | Self::GbPerS => {
                Dimension::Rate
            }
            Self::Ns | Self::Us | Self::Ms | Self::S => Dimension::Time,
            Self::MopsPerS | Self::GopsPerS | Self::MHz | Self::GHz => Dimension::Frequency,
            Self::W => Dimension::Power,
            Self::Percent | Self::Count => Dimension::Count,
        }
    }

    /// One of it in bytes, bytes a second, nanoseconds, operations a second or watts.
    pub const fn in_base(self) -> f64 {
        match self {
            Self::B | Self::Ns | Self::Count | Self::W => 1.0,
            Self::KiB => 1024.0,
            Self::MiB | Self::MiBPerS => 1_048_576.0,
            Self::GiB | Self::GiBPerS => 1_073_741_824.0,
            Self::MB | Self::MBPerS | Self::Ms | Self::MopsPerS | Self::MHz => 1e6,
            Self::GB | Self::GBPerS | Self::S | Self::GopsPerS | Self::GHz => 1e9,
            Self::Percent => 0.01,
            Self::GbPerS => 0.125e9,
            Self::Us => 1e3,
        }
    }
}

impl Unit {
    /// Units of one dimension.
    pub fn of(dimension: Dimension) -> impl Iterator<Item = Self> {
        (Self::ALL.into_iter()).filter(move |unit| unit.dimension() == dimension)
    }

    /// `" in B, KiB, MiB"` for messages; nothing for plain numbers.
    pub fn listed(dimension: Dimension) -> String {
        let symbols: Vec<_> = (Self::of(dimension).map(Self::symbol))
            .filter(|symbol| !symbol.is_empty())
            .collect();
        match dimension {
            Dimension::Count => String::new(),
            _ => format!(" in {}", symbols.join(", ")),
        }
    }
}

/// A finite number and the unit behind it, as in `40 Gb/s` or `64KiB`; without one it is
/// `default`'s. `None` if it is no such number of `dimension`.
pub fn parse_amount(
    text: &str,
    dimension: Dimension,
    default: Option<Unit>,
) -> Option<(f64, Unit)> {
    let finite = |text: &str| {
        let number: f64 = text.trim().parse().ok()?;
        number.is_finite().then_some(number)
    };
    if let (Some(number), Some(unit)) = (finite(text), default) {
        return Some((number, unit));
    }
    Unit::of(dimension)
        .filter(|unit| !unit.symbol().is_empty())
        .find_map(|unit| Some((finite(text.trim().strip_suffix(unit.symbol())?)?, unit)))
}
