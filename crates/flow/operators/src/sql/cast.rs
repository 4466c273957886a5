//! `CAST` with the semantics of DuckDB where Arrow's kernel differs.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, LargeStringArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;

use super::refused;
use crate::Error;

/// Casts the array to another type. A value outside of the type is an error, or null if `is_safe`.
///
/// - Floats become the nearest integer, the even one if two are equally near; decimals are rounded half
///   away from zero. Arrow truncates.
/// - A second of 60 is an invalid time. Arrow reads it as 59.
pub(crate) fn cast(array: &ArrayRef, kind: &DataType, is_safe: bool) -> Result<ArrayRef, Error> {
    let from = array.data_type();
    let rounded: ArrayRef = match from {
        from if kind.is_integer() && from.is_floating() => {
            let wide = plain(array, &DataType::Float64, is_safe)?;
            let wide = wide.as_primitive::<Float64Type>();
            Arc::new(wide.unary::<_, Float64Type>(f64::round_ties_even))
        }
        from if kind.is_integer() && is_decimal(from) => {
            let whole = match from {
                DataType::Decimal256(..) => DataType::Decimal256(76, 0),
                _ => DataType::Decimal128(38, 0),
            };
            plain(array, &whole, is_safe)?
        }
        from if from.is_string() && kind.is_temporal() => without_leap_seconds(array, is_safe)?,
        _ => ArrayRef::clone(array),
    };
    plain(&rounded, kind, is_safe)
}

/// Casts a literal to another type. A decimal becomes the float that its digits are parsed as.
pub(super) fn cast_literal(array: &ArrayRef, kind: &DataType) -> Result<ArrayRef, Error> {
    if matches!(array.data_type(), DataType::Decimal128(..)) && array.is_valid(0) {
        let text = array.as_primitive::<Decimal128Type>().value_as_string(0);
        let wrong = || refused(format!("{text} is no {kind}"));
        match kind {
            DataType::Float32 => {
                let value: f32 = text.parse().map_err(|_| wrong())?;
                return Ok(Arc::new(Float32Array::from(vec![value])));
            }
            DataType::Float64 => {
                let value: f64 = text.parse().map_err(|_| wrong())?;
                return Ok(Arc::new(Float64Array::from(vec![value])));
            }
            _ => {}
        }
    }
    cast(array, kind, false)
}

fn is_decimal(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
    )
}

fn plain(array: &ArrayRef, kind: &DataType, is_safe: bool) -> Result<ArrayRef, Error> {
    let options = CastOptions { safe: is_safe, ..CastOptions::default() };
    cast_with_options(array, kind, &options).map_err(|error| refused(error.to_string()))
}

fn without_leap_seconds(array: &ArrayRef, is_safe: bool) -> Result<ArrayRef, Error> {
    let text = plain(array, &DataType::LargeUtf8, false)?;
    let text = text.as_string::<i64>();
    let leap = |text: &&str| overside_tables::types::has_leap_second(text);
    match text.iter().flatten().find(leap) {
        None => Ok(ArrayRef::clone(array)),
        Some(_) if is_safe => {
            let kept = text.iter().map(|text| text.filter(|text| !leap(text)));
            Ok(Arc::new(kept.collect::<LargeStringArray>()))
        }
        Some(text) => Err(refused(format!("{text:?} is no time: a minute ends with second 59"))),
    }
}
