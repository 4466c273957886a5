//! Names of files in other files, which make a chain of them.
//!
//! A log's first frame says which log it is, and names the one before it. A snapshot's names the log that
//! begins with it. The file `lock` names the newest of both ([`Newest`]), so that their loss is noticed too.

use std::path::Path;

use super::PersistenceError;
use super::frame::{more, previous};

/// A file of the directory, as another one names it; the default names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub generation: u64,
    /// Random bytes that the checksums of all its frames cover; 0: unknown.
    pub identity: u64,
    /// Bytes of whole frames that it has at least.
    pub len: u64,
}

const LINK_BYTES: usize = 24;

impl Link {
    /// Returns the additional data in the first frame of file `own`: its generation, and this link.
    pub(super) fn more(&self, own: u64) -> Vec<u8> {
        let numbers = [own, self.generation, self.identity, self.len];
        numbers.map(u64::to_le_bytes).as_flattened().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, _) = bytes.as_chunks::<8>().0.split_first_chunk()?;
        let [generation, identity, len] = numbers.map(u64::from_le_bytes);
        Some(Self { generation, identity, len })
    }

    /// Reads a first frame: the file's own generation, and the file that it names. Before format 3 files named
    /// a generation only.
    pub(super) fn read(payload: &[u8]) -> (Option<u64>, Self) {
        let own = more(payload).first_chunk().map(|own| u64::from_le_bytes(*own));
        let link = more(payload).get(8..).and_then(Self::decode);
        let generation = previous(payload).unwrap_or_default();
        let link = link.unwrap_or(Self { generation, ..Self::default() });
        (own, link)
    }

    /// Compares the file that `by` names so with the one that is there.
    pub(super) fn check(
        &self,
        path: &Path,
        found: &Self,
        by: &Path,
    ) -> Result<(), PersistenceError> {
        let (path, by) = (path.into(), by.into());
        if found.len < self.len {
            let offset = found.len;
            return Err(PersistenceError::Damaged { path, offset });
        }
        let are_known = self.identity != 0 && found.identity != 0;
        match are_known && self.identity != found.identity {
            true => Err(PersistenceError::Foreign { path, by }),
            false => Ok(()),
        }
    }
}

/// The newest files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Newest {
    pub snapshot: Link,
    /// Link to the log, with the length at the server's end, or at the log's beginning.
    pub log: Link,
}

impl Newest {
    /// Returns the file that the next log continues.
    pub(super) fn last(&self) -> Link {
        match self.log.generation >= self.snapshot.generation {
            true => self.log,
            false => self.snapshot,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        [self.snapshot.more(0), self.log.more(0)].concat()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let [snapshot, log] = [8, 16 + LINK_BYTES].map(|at| Link::decode(bytes.get(at..)?));
        Some(Self { snapshot: snapshot?, log: log? })
    }
}
