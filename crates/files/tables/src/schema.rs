//! Comparison of schemas, to check that all batches have the same one.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};

use crate::Error;

/// Refuses a batch whose columns differ in name or type.
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
    Err(schema_change(expected, found))
}

/// Maximum number of differences that are listed; further ones are only counted.
const NAMED_MAX: usize = 3;

/// Returns the error for a schema that differs from the expected one.
pub(crate) fn schema_change(expected: &Schema, found: &Schema) -> Error {
    Error::SchemaChange { difference: schema_difference(expected, found) }
}

/// Returns the differences of two schemas in one line.
pub fn schema_difference(expected: &Schema, found: &Schema) -> String {
    let [before, now] = [expected, found].map(|schema| -> HashMap<&str, &DataType> {
        let fields = schema.fields().iter();
        fields.map(|field| (field.name().as_str(), field.data_type())).collect()
    });
    let mut all = Vec::new();
    for field in expected.fields() {
        let (name, kind) = (field.name(), field.data_type());
        match now.get(name.as_str()) {
            None => all.push(format!("there is no column {name:?}")),
            Some(&other) if other != kind => {
                all.push(format!("column {name:?} holds {other} in place of {kind}"));
            }
            Some(_) => {}
        }
    }
    for field in found.fields() {
        if !before.contains_key(field.name().as_str()) {
            all.push(format!("column {:?} is new", field.name()));
        }
    }
    if all.is_empty() {
        let names = |schema: &Schema| -> Vec<String> {
            let fields = schema.fields().iter();
            fields.map(|field| field.name().clone()).collect()
        };
        all.push(match names(expected) == names(found) {
            true => "nulls or metadata of the columns are others".into(),
            false => "the columns are in another order".into(),
        });
    }
    let more = all.len().saturating_sub(NAMED_MAX);
    all.truncate(NAMED_MAX);
    if more > 0 {
        all.push(format!("and {more} more"));
    }
    all.join(", ")
}
