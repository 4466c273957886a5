//! gzip members and zlib streams.

use std::io::Write;

use overside_device::Slice;

use super::{ParseStep, Parser, ParserState};
use crate::decompressor::parallel::{Expected, MAX_SOURCE_BYTES};
use crate::gzip::{self, Header, Sizes};
use crate::{Container, Error, MAX_CHUNK_BYTES, zlib};

impl<W: Write> Parser<W> {
    /// Parses the beginning of a gzip member, or bytes behind the last one.
    pub(super) fn gzip(&mut self, bytes: &Slice, at: usize) -> Result<ParseStep, Error> {
        let rest = &bytes[at..];
        let place = self.place();
        // Half a magic number is a member that was cut off, and nothing to be ignored.
        let begun = rest == &gzip::MAGIC[..1];
        if self.members > 0 && !begun && !rest.starts_with(&gzip::MAGIC) {
            return Ok(self.ignore());
        }
        let header = match Header::parse(rest) {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(ParseStep::Needs(rest.len() + 1)),
            Err(reason) => return Err(place.corrupt(reason)),
        };
        if self.members == 0 {
            self.original = Some(header.original.clone());
        }
        if let Some(sizes) = header.sizes
            && sizes.member <= MAX_SOURCE_BYTES as u64
            && let Some(next) = self.sized_member(bytes, at, &header, sizes)?
        {
            return Ok(next);
        }
        self.begin_streaming(Container::Gzip)?;
        self.sizes = header.sizes;
        Ok(ParseStep::Consumed(header.len))
    }

    /// A member whose header has its length. `None`: its content is too long for the targets.
    fn sized_member(
        &mut self,
        bytes: &Slice,
        at: usize,
        header: &Header,
        sizes: Sizes,
    ) -> Result<Option<ParseStep>, Error> {
        let place = self.place();
        // It was compared with the longest source.
        let member_bytes = sizes.member as usize;
        let Some(member) = bytes[at..].get(..member_bytes) else {
            return Ok(Some(ParseStep::Needs(member_bytes)));
        };
        let trailer = member.last_chunk().ok_or(Error::Truncated { place })?;
        let (crc, content_bytes) = gzip::trailer(*trailer);
        if sizes.content.is_some_and(|content| content != content_bytes) {
            return Err(place.corrupt("its header says another length than its trailer"));
        }
        let content_bytes = content_bytes as usize;
        if content_bytes > MAX_CHUNK_BYTES
            || !(self.parallel).takes(&self.options, Container::Gzip, content_bytes)?
        {
            return Ok(None);
        }
        let stream = at + header.len..at + member_bytes - gzip::TRAILER_BYTES;
        let expected =
            Expected { bytes: Some(content_bytes), crc: Some(crc), ..Expected::default() };
        let source = bytes.slice(stream);
        (self.parallel).part(source, content_bytes, place, expected, &mut self.output)?;
        self.members += 1;
        Ok(Some(ParseStep::Consumed(member_bytes)))
    }

    /// Parses the beginning of a zlib stream, or bytes behind it.
    pub(super) fn zlib(&mut self, rest: &[u8]) -> Result<ParseStep, Error> {
        if self.members > 0 {
            return Ok(self.ignore());
        }
        let place = self.place();
        match rest {
            [_, _, ..] if !zlib::is_header(rest) => {
                return Err(place.corrupt("it does not begin like a zlib stream"));
            }
            [_, _, ..] => {}
            _ => return Ok(ParseStep::Needs(zlib::HEADER_BYTES)),
        }
        if zlib::needs_dictionary(rest) {
            return Err(place.unsupported("it needs a preset dictionary"));
        }
        self.begin_streaming(Container::Zlib)?;
        Ok(ParseStep::Consumed(zlib::HEADER_BYTES))
    }

    /// Parses the checksum of a stream that was decompressed in pieces.
    pub(super) fn trailer(&mut self, rest: &[u8]) -> Result<ParseStep, Error> {
        let place = self.place();
        let decoder = self.streaming.as_ref().ok_or(Error::Spent)?;
        let (check, made) = decoder.made();
        let (len, said, has_length) = match place.container {
            Container::Zlib => {
                let Some(trailer) = rest.first_chunk::<{ zlib::TRAILER_BYTES }>() else {
                    return Ok(ParseStep::Needs(zlib::TRAILER_BYTES));
                };
                (trailer.len(), u32::from_be_bytes(*trailer), true)
            }
            _ => {
                let Some(trailer) = rest.first_chunk() else {
                    return Ok(ParseStep::Needs(gzip::TRAILER_BYTES));
                };
                let (crc, len) = gzip::trailer(*trailer);
                // It counts modulo 2^32.
                (gzip::TRAILER_BYTES, crc, len == made as u32)
            }
        };
        if said != check {
            return Err(place.corrupt("its content has a wrong checksum"));
        }
        if !has_length {
            return Err(place.corrupt("its content has another length than it says"));
        }
        if let Some(sizes) = self.sizes.take() {
            let member_bytes = self.offset + len as u64 - self.begin;
            if sizes.member != member_bytes {
                return Err(place.corrupt("it has another length than its header says"));
            }
            if sizes.content.is_some_and(|content| u64::from(content) != made) {
                return Err(place.corrupt("its content has another length than its header says"));
            }
        }
        self.members += 1;
        self.streamed += 1;
        self.state = ParserState::Between;
        Ok(ParseStep::Consumed(len))
    }
}
