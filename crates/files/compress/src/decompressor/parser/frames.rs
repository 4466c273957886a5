//! LZ4 and Zstandard frames.

use std::io::Write;

use overside_device::Slice;
use overside_ops::lz4_frame;
use xxhash_rust::xxh32::xxh32;

use super::{MAGIC_BYTES, ParseStep, Parser, ParserState};
use crate::decompressor::parallel::{Expected, MAX_SOURCE_BYTES, Pending};
use crate::{Container, Error, MAX_CHUNK_BYTES, lz4, zstd};

/// A length, and a checksum of the content behind the last block.
const WORD_BYTES: usize = 4;

impl<W: Write> Parser<W> {
    /// Parses the beginning of an LZ4 frame.
    pub(super) fn lz4(&mut self, rest: &[u8]) -> Result<ParseStep, Error> {
        if lz4::begins_skippable(rest) {
            return Ok(self.skip(rest));
        }
        let place = self.place();
        if rest.starts_with(&lz4::LEGACY_MAGIC) {
            return Err(place.unsupported(
                "it is in the legacy format of LZ4; the tool `lz4 -d` still reads that",
            ));
        }
        let (header, len) = match lz4_frame::Header::parse(rest) {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(ParseStep::Needs(rest.len() + 1)),
            Err(overside_ops::Error::Corrupt(reason)) => return Err(place.corrupt(reason)),
            Err(error) => return Err(error.into()),
        };
        if header.linked
            || !(self.parallel).takes(&self.options, Container::Lz4, header.block_max)?
        {
            self.begin_streaming(Container::Lz4)?;
            return Ok(ParseStep::Consumed(0));
        }
        (self.parallel).enqueue(Pending::Begin(header.content_checksum), &mut self.output)?;
        self.state = ParserState::Blocks(header);
        Ok(ParseStep::Consumed(len))
    }

    /// Parses an independent block, or the end behind the last one.
    pub(super) fn block(
        &mut self,
        header: lz4_frame::Header,
        bytes: &Slice,
        at: usize,
    ) -> Result<ParseStep, Error> {
        let rest = &bytes[at..];
        let place = self.place();
        let Some((length, behind)) = rest.split_first_chunk() else {
            return Ok(ParseStep::Needs(WORD_BYTES));
        };
        let length = u32::from_le_bytes(*length);
        if length == 0 {
            let checksum = match (header.content_checksum, behind.first_chunk()) {
                (false, _) => None,
                (true, Some(checksum)) => Some(u32::from_le_bytes(*checksum)),
                (true, None) => return Ok(ParseStep::Needs(2 * WORD_BYTES)),
            };
            let end = Pending::End(place, header.content_size, checksum);
            (self.parallel).enqueue(end, &mut self.output)?;
            self.members += 1;
            self.state = ParserState::Between;
            return Ok(ParseStep::Consumed(if checksum.is_some() { 8 } else { 4 }));
        }
        let len = (length & !lz4::STORED) as usize;
        if len > header.block_max {
            return Err(place.corrupt("one of its blocks is too long"));
        }
        let checksum_bytes = if header.block_checksums { WORD_BYTES } else { 0 };
        let whole = WORD_BYTES + len + checksum_bytes;
        if rest.len() < whole {
            return Ok(ParseStep::Needs(whole));
        }
        let (block, behind) = behind.split_at(len);
        if header.block_checksums
            && behind.first_chunk().copied() != Some(xxh32(block, 0).to_le_bytes())
        {
            return Err(place.corrupt("one of its blocks has a wrong checksum"));
        }
        let block = bytes.slice(at + WORD_BYTES..at + WORD_BYTES + len);
        if length & lz4::STORED != 0 {
            self.stored += 1;
            (self.parallel).enqueue(Pending::Bytes(block), &mut self.output)?;
        } else {
            let expected = Expected::default();
            (self.parallel).part(block, header.block_max, place, expected, &mut self.output)?;
        }
        Ok(ParseStep::Consumed(whole))
    }

    /// Parses the beginning of a Zstandard frame.
    pub(super) fn zstd(&mut self, bytes: &Slice, at: usize) -> Result<ParseStep, Error> {
        let rest = &bytes[at..];
        if lz4::begins_skippable(rest) {
            return Ok(self.skip(rest));
        }
        let place = self.place();
        if rest.len() >= MAGIC_BYTES && !rest.starts_with(&zstd::MAGIC) {
            return Err(place.corrupt("it does not begin like a Zstandard frame"));
        }
        let header = match zstd::Header::parse(rest) {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(ParseStep::Needs(rest.len() + 1)),
            Err(reason) => return Err(place.corrupt(reason)),
        };
        if header.dictionary {
            return Err(place.unsupported("it needs a dictionary"));
        }
        let content_bytes = (header.content_bytes)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|bytes| *bytes <= MAX_CHUNK_BYTES);
        if let Some(content_bytes) = content_bytes {
            match header.frame_bytes(rest) {
                Err(reason) => return Err(place.corrupt(reason)),
                Ok(None) if rest.len() < MAX_SOURCE_BYTES => {
                    return Ok(ParseStep::Needs(rest.len() + 1));
                }
                Ok(Some(len))
                    if (self.parallel).takes(&self.options, Container::Zstd, content_bytes)? =>
                {
                    let expected = Expected {
                        bytes: Some(content_bytes),
                        xxh64: header.checksum(&rest[..len]),
                        ..Expected::default()
                    };
                    let source = bytes.slice(at..at + len);
                    (self.parallel).part(
                        source,
                        content_bytes,
                        place,
                        expected,
                        &mut self.output,
                    )?;
                    self.members += 1;
                    return Ok(ParseStep::Consumed(len));
                }
                Ok(_) => {}
            }
        }
        self.begin_streaming(Container::Zstd)?;
        Ok(ParseStep::Consumed(0))
    }
}
