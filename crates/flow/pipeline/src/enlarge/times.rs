//! Times continue where the previous copy ended.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};

use crate::Error;

/// Type in which times that are stored as text are shifted.
const TEXT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Error message for shifted times that exceed the range of the column's type.
const TOO_LATE: &str =
    "times are later than their type can say; make fewer rows, or leave out the time";

/// Distance by which each copy is later than the previous one.
pub(super) struct Times {
    /// Type for the computation; differs from the column's for text.
    counted: DataType,
    span: i64,
}

impl Times {
    pub(super) fn new(name: &str, array: &ArrayRef) -> Result<Self, Error> {
        let refuse = || Error::ColumnType {
            name: name.into(),
            kind: array.data_type().to_string(),
            role: "times",
        };
        let counted = match array.data_type() {
            kind @ (DataType::Timestamp(..) | DataType::Date32 | DataType::Date64) => kind.clone(),
            kind if kind.is_integer() => kind.clone(),
            DataType::Float32 | DataType::Float64 => DataType::Float64,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => TEXT,
            _ => return Err(refuse()),
        };
        if counted == TEXT && array.data_type() != &TEXT {
            // Text that would be formatted differently is not shifted.
            let back = cast(&cast(array, &counted)?, array.data_type())?;
            if &back != array {
                return Err(refuse());
            }
        }
        let mut times = Self { counted, span: 0 };
        let mut span = |counts: &mut dyn Iterator<Item = f64>| {
            let (low, high, n) = counts.fold((f64::MAX, f64::MIN, 0_u64), |(low, high, n), at| {
                (low.min(at), high.max(at), n + 1)
            });
            // At least one step after the last time: a second if texts have whole seconds.
            let unit = if times.counted == TEXT { 1e6 } else { 1.0 };
            if n > 0 {
                times.span = (((high - low) / unit).floor() * unit + unit) as i64;
            }
        };
        match times.counted {
            DataType::Float64 => span(&mut float(array)?.iter().flatten()),
            _ => span(&mut times_of(array, &times.counted)?.iter().flatten().map(|at| at as f64)),
        }
        Ok(times)
    }

    /// Returns the times of copy number `copy`; those of copy 0 are the sample's.
    pub(super) fn shifted(&self, array: &ArrayRef, copy: u64) -> Result<ArrayRef, Error> {
        let later = || Error::Refused(TOO_LATE.into());
        let by = self.span.checked_mul(copy as i64).ok_or_else(later)?;
        let shifted: ArrayRef = match self.counted {
            DataType::Float64 => {
                let times: Float64Array = float(array)?.unary(|at| at + by as f64);
                Arc::new(times)
            }
            _ => {
                let times = times_of(array, &self.counted)?;
                let times: Int64Array =
                    times.try_unary(|at| at.checked_add(by).ok_or_else(later))?;
                super::exactly(&times, &self.counted, TOO_LATE)?
            }
        };
        Ok(cast(&shifted, array.data_type())?)
    }
}

fn times_of(array: &ArrayRef, counted: &DataType) -> Result<Int64Array, Error> {
    let times = super::exactly(&cast(array, counted)?, &DataType::Int64, TOO_LATE)?;
    Ok(times.as_primitive::<Int64Type>().clone())
}

fn float(array: &ArrayRef) -> Result<Float64Array, Error> {
    Ok(cast(array, &DataType::Float64)?.as_primitive().clone())
}
