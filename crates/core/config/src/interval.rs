//! Intervals, and the forms in which files write them: one value, or `[low, high]`.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{DeserializeSeed, Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Dimension, parse_amount};

/// A value between two bounds, in bytes, bytes a second, nanoseconds or plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The smallest.
    pub low: f64,
    /// Typical value, for calculations that need a single number.
    pub typ: f64,
    /// The largest.
    pub high: f64,
}

impl Interval {
    /// Returns the interval that contains exactly `value`.
    pub const fn exactly(value: f64) -> Self {
        Self { low: value, typ: value, high: value }
    }

    /// Applies `of`, a function that increases with its argument, to each of the three values.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { low: of(self.low), typ: of(self.typ), high: of(self.high) }
    }

    /// Combines two intervals by `of`, a function that increases with both of its arguments.
    pub fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            low: of(self.low, other.low),
            typ: of(self.typ, other.typ),
            high: of(self.high, other.high),
        }
    }

    /// `amount / self`, which turns the order round.
    pub fn divide(self, amount: f64) -> Self {
        Self { low: amount / self.high, typ: amount / self.typ, high: amount / self.low }
    }

    /// `self * factor`.
    pub fn scale(self, factor: f64) -> Self {
        self.map(|end| end * factor)
    }

    /// `self / other`.
    pub fn over(self, other: Self) -> Self {
        Self { low: self.low / other.high, typ: self.typ / other.typ, high: self.high / other.low }
    }

    /// Returns the interval between two ends. The typical value is their geometric mean, or half of the high
    /// end if the low one is 0.
    pub fn between(low: f64, high: f64) -> Self {
        let typ = if low == high {
            low
        } else if low > 0.0 {
            (low * high).sqrt()
        } else {
            high / 2.0
        };
        Self { low, typ, high }
    }

    /// Returns `true` if both ends of the interval are in `range`.
    pub fn is_within(self, range: &RangeInclusive<f64>) -> bool {
        range.contains(&self.low) && range.contains(&self.high)
    }
}

/// Bytes, written as `"1 MiB"` or `["1 MiB", "2 MiB"]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size(pub Interval);

/// Bytes a second, written as `"40 Gb/s"` or `["1 GB/s", "2 GB/s"]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(pub Interval);

/// A plain number, or `[low, high]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub Interval);

macro_rules! forms {
    ($($name:ident $dimension:ident $example:literal;)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Form::of(Dimension::$dimension, $example).deserialize(deserializer).map(Self)
            }
        }
    )*};
}

forms! {
    Size Size "1 MiB";
    Rate Rate "40 Gb/s";
    Number Count "";
}

/// Deserializer of an interval, which is written as one value or as `[low, high]`.
#[derive(Clone, Copy)]
struct Form {
    dimension: Dimension,
    example: &'static str,
    /// `true` for one of the two ends: a list in a list is refused.
    is_end: bool,
}

impl Form {
    const fn of(dimension: Dimension, example: &'static str) -> Self {
        Self { dimension, example, is_end: false }
    }

    fn number<E: Error>(self, number: f64, found: Unexpected<'_>) -> Result<Interval, E> {
        if self.dimension != Dimension::Count || !number.is_finite() {
            return Err(E::invalid_type(found, &self));
        }
        Ok(Interval::exactly(number))
    }
}

impl<'de> DeserializeSeed<'de> for Form {
    type Value = Interval;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Interval, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Form {
    type Value = Interval;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.example.is_empty() {
            f.write_str("a number")?;
        } else {
            write!(f, "text as in \"{}\"", self.example)?;
        }
        f.write_str(", or two of them as [low, high]")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Interval, E> {
        if self.dimension == Dimension::Count {
            return Err(E::invalid_type(Unexpected::Str(text), &self));
        }
        let (number, unit) = parse_amount(text, self.dimension, None)
            .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))?;
        Ok(Interval::exactly(number * unit.in_base()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Interval, E> {
        self.number(number, Unexpected::Float(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Interval, E> {
        self.number(number as f64, Unexpected::Unsigned(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Interval, E> {
        self.number(number as f64, Unexpected::Signed(number))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Interval, A::Error> {
        if self.is_end {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        let end = Self { is_end: true, ..self };
        let mut ends = Vec::with_capacity(2);
        while let Some(one) = list.next_element_seed(end)? {
            ends.push(one.typ);
            if ends.len() > 2 {
                break;
            }
        }
        match ends.as_slice() {
            [low, high] if low <= high => Ok(Interval::between(*low, *high)),
            [_, _] => Err(A::Error::custom("its low end is above its high end")),
            _ => Err(A::Error::invalid_length(ends.len(), &self)),
        }
    }
}
