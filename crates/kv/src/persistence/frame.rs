//! Frames: what a log and a snapshot are made of.
//!
//! ```text
//!   magic (4) | kind (1) | 0 (3) | payload length (4) | checksum (4) | number (8) | time (8) | payload
//! ```
//!
//! Little endian. The checksum is CRC-32 (IEEE 802.3) of the file's identity, eight random bytes that
//! the payload of its first frame begins with, and of everything in the frame but magic and checksum.
//! So no value that a client stored can be taken for a frame. Frames are numbered from 0 in each file;
//! times are milliseconds since 1970.

use std::io::{self, BufReader, Read};
use std::{fs::File, path::Path};

use crc32fast::Hasher;

const MAGIC: [u8; 4] = *b"OvKv";
const HEADER_BYTES: usize = 32;
/// Longest payload. A transaction lies in one frame.
const PAYLOAD_MAX_BYTES: u32 = 1 << 30;
/// Version of the format.
pub const FORMAT: u8 = 1;
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
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Begin, Self::Requests, Self::Flush, Self::End]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Writes frames into memory.
#[derive(Debug)]
pub struct FrameWriter {
    identity: [u8; IDENTITY_BYTES],
    number: u64,
}

impl FrameWriter {
    /// Begins a file: appends its first frame. `previous` is the generation of the log or snapshot
    /// that this one goes on from, 0 for none.
    pub fn begin(identity: [u8; 8], previous: u64, now_ms: u64, out: &mut Vec<u8>) -> Self {
        let number = 0;
        let mut writer = Self { identity, number };
        let mut payload = identity.to_vec();
        payload.extend_from_slice(&previous.to_le_bytes());
        payload.push(FORMAT);
        writer.append(Kind::Begin, now_ms, &payload, out);
        writer
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
    /// The rest, from `offset` on, is no whole frame, nor has it one inside: its writer was
    /// interrupted.
    Torn {
        /// Where it begins.
        offset: u64,
    },
    /// There is something else than a frame here, and frames behind it; or the file does not begin
    /// as one of these.
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
                Some(_) => self.has_frame_after(offset)?,
                None => self.len > (HEADER_BYTES + BEGIN_BYTES) as u64,
            };
            return Ok(match damaged {
                true => Next::Damaged { offset },
                false => Next::Torn { offset },
            });
        };
        if kind == Kind::Begin {
            let format = self.payload.last().copied().unwrap_or_default();
            if format != FORMAT {
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
        let mut header = [0; HEADER_BYTES];
        let left = self.len - self.offset;
        if left < HEADER_BYTES as u64 {
            return Ok(None);
        }
        self.file.read_exact(&mut header)?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
        let len = word(8);
        let is_begin = header[4] == Kind::Begin as u8;
        let has_room = u64::from(len) <= left - HEADER_BYTES as u64 && len <= PAYLOAD_MAX_BYTES;
        let is_next = long(16) == self.number && is_begin == (self.number == 0);
        let begins_well = header[..4] == MAGIC && header[5..8] == [0; 3];
        let kind = Kind::from_byte(header[4]).filter(|_| begins_well && has_room && is_next);
        let Some(kind) = kind else {
            return Ok(None);
        };
        self.payload.resize(len as usize, 0);
        self.file.read_exact(&mut self.payload)?;
        let Some(identity) = self
            .identity
            .or_else(|| self.payload.first_chunk().copied())
        else {
            return Ok(None);
        };
        if checksum(identity, &header, &self.payload) != word(12) {
            return Ok(None);
        }
        self.identity = Some(identity);
        self.offset += (HEADER_BYTES + len as usize) as u64;
        self.number += 1;
        Ok(Some((kind, long(24))))
    }

    /// Whether a frame of this file begins somewhere after `offset`.
    fn has_frame_after(&mut self, offset: u64) -> io::Result<bool> {
        use std::io::{Seek, SeekFrom};
        const WINDOW: usize = 1 << 20;
        let mut window = Vec::new();
        let mut begin = offset + 1;
        while begin < self.len {
            self.file.seek(SeekFrom::Start(begin))?;
            window.clear();
            (&mut self.file)
                .take((WINDOW + MAGIC.len() - 1) as u64)
                .read_to_end(&mut window)?;
            for found in memchr::memmem::find_iter(&window, &MAGIC) {
                if self.is_frame(begin + found as u64)? {
                    return Ok(true);
                }
            }
            begin += WINDOW as u64;
        }
        Ok(false)
    }

    fn is_frame(&mut self, at: u64) -> io::Result<bool> {
        use std::io::{Seek, SeekFrom};
        self.file.seek(SeekFrom::Start(at + 16))?;
        let mut number = [0; 8];
        if self.len - at < HEADER_BYTES as u64 {
            return Ok(false);
        }
        self.file.read_exact(&mut number)?;
        let number = u64::from_le_bytes(number);
        if number < self.number {
            return Ok(false);
        }
        let before = (self.number, self.offset);
        (self.number, self.offset) = (number, at);
        self.file.seek(SeekFrom::Start(at))?;
        let found = self.read_frame();
        (self.number, self.offset) = before;
        Ok(found?.is_some())
    }
}
