//! Whoever can be asked for tracks: a tree in a directory, or one that somebody else serves.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::reader::{TrackQuery, TreeReader};
use crate::Error;
use crate::operators::values_bytes;

/// The bytes of values that all who work on a query have gathered.
pub struct Gathered {
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Gathered {
    /// Nothing yet, and so much at most.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes: AtomicU64::new(0),
            bytes_max,
        }
    }

    /// Rows are gathered.
    ///
    /// # Errors
    /// [`Error::Refused`]: that makes too many.
    pub fn add(&self, rows: &RecordBatch) -> Result<(), Error> {
        let bytes = values_bytes(rows) as u64;
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        match before.saturating_add(bytes) > self.bytes_max {
            true => Err(Error::Refused(format!(
                "the rows have more than {} bytes; ask for fewer ids or a shorter time",
                self.bytes_max
            ))),
            false => Ok(()),
        }
    }

    /// Rows that were gathered are not needed.
    pub(super) fn forget(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A tree that can be asked.
pub trait TrackSource: Send {
    /// What it is called in messages.
    fn name(&self) -> String;

    /// The columns.
    fn schema(&self) -> &SchemaRef;

    /// The columns with the id and the time.
    fn roles(&self) -> (&str, &str);

    /// The rows that are wanted, by id and time; none if there are none. `threads` read at once.
    ///
    /// # Errors
    /// [`Error`]: the query is none, the rows are too many, or the tree cannot be read.
    fn query(
        &mut self,
        query: &TrackQuery,
        gathered: &Gathered,
        threads: usize,
    ) -> Result<Vec<RecordBatch>, Error>;
}

impl TrackSource for TreeReader {
    fn name(&self) -> String {
        self.directory().display().to_string()
    }

    fn schema(&self) -> &SchemaRef {
        Self::schema(self)
    }

    fn roles(&self) -> (&str, &str) {
        let options = self.options();
        (&options.id, &options.time)
    }

    fn query(
        &mut self,
        query: &TrackQuery,
        gathered: &Gathered,
        threads: usize,
    ) -> Result<Vec<RecordBatch>, Error> {
        self.gather(query, gathered, threads)
    }
}
