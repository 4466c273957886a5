//! Batches on disk, in the order in which they came.
//!
//! 1. Records are appended to segments: files of numbered frames with checksums ([`overside_frames`]), about 64 MiB
//!    each.
//! 2. Releases are noted in the newest segment; one all of whose records are released is removed.
//! 3. A start reads the records that were not released. The last record of a writer that was interrupted is cut off: it
//!    was never acknowledged. Other damage is an error that names its place.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use overside_frames::{FrameKind, FrameReader, FrameWriter, Next, StreamFrame, parse_stream};
use rustix::rand::{GetRandomFlags, getrandom};

/// A segment longer than this is followed by another; than an eighth of the space, if that is less.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Bytes of a segment's first frame.
const FIRST_FRAME_BYTES: u64 = 57;

/// Kind of a frame in a segment, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpillFrame {
    /// The beginning of a segment.
    Begin = 0,
    /// The number of a record, and the record.
    Record = 1,
    /// The number of the first record that is not released.
    Released = 2,
}

impl FrameKind for SpillFrame {
    const MAGIC: [u8; 4] = *b"OvFs";
    const FORMATS: RangeInclusive<u8> = 1..=1;
    const BEGIN: Self = Self::Begin;

    fn byte(self) -> u8 {
        self as u8
    }

    fn from_byte(byte: u8) -> Option<Self> {
        let kinds = [Self::Begin, Self::Record, Self::Released];
        kinds.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Limit for the bytes on disk of all segments together, and the bytes in use.
#[derive(Debug)]
pub struct SpillSpace {
    used_bytes: AtomicU64,
    limit_bytes: u64,
}

impl SpillSpace {
    /// An empty space of at most `limit_bytes` bytes.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            used_bytes: AtomicU64::new(0),
            limit_bytes,
        }
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Maximum number of bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    fn take(&self, bytes: u64) -> bool {
        let add = |used: u64| {
            let sum = used.checked_add(bytes)?;
            (sum <= self.limit_bytes).then_some(sum)
        };
        let order = Ordering::Relaxed;
        self.used_bytes.fetch_update(order, order, add).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Reason why a record cannot be spilled, or cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum SpillError {
    /// The limit of all segments is reached.
    #[error("the spill directory is at its limit of {0} bytes")]
    Full(u64),
    /// The disk does not do it.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error that the system reports.
        error: io::Error,
    },
    /// A segment is damaged.
    #[error("{} is damaged at byte {offset}; restore it from a copy, or move it away to lose what is in it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the damage in the file, in bytes.
        offset: u64,
    },
}

/// Location, name and durability of spilled records.
#[derive(Clone, Debug)]
pub struct SpillOptions {
    /// The directory.
    pub directory: PathBuf,
    /// Prefix of the segments' file names.
    pub name: String,
    /// `true` if each record is synced to the disk before it counts, so that it survives a failure
    /// of the machine.
    pub syncs: bool,
    /// Disk space that these records share with those of other queues.
    pub space: Arc<SpillSpace>,
}

/// Location of a record on disk.
#[derive(Clone, Debug)]
pub struct SpillLocation {
    file: Arc<File>,
    identity: [u8; 8],
    offset: u64,
    len: usize,
}

/// Records on disk.
#[derive(Debug)]
pub struct Spill {
    options: SpillOptions,
    segments: VecDeque<Segment>,
    /// The number of the next record.
    next_record: u64,
    /// The number of the first that is not released.
    released: u64,
    /// The number of the next segment.
    next_segment: u64,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    file: Arc<File>,
    writer: FrameWriter<SpillFrame>,
    len: u64,
    /// The number of the record after its last one.
    end_record: u64,
    /// `true` if this process began the segment. Others are not appended to, since their frames
    /// have other numbers.
    is_ours: bool,
}

impl Spill {
    /// Opens the segments found there. Returns the places of unreleased records, in order.
    ///
    /// # Errors
    /// [`SpillError`].
    pub fn open(options: SpillOptions) -> Result<(Self, Vec<SpillLocation>), SpillError> {
        let mut spill = Self {
            segments: VecDeque::new(),
            next_record: 0,
            released: 0,
            next_segment: 1,
            options,
        };
        let mut places = VecDeque::new();
        for (number, path) in spill.existing()? {
            spill.next_segment = number + 1;
            spill.read_segment(path, &mut places)?;
        }
        let first = spill.next_record - places.len() as u64;
        let released = spill.released.clamp(first, spill.next_record);
        places.drain(..(released - first) as usize);
        spill.released = released;
        spill.remove_released();
        Ok((spill, places.into()))
    }

    fn existing(&self) -> Result<Vec<(u64, PathBuf)>, SpillError> {
        let directory = &self.options.directory;
        let failed = |error| SpillError::Io {
            path: directory.clone(),
            error,
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let number = name
                .and_then(|name| name.strip_prefix(&self.options.name)?.strip_prefix('-'))
                .and_then(|rest| rest.strip_suffix(".spill")?.parse().ok());
            found.extend(number.map(|number: u64| (number, path)));
        }
        found.sort();
        Ok(found)
    }

    fn read_segment(
        &mut self,
        path: PathBuf,
        places: &mut VecDeque<SpillLocation>,
    ) -> Result<(), SpillError> {
        let failed = |error| SpillError::Io {
            path: path.clone(),
            error,
        };
        let open = || OpenOptions::new().read(true).write(true).open(&path);
        let file = Arc::new(open().map_err(failed)?);
        let mut reader = FrameReader::<SpillFrame>::open(&path).map_err(failed)?;
        let len = reader.len();
        let mut is_empty = true;
        loop {
            let (offset, identity) = (reader.offset(), reader.identity());
            let damaged = |offset| SpillError::Damaged {
                path: path.clone(),
                offset,
            };
            let frame = match reader.next().map_err(failed)? {
                Next::Frame(frame) => frame,
                Next::End => break,
                // Zeros: records may have been there.
                Next::Torn { offset: 0 } if len > FIRST_FRAME_BYTES => return Err(damaged(0)),
                Next::Torn { offset } => {
                    file.set_len(offset).map_err(failed)?;
                    break;
                }
                Next::Damaged { offset } => return Err(damaged(offset)),
                Next::Format(_) => return Err(damaged(0)),
            };
            let number = || frame.payload.first_chunk().map(|b| u64::from_le_bytes(*b));
            match frame.kind {
                SpillFrame::Begin => is_empty = false,
                SpillFrame::Released => self.released = number().ok_or_else(|| damaged(offset))?,
                SpillFrame::Record => {
                    let number = number().ok_or_else(|| damaged(offset))?;
                    if !places.is_empty() && number != self.next_record {
                        return Err(damaged(offset));
                    }
                    self.next_record = number + 1;
                    places.push_back(SpillLocation {
                        file: Arc::clone(&file),
                        identity: identity.unwrap_or_default(),
                        offset,
                        len: 0,
                    });
                }
            }
            let len = (reader.offset() - offset) as usize;
            if let Some(last) = places.back_mut().filter(|last| last.len == 0) {
                last.len = len;
            }
        }
        let len = reader.offset();
        if is_empty {
            return fs::remove_file(&path).map_err(failed);
        }
        // What a limit that was lowered since does not allow is there all the same.
        self.options
            .space
            .used_bytes
            .fetch_add(len, Ordering::Relaxed);
        self.segments.push_back(Segment {
            writer: FrameWriter::stream(reader.identity().unwrap_or_default()),
            path,
            file,
            len,
            end_record: self.next_record,
            is_ours: false,
        });
        Ok(())
    }

    /// Appends a record, which is kept from here on.
    ///
    /// # Errors
    /// [`SpillError`]; then the spill file is unchanged.
    pub fn append(&mut self, record: &[u8]) -> Result<SpillLocation, SpillError> {
        let mut payload = Vec::with_capacity(8 + record.len());
        payload.extend_from_slice(&self.next_record.to_le_bytes());
        payload.extend_from_slice(record);
        let place = self.write(SpillFrame::Record, &payload)?;
        self.next_record += 1;
        if let Some(segment) = self.segments.back_mut() {
            segment.end_record = self.next_record;
        }
        Ok(place)
    }

    fn write(&mut self, kind: SpillFrame, payload: &[u8]) -> Result<SpillLocation, SpillError> {
        let last = self.segments.back();
        let most = SEGMENT_BYTES.min(self.options.space.limit_bytes / 8);
        let is_open = last.is_some_and(|last| last.is_ours && last.len < most);
        if !is_open {
            self.begin_segment()?;
        }
        let Some(segment) = self.segments.back_mut() else {
            return Err(SpillError::Full(0));
        };
        let space = &self.options.space;
        let mut writer = segment.writer.clone();
        let mut frame = Vec::with_capacity(payload.len() + 64);
        writer.append(kind, now_ms(), payload, &mut frame);
        if kind == SpillFrame::Record && !space.take(frame.len() as u64) {
            return Err(SpillError::Full(space.limit_bytes));
        }
        let written = (segment.file.write_all_at(&frame, segment.len)).and_then(|()| {
            match self.options.syncs && kind == SpillFrame::Record {
                true => segment.file.sync_data(),
                false => Ok(()),
            }
        });
        if let Err(error) = written {
            if kind == SpillFrame::Record {
                space.give_back(frame.len() as u64);
            }
            // What was written of it is written over, or cut off by the next start.
            let path = segment.path.clone();
            return Err(SpillError::Io { path, error });
        }
        if kind != SpillFrame::Record {
            space
                .used_bytes
                .fetch_add(frame.len() as u64, Ordering::Relaxed);
        }
        let place = SpillLocation {
            file: Arc::clone(&segment.file),
            identity: segment.writer.identity(),
            offset: segment.len,
            len: frame.len(),
        };
        segment.writer = writer;
        segment.len += frame.len() as u64;
        if self.options.syncs && kind == SpillFrame::Record {
            segment.writer.synced = segment.len;
        }
        Ok(place)
    }

    fn begin_segment(&mut self) -> Result<(), SpillError> {
        let name = format!("{}-{:010}.spill", self.options.name, self.next_segment);
        let path = self.options.directory.join(name);
        let begin = || {
            let mut identity = [0; 8];
            getrandom(&mut identity, GetRandomFlags::empty())?;
            let mut first = Vec::new();
            let writer =
                FrameWriter::begin(identity, self.next_segment - 1, &[], now_ms(), &mut first);
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o600);
            let file = options.open(&path)?;
            if let Err(error) = file.write_all_at(&first, 0) {
                // It would be in the way of the next attempt.
                let _ = fs::remove_file(&path);
                return Err(error);
            }
            if self.options.syncs {
                sync_directory(&self.options.directory)?;
            }
            Ok((file, writer, first.len() as u64))
        };
        let (file, writer, len) = begin().map_err(|error| SpillError::Io {
            path: path.clone(),
            error,
        })?;
        self.options
            .space
            .used_bytes
            .fetch_add(len, Ordering::Relaxed);
        self.next_segment += 1;
        self.segments.push_back(Segment {
            path,
            file: Arc::new(file),
            writer,
            len,
            end_record: self.next_record,
            is_ours: true,
        });
        Ok(())
    }

    /// The first `count` records that are not released are not needed any more.
    pub fn release(&mut self, count: u64) {
        self.released = (self.released + count).min(self.next_record);
        self.remove_released();
        if !self.segments.is_empty() {
            // If it cannot be noted, a start reads them again: they are duplicates.
            let _ = self.write(SpillFrame::Released, &self.released.to_le_bytes());
        }
    }

    /// Removes segments whose records are all released.
    fn remove_released(&mut self) {
        while let Some(first) = self.segments.front() {
            if first.end_record > self.released {
                return;
            }
            self.options.space.give_back(first.len);
            // What is left is removed by a later start.
            let _ = fs::remove_file(&first.path);
            self.segments.pop_front();
        }
    }

    /// Bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }
}

impl SpillLocation {
    /// Reads the record.
    ///
    /// # Errors
    /// Those of reading, and [`io::ErrorKind::InvalidData`] if its checksum is wrong.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut frame = vec![0; self.len];
        self.file.read_exact_at(&mut frame, self.offset)?;
        match parse_stream::<SpillFrame>(self.identity, &frame, self.len) {
            StreamFrame::Whole {
                kind: SpillFrame::Record,
                payload,
                ..
            } if payload.len() >= 8 => Ok(payload[8..].to_vec()),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a spilled batch at byte {} is damaged", self.offset),
            )),
        }
    }
}

/// Syncs names of files to the disk.
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
