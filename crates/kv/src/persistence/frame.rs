//! Frames: what a log and a snapshot are made of.
//!
//! ```text
//!   magic (4) | kind (1) | 0 (3) | payload length (4) | checksum (4) | number (8) | time (8)
//!   | synced (8) | payload
//! ```
//!
//! Little endian. The checksum is CRC-32 (IEEE 802.3) of the file's identity, eight random bytes that
//! the payload of its first frame begins with, and of everything in the frame but magic and checksum.
//! So no value that a client stored can be taken for a frame. Frames are numbered from 0 in each file;
//! times are milliseconds since 1970. `synced` is how many bytes of the file were known to be on the disk
//! when the frame was made: after a power failure, whatever is missing behind that was not there yet.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crc32fast::Hasher;

const MAGIC: [u8; 4] = *b"OvKv";
const HEADER_BYTES: usize = 40;
/// Longest payload. A transaction lies in one frame.
const PAYLOAD_MAX_BYTES: u32 = 1 << 30;
/// Version of the format. 2 has what a replica needs; 1 is read as well.
pub const FORMAT: u8 = 2;
const FORMATS: std::ops::RangeInclusive<u8> = 1..=FORMAT;
const IDENTITY_BYTES: usize = 8;
/// Payload of a first frame: identity, previous generation, format.
const BEGIN_BYTES: usize = IDENTITY_BYTES + 8 + 1;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file's beginning: identity and format.
    Begin = 0,
    /// Requests, executed at the frame's time.
    Requests = 1,
    /// Everything was removed.
    Flush = 2,
    /// The end of a snapshot.
    End = 3,
    /// The time, of a replica's primary.
    Time = 4,
    /// Everything was removed, and what follows is another server's state, not complete before
    /// [`Kind::CopyEnd`].
    CopyBegin = 5,
    /// Requests that recreate a part of the state as it was at the frame's time.
    Copy = 6,
    /// The state is complete.
    CopyEnd = 7,
    /// A position in a primary's history, and the requests that lead there from the one before. Whatever
    /// else changes something, but a copy, ends the position.
    Followed = 8,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [
            Self::Begin,
            Self::Requests,
            Self::Flush,
            Self::End,
            Self::Time,
            Self::CopyBegin,
            Self::Copy,
            Self::CopyEnd,
            Self::Followed,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// Writes frames into memory.
#[derive(Debug)]
pub struct FrameWriter {
    identity: [u8; IDENTITY_BYTES],
    number: u64,
    /// Bytes of the file that are known to be on the disk.
    pub synced: u64,
}

impl FrameWriter {
    /// Begins a file: appends its first frame. `previous` is the generation of the log or snapshot
    /// that this one goes on from, 0 for none.
    pub fn begin(identity: [u8; 8], previous: u64, now_ms: u64, out: &mut Vec<u8>) -> Self {
        let mut writer = Self {
            identity,
            number: 0,
            synced: 0,
        };
        let mut payload = identity.to_vec();
        payload.extend_from_slice(&previous.to_le_bytes());
        payload.push(FORMAT);
        writer.append(Kind::Begin, now_ms, &payload, out);
        writer
    }

    /// Frames without a file, as replicas get them: the first number is 1.
    #[must_use]
    pub fn stream(identity: [u8; 8]) -> Self {
        Self {
            identity,
            number: 1,
            synced: 0,
        }
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
    pub fn append(&mut self, kind: Kind, now_ms: u64, payload: &[u8], out: &mut Vec<u8>) {
        let len = u32::try_from(payload.len()).ok();
        let len = len.filter(|len| *len <= PAYLOAD_MAX_BYTES);
        let len = len.expect("a frame's payload is bounded");
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC);
        header[4] = kind as u8;
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
pub enum StreamFrame<'b> {
    /// It is whole, and its checksum is right.
    Whole {
        /// What it holds.
        kind: Kind,
        /// Its number.
        number: u64,
        /// When that was.
        now_ms: u64,
        /// What it holds.
        payload: &'b [u8],
        /// Bytes of the frame.
        len: usize,
    },
    /// So many bytes more are needed to say more.
    Missing(usize),
    /// There is none.
    Invalid,
}

/// Looks for a frame with at most `payload_max` bytes of payload at the beginning of `bytes`.
#[must_use]
pub fn parse_stream(identity: [u8; 8], bytes: &[u8], payload_max: usize) -> StreamFrame<'_> {
    let Some(header_bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
        return StreamFrame::Missing(HEADER_BYTES - bytes.len());
    };
    let most = (HEADER_BYTES + payload_max) as u64;
    let Some(header) = Header::parse(header_bytes, most) else {
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
pub struct Frame<'r> {
    /// What it holds.
    pub kind: Kind,
    /// When that was.
    pub now_ms: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// What it holds.
    pub payload: &'r [u8],
}

/// What comes next in a file.
#[derive(Debug)]
pub enum Next<'r> {
    /// A frame.
    Frame(Frame<'r>),
    /// The end of the file.
    End,
    /// The rest, from `offset` on, begins with no whole frame, and was not known to be on the disk: its
    /// writer was interrupted.
    Torn {
        /// Where it begins.
        offset: u64,
    },
    /// There is something else than a frame here, where a frame was on the disk; or the file does not
    /// begin as one of these.
    Damaged {
        /// Where it begins.
        offset: u64,
    },
    /// The file has another format.
    Format(u8),
}

/// The generation that a file goes on from: the payload of its first frame.
#[must_use]
pub fn previous(payload: &[u8]) -> Option<u64> {
    let bytes = payload.get(IDENTITY_BYTES..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Reads frames from a file.
#[derive(Debug)]
pub struct FrameReader {
    file: BufReader<File>,
    len: u64,
    offset: u64,
    number: u64,
    /// Known after the first frame.
    identity: Option<[u8; IDENTITY_BYTES]>,
    payload: Vec<u8>,
}

impl FrameReader {
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
        })
    }

    /// Bytes of the file.
    #[expect(clippy::len_without_is_empty, reason = "it is not a collection")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Where the next frame begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads what comes next. After anything but a frame, nothing more can be read.
    ///
    /// # Errors
    /// If the file cannot be read.
    #[expect(clippy::should_implement_trait, reason = "it lends its memory")]
    pub fn next(&mut self) -> io::Result<Next<'_>> {
        let offset = self.offset;
        if offset == self.len {
            return Ok(Next::End);
        }
        let Some((kind, now_ms)) = self.read_frame()? else {
            // A file that is cut within its first frame holds nothing yet.
            let damaged = match self.identity {
                Some(_) => self.is_missing_what_was_synced(offset)?,
                None => self.len > (HEADER_BYTES + BEGIN_BYTES) as u64,
            };
            return Ok(match damaged {
                true => Next::Damaged { offset },
                false => Next::Torn { offset },
            });
        };
        if kind == Kind::Begin {
            let format = self.payload.last().copied().unwrap_or_default();
            if !FORMATS.contains(&format) {
                return Ok(Next::Format(format));
            }
        }
        Ok(Next::Frame(Frame {
            kind,
            now_ms,
            offset,
            payload: &self.payload,
        }))
    }

    /// The frame at the reader's position, whose payload is in `payload` then. `None`: there is none.
    fn read_frame(&mut self) -> io::Result<Option<(Kind, u64)>> {
        let mut bytes = [0; HEADER_BYTES];
        let left = self.len - self.offset;
        if left < HEADER_BYTES as u64 {
            return Ok(None);
        }
        self.file.read_exact(&mut bytes)?;
        let header = Header::parse(&bytes, left);
        let Some(header) = header.filter(|header| header.number == self.number) else {
            return Ok(None);
        };
        self.payload.resize(header.len, 0);
        self.file.read_exact(&mut self.payload)?;
        let Some(identity) = self
            .identity
            .or_else(|| self.payload.first_chunk().copied())
        else {
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

    /// Whether a frame of this file begins behind `offset`, where there is none, that says that what
    /// is there was on the disk.
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
            for found in memchr::memmem::find_iter(&window, &MAGIC) {
                let at = begin + found as u64;
                let Some(bytes) = window[found..].first_chunk::<HEADER_BYTES>() else {
                    continue;
                };
                let Some(header) = Header::parse(bytes, self.len - at) else {
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
                    let identity = self.identity.unwrap_or_default();
                    if checksum(identity, bytes, &self.payload) == header.checksum {
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
/// Most bytes of payloads that are checked there: a value may look like many frames.
const CHECKED_MAX_BYTES: u64 = 4 << 30;

/// The fields of a header that may be one.
struct Header {
    kind: Kind,
    len: usize,
    checksum: u32,
    number: u64,
    now_ms: u64,
    synced: u64,
}

impl Header {
    /// `None`: it is none of a frame that ends within `left` bytes.
    fn parse(bytes: &[u8; HEADER_BYTES], left: u64) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let (len, number) = (word(8), long(16));
        let begins_well = bytes[..4] == MAGIC && bytes[5..8] == [0; 3];
        let has_room = u64::from(len) + HEADER_BYTES as u64 <= left && len <= PAYLOAD_MAX_BYTES;
        let kind = Kind::from_byte(bytes[4]).filter(|_| begins_well && has_room)?;
        ((kind == Kind::Begin) == (number == 0)).then_some(Self {
            kind,
            len: len as usize,
            checksum: word(12),
            number,
            now_ms: long(24),
            synced: long(32),
        })
    }
}
