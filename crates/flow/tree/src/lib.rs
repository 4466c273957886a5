//! Log-structured tree that turns snapshots, which are ordered by time, into tracks, which are
//! ordered by object and time. It follows the log-structured merge tree (O'Neil et al., Acta
//! Informatica 33, 1996); its levels are split by the key so that each can be on another machine.
//!
//! 1. The root absorbs batches up to its capacity.
//! 2. Then it splits them by the next bits of the key and passes each part to a child, which does the same.
//! 3. Leaves sort their rows by id and time, and write them as Parquet.
//!
//! Each row is written once for each level, and once more each time a leaf merges its files.
//!
//! | topic | module |
//! |---|---|
//! | child of a row | `layout` |
//! | files of the tree | `manifest` |
//! | writing and reading of a file | `run` |
//! | work on a batch | `writer` |
//! | search for a track | `reader`; in several trees, local or remote (`source`): `union` |
//! | parallel work on files or trees | `at_once` |
//! | duplicates of numbered batches | `sequences` |
//!
//! The manifest is replaced as a whole after the files that it names are on the disk. So the tree is in
//! the state of its last commit, however a process ends.

mod concurrency;
mod layout;
mod manifest;
mod reader;
mod run;
mod sequences;
mod source;
mod union;
mod writer;

pub use concurrency::at_once;
pub use layout::{TreeKey, TreeOptions};
pub use manifest::NodeSize;
pub use reader::TreeReader;
pub use sequences::Sequences;
pub use source::{Gathered, TrackQuery, TrackSource};
pub use union::{TREES_AT_ONCE, TreeUnion};
pub use writer::MEMORY_CAPACITIES;
pub use writer::{ForwardedRun, TreeWriter, TreeWritten};
