//! Writer of requests, for clients.

use super::{HEADER_BYTES, Header, REQUESTS_MAX};
use overside_kv_store::Request;
use overside_kv_store::codec::encode;

/// Datagram of requests. Its memory is reused after [`RequestDatagram::begin`].
#[derive(Clone, Debug, Default)]
pub struct RequestDatagram {
    bytes: Vec<u8>,
    count: u16,
}

impl RequestDatagram {
    /// Starts a datagram without requests.
    pub fn begin(&mut self, header: &Header) {
        self.bytes.clear();
        self.count = 0;
        Header { count: 0, ..*header }.write(&mut self.bytes);
    }

    /// Adds a request unless the datagram would become longer than `max` bytes. Returns `true` if it was
    /// added.
    ///
    /// # Panics
    /// If no datagram was started.
    #[inline]
    pub fn push(&mut self, request: &Request<'_>, max: usize) -> bool {
        assert!(self.bytes.len() >= HEADER_BYTES, "a datagram was begun");
        let before = self.bytes.len();
        if usize::from(self.count) == REQUESTS_MAX {
            return false;
        }
        encode(request, &mut self.bytes);
        if self.bytes.len() > max {
            self.bytes.truncate(before);
            return false;
        }
        self.count += 1;
        self.bytes[6..8].copy_from_slice(&self.count.to_le_bytes());
        true
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Returns the bytes of the datagram.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
