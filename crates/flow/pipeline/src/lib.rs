//! Arrow data flows: record batches on their way from producers, which emit tables by space, to consumers, which read
//! them by object over time. Between them batches are unpacked, filtered, partitioned by a key, packed again and
//! routed. `pipeline/stages` has one file for each kind of stage; `operators` are the functions that stages call.

pub mod bench;
pub mod enlarge;
mod error;
pub mod files;
pub mod generate;
pub mod object_store;
pub mod operators;
pub mod pipeline;
mod repartition;
pub mod tree;

pub use error::Error;
pub use overside_tables::memory::BufferPool;
pub use overside_tables::{Error as TableError, check_schema, pack, schema_difference};
pub use repartition::{Repartition, Repartitioned};

use arrow_schema::{DataType, FieldRef, Schema};

/// The index of the one column of that name.
///
/// # Errors
/// [`Error::Table`]: there is none, or several.
pub fn column(schema: &Schema, name: &str) -> Result<usize, Error> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    Ok(overside_tables::position(names, name)?)
}

/// The first column that is such, or has such values within.
pub(crate) fn column_of(schema: &Schema, is_such: impl Fn(&DataType) -> bool) -> Option<&str> {
    let has_such = |field: &&FieldRef| {
        let alone = Schema::new(vec![FieldRef::clone(field)]);
        let fields = alone.flattened_fields();
        fields.iter().any(|field| is_such(field.data_type()))
    };
    schema
        .fields()
        .iter()
        .find(has_such)
        .map(|field| field.name().as_str())
}
