//! What waits to be written to a connection. No I/O.
//!
//! Headers and short payloads are copied into one buffer. Long payloads are written from where
//! they lie: nothing is copied but by the system.

use std::collections::VecDeque;
use std::sync::Arc;

use overside_device::Slice;

use super::frame::Header;
use crate::exports::Area;
use crate::window::Window;

/// Payloads up to this length are copied: that is cheaper than one more piece for the system.
const COPIED_BYTES: usize = 4 << 10;

/// Bytes to be written.
#[derive(Clone, Copy)]
pub(crate) enum Piece<'a> {
    /// Of this process alone.
    Bytes(&'a [u8]),
    /// Of memory that others may write meanwhile.
    Shared(Window),
}

impl Piece<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Shared(window) => window.len(),
        }
    }
}

enum Segment {
    /// The next bytes of the buffer.
    Copied(usize),
    /// A source of the owner's.
    Source(Slice),
    /// Exported memory that the peer reads.
    Exported { _area: Arc<Area>, window: Window },
}

impl Segment {
    fn len(&self) -> usize {
        match self {
            Self::Copied(len) => *len,
            Self::Source(slice) => slice.len(),
            Self::Exported { window, .. } => window.len(),
        }
    }
}

/// A queue of bytes. Positions count all bytes that ever went in or out.
#[derive(Default)]
pub(crate) struct Outgoing {
    segments: VecDeque<Segment>,
    /// Bytes of the first segment that are written already.
    begun: usize,
    copied: Vec<u8>,
    /// Bytes of `copied` that are written already.
    written: usize,
    put: u64,
    taken: u64,
}

impl Outgoing {
    /// The position behind all that has been put in.
    pub(crate) fn end(&self) -> u64 {
        self.put
    }

    /// The position up to which everything has been taken out.
    pub(crate) fn start(&self) -> u64 {
        self.taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.put == self.taken
    }

    pub(crate) fn header(&mut self, header: &Header) {
        self.copy(&header.encode());
    }

    /// Puts a copy in.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
        self.copied_in(bytes.len());
    }

    fn copied_in(&mut self, len: usize) {
        self.put += len as u64;
        match self.segments.back_mut() {
            Some(Segment::Copied(last)) => *last += len,
            _ => self.segments.push_back(Segment::Copied(len)),
        }
    }

    /// Puts a source in; `copy`: now.
    pub(crate) fn source(&mut self, source: &Slice, copy: bool) {
        if copy || source.len() <= COPIED_BYTES {
            return self.copy(source);
        }
        self.put += source.len() as u64;
        self.segments.push_back(Segment::Source(source.clone()));
    }

    /// Puts a part of an exported region in.
    pub(crate) fn exported(&mut self, area: Arc<Area>, window: Window) {
        let len = window.len();
        if len <= COPIED_BYTES {
            window
                .append_to(0, len, &mut self.copied)
                .expect("all of it");
            return self.copied_in(len);
        }
        self.put += len as u64;
        self.segments.push_back(Segment::Exported {
            _area: area,
            window,
        });
    }

    /// The next pieces, as many as `most`.
    pub(crate) fn pieces(&self, most: usize) -> impl Iterator<Item = Piece<'_>> {
        let (mut begun, mut copied) = (self.begun, self.written);
        self.segments.iter().take(most).map(move |segment| {
            let skip = std::mem::take(&mut begun);
            match segment {
                Segment::Copied(len) => {
                    let from = copied;
                    copied += len - skip;
                    Piece::Bytes(&self.copied[from..copied])
                }
                Segment::Source(slice) => Piece::Bytes(&slice[skip..]),
                Segment::Exported { window, .. } => {
                    let rest = window.part(skip, window.len() - skip);
                    Piece::Shared(rest.expect("a part of it"))
                }
            }
        })
    }

    /// The first `len` bytes are written.
    pub(crate) fn take(&mut self, len: usize) {
        self.taken += len as u64;
        let mut left = len;
        while left > 0 {
            let first = self.segments.front().expect("no more than there is");
            let rest = first.len() - self.begun;
            let step = rest.min(left);
            if let Segment::Copied(_) = first {
                self.written += step;
            }
            left -= step;
            self.begun += step;
            if step == rest {
                self.segments.pop_front();
                self.begun = 0;
            }
        }
        // What is written makes room; moving the rest is rare, because mostly there is none.
        if self.written == self.copied.len() {
            self.copied.clear();
            self.written = 0;
        } else if self.written > self.copied.len() / 2 && self.written > COPIED_BYTES {
            self.copied.drain(..self.written);
            self.written = 0;
        }
    }

    /// Nothing will be written any more; what the segments hold is let go.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            put: self.put,
            taken: self.put,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overside_device::Foreign;
    use proptest::prelude::*;

    fn bytes_of(piece: Piece<'_>) -> Vec<u8> {
        match piece {
            Piece::Bytes(bytes) => bytes.to_vec(),
            Piece::Shared(window) => {
                let mut bytes = vec![0; window.len()];
                window.copy_out(0, &mut bytes).unwrap();
                bytes
            }
        }
    }

    proptest! {
        /// Against one flat queue: whatever is put in comes out, in order, in whatever pieces.
        #[test]
        fn what_goes_in_comes_out(
            steps in prop::collection::vec((0..3u8, 1..10_000usize), 1..60),
            seed in any::<u8>(),
        ) {
            let mut outgoing = Outgoing::default();
            let mut flat = VecDeque::new();
            let mut next = seed;
            for (what, len) in steps {
                if what < 2 {
                    let bytes: Vec<u8> = (0..len).map(|_| { next = next.wrapping_mul(5).wrapping_add(1); next }).collect();
                    flat.extend(bytes.iter().copied());
                    match what {
                        0 => outgoing.copy(&bytes),
                        _ => outgoing.source(&Slice::from_foreign(Foreign::new(bytes), None), false),
                    }
                } else {
                    let all: Vec<u8> = outgoing.pieces(4).flat_map(bytes_of).collect();
                    let len = len.min(all.len());
                    let expected: Vec<u8> = flat.drain(..len).collect();
                    prop_assert_eq!(&all[..len], expected.as_slice());
                    outgoing.take(len);
                }
                prop_assert_eq!(outgoing.end() - outgoing.start(), flat.len() as u64);
            }
        }
    }
}
