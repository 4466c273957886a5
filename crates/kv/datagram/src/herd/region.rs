//! The region of one client at one worker of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use overside_link::verbs::{Completion, Endpoint, Exported, QueuePair};

use super::{SLOT_BYTES, SLOTS};
use crate::link::{OffloadError, TRAILER_BYTES, Trailer};
use crate::udp::Peer;

/// Longest time from the arrival of a message's last word until all its parts must be there.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);

/// A client among those that a server has; counted as long as this is there.
#[derive(Debug)]
pub(super) struct ClientPlace(Arc<AtomicUsize>);

impl ClientPlace {
    /// Takes a place, if fewer than `most` are taken.
    pub(super) fn take(clients: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(clients));
        (clients.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Memory region into which a client writes its requests for one worker. The client can change its
/// bytes at any time, so the worker copies them before it checks them.
pub struct RequestRegion {
    // Dropped first: the region is withdrawn when no client can connect any more.
    queue_pair: Box<dyn QueuePair>,
    region: Exported,
    /// Address to which the client's replies are sent.
    peer: Peer,
    /// Slots taken so far.
    taken: u64,
    /// Time since when a message's last word, but not all of it, has arrived.
    incomplete_since: Option<Instant>,
    completions: Vec<Completion>,
    _held: (Arc<dyn Endpoint>, Arc<ClientPlace>),
}

impl std::fmt::Debug for RequestRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestRegion")
            .field("peer", &self.peer)
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

impl RequestRegion {
    pub(super) fn new(
        queue_pair: Box<dyn QueuePair>,
        region: Exported,
        peer: Peer,
        held: (Arc<dyn Endpoint>, Arc<ClientPlace>),
    ) -> Self {
        Self {
            queue_pair,
            region,
            peer,
            taken: 0,
            incomplete_since: None,
            completions: Vec::new(),
            _held: held,
        }
    }

    /// Returns the address to which the client's replies are sent.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Appends the datagram in the slot that is due. Returns `true` if there was one.
    ///
    /// # Errors
    /// [`OffloadError::Violation`]: the slot has no message, and will not have one. Close the
    /// client.
    #[inline]
    pub fn receive(&mut self, out: &mut Vec<u8>) -> Result<bool, OffloadError> {
        let due = self.taken + 1;
        let end = (due as usize % SLOTS + 1) * SLOT_BYTES;
        let word = self.region.load(end - 8).map(u64::from_le);
        let word = word.map_err(|_| OffloadError::Violation("nothing"))?;
        if Trailer::sequence_in(word) != due {
            return Ok(false);
        }
        self.take(end, out)
    }

    fn take(&mut self, end: usize, out: &mut Vec<u8>) -> Result<bool, OffloadError> {
        let outside = |_| OffloadError::Violation("a message outside of its slot");
        let mut bytes = [0; TRAILER_BYTES];
        (self.region.read(end - TRAILER_BYTES, &mut bytes)).map_err(outside)?;
        let trailer = Trailer::decode(&bytes);
        // The length may be on the way as well.
        if trailer.len + TRAILER_BYTES <= SLOT_BYTES && !trailer.is_rendezvous {
            let begin = out.len();
            out.resize(begin + trailer.len, 0);
            let body = end - TRAILER_BYTES - trailer.len;
            (self.region.read(body, &mut out[begin..])).map_err(outside)?;
            if trailer.sequence == self.taken + 1 && Trailer::is_whole(&bytes, &out[begin..]) {
                self.incomplete_since = None;
                self.taken += 1;
                let stored = self.region.store(SLOTS * SLOT_BYTES, self.taken.to_le());
                return stored.map_err(outside).map(|()| true);
            }
            out.truncate(begin);
        }
        let since = *self.incomplete_since.get_or_insert_with(Instant::now);
        match since.elapsed() > ARRIVAL_MAX {
            true => Err(OffloadError::Violation("a message that did not arrive whole")),
            false => Ok(false),
        }
    }

    /// Finds out whether the client is gone, and lets a link without hardware of its own work.
    ///
    /// # Errors
    /// [`OffloadError::Link`].
    pub fn check(&mut self) -> Result<(), OffloadError> {
        self.queue_pair.poll(&mut self.completions, 1)?;
        self.completions.clear();
        Ok(())
    }
}
