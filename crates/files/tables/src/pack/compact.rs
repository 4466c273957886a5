//! Copies columns for which Arrow's encoder would write bytes that none of their rows uses.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{
    Array, ArrayRef, GenericByteViewArray, RecordBatch, RecordBatchOptions, UInt64Array,
    new_empty_array,
};
use arrow_schema::DataType;
use arrow_select::take::take;

use super::arrays::children;
use crate::Error;

/// Returns the batch with such columns replaced.
///
/// * Views of strings and bytes are written with all the bytes that they could refer to. A part of a
///   table, such as a partition, would include the bytes of the whole table. Views that use less than
///   half of the bytes get memory of their own.
/// * A union in a list would be written from its first value on, even if the list uses only the end.
/// * Runs without rows would be written with a run that ends at 0, which readers refuse.
pub(super) fn compact(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let columns = batch.columns().iter().map(compacted);
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    let is_same = |(a, b): (&ArrayRef, &ArrayRef)| Arc::ptr_eq(a, b);
    if columns.iter().zip(batch.columns()).all(is_same) {
        return Ok(batch.clone());
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = batch.schema();
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

fn compacted(column: &ArrayRef) -> Result<ArrayRef, Error> {
    Ok(match column.data_type() {
        DataType::Utf8View => used(column, column.as_string_view()),
        DataType::BinaryView => used(column, column.as_binary_view()),
        kind @ DataType::RunEndEncoded(..) if column.is_empty() => new_empty_array(kind),
        kind if has_union_in_list(kind, false) => {
            let rows = UInt64Array::from_iter_values(0..column.len() as u64);
            take(column, &rows, None)?
        }
        _ => Arc::clone(column),
    })
}

fn has_union_in_list(kind: &DataType, is_in_list: bool) -> bool {
    let is_in_list = match kind {
        DataType::Union(..) if is_in_list => return true,
        DataType::Union(..) | DataType::Struct(_) => is_in_list,
        _ => true,
    };
    (children(kind).iter()).any(|child| has_union_in_list(child.data_type(), is_in_list))
}

fn used<T: ByteViewType + ?Sized>(column: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
    let behind: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    match views.total_buffer_bytes_used() < behind / 2 {
        true => Arc::new(views.gc()),
        false => Arc::clone(column),
    }
}
