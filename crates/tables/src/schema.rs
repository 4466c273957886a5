//! Whether batches have one schema.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};

use crate::Error;

/// Refuses a batch whose columns are others, or of another type.
///
/// # Errors
/// [`Error::SchemaChange`].
pub fn check_schema(expected: &SchemaRef, found: &SchemaRef) -> Result<(), Error> {
    let is_same = Arc::ptr_eq(expected, found)
        || (expected.fields().len() == found.fields().len()
            && (expected.fields().iter().zip(found.fields())).all(|(expected, found)| {
                expected.name() == found.name() && expected.data_type() == found.data_type()
            }));
    if is_same {
        return Ok(());
    }
    Err(Error::SchemaChange {
        expected: schema_text(expected),
        found: schema_text(found),
    })
}

/// `name: type` of each column.
fn schema_text(schema: &Schema) -> String {
    let fields = schema.fields().iter();
    let columns: Vec<String> = fields
        .map(|field| format!("{}: {}", field.name(), field.data_type()))
        .collect();
    format!("({})", columns.join(", "))
}
