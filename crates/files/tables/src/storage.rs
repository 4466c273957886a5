//! Tables on their way into a file: columns that a format cannot hold as they are, converted or refused.
//!
//! 1. [`Storage::new`] finds the type in which each column is stored, or refuses the column.
//! 2. [`Storage::store`] converts the columns whose type differs. A value that would not come back the same is refused.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use parquet::schema::types::SchemaDescriptor;

use crate::csv::as_text;
use crate::parquet::parquet_schema;
use crate::types::{convert, stored_type, with_type};
use crate::{Error, Format};

/// The way in which a format stores the columns of a table.
#[derive(Debug)]
pub struct Storage {
    format: Format,
    schema: SchemaRef,
    /// Schema of what is stored; the same if no column is converted.
    stored: SchemaRef,
    conversions: Vec<Conversion>,
}

/// Conversion of a column.
#[derive(Clone, Debug)]
pub struct Conversion {
    /// Sentence for the user.
    pub text: String,
    /// `true` if values only get a finer unit.
    pub is_minor: bool,
}

impl Storage {
    /// Finds the stored type of each column.
    ///
    /// # Errors
    /// [`Error::Unstorable`] for a column that the format refuses.
    pub fn new(format: Format, schema: &SchemaRef) -> Result<Self, Error> {
        let mut storage = Self {
            format,
            schema: SchemaRef::clone(schema),
            stored: SchemaRef::clone(schema),
            conversions: Vec::new(),
        };
        if format == Format::Arrow {
            return Ok(storage);
        }
        let mut fields: Vec<FieldRef> = Vec::new();
        for field in schema.fields() {
            let mut converted = Vec::new();
            let kind = stored_type(format, field.data_type(), &mut converted);
            let kind = kind.map_err(|(kind, remedy)| Error::Unstorable {
                column: field.name().clone(),
                kind,
                format,
                reason: remedy.into(),
            })?;
            converted.dedup();
            for (from, to, is_minor) in converted {
                let name = field.name();
                let text = format!("column {name:?}: {format} stores {from} as {to}");
                storage.conversions.push(Conversion { text, is_minor });
            }
            fields.push(with_type(field, kind));
        }
        if fields[..] != schema.fields()[..] {
            let metadata = schema.metadata().clone();
            storage.stored = Arc::new(Schema::new_with_metadata(fields, metadata));
        }
        Ok(storage)
    }

    /// Schema of the batches that are stored.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Schema of what is stored.
    pub fn stored_schema(&self) -> &SchemaRef {
        &self.stored
    }

    /// The schema of a Parquet file, where it has logical types that Arrow's writer does not know.
    ///
    /// # Errors
    /// [`Error::Format`]: Parquet cannot have the schema.
    pub fn parquet_schema(&self) -> Result<Option<SchemaDescriptor>, Error> {
        parquet_schema(&self.schema, &self.stored).map_err(Error::format)
    }

    /// Returns the conversions of columns.
    pub fn conversions(self) -> Vec<Conversion> {
        self.conversions
    }

    /// Converts a batch to the stored types. A batch without such columns is not copied.
    ///
    /// # Errors
    /// [`Error::Unstorable`] for a value that the stored type cannot hold.
    pub fn store(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let is_csv = self.format == Format::Csv;
        if !is_csv && Arc::ptr_eq(&self.schema, &self.stored) {
            return Ok(batch.clone());
        }
        let columns = batch.columns().iter().enumerate();
        let columns = columns.map(|(at, array)| self.store_column(at, array));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        if is_csv {
            let names = self.stored.fields().iter().map(|field| field.name());
            let fields = names
                .zip(&columns)
                .map(|(name, column)| Field::new(name, column.data_type().clone(), true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            return Ok(RecordBatch::try_new_with_options(schema, columns, &options)?);
        }
        let stored = SchemaRef::clone(&self.stored);
        Ok(RecordBatch::try_new_with_options(stored, columns, &options)?)
    }
    /// Converts the column in that place to its stored type.
    ///
    /// # Errors
    /// As [`Storage::store`].
    pub(crate) fn store_column(&self, at: usize, array: &ArrayRef) -> Result<ArrayRef, Error> {
        let field = self.stored.field(at);
        let text = match self.format {
            Format::Csv => as_text(field, array),
            _ => Ok(None),
        };
        let stored = text.and_then(|text| match text {
            Some(text) => Ok(text),
            None => convert(array, field.data_type()),
        });
        stored.map_err(|error| Error::Unstorable {
            column: field.name().clone(),
            kind: array.data_type().to_string(),
            format: self.format,
            reason: error.to_string(),
        })
    }
}
