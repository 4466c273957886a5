//! One-sided work: copies between this process's memory and the peer's.

use std::sync::Arc;

use overside_device::{Region, Slice};

use super::regions::Imported;
use crate::verbs::{Completion, ExportedSlice, WorkError};
use crate::volatile_slice::VolatileSlice;

/// The longest payload in bytes that is posted inline.
pub(super) const MAX_INLINE_BYTES: usize = 64;

/// A copy, checked and ready to be run.
pub(super) struct Direct {
    pub(super) tag: u64,
    pub(super) local: Local,
    /// The peer's memory, exactly the range.
    pub(super) remote: VolatileSlice,
    /// Keeps the peer's memory mapped.
    pub(super) _imported: Arc<Imported>,
}

/// This end's side of a copy.
pub(super) enum Local {
    /// Read into.
    Into(Region),
    /// Memory that other threads may read and write at the same time.
    Shared(ExportedSlice),
    /// Written from.
    From(Slice),
    /// Written from a copy taken when it was posted.
    Inline(Slice, [u8; MAX_INLINE_BYTES]),
}

impl Direct {
    pub(super) fn is_read(&self) -> bool {
        matches!(self.local, Local::Into(_) | Local::Shared(_))
    }
}

/// Runs a copy.
pub(super) fn run(direct: Direct) -> Completion {
    let Direct { tag, local, remote, .. } = direct;
    let len = remote.len();
    let (copied, source, destination) = match local {
        Local::Into(mut into) => (remote.copy_out(0, &mut into), None, Some(into)),
        Local::Shared(into) => (into.window().copy_from(&remote), None, None),
        Local::From(from) => (remote.copy_in(0, &from), Some(from), None),
        Local::Inline(from, bytes) => (remote.copy_in(0, &bytes[..len]), Some(from), None),
    };
    Completion {
        tag,
        result: match copied {
            Ok(()) => Ok(len as u64),
            // Lengths are equal: that was checked when it was posted.
            Err(error) => Err(WorkError::Failed(error.to_string())),
        },
        source,
        destination,
        late: false,
    }
}
