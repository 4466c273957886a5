//! Partitions by ranges, which are separated by bounds.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowNativeTypeOp, StringArray};
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SortOptions};

use super::sql::cast;

/// Maximum number of bounds that are compared one after the other; more need a binary search.
const LINEAR_BOUNDS: usize = 16;
/// Number of rows whose partitions stay in the first-level cache while they are compared with all bounds.
const RANGE_ROWS: usize = 2048;

/// Converts bounds to the key's type. Refuses bounds that do not ascend.
pub(super) fn cast_bounds(bounds: &[String], kind: &DataType) -> Result<ArrayRef, String> {
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(bounds));
    // Text is compared as bytes.
    let kind = match kind {
        DataType::Utf8View | DataType::LargeUtf8 => &DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
            &DataType::Binary
        }
        other => other,
    };
    let cast = cast(&text, kind, false).map_err(|error| {
        let is_wrong = |index: &usize| cast(&text.slice(*index, 1), kind, false).is_err();
        match (0..bounds.len()).find(is_wrong) {
            Some(index) => format!("bound {:?} is no {kind}", bounds[index]),
            None => error.to_string(),
        }
    })?;
    let compare =
        make_comparator(&cast, &cast, SortOptions::default()).map_err(|error| error.to_string())?;
    for next in 1..cast.len() {
        if compare(next - 1, next) != Ordering::Less {
            return Err(format!("bound {} is not above {}", bounds[next], bounds[next - 1]));
        }
    }
    Ok(cast)
}

pub(super) fn assign_ranges<N: ArrowNativeTypeOp>(bounds: &[N], values: &[N], ids: &mut Vec<u16>) {
    if bounds.len() > LINEAR_BOUNDS {
        let below = |value: &N| bounds.partition_point(|bound| bound.is_le(*value)) as u16;
        ids.extend(values.iter().map(below));
        return;
    }
    for rows in values.chunks(RANGE_ROWS) {
        let begin = ids.len();
        ids.resize(begin + rows.len(), 0);
        for bound in bounds {
            for (id, value) in ids[begin..].iter_mut().zip(rows) {
                *id += u16::from(bound.is_le(*value));
            }
        }
    }
}

/// Returns the number of bounds that are not above `value`, by binary search.
pub(super) fn bytes_below(bounds: &dyn Array, value: &[u8]) -> u16 {
    let bound = |index: usize| -> &[u8] {
        match bounds.data_type() {
            DataType::Utf8 => bounds.as_string::<i32>().value(index).as_bytes(),
            _ => bounds.as_binary::<i32>().value(index),
        }
    };
    let (mut least, mut most) = (0, bounds.len());
    while least < most {
        let middle = (least + most) / 2;
        if bound(middle) <= value {
            least = middle + 1;
        } else {
            most = middle;
        }
    }
    least as u16
}
