//! Operators: functions and types that turn record batches into record batches. They do no I/O and
//! start no threads.

mod assign;
mod columns;
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

pub(crate) use assign::value_type;
pub use filter_each::{partition_by_filters, partitions_of_rows};
pub use key::{PartitionKey, PartitionMethod};
pub use partition::{
    PartitionOptions, Partitioner, Piece, Tables, block_bytes as values_bytes, partition,
};
pub use rechunk::{RechunkOptions, Rechunker};
pub use skew::{PartitionSize, SkewReport};
pub use sort::{SortColumn, sort};
pub(crate) use sql::literal;
pub use sql::{Filter, Projection, type_named};
pub use suggest::{KeyCandidate, KeySuggester, SAMPLE_ROWS};

/// The most partitions of one operator, the one of null keys not counted.
pub const MAX_PARTITIONS: usize = 1024;
