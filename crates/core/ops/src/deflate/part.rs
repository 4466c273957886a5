//! Makes parts out of whole streams, for devices that end a stream with each job.

use super::zlib::BlockDecoder;
use super::{ends_early, ends_with_source};
use crate::Error;

/// Size in bytes of the buffer that the content is decoded into, one piece at a time.
const ROOM_BYTES: usize = 64 << 10;
/// Lengths of an empty stored block (RFC 1951, section 3.2.4), which follow its header.
const EMPTY: [u8; 4] = [0, 0, 0xff, 0xff];
/// Number of bits of a block's header: the flag of the last block, and the kind of the block.
const HEADER_BITS: u32 = 3;

/// Converts whole raw DEFLATE streams to parts ([`crate::Format::DeflatePart`]), which can be concatenated.
///
/// The mark of the stream's last block is removed, and an empty stored block behind it ends the part at
/// a byte. A block's position is only found by decoding all blocks before it, so the stream is decoded:
/// that takes as long as decompressing it by zlib.
///
/// ```
/// use overside_ops::DeflateJoiner;
/// // A stream of one fixed block without content.
/// let part = DeflateJoiner::new()?.part(&[3, 0], 0)?.to_vec();
/// assert_eq!(part, [2, 0, 0, 0, 0xff, 0xff]);
/// # Ok::<(), overside_ops::Error>(())
/// ```
pub struct DeflateJoiner {
    decoder: BlockDecoder,
    room: Vec<u8>,
    part: Vec<u8>,
}

impl DeflateJoiner {
    /// Allocates the decoder and its buffers.
    ///
    /// # Errors
    /// [`Error::Library`].
    pub fn new() -> Result<Self, Error> {
        Ok(Self { decoder: BlockDecoder::new()?, room: vec![0; ROOM_BYTES], part: Vec::new() })
    }

    /// Converts a stream of `content_len` bytes of content to a part.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is not a stream, ends early, has bytes behind it or another length.
    pub fn part(&mut self, stream: &[u8], content_len: usize) -> Result<&[u8], Error> {
        let (last_block, end) = self.last_block(stream, content_len)?;
        let (last_byte, used_bits) = ((end - 1) / 8, (end - 1) % 8 + 1);
        ends_with_source(stream.len() - 1 - last_byte)?;
        self.part.clear();
        self.part.extend(stream);
        self.part[last_block / 8] &= !(1 << (last_block % 8));
        // Clears the bits that the device left behind the end: the next header follows there.
        self.part[last_byte] &= (0xffu16 >> (8 - used_bits)) as u8;
        if 8 - (used_bits as u32) < HEADER_BITS {
            self.part.push(0);
        }
        self.part.extend(EMPTY);
        Ok(&self.part)
    }

    /// Returns the positions in bits at which the last block begins and ends.
    fn last_block(&mut self, stream: &[u8], content_len: usize) -> Result<(usize, usize), Error> {
        self.decoder.reset()?;
        let (mut taken, mut made, mut begin) = (0, 0, 0);
        loop {
            let step = self.decoder.step(&stream[taken..], &mut self.room)?;
            taken += step.taken;
            made += step.made;
            if made > content_len {
                break;
            }
            match step.block_end {
                Some(end_of) => {
                    let end = taken * 8 - end_of.unused_bits;
                    if !end_of.is_last {
                        begin = end;
                    } else if made == content_len {
                        return Ok((begin, end));
                    } else {
                        break;
                    }
                }
                None if step.taken == 0 && step.made == 0 => return Err(ends_early()),
                None => {}
            }
        }
        Err(Error::Corrupt(format!("the stream does not hold {content_len} bytes")))
    }
}
