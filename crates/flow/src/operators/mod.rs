//! Operators: functions and types that turn record batches into record batches. They do no I/O and
//! start no threads.

mod assign;
mod key;
mod partition;
mod skew;

pub use key::{MAX_PARTITIONS, PartitionKey, PartitionMethod};
pub(crate) use partition::check_schema;
pub use partition::{PartitionOptions, Partitioner, Piece, Tables, partition};
pub use skew::{PartitionSize, SkewReport};
