//! Sorts a table by columns, such as a key and the time. Equal rows keep their order.
//!
//! Columns of numbers, dates and times without nulls become unsigned integers with the same order; up to two
//! of them are sorted with the row number as one tuple. Other columns are compared row by row.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, downcast_primitive_array};
use arrow_buffer::ArrowNativeType;
use arrow_ord::ord::{DynComparator, make_comparator};
use arrow_schema::{DataType, Schema, SortOptions};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;

use super::floats::with_one_nan;
use crate::Error;

/// Column to sort by. Nulls are last by default, NaN after all numbers; -0 equals 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortColumn {
    /// Name of the node.
    pub name: String,
    /// `true` to sort from the greatest value to the least.
    pub is_descending: bool,
    /// `true` to put nulls before all values.
    pub is_nulls_first: bool,
}

impl SortColumn {
    /// Sorts from the least value to the greatest, nulls last.
    pub fn ascending(name: &str) -> Self {
        Self { name: name.to_owned(), is_descending: false, is_nulls_first: false }
    }

    /// Returns the index of the column in the schema.
    ///
    /// # Errors
    /// There is no column of that name, or several.
    pub fn position(&self, schema: &Schema) -> Result<usize, Error> {
        crate::column(schema, &self.name).map_err(|error| {
            // Names may contain spaces.
            let (name, word) = self.name.rsplit_once(' ').unwrap_or_default();
            match crate::column(schema, name.trim_end()) {
                Ok(_) => Error::Refused(format!(
                    "{word:?} is no order of column {:?}; write asc or desc, and nulls first or nulls last",
                    name.trim_end()
                )),
                Err(_) => error,
            }
        })
    }
}

impl FromStr for SortColumn {
    type Err = Error;

    /// Parses `NAME`, `NAME desc`, `NAME asc nulls first`...
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut rest = text.trim();
        let mut strip = |suffix: &str| {
            let at = rest.len().checked_sub(suffix.len())?;
            let end = rest.get(at..)?;
            let before = rest.get(..at)?.trim_end();
            (end.eq_ignore_ascii_case(suffix) && !before.is_empty()).then(|| rest = before)
        };
        let is_nulls_first = strip(" nulls first").is_some();
        if !is_nulls_first {
            strip(" nulls last");
        }
        let is_descending = strip(" desc").is_some();
        if !is_descending {
            strip(" asc");
        }
        if rest.is_empty() {
            return Err(Error::Refused("the name of a column is missing".into()));
        }
        Ok(Self { name: rest.to_owned(), is_descending, is_nulls_first })
    }
}

impl fmt::Display for SortColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.is_descending { " desc" } else { "" };
        let nulls = if self.is_nulls_first { " nulls first" } else { "" };
        write!(f, "{}{order}{nulls}", self.name)
    }
}

/// Returns the batches' rows as one batch, sorted by the first column, equal ones by the second, and so on.
/// It refuses a sort without columns, columns without an order, and more than 2³² rows.
pub fn sort(batches: &[RecordBatch], columns: &[SortColumn]) -> Result<RecordBatch, Error> {
    let Some(first) = batches.first() else {
        return Err(Error::Refused("there is no batch to sort".to_owned()));
    };
    let table = match batches {
        [one] => one.clone(),
        _ => concat_batches(first.schema_ref(), batches)?,
    };
    let rows = sorted_rows(&table, columns)?;
    Ok(take_record_batch(&table, &rows)?)
}

/// Returns the row numbers of a batch in sorted order.
fn sorted_rows(table: &RecordBatch, columns: &[SortColumn]) -> Result<UInt32Array, Error> {
    let rows = u32::try_from(table.num_rows());
    let rows = rows.map_err(|_| Error::Refused("too many rows to sort at once".to_owned()))?;
    let arrays: Result<Vec<ArrayRef>, Error> = (columns.iter())
        .map(|column| Ok(with_one_nan(table.column(column.position(table.schema_ref())?))))
        .collect();
    let arrays = arrays?;
    let keys = || -> Option<Vec<Vec<u64>>> {
        let keys = arrays.iter().zip(columns);
        keys.map(|(array, column)| sort_keys(array, column.is_descending)).collect()
    };
    match arrays.len() {
        0 => return Err(Error::Refused("there is no column to sort by".to_owned())),
        1 | 2 => {
            if let Some(keys) = keys() {
                return Ok(rows_by_keys(&keys));
            }
        }
        _ => {}
    }
    let compare: Result<Vec<DynComparator>, Error> = (arrays.iter().zip(columns))
        .map(|(array, column)| {
            let options = SortOptions {
                descending: column.is_descending,
                nulls_first: column.is_nulls_first,
            };
            Ok(make_comparator(array, array, options)?)
        })
        .collect();
    let compare = compare?;
    let mut order: Vec<u32> = (0..rows).collect();
    order.sort_by(|one, other| {
        let (one, other) = (*one as usize, *other as usize);
        let mut orders = compare.iter().map(|compare| compare(one, other));
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    Ok(order.into())
}

/// Sorts by keys. The row number in each tuple makes all tuples different, so equal rows keep their order.
fn rows_by_keys(keys: &[Vec<u64>]) -> UInt32Array {
    match keys {
        [one] => {
            let mut rows: Vec<(u64, u32)> = one.iter().copied().zip(0..).collect();
            rows.sort_unstable();
            rows.into_iter().map(|(_, row)| row).collect::<Vec<u32>>().into()
        }
        [one, other, ..] => {
            let pairs = one.iter().zip(other).zip(0..);
            let mut rows: Vec<(u64, u64, u32)> =
                pairs.map(|((one, other), row)| (*one, *other, row)).collect();
            rows.sort_unstable();
            rows.into_iter().map(|(_, _, row)| row).collect::<Vec<u32>>().into()
        }
        [] => UInt32Array::from(Vec::<u32>::new()),
    }
}

/// Returns unsigned integers in the order of the values; `None` for other types, or if there are nulls.
fn sort_keys(array: &dyn Array, is_descending: bool) -> Option<Vec<u64>> {
    if array.null_count() > 0 || array.data_type().primitive_width()? > 8 {
        return None;
    }
    let flip = if is_descending { u64::MAX } else { 0 };
    let is_unsigned = array.data_type().is_unsigned_integer();
    let is_float = array.data_type().is_floating();
    if matches!(array.data_type(), DataType::Interval(_)) {
        return None;
    }
    downcast_primitive_array!(
        array => Some(keys_of(array, |bits, width| {
            let sign = 1_u64 << (8 * width - 1);
            let key = match (is_unsigned, is_float && bits & sign != 0) {
                (true, _) => bits,
                // The greater the bits of a negative float, the smaller its value.
                (_, true) => !bits & (sign | (sign - 1)),
                (_, false) => bits ^ sign,
            };
            key ^ flip
        })),
        _ => None
    )
}

fn keys_of<T: ArrowPrimitiveType>(
    array: &arrow_array::PrimitiveArray<T>,
    key: impl Fn(u64, usize) -> u64,
) -> Vec<u64> {
    let width = size_of::<T::Native>();
    (array.values().iter())
        .map(|value| {
            let mut bits = [0; 8];
            bits[..width].copy_from_slice(bytes_of(value));
            key(u64::from_le_bytes(bits), width)
        })
        .collect()
}

fn bytes_of<T: ArrowNativeType>(value: &T) -> &[u8] {
    arrow_buffer::ToByteSlice::to_byte_slice(value)
}
