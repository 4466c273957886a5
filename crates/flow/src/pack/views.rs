//! Views of strings and bytes are written with all the bytes behind them. A part of a table, as a
//! partition is, would take the whole of them along.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch};
use arrow_schema::DataType;

use crate::Error;

/// The batch, with views that use less than half of the bytes behind them in memory of their own.
pub(super) fn compact(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let is_view = |column: &ArrayRef| {
        matches!(
            column.data_type(),
            DataType::Utf8View | DataType::BinaryView
        )
    };
    if !batch.columns().iter().any(is_view) {
        return Ok(batch.clone());
    }
    let columns = batch
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Utf8View => compacted(column, column.as_string_view()),
            DataType::BinaryView => compacted(column, column.as_binary_view()),
            _ => Arc::clone(column),
        });
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = columns.collect();
    Ok(RecordBatch::try_new_with_options(
        batch.schema(),
        columns,
        &options,
    )?)
}

fn compacted<T: ByteViewType + ?Sized>(
    column: &ArrayRef,
    views: &GenericByteViewArray<T>,
) -> ArrayRef {
    let behind: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    match views.total_buffer_bytes_used() < behind / 2 {
        true => Arc::new(views.gc()),
        false => Arc::clone(column),
    }
}
