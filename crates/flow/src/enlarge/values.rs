//! Values become others between the sample's.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, Float64Array};
use arrow_cast::cast;
use arrow_schema::DataType;
use overside_base::Random;

use crate::Error;

/// The most digits behind the point, and the most significant ones, that a sample is found to have.
const DECIMALS_MAX: i32 = 12;
const DIGITS_MAX: usize = 9;
/// Where the sample has a larger part of all values that its digits allow, it has them all.
const DENSE: f64 = 0.2;
/// How often a value is drawn before one that is there already stays.
const DRAWS_MAX: usize = 8;

pub(super) fn is_redrawn(kind: &DataType) -> bool {
    matches!(kind, DataType::Float32 | DataType::Float64)
}

/// Other values; equal ones stay equal, and in order.
pub(super) fn redraw(array: &ArrayRef, random: &mut Random) -> Result<ArrayRef, Error> {
    let floats = cast(array, &DataType::Float64)?;
    let floats = floats.as_primitive::<Float64Type>();
    let (distinct, ranks) = super::ranks(floats.values(), f64::total_cmp);
    let digits = Digits::of(&distinct);
    if digits.is_dense(&distinct) {
        return Ok(ArrayRef::clone(array));
    }
    let mut seen = HashSet::with_capacity(distinct.len());
    let mut new: Vec<f64> = (0..distinct.len())
        .map(|_| {
            let mut value = 0.0;
            for _ in 0..DRAWS_MAX {
                value = digits.round(between(&distinct, random));
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

/// A value between two neighbors of the sample's.
fn between(distinct: &[f64], random: &mut Random) -> f64 {
    let at = random.below(distinct.len() as u64) as usize;
    let (low, high) = (distinct[at], distinct[(at + 1).min(distinct.len() - 1)]);
    match low.is_finite() && high.is_finite() {
        true => low + random.uniform() * (high - low),
        false => low,
    }
}

/// How many digits values have.
enum Digits {
    /// So many behind the point.
    Decimals(i32),
    /// So many significant ones.
    Significant(usize),
    All,
}

impl Digits {
    fn of(values: &[f64]) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let fixed = |decimals: &i32| {
            let scale = 10_f64.powi(*decimals);
            finite().all(|value| (value * scale).round() / scale == value)
        };
        if let Some(decimals) = (0..=DECIMALS_MAX).find(fixed) {
            return Self::Decimals(decimals);
        }
        let significant = |digits: &usize| finite().all(|value| rounded(value, *digits) == value);
        match (1..=DIGITS_MAX).find(significant) {
            Some(digits) => Self::Significant(digits),
            None => Self::All,
        }
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

    /// Whether the sample has most of the values that lie between its ends.
    fn is_dense(&self, distinct: &[f64]) -> bool {
        let finite = || distinct.iter().copied().filter(|value| value.is_finite());
        let low = finite().fold(f64::INFINITY, f64::min);
        let high = finite().fold(f64::NEG_INFINITY, f64::max);
        match *self {
            Self::Decimals(decimals) if low < high => {
                distinct.len() as f64 > DENSE * (high - low) * 10_f64.powi(decimals)
            }
            _ => low >= high,
        }
    }
}

/// The nearest number of so many significant decimal digits.
fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}
