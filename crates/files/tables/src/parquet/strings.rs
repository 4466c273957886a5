//! Strings and bytes as views, and back.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::types::convert;
use crate::{Columns, Error};

/// Largest number of bytes that the strings of a batch may have after they were copied; one row may
/// have more.
pub(super) const BATCH_BYTES_MAX: usize = 64 << 20;

/// The schema with strings and bytes of these columns as views.
pub(super) fn with_views(schema: &Schema, columns: &Columns) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(at, field)| {
        let is_read = match columns {
            Columns::All => true,
            Columns::Only(indices) => indices.contains(&at),
        };
        match is_read {
            true => viewed(field),
            false => FieldRef::clone(field),
        }
    });
    let metadata = schema.metadata().clone();
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata))
}

fn viewed(field: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(view(field.data_type())))
}

fn view(kind: &DataType) -> DataType {
    match kind {
        DataType::Dictionary(_, values) => view(values),
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::List(field) => DataType::List(viewed(field)),
        DataType::LargeList(field) => DataType::LargeList(viewed(field)),
        DataType::FixedSizeList(field, len) => DataType::FixedSizeList(viewed(field), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(viewed).collect()),
        DataType::Map(field, sorted) => DataType::Map(viewed(field), *sorted),
        other => other.clone(),
    }
}

/// Returns the number of bytes that the views of a batch refer to.
pub(super) fn bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(array_bytes).sum()
}

fn array_bytes(array: &ArrayRef) -> usize {
    let rest = |begin: i64, end: i64, values: &ArrayRef| {
        let (begin, len) = (begin as usize, (end - begin) as usize);
        array_bytes(&values.slice(begin, len))
    };
    // The low half of a view is the length.
    let views = |views: &[u128]| views.iter().map(|view| *view as u32 as usize).sum();
    match array.data_type() {
        DataType::Utf8View => views(array.as_string_view().views()),
        DataType::BinaryView => views(array.as_binary_view().views()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(array_bytes).sum(),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let ends = list.offsets();
            rest(ends[0].into(), ends[array.len()].into(), list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let ends = list.offsets();
            rest(ends[0], ends[array.len()], list.values())
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (begin, end) = (map.offsets()[0], map.offsets()[array.len()]);
            let entries: ArrayRef = Arc::new(map.entries().clone());
            rest(begin.into(), end.into(), &entries)
        }
        DataType::FixedSizeList(..) => array_bytes(array.as_fixed_size_list().values()),
        _ => 0,
    }
}

/// The batch with the types of that schema.
pub(super) fn as_written(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| {
        let kind = field.data_type();
        match array.data_type() {
            found if found == kind => Ok(ArrayRef::clone(array)),
            found if found.equals_datatype(&view(kind)) => cast(array, kind),
            _ => convert(array, kind),
        }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let rows = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = SchemaRef::clone(schema);
    Ok(RecordBatch::try_new_with_options(schema, columns, &rows)?)
}
