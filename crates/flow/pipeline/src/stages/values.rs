//! Values of columns of bytes, and new columns of the same type.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::Error;

/// Column of bytes or text, by name, and the type of the column that replaces it.
pub(super) struct BytesColumn {
    pub index: usize,
    /// Schema with the new column in its place.
    pub schema: SchemaRef,
}

impl BytesColumn {
    /// Finds the column of that name. The column that replaces it is text or bytes, with long offsets if
    /// it has such.
    ///
    /// # Errors
    /// [`Error::Table`], [`Error::ColumnType`]: there is none, or it contains neither text nor bytes.
    pub(super) fn new(
        schema: &SchemaRef,
        name: &str,
        is_text: Option<bool>,
        role: &'static str,
    ) -> Result<Self, Error> {
        let index = crate::column(schema, name)?;
        let field = schema.field(index);
        let was_text = match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => false,
            other => {
                return Err(Error::ColumnType { name: name.into(), kind: other.to_string(), role });
            }
        };
        let is_long = matches!(field.data_type(), DataType::LargeUtf8 | DataType::LargeBinary);
        let kind = match (is_text.unwrap_or(was_text), is_long) {
            (true, false) => DataType::Utf8,
            (true, true) => DataType::LargeUtf8,
            (false, false) => DataType::Binary,
            (false, true) => DataType::LargeBinary,
        };
        let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
        fields[index] = Arc::new(field.clone().with_data_type(kind));
        let metadata = schema.metadata().clone();
        Ok(Self { index, schema: Arc::new(Schema::new_with_metadata(fields, metadata)) })
    }

    /// Returns the batch with a new column in its place.
    ///
    /// # Errors
    /// [`Error::Damaged`]: the column should be text, but is not UTF-8, or its values are too long for its type.
    pub(super) fn replaced(
        &self,
        batch: &RecordBatch,
        values: NewValues,
    ) -> Result<RecordBatch, Error> {
        let field = self.schema.field(self.index);
        let nulls = batch.column(self.index).nulls().cloned();
        let column = values.array(field, nulls)?;
        let mut columns = batch.columns().to_vec();
        columns[self.index] = column;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}

/// Returns the value of a row of a column that [`BytesColumn::new`] accepted; `None` for null.
pub(super) fn value(column: &dyn Array, row: usize) -> Option<&[u8]> {
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).as_bytes(),
        DataType::Utf8View => column.as_string_view().value(row).as_bytes(),
        DataType::Binary => column.as_binary::<i32>().value(row),
        DataType::LargeBinary => column.as_binary::<i64>().value(row),
        _ => column.as_binary_view().value(row),
    })
}

/// Values of a new column, concatenated.
#[derive(Default)]
pub(super) struct NewValues {
    pub bytes: Vec<u8>,
    ends: Vec<i64>,
}

impl NewValues {
    pub(super) fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self { bytes: Vec::with_capacity(bytes), ends }
    }

    /// Ends the next value: the bytes that were appended since the last call.
    pub(super) fn end_value(&mut self) {
        self.ends.push(self.bytes.len() as i64);
    }

    /// Returns the number of values that have been ended.
    pub(super) fn len(&self) -> usize {
        self.ends.len() - 1
    }

    fn array(self, field: &Field, nulls: Option<NullBuffer>) -> Result<ArrayRef, Error> {
        let ends = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        let bytes = LargeBinaryArray::try_new(ends, Buffer::from_vec(self.bytes), nulls)?;
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let (name, kind) = (field.name(), field.data_type());
        cast_with_options(&bytes, kind, &strict)
            .map_err(|error| Error::Damaged(format!("column {name:?} is to be {kind}: {error}")))
    }
}
