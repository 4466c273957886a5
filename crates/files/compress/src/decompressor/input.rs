//! Compressed bytes on their way in: contiguous, in memory that the targets reach once there are
//! targets, so that parts are handed over without being copied.

use std::io::Write;

use overside_device::{Region, Slice};
use overside_placement::Buffer;

use super::parser::Parser;
use crate::Error;

/// Room before there are targets, in bytes; where nothing is decompressed side by side, always.
const OWN_BYTES: usize = 256 << 10;
const ALIGN: usize = 4096;

/// Buffer that compressed input is written into.
pub(super) struct Input {
    room: Room,
    /// Number of bytes written into it so far.
    filled: usize,
    /// Offset of the first byte that is not parsed yet.
    at: usize,
    /// Memory of no device that is not used at the moment.
    spare: Option<Region>,
}

enum Room {
    /// The executor's memory.
    Pooled(Buffer),
    /// Memory of no device.
    Own(Region),
    /// Buffer that was passed on and not replaced, because of an error or the end of the input.
    None,
}

impl Input {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Self { room: Room::Own(own(OWN_BYTES, &mut None)?), filled: 0, at: 0, spare: None })
    }

    /// Returns `true` if no input is buffered.
    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns the rest of the buffer, which the next input is written into.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let all: &mut [u8] = match &mut self.room {
            Room::Pooled(buffer) => buffer,
            Room::Own(region) => region,
            Room::None => &mut [],
        };
        &mut all[self.filled..]
    }

    /// Counts `len` bytes that were put into the room. Returns `true` if it is full.
    pub(super) fn took(&mut self, len: usize) -> bool {
        self.filled += len;
        self.room().is_empty()
    }

    /// Returns the buffered bytes, and the offset of the first unparsed one.
    pub(super) fn share(&mut self) -> Option<(Slice, usize)> {
        let filled = std::mem::take(&mut self.filled);
        let at = std::mem::take(&mut self.at);
        let slice = match std::mem::replace(&mut self.room, Room::None) {
            Room::Pooled(mut buffer) => {
                buffer.set_len(filled);
                buffer.share()?
            }
            Room::Own(region) => region.share().slice(0..filled),
            Room::None => return None,
        };
        Some((slice, at))
    }

    /// Begins a new buffer with the unparsed bytes, from `at` on, and `keep` bytes before them. It
    /// has room for `wanted` bytes from `at` on.
    pub(super) fn renew<W: Write>(
        &mut self,
        bytes: Slice,
        at: usize,
        keep: usize,
        wanted: usize,
        parser: &mut Parser<W>,
    ) -> Result<(), Error> {
        let rest = bytes.slice(at - keep..bytes.len());
        // Twice what has to be copied, so that nothing is copied often.
        let least = (keep + wanted).max(2 * rest.len()).max(1);
        let pooled = match parser.room_bytes() {
            Some(room_bytes) if least <= room_bytes => parser.buffer()?,
            _ => None,
        };
        self.room = match pooled {
            Some(mut buffer) => {
                buffer[..rest.len()].copy_from_slice(&rest);
                Room::Pooled(buffer)
            }
            None => {
                let mut region = own(least.max(OWN_BYTES), &mut self.spare)?;
                region[..rest.len()].copy_from_slice(&rest);
                Room::Own(region)
            }
        };
        self.filled = rest.len();
        self.at = keep;
        drop(rest);
        // The same two buffers alternate if no other reader holds them.
        self.spare = bytes.reclaim().ok();
        Ok(())
    }
}

/// Plain memory of at least `len` bytes.
fn own(len: usize, spare: &mut Option<Region>) -> Result<Region, Error> {
    match spare.take() {
        Some(region) if region.len() >= len => Ok(region),
        _ => Ok(Region::allocate(len, ALIGN, None).map_err(overside_placement::Error::Memory)?),
    }
}
