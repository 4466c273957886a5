//! Order of floats in filters, sorts and partitions: -0 equals 0, and all NaN are equal and above all
//! numbers. DuckDB and Postgres have the same order; Arrow's kernels use IEEE 754's total order.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType};
use arrow_schema::DataType;

/// Returns the array with 0 instead of -0 and a single NaN, so that the total order becomes this order.
/// Arrays without floats are returned unchanged.
pub(super) fn with_one_nan(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float16 => {
            let nan = <Float16Type as ArrowPrimitiveType>::Native::NAN;
            Arc::new(
                array
                    .as_primitive::<Float16Type>()
                    .unary::<_, Float16Type>(|one| canonical(one, nan)),
            )
        }
        DataType::Float32 => Arc::new(
            (array.as_primitive::<Float32Type>())
                .unary::<_, Float32Type>(|one| canonical(one, f32::NAN)),
        ),
        DataType::Float64 => Arc::new(
            (array.as_primitive::<Float64Type>())
                .unary::<_, Float64Type>(|one| canonical(one, f64::NAN)),
        ),
        DataType::Dictionary(_, values) if values.is_floating() => {
            let dictionary = array.as_any_dictionary();
            dictionary.with_values(with_one_nan(dictionary.values()))
        }
        _ => ArrayRef::clone(array),
    }
}

/// Replaces -0 by 0, and every NaN by `nan`.
pub(super) fn canonical<N: ArrowNativeTypeOp>(value: N, nan: N) -> N {
    match value.partial_cmp(&N::ZERO) {
        Some(std::cmp::Ordering::Equal) => N::ZERO,
        Some(_) => value,
        None => nan,
    }
}
