//! Redraws values between those of the sample.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_cast::cast;
use arrow_schema::DataType;
use overside_base::Random;

use crate::Error;

/// Maximum number of decimals, and of significant digits, that are detected in a sample.
const DECIMALS_MAX: i32 = 12;
const DIGITS_MAX: usize = 9;
/// Fraction of all values possible with its digits or its step, above which a column is dense. A dense column
/// is not redrawn.
const DENSE: f64 = 0.2;
/// Fraction of the possible number of endings (values or combinations) up to which endings are few.
const FEW: f64 = 0.25;
/// Fraction of a column's values that must share a property for it to be a rule.
const MOST: f64 = 0.5;
/// Fraction of a column's values that must be exact in a number of digits for it to apply. Arithmetic may
/// have blurred the digits of the others.
const NEARLY_ALL: f64 = 0.9;
/// Maximum number of steps that are tried.
const STEPS_MAX: usize = 64;
/// Limit below which floats represent all whole numbers.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
/// Maximum number of random draws of a value before a duplicate is accepted.
const DRAWS_MAX: usize = 8;

pub(super) fn is_redrawn(kind: &DataType) -> bool {
    matches!(kind, DataType::Float32 | DataType::Float64)
}

/// Redraws values. Equal values stay equal, and the order is kept.
pub(super) fn redraw(array: &ArrayRef, random: &mut Random) -> Result<ArrayRef, Error> {
    let floats = cast(array, &DataType::Float64)?;
    let floats = floats.as_primitive::<Float64Type>();
    let (distinct, ranks) = super::ranks(floats.values(), f64::total_cmp);
    let grid = Grid::of(&distinct);
    if grid.is_dense(&distinct) {
        return Ok(ArrayRef::clone(array));
    }
    let mut seen = HashSet::with_capacity(distinct.len());
    let mut new: Vec<f64> = (0..distinct.len())
        .map(|_| {
            let mut value = 0.0;
            for _ in 0..DRAWS_MAX {
                let (near, between) = between(&distinct, random);
                value = match &grid.endings {
                    Some(endings) => endings.put(between, any(&distinct, random)),
                    None => grid.round(near, between),
                };
                if seen.insert(value.to_bits()) {
                    break;
                }
            }
            value
        })
        .collect();
    new.sort_unstable_by(f64::total_cmp);
    let values: Vec<f64> = ranks.into_iter().map(|rank| new[rank]).collect();
    let values: ArrayRef = Arc::new(Float64Array::new(values.into(), floats.nulls().cloned()));
    Ok(cast(&values, array.data_type())?)
}

/// Returns one of the sample's values, and one between it and the next.
fn between(distinct: &[f64], random: &mut Random) -> (f64, f64) {
    let at = random.below(distinct.len() as u64) as usize;
    let (low, high) = (distinct[at], distinct[(at + 1).min(distinct.len() - 1)]);
    match low.is_finite() && high.is_finite() {
        true => (low, low + random.uniform() * (high - low)),
        false => (low, low),
    }
}

fn any(distinct: &[f64], random: &mut Random) -> f64 {
    distinct[random.below(distinct.len() as u64) as usize]
}

/// Number of decimal digits that a column's values have.
enum Digits {
    /// This number of decimals.
    Decimals(i32),
    /// This number of significant digits.
    Significant(usize),
    All,
}

/// Precision at which a column's values were written.
struct Grid {
    digits: Digits,
    /// Number that nearly all values are multiples of; 0 if there is none.
    step: f64,
    endings: Option<Endings>,
}

impl Grid {
    fn of(values: &[f64]) -> Self {
        let step = step(values);
        Self {
            digits: Digits::of(values, NEARLY_ALL),
            step,
            endings: Endings::of(values).filter(|_| step == 0.0),
        }
    }

    /// Rounds `value` to the precision of `near`, one of the sample's: to a multiple of the step, or of the
    /// power of two that `near` was a multiple of in single precision before its digits were cut.
    fn round(&self, near: f64, value: f64) -> f64 {
        let multiple = |of: f64| (value / of).round() * of;
        if is_multiple(near, self.step) {
            return multiple(self.step);
        }
        let single = f64::from(near as f32);
        match single.is_normal() && self.digits.round(single) == near {
            true => self.digits.round(multiple(lowest_bit(single))),
            false => self.digits.round(value),
        }
    }

    /// Returns `true` if the sample has more than the part [`DENSE`] of all possible values between
    /// its lowest and its highest. The 5% lowest and the 5% highest values are left out as
    /// outliers.
    fn is_dense(&self, distinct: &[f64]) -> bool {
        let values: Vec<f64> = finite(distinct).collect();
        let outliers = values.len() / 20;
        let inner = &values[outliers..values.len() - outliers];
        let (Some(low), Some(high)) = (inner.first(), inner.last()) else {
            return true;
        };
        let smallest = match self.digits {
            _ if self.step > 0.0 => self.step,
            Digits::Decimals(decimals) => 10_f64.powi(-decimals),
            _ => 0.0,
        };
        low >= high || inner.len() as f64 * smallest > DENSE * (high - low)
    }
}

/// Returns the largest whole number that most values are multiples of; 0 if there is none.
fn step(values: &[f64]) -> f64 {
    let whole: Vec<u64> = finite(values)
        .filter(|value| value.fract() == 0.0 && value.abs() < MAX_EXACT)
        .map(|value| value.abs() as u64)
        .collect();
    let pairs = whole.windows(2).map(|pair| greatest_common_divisor(pair[0], pair[1]));
    let mut found: Vec<u64> = pairs.filter(|step| *step > 0).collect();
    found.sort_unstable();
    found.dedup();
    let multiples = |step: u64| whole.iter().filter(|value| **value % step == 0).count();
    let most = |step: &&u64| multiples(**step) as f64 >= MOST * values.len() as f64;
    // Neighbors that are unrelated give many steps, and only few values are multiples of the larger ones.
    let largest = found.iter().take(STEPS_MAX).filter(most).max();
    largest.map_or(0.0, |step| *step as f64)
}

/// Values that are multiples of a power of two plus one of few endings, such as positions from receivers that
/// count in fractions of a circle. Any ending behind any multiple has as many decimal digits as the values
/// have.
struct Endings {
    digits: Digits,
    unit: f64,
}

impl Endings {
    fn of(values: &[f64]) -> Option<Self> {
        let digits = Digits::of(values, MOST);
        let Digits::Decimals(decimals) = digits else {
            return None;
        };
        let unit = 2_f64.powi(-decimals);
        let endings = Self { digits, unit };
        let found: HashSet<u64> = finite(values)
            .map(|value| endings.digits.round(endings.ending(value)).to_bits())
            .collect();
        let (found, all) = (found.len() as f64, finite(values).count() as f64);
        let mut ends = finite(values);
        let span = ends.next().zip(ends.last()).map_or(0.0, |(a, b)| b - a);
        let are_few = found < FEW * all.min(5_f64.powi(decimals));
        (are_few && all < FEW * found * (span / unit)).then_some(endings)
    }

    /// Returns the multiple below `value` with the ending of `other`, one of the sample's, and with its
    /// number of digits.
    fn put(&self, value: f64, other: f64) -> f64 {
        if !(value.is_finite() && other.is_finite()) {
            return value;
        }
        let new = value - self.ending(value) + self.ending(other);
        match self.digits.round(other) == other {
            true => self.digits.round(new),
            false => new,
        }
    }

    fn ending(&self, value: f64) -> f64 {
        value - (value / self.unit).floor() * self.unit
    }
}

/// Returns the largest power of two that a number is a multiple of.
fn lowest_bit(value: f64) -> f64 {
    let bits = value.to_bits();
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1075;
    2_f64.powi(exponent + mantissa.trailing_zeros() as i32)
}

fn is_multiple(value: f64, step: f64) -> bool {
    step > 0.0 && value % step == 0.0
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => greatest_common_divisor(b, a % b),
    }
}

fn finite(values: &[f64]) -> impl Iterator<Item = f64> {
    values.iter().copied().filter(|value| value.is_finite())
}

impl Digits {
    /// Returns the fewest digits in which at least the part `part` of the finite values is exact.
    /// Decimals are tried before significant digits; [`Digits::All`] if neither fits.
    fn of(values: &[f64], part: f64) -> Self {
        let suits = |digits: &Self| {
            let kept = finite(values).filter(|value| digits.round(*value) == *value);
            kept.count() as f64 >= part * finite(values).count() as f64
        };
        let decimals = (0..=DECIMALS_MAX).map(Self::Decimals);
        let significant = (1..=DIGITS_MAX).map(Self::Significant);
        decimals.chain(significant).find(suits).unwrap_or(Self::All)
    }

    fn round(&self, value: f64) -> f64 {
        match *self {
            Self::Decimals(decimals) => {
                let scale = 10_f64.powi(decimals);
                (value * scale).round() / scale
            }
            Self::Significant(digits) => rounded(value, digits),
            Self::All => value,
        }
    }
}

/// Returns the nearest number with `digits` significant decimal digits.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}
