//! Whoever can be asked for tracks: a tree in a directory, or one that somebody else serves.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::reader::{TrackQuery, TreeReader};
use crate::Error;

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
    fn query(&mut self, query: &TrackQuery, threads: usize) -> Result<Vec<RecordBatch>, Error>;
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

    fn query(&mut self, query: &TrackQuery, threads: usize) -> Result<Vec<RecordBatch>, Error> {
        Self::query(self, query, threads)
    }
}
