//! Sources of tracks: a tree in a directory, or a tree that another service offers.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use overside_flow_operators::Error;
use overside_flow_operators::values_bytes;

/// Query for rows by id and time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrackQuery {
    /// Ids of the rows, written as text; empty for all ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Earliest time, written as text; `None` for no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Time before which the rows are; `None` for no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Maximum number of bytes of values in the result.
    pub bytes_max: u64,
}

impl Default for TrackQuery {
    /// Returns a query for all rows.
    fn default() -> Self {
        Self { ids: Vec::new(), from: None, to: None, bytes_max: u64::MAX }
    }
}

/// Number of bytes of values that all threads working on a query have gathered.
pub struct Gathered {
    bytes: AtomicU64,
    bytes_max: u64,
}

impl Gathered {
    /// Starts at 0 with a maximum of `bytes_max`.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes: AtomicU64::new(0), bytes_max }
    }

    /// Adds rows.
    ///
    /// # Errors
    /// [`Error::Refused`]: the maximum is exceeded.
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

    /// Subtracts rows that are no longer needed.
    pub(super) fn forget(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Tree that can be queried.
pub trait TrackSource: Send {
    /// Returns the tree's name, for messages.
    fn name(&self) -> String;

    /// Returns the schema.
    fn schema(&self) -> &SchemaRef;

    /// Returns the names of the columns with the id and the time.
    fn roles(&self) -> (&str, &str);

    /// Returns the matching rows by id and time; nothing if there are none. `threads` threads read files.
    ///
    /// # Errors
    /// [`Error`]: the query is invalid, there are too many rows, or the tree cannot be read.
    fn query(
        &mut self,
        query: &TrackQuery,
        gathered: &Gathered,
        threads: usize,
    ) -> Result<Vec<RecordBatch>, Error>;
}
