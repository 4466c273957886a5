//! Sources of tracks: a tree in a directory, or a tree that another service offers.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use overside_flow_operators::Error;
use overside_flow_operators::values_bytes;

/// Which rows are wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrackQuery {
    /// Ids of the rows, written as text; empty for all ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Not before this time, written as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The most bytes of values that are gathered.
    pub bytes_max: u64,
}

impl Default for TrackQuery {
    /// All rows.
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            from: None,
            to: None,
            bytes_max: u64::MAX,
        }
    }
}

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
    /// Returns the tree's name, for messages.
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
