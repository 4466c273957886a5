//! Units that figures are written in.

use serde::{Deserialize, Serialize};

/// Makes [`Unit`] out of a table.
macro_rules! units {
    ($($doc:literal $unit:ident $name:literal $dimension:ident $in_base:literal;)*) => {
        /// A unit that sources print figures in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Unit {
            $(#[doc = $doc] #[serde(rename = $name)] $unit,)*
        }

        impl Unit {
            /// All units.
            pub const ALL: &'static [Self] = &[$(Self::$unit),*];

            /// Returns the unit's symbol in files and tables; empty for a plain number.
            #[allow(unreachable_patterns, reason = "the first arm stands for the last")]
            pub const fn symbol(self) -> &'static str {
                match self {
                    Self::Count => "",
                    $(Self::$unit => $name,)*
                }
            }

            /// Returns the dimension of the unit, such as size or time.
            pub const fn dimension(self) -> Dimension {
                match self {
                    $(Self::$unit => Dimension::$dimension,)*
                }
            }

            /// One unit in bytes, bytes a second, nanoseconds, operations a second or watts.
            pub const fn in_base(self) -> f64 {
                match self {
                    $(Self::$unit => $in_base,)*
                }
            }
        }
    };
}

units! {
    "Bytes." B "B" Size 1.0;
    "2^10 bytes." KiB "KiB" Size 1024.0;
    "2^20 bytes." MiB "MiB" Size 1_048_576.0;
    "2^30 bytes." GiB "GiB" Size 1_073_741_824.0;
    "10^6 bytes." MB "MB" Size 1e6;
    "10^9 bytes." GB "GB" Size 1e9;
    "10^6 bytes a second." MBPerS "MB/s" Rate 1e6;
    "10^9 bytes a second." GBPerS "GB/s" Rate 1e9;
    "2^20 bytes a second." MiBPerS "MiB/s" Rate 1_048_576.0;
    "2^30 bytes a second." GiBPerS "GiB/s" Rate 1_073_741_824.0;
    "10^9 bits a second." GbPerS "Gb/s" Rate 0.125e9;
    "Nanoseconds." Ns "ns" Time 1.0;
    "Microseconds." Us "us" Time 1e3;
    "Milliseconds." Ms "ms" Time 1e6;
    "Seconds." S "s" Time 1e9;
    "Operations a second." OpsPerS "ops/s" Frequency 1.0;
    "10^6 operations a second." MopsPerS "Mops/s" Frequency 1e6;
    "10^9 operations a second." GopsPerS "Gops/s" Frequency 1e9;
    "10^6 a second, of a clock." MHz "MHz" Frequency 1e6;
    "10^9 a second, of a clock." GHz "GHz" Frequency 1e9;
    "Watts." W "W" Power 1.0;
    "A hundredth." Percent "%" Count 0.01;
    "A plain number, or a ratio." Count "count" Count 1.0;
}

/// Dimension that a unit measures. Each has a base unit, such as bytes or nanoseconds.
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
    /// Units of one dimension.
    pub fn of(dimension: Dimension) -> impl Iterator<Item = Self> {
        (Self::ALL.iter().copied()).filter(move |unit| unit.dimension() == dimension)
    }

    /// `" in B, KiB, MiB"` for messages; nothing for plain numbers.
    pub fn listed(dimension: Dimension) -> String {
        let symbols: Vec<_> =
            (Self::of(dimension).map(Self::symbol)).filter(|symbol| !symbol.is_empty()).collect();
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

/// Parses a time to seconds: `90s`, `50 ms`, `10min`, `2h`. Returns `None` if it is not a time, or has no
/// unit.
pub fn parse_seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    for (symbol, seconds) in [("min", 60.0), ("h", 3600.0)] {
        if let Some(number) = text.strip_suffix(symbol) {
            let number: f64 = number.trim().parse().ok()?;
            return number.is_finite().then_some(number * seconds);
        }
    }
    let (number, unit) = parse_amount(text, Dimension::Time, None)?;
    Some(number * unit.in_base() / Unit::S.in_base())
}

#[cfg(test)]
mod tests {
    use super::parse_seconds;

    #[test]
    fn times_have_units() {
        let read = ["90s", "50 ms", "10min", "2h", "0.5 s"].map(parse_seconds);
        assert_eq!(read, [90.0, 0.05, 600.0, 7200.0, 0.5].map(Some));
        for wrong in ["90", "", "s", "nanh", "inf s", "5 KiB", "5 mins"] {
            assert_eq!(parse_seconds(wrong), None, "{wrong}");
        }
    }
}
