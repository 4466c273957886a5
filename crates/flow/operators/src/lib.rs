//! Operators: functions and types that transform record batches. They do no I/O and start no threads.

mod assign;
mod columns;
mod error;
mod filter_each;
mod floats;
mod hashes;
mod key;
mod order;
mod partition;
mod ranges;
mod rechunk;
mod skew;
mod slots;
mod sort;
mod sql;
mod suggest;

pub use assign::value_type;
pub use error::Error;
pub use filter_each::{partition_by_filters, partitions_of_rows};
pub use key::{PartitionKey, PartitionMethod};
pub use partition::{
    PartitionOptions, Partitioner, Piece, Tables, block_bytes as values_bytes, partition,
};
pub use rechunk::{RechunkOptions, Rechunker, parts};
pub use skew::{PartitionSize, SkewReport};
pub use sort::{SortColumn, sort};
pub use sql::{Filter, Projection, literal, type_named};
pub use suggest::{KeyCandidate, KeySuggester, SAMPLE_ROWS};

use arrow_schema::{DataType, FieldRef, Schema};

/// Maximum number of partitions of one operator, without that of null keys.
pub const MAX_PARTITIONS: usize = 1024;

/// Returns the index of the only column of that name.
///
/// # Errors
/// [`Error::Table`]: there is none, or several.
pub fn column(schema: &Schema, name: &str) -> Result<usize, Error> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    Ok(overside_tables::position(names, name)?)
}

/// Returns the name of the first column whose type, or a type within it, satisfies `is_such`.
pub fn column_of(schema: &Schema, is_such: impl Fn(&DataType) -> bool) -> Option<&str> {
    let has_such = |field: &&FieldRef| {
        let alone = Schema::new(vec![FieldRef::clone(field)]);
        let fields = alone.flattened_fields();
        fields.iter().any(|field| is_such(field.data_type()))
    };
    schema.fields().iter().find(has_such).map(|field| field.name().as_str())
}
