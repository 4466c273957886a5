//! Converts arrays to other types without loss.

use std::sync::Arc;

use arrow_array::builder::FixedSizeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::IntervalMonthDayNanoType;
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::IntervalMonthDayNano;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, IntervalUnit};

use super::INTERVAL;

const NANOSECONDS_OF_MILLISECOND: i64 = 1_000_000;

/// Converts the array to that type. Returns an error if a value would change.
pub(crate) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let from = array.data_type();
    match (from, to) {
        (from, to) if from == to => Ok(ArrayRef::clone(array)),
        (DataType::Interval(_), to) if *to == INTERVAL => interval_bytes(array),
        (from, DataType::Interval(_)) if *from == INTERVAL => convert(&intervals(array)?, to),
        (DataType::Dictionary(_, values), to) if !is_text(values) => {
            convert(&cast(array, values)?, to)
        }
        (_, DataType::Dictionary(_, values)) if !is_text(values) => {
            cast(&convert(array, values)?, to)
        }
        (DataType::RunEndEncoded(_, values), to) => convert(&cast(array, values.data_type())?, to),
        // None of these casts changes a value.
        (from, to) if is_text(from) && is_text(to) => cast(array, to),
        _ => {
            let converted = cast(array, to)?;
            match &cast(&converted, from)? == array {
                true => Ok(converted),
                false => {
                    let what = format!("a value of it is none of {to}; CAST the column");
                    Err(ArrowError::CastError(what))
                }
            }
        }
    }
}

/// Returns `true` for a time as text whose second is 60, which Arrow reads as second 59.
pub fn has_leap_second(text: &str) -> bool {
    let seconds = text.splitn(3, ':').nth(2);
    seconds.is_some_and(|seconds| seconds.starts_with("60"))
}

/// Returns `true` for text and bytes, also within other types.
fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => is_text(values),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            is_text(field.data_type())
        }
        kind => {
            kind.is_string() || kind.is_binary() || matches!(kind, DataType::FixedSizeBinary(_))
        }
    }
}

fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options)
}

/// Converts intervals to Parquet's months, days and milliseconds: unsigned numbers of 32 bits.
fn interval_bytes(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let array = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let mut bytes = FixedSizeBinaryBuilder::with_capacity(array.len(), 12);
    for value in array.as_primitive::<IntervalMonthDayNanoType>() {
        let Some(value) = value else {
            bytes.append_null();
            continue;
        };
        let whole = |part: i64| u32::try_from(part).ok().map(u32::to_le_bytes);
        let (months, days) = (whole(value.months.into()), whole(value.days.into()));
        let milliseconds = (value.nanoseconds % NANOSECONDS_OF_MILLISECOND == 0)
            .then(|| whole(value.nanoseconds / NANOSECONDS_OF_MILLISECOND));
        let (Some(months), Some(days), Some(Some(milliseconds))) = (months, days, milliseconds)
        else {
            let what = "a value has a negative part, or a part of a millisecond; leave it out";
            return Err(ArrowError::CastError(what.into()));
        };
        bytes.append_value([months, days, milliseconds].as_flattened())?;
    }
    Ok(Arc::new(bytes.finish()))
}

/// Converts Parquet's intervals to Arrow's.
fn intervals(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let array = array.as_fixed_size_binary();
    let value = |bytes: &[u8]| {
        let (parts, _) = bytes.as_chunks::<4>();
        let [months, days, milliseconds] = [0, 1, 2].map(|at| u32::from_le_bytes(parts[at]));
        let signed = |part: u32| {
            let what = "an interval of more than 2,147,483,647 months or days";
            i32::try_from(part).map_err(|_| ArrowError::CastError(what.into()))
        };
        let nanoseconds = i64::from(milliseconds) * NANOSECONDS_OF_MILLISECOND;
        Ok::<_, ArrowError>(IntervalMonthDayNano::new(signed(months)?, signed(days)?, nanoseconds))
    };
    let values = array.iter().map(|bytes| bytes.map(value).transpose());
    let values = values.collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::from(values)))
}
