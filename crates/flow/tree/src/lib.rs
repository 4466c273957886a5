//! A log-structured tree that turns snapshots, which are ordered by time, into tracks, which are
//! ordered by object and time (the idea of the log-structured merge tree, O'Neil et al., Acta
//! Informatica 33, 1996, with its levels split by the key so that each can be on another machine).
//!
//! The root absorbs batches until it has its capacity; then it splits them by the next bits of the
//! key and passes each part to a child. A child does the same. Leaves sort what they get by id and
//! time, and write it as Parquet. Each row is written once a level, and once more each time a leaf
//! merges its files.
//!
//! | question | module |
//! |---|---|
//! | which child has a row? | `layout` |
//! | which files are there? | `manifest` |
//! | how is a file written and read? | `run` |
//! | what happens to a batch? | `writer` |
//! | where is a track? | `reader`; of several trees, here or served elsewhere (`source`): `union` |
//! | who works on several files or trees at a time? | `at_once` |
//! | was a numbered batch there before? | `sequences` |
//!
//! The manifest is replaced as a whole after the files that it names are on the disk, so a tree is
//! what it was at the last commit, however a process ends.

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
pub use layout::{TreeKey, TreeOptions, TreeShape};
pub use manifest::NodeSize;
pub use reader::TreeReader;
pub use source::{Gathered, TrackQuery, TrackSource};
pub use union::{TREES_AT_ONCE, TreeUnion};
pub use writer::MEMORY_CAPACITIES;
pub use writer::{ForwardedRun, TreeWriter, TreeWritten};
