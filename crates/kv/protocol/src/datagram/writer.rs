//! Requests, as clients write them.

use super::{HEADER_BYTES, Header, REQUESTS_MAX};
use overside_kv_store::Request;
use overside_kv_store::codec::encode;

/// A datagram of requests. Its memory is used again after [`RequestDatagram::begin`].
#[derive(Clone, Debug, Default)]
pub struct RequestDatagram {
    bytes: Vec<u8>,
    count: u16,
}

impl RequestDatagram {
    /// Begins one without requests.
    pub fn begin(&mut self, header: &Header) {
        self.bytes.clear();
        self.count = 0;
        Header {
            count: 0,
            ..*header
        }
        .write(&mut self.bytes);
    }

    /// Adds a request if the datagram is not longer than `max` bytes then; whether it was added.
    ///
    /// # Panics
    /// If no datagram was begun.
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

    /// Requests in it.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The datagram.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
