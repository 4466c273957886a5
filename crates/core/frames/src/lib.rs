//! Frames, the format of logs, snapshots and spilled batches.
//!
//! ```text
//!   magic (4) | kind (1) | 0 (3) | payload length (4) | checksum (4) | number (8) | time (8)
//!   | synced (8) | payload
//! ```
//!
//! Little endian. The checksum is CRC-32 (IEEE 802.3) of the file's identity, eight random bytes that
//! the payload of its first frame begins with, and of everything in the frame except magic and checksum.
//! So a client's bytes cannot be mistaken for a frame. Frames are numbered from 0 in each file; times are
//! milliseconds since 1970. `synced` is the number of bytes of the file that were known to be on the disk
//! when the frame was made: after a power failure, only later bytes may be missing.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::Path;

use crc32fast::Hasher;

const HEADER_BYTES: usize = 40;
/// Longest payload.
const PAYLOAD_MAX_BYTES: u32 = 1 << 30;
const IDENTITY_BYTES: usize = 8;
/// Front of the payload of a first frame: identity, previous generation. The last byte is the format.
const BEGIN_BYTES: usize = IDENTITY_BYTES + 8;

/// Kinds of frames in one type of file, with the file type's magic number and format versions.
pub trait FrameKind: Copy + PartialEq + Debug {
    /// Magic number: the first four bytes of each frame.
    const MAGIC: [u8; 4];
    /// Versions of the format that are read; the last one is written.
    const FORMATS: RangeInclusive<u8>;
    /// The file's beginning: identity and format.
    const BEGIN: Self;

    /// Returns the number of this kind in the header of a frame.
    fn byte(self) -> u8;

    /// The kind with that number.
    fn from_byte(byte: u8) -> Option<Self>;
}

/// Writes frames into memory.
#[derive(Debug, Clone)]
pub struct FrameWriter<K> {
    identity: [u8; IDENTITY_BYTES],
    number: u64,
    /// Bytes of the file that are known to be on the disk.
    pub synced: u64,
    kind: PhantomData<K>,
}

impl<K: FrameKind> FrameWriter<K> {
    /// Starts a file: appends its first frame. `previous` is the generation of the log or snapshot that this
    /// one continues, 0 for none; `more` is additional data of this type of file ([`more`]).
    pub fn begin(
        identity: [u8; 8],
        previous: u64,
        more: &[u8],
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Self {
        let mut writer = Self { identity, number: 0, synced: 0, kind: PhantomData };
        let mut payload = identity.to_vec();
        payload.extend_from_slice(&previous.to_le_bytes());
        payload.extend_from_slice(more);
        payload.push(*K::FORMATS.end());
        writer.append(K::BEGIN, now_ms, &payload, out);
        writer
    }

    /// Frames without a file, as replicas get them: the first number is 1.
    #[must_use]
    pub fn stream(identity: [u8; 8]) -> Self {
        Self { identity, number: 1, synced: 0, kind: PhantomData }
    }

    /// Returns the identity of this file: the eight bytes that every checksum covers first.
    #[must_use]
    pub fn identity(&self) -> [u8; 8] {
        self.identity
    }

    /// The number of the next frame.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.number
    }

    /// Appends a frame.
    ///
    /// # Panics
    /// If the payload is longer than 1 GiB.
    pub fn append(&mut self, kind: K, now_ms: u64, payload: &[u8], out: &mut Vec<u8>) {
        let len = u32::try_from(payload.len()).ok();
        let len = len.filter(|len| *len <= PAYLOAD_MAX_BYTES);
        let len = len.expect("a frame's payload is bounded");
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&K::MAGIC);
        header[4] = kind.byte();
        header[8..12].copy_from_slice(&len.to_le_bytes());
        header[16..24].copy_from_slice(&self.number.to_le_bytes());
        header[24..32].copy_from_slice(&now_ms.to_le_bytes());
        header[32..40].copy_from_slice(&self.synced.to_le_bytes());
        let checksum = checksum(self.identity, &header, payload);
        header[12..16].copy_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(payload);
        self.number += 1;
    }
}

fn checksum(identity: [u8; 8], header: &[u8; HEADER_BYTES], payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&identity);
    hasher.update(&header[4..12]);
    hasher.update(&header[16..]);
    hasher.update(payload);
    hasher.finalize()
}

/// A frame at the beginning of `bytes`.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamFrame<'b, K> {
    /// The frame is whole, and its checksum is right.
    Whole {
        /// Kind of the frame, which defines the content of the payload.
        kind: K,
        /// Sequence number of the frame, counted from 0 in a file and from 1 in a stream.
        number: u64,
        /// Time at which the frame was made, in milliseconds since 1970.
        now_ms: u64,
        /// Payload of the frame, without the header.
        payload: &'b [u8],
        /// Bytes of the frame.
        len: usize,
    },
    /// Minimum number of bytes that are missing.
    Missing(usize),
    /// No valid frame.
    Invalid,
}

/// Looks for a frame with at most `payload_max` bytes of payload at the beginning of `bytes`.
#[must_use]
pub fn parse_stream<K: FrameKind>(
    identity: [u8; 8],
    bytes: &[u8],
    payload_max: usize,
) -> StreamFrame<'_, K> {
    let Some(header_bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
        return StreamFrame::Missing(HEADER_BYTES - bytes.len());
    };
    let most = (HEADER_BYTES + payload_max) as u64;
    let Some(header) = Header::<K>::parse(header_bytes, most) else {
        return StreamFrame::Invalid;
    };
    let len = HEADER_BYTES + header.len;
    let Some(payload) = bytes.get(HEADER_BYTES..len) else {
        return StreamFrame::Missing(len - bytes.len());
    };
    if checksum(identity, header_bytes, payload) != header.checksum {
        return StreamFrame::Invalid;
    }
    StreamFrame::Whole {
        kind: header.kind,
        number: header.number,
        now_ms: header.now_ms,
        payload,
        len,
    }
}

/// A frame that was read and whose checksum is right.
#[derive(Debug)]
pub struct Frame<'r, K> {
    /// Kind of the frame, which defines the content of the payload.
    pub kind: K,
    /// Time at which the frame was made, in milliseconds since 1970.
    pub now_ms: u64,
    /// Offset of the frame's first byte in the file.
    pub offset: u64,
    /// Payload of the frame, without the header.
    pub payload: &'r [u8],
}

/// Result of [`FrameReader::next`]: a frame, the end of the file, or the reason why reading stops.
#[derive(Debug)]
pub enum Next<'r, K> {
    /// A frame.
    Frame(Frame<'r, K>),
    /// The end of the file.
    End,
    /// The rest, from `offset` on, begins with no whole frame, and was not known to be on the disk: its
    /// writer was interrupted.
    Torn {
        /// Offset in the file at which a frame was expected.
        offset: u64,
    },
    /// Invalid bytes where a frame was on the disk; or the file does not have the header of these
    /// files.
    Damaged {
        /// Offset in the file at which a frame was expected.
        offset: u64,
    },
    /// The file has another format.
    Format(u8),
}

/// Returns the generation that a file continues, from the payload of its first frame.
#[must_use]
pub fn previous(payload: &[u8]) -> Option<u64> {
    let bytes = payload.get(IDENTITY_BYTES..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Returns the part of a first frame's payload between the previous generation and the format.
#[must_use]
pub fn more(payload: &[u8]) -> &[u8] {
    let end = payload.len().saturating_sub(1);
    payload.get(BEGIN_BYTES..end).unwrap_or_default()
}

/// Reads frames from a file.
#[derive(Debug)]
pub struct FrameReader<K> {
    file: BufReader<File>,
    len: u64,
    offset: u64,
    number: u64,
    /// Known after the first frame.
    identity: Option<[u8; IDENTITY_BYTES]>,
    payload: Vec<u8>,
    kind: PhantomData<K>,
}

impl<K: FrameKind> FrameReader<K> {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self {
            len: file.metadata()?.len(),
            file: BufReader::with_capacity(1 << 20, file),
            offset: 0,
            number: 0,
            identity: None,
            payload: Vec::new(),
            kind: PhantomData,
        })
    }

    /// Bytes of the file.
    #[expect(clippy::len_without_is_empty, reason = "it is not a collection")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the identity of this file: the eight bytes that every checksum covers first. `None`
    /// before the first frame has been read.
    pub fn identity(&self) -> Option<[u8; 8]> {
        self.identity
    }

    /// Returns the offset of the next frame in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next frame. After anything but a frame, nothing more can be read.
    ///
    /// # Errors
    /// If the file cannot be read.
    #[expect(clippy::should_implement_trait, reason = "it lends its memory")]
    pub fn next(&mut self) -> io::Result<Next<'_, K>> {
        let offset = self.offset;
        if offset == self.len {
            return Ok(Next::End);
        }
        let Some((kind, now_ms)) = self.read_frame()? else {
            let damaged = (self.identity.is_none() && !self.is_begun()?)
                || self.is_missing_what_was_synced(offset)?;
            return Ok(match damaged {
                true => Next::Damaged { offset },
                false => Next::Torn { offset },
            });
        };
        if kind == K::BEGIN {
            let format = self.payload.last().copied().unwrap_or_default();
            if !K::FORMATS.contains(&format) {
                return Ok(Next::Format(format));
            }
        }
        Ok(Next::Frame(Frame { kind, now_ms, offset, payload: &self.payload }))
    }

    /// Reads the frame at the reader's position; its payload is in `payload` then. Returns `None` if there is
    /// no frame.
    fn read_frame(&mut self) -> io::Result<Option<(K, u64)>> {
        let mut bytes = [0; HEADER_BYTES];
        let left = self.len - self.offset;
        if left < HEADER_BYTES as u64 {
            return Ok(None);
        }
        self.file.read_exact(&mut bytes)?;
        let header = Header::<K>::parse(&bytes, left);
        let Some(header) = header.filter(|header| header.number == self.number) else {
            return Ok(None);
        };
        self.payload.resize(header.len, 0);
        self.file.read_exact(&mut self.payload)?;
        let Some(identity) = self.identity.or_else(|| self.payload.first_chunk().copied()) else {
            return Ok(None);
        };
        if checksum(identity, &bytes, &self.payload) != header.checksum {
            return Ok(None);
        }
        self.identity = Some(identity);
        self.offset += (HEADER_BYTES + header.len) as u64;
        self.number += 1;
        Ok(Some((header.kind, header.now_ms)))
    }

    /// Returns `true` if the file can be one whose first frame was being written: it ends within that frame,
    /// or the file system had the length on the disk before the bytes, which are zeros then.
    fn is_begun(&mut self) -> io::Result<bool> {
        let mut bytes = [0; HEADER_BYTES];
        if self.len < HEADER_BYTES as u64 {
            return Ok(true);
        }
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_exact(&mut bytes)?;
        let first = Header::<K>::parse(&bytes, u64::MAX).filter(|header| header.number == 0);
        let ends = |header: &Header<K>| (HEADER_BYTES + header.len) as u64 > self.len;
        Ok(first.as_ref().is_some_and(ends) || bytes == [0; HEADER_BYTES])
    }

    /// Returns `true` if a later frame of this file says that the bytes at `offset` had reached the
    /// disk. The missing frame at `offset` is then damage, not an interrupted write. Without the first
    /// frame no checksum can be verified, and a header counts that can be one.
    fn is_missing_what_was_synced(&mut self, offset: u64) -> io::Result<bool> {
        let mut window = Vec::new();
        let mut begin = offset + 1;
        let mut checked = 0;
        while begin < self.len {
            self.file.seek(SeekFrom::Start(begin))?;
            window.clear();
            (&mut self.file)
                .take((WINDOW_BYTES + HEADER_BYTES - 1) as u64)
                .read_to_end(&mut window)?;
            for found in memchr::memmem::find_iter(&window, &K::MAGIC) {
                let at = begin + found as u64;
                let Some(bytes) = window[found..].first_chunk::<HEADER_BYTES>() else {
                    continue;
                };
                let Some(header) = Header::<K>::parse(bytes, self.len - at) else {
                    continue;
                };
                // So many frames fit in between.
                let frames = 1 + (at - offset) / HEADER_BYTES as u64;
                let is_possible = (self.number..=self.number + frames).contains(&header.number);
                checked += header.len as u64;
                if is_possible && header.synced > offset && checked < CHECKED_MAX_BYTES {
                    self.file.seek(SeekFrom::Start(at + HEADER_BYTES as u64))?;
                    self.payload.resize(header.len, 0);
                    self.file.read_exact(&mut self.payload)?;
                    let is_right = |id| checksum(id, bytes, &self.payload) == header.checksum;
                    if self.identity.is_none_or(is_right) {
                        return Ok(true);
                    }
                }
            }
            begin += WINDOW_BYTES as u64;
        }
        Ok(false)
    }
}

/// Searched at a time for frames behind damage.
const WINDOW_BYTES: usize = 1 << 20;
/// Maximum number of bytes of payloads that are checked there: a value may look like many frames.
const CHECKED_MAX_BYTES: u64 = 4 << 30;

/// The fields of a header that may be one.
struct Header<K> {
    kind: K,
    len: usize,
    checksum: u32,
    number: u64,
    now_ms: u64,
    synced: u64,
}

impl<K: FrameKind> Header<K> {
    /// Parses a header. Returns `None` if it is not of a frame that ends within `left` bytes.
    fn parse(bytes: &[u8; HEADER_BYTES], left: u64) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let (len, number) = (word(8), long(16));
        let begins_well = bytes[..4] == K::MAGIC && bytes[5..8] == [0; 3];
        let has_room = u64::from(len) + HEADER_BYTES as u64 <= left && len <= PAYLOAD_MAX_BYTES;
        let kind = K::from_byte(bytes[4]).filter(|_| begins_well && has_room)?;
        ((kind == K::BEGIN) == (number == 0)).then_some(Self {
            kind,
            len: len as usize,
            checksum: word(12),
            number,
            now_ms: long(24),
            synced: long(32),
        })
    }
}
