//! Batches on disk, in the order in which they came.
//!
//! 1. Records are appended to segments: files of numbered frames with checksums ([`overside_frames`]), about 64 MiB
//!    each.
//! 2. A note beside them, written over with each change, says which records have to be there: those that are
//!    acknowledged and not released. A segment all of whose records are released is removed.
//! 3. A start reads the records that were not released. Bytes behind them in the newest segment are no record: their
//!    writer was interrupted. One that is missing is an error that names the file, unless the loss is accepted.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use overside_base::random_bytes;
use overside_frames::{
    FrameKind, FrameReader, FrameWriter, Next, StreamFrame, parse_stream, previous,
};

/// A segment longer than this is followed by another; than an eighth of the space, if that is less.
const SEGMENT_BYTES: u64 = 64 << 20;
/// Longest record in bytes: that of a frame.
const RECORD_BYTES_MAX: usize = (1 << 30) - 8;
/// Bytes of the note's payload, and what its checksum begins with.
const NOTE_BYTES: usize = 32;
const NOTE_IDENTITY: [u8; 8] = *b"the note";

/// Kind of a frame in a segment, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpillFrame {
    /// The beginning of a segment.
    Begin = 0,
    /// The number of a record, and the record.
    Record = 1,
    /// Numbers of the records and segments that have to be there.
    Note = 3,
}

impl FrameKind for SpillFrame {
    const MAGIC: [u8; 4] = *b"OvFs";
    const FORMATS: RangeInclusive<u8> = 2..=2;
    const BEGIN: Self = Self::Begin;

    fn byte(self) -> u8 {
        self as u8
    }

    fn from_byte(byte: u8) -> Option<Self> {
        let kinds = [Self::Begin, Self::Record, Self::Note];
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
        Self { used_bytes: AtomicU64::new(0), limit_bytes }
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
    /// Records that were acknowledged cannot be read.
    #[error(
        "{what}: {} lost; restore it from a copy, or go on without them by --accept-loss", batches_text(*batches)
    )]
    Lost {
        /// The file, and what is wrong with it.
        what: String,
        /// Number of the batches, as far as it is known.
        batches: u64,
    },
    /// A segment of another version.
    #[error("{} has format {format}, which this version cannot read; use the one that wrote it", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Version of its format.
        format: u8,
    },
}

impl SpillError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        let path: PathBuf = path.into();
        move |error| Self::Io { path: path.clone(), error }
    }
}

/// Location, name and durability of spilled records.
#[derive(Clone, Debug)]
pub struct SpillOptions {
    /// The directory.
    pub directory: PathBuf,
    /// Prefix of the segments' file names.
    pub name: String,
    /// `true` if a start goes on without records that were acknowledged and are lost.
    pub accepts_loss: bool,
    /// Disk space that these records share with those of other queues.
    pub space: Arc<SpillSpace>,
}

/// Location of a record on disk.
#[derive(Clone, Debug)]
pub struct SpillLocation {
    number: u64,
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
    /// The note, once there is one.
    note: Option<File>,
}

#[derive(Debug)]
struct Segment {
    number: u64,
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

/// Records that have to be there, as the note says.
#[derive(Clone, Copy, Default)]
struct Noted {
    /// Numbers of records, from the first that is not released.
    records: (u64, u64),
    /// Numbers of segments.
    segments: (u64, u64),
}

impl Noted {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let frame = parse_stream::<SpillFrame>(NOTE_IDENTITY, bytes, NOTE_BYTES);
        let StreamFrame::Whole { kind: SpillFrame::Note, payload, .. } = frame else {
            return None;
        };
        let number = |index: usize| {
            let bytes = payload.get(8 * index..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        Some(Self { records: (number(0)?, number(1)?), segments: (number(2)?, number(3)?) })
    }
}

/// Records that a start finds.
pub struct RecoveredRecords {
    /// Places of the unreleased ones, in order.
    pub places: Vec<SpillLocation>,
    /// Number of those that are lost.
    pub lost: u64,
}

/// Reading of the segments.
#[derive(Default)]
struct Reading {
    places: Vec<SpillLocation>,
    /// Number of the record that has to come next; `None`: any.
    next: Option<u64>,
    lost: u64,
    /// The place of the damage.
    damage: Option<String>,
    /// File in which missing records may have been, and how likely that is.
    suspect: (Likelihood, String),
}

#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
enum Likelihood {
    /// A file that is read to its end may have been longer.
    #[default]
    Whole,
    Unreadable,
    Missing,
}

impl Reading {
    /// The record of this number comes next.
    fn expect(&mut self, number: u64) {
        let next = *self.next.get_or_insert(number);
        if number > next {
            self.lost += number - next;
            self.damage.get_or_insert(self.suspect.1.clone());
        }
    }

    fn suspect(&mut self, likelihood: Likelihood, what: String) {
        if likelihood >= self.suspect.0 {
            self.suspect = (likelihood, what);
        }
    }
}

impl Spill {
    /// Opens the segments found there, and finds the records that are not released.
    ///
    /// # Errors
    /// [`SpillError`]; [`SpillError::Lost`] unless that is accepted.
    pub fn open(options: SpillOptions) -> Result<(Self, RecoveredRecords), SpillError> {
        let mut spill = Self {
            segments: VecDeque::new(),
            next_record: 0,
            released: 0,
            next_segment: 1,
            note: None,
            options,
        };
        let mut existing = spill.existing()?;
        let noted = match fs::read(spill.note_path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && existing.is_empty() => {
                Some(Noted::default())
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SpillError::io(&spill.note_path())(error));
            }
            read => read.ok().and_then(|bytes| Noted::parse(&bytes)),
        };
        let mut reading = Reading::default();
        reading.suspect.1 = format!("{} is of other segments", spill.note_path().display());
        if let Some(noted) = noted {
            reading.next = Some(noted.records.0);
            spill.next_segment = spill.next_segment.max(noted.segments.1);
            // What is left of released ones.
            existing.retain(|number, path| {
                let is_needed = *number >= noted.segments.0;
                is_needed || fs::remove_file(path).is_err()
            });
            for number in noted.segments.0..noted.segments.1 {
                existing.entry(number).or_insert_with(|| spill.segment_path(number));
            }
        } else {
            reading.damage = Some(format!("{} is missing or damaged", spill.note_path().display()));
        }
        for (number, path) in existing {
            spill.next_segment = spill.next_segment.max(number + 1);
            spill.read_segment(number, path, &mut reading)?;
        }
        if let Some(noted) = noted {
            reading.expect(noted.records.1.max(reading.next.unwrap_or(0)));
        }
        let Reading { mut places, next, lost, damage, .. } = reading;
        spill.next_record = next.unwrap_or(0).max(noted.map_or(0, |noted| noted.records.1));
        spill.released = places.first().map_or(spill.next_record, |first| first.number);
        if let Some(what) = damage {
            if !spill.options.accepts_loss {
                return Err(SpillError::Lost { what, batches: lost });
            }
            tracing::warn!("{what}: {} lost", batches_text(lost));
            places = spill.write_again(places)?;
        } else {
            spill.remove_released();
        }
        Ok((spill, RecoveredRecords { places, lost }))
    }

    fn segment_path(&self, number: u64) -> PathBuf {
        let name = format!("{}-{number:010}.spill", self.options.name);
        self.options.directory.join(name)
    }

    fn note_path(&self) -> PathBuf {
        let name = format!("{}.note", self.options.name);
        self.options.directory.join(name)
    }

    fn existing(&self) -> Result<BTreeMap<u64, PathBuf>, SpillError> {
        let directory = &self.options.directory;
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(directory).map_err(SpillError::io(directory))? {
            let path = entry.map_err(SpillError::io(directory))?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let number = name
                .and_then(|name| name.strip_prefix(&self.options.name)?.strip_prefix('-'))
                .and_then(|rest| rest.strip_suffix(".spill")?.parse().ok());
            found.extend(number.map(|number: u64| (number, path)));
        }
        Ok(found)
    }

    /// Reads the records of a segment up to its end, or to what is none.
    fn read_segment(
        &mut self,
        number: u64,
        path: PathBuf,
        reading: &mut Reading,
    ) -> Result<(), SpillError> {
        let failed = |error| SpillError::Io { path: path.clone(), error };
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                reading.suspect(Likelihood::Missing, format!("{} is missing", path.display()));
                return Ok(());
            }
            file => Arc::new(file.map_err(failed)?),
        };
        let mut reader = FrameReader::<SpillFrame>::open(&path).map_err(failed)?;
        let mut is_whole = false;
        loop {
            let (offset, identity) = (reader.offset(), reader.identity());
            let frame = match reader.next().map_err(failed)? {
                Next::Frame(frame) => frame,
                Next::Format(format) => return Err(SpillError::Format { path, format }),
                end => {
                    is_whole = matches!(end, Next::End) && identity.is_some();
                    break;
                }
            };
            let record = frame.payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            let record = match frame.kind {
                SpillFrame::Record => {
                    record.filter(|record| reading.next.is_none_or(|next| *record >= next))
                }
                // Another file under this name.
                SpillFrame::Begin if previous(frame.payload) != number.checked_sub(1) => break,
                _ => None,
            };
            let Some(record) = record else {
                continue;
            };
            reading.expect(record);
            reading.next = Some(record + 1);
            reading.suspect = Default::default();
            reading.places.push(SpillLocation {
                number: record,
                file: Arc::clone(&file),
                identity: identity.unwrap_or_default(),
                offset,
                len: (reader.offset() - offset) as usize,
            });
        }
        let len = reader.offset();
        let (likelihood, what) = match is_whole {
            true => (Likelihood::Whole, "ends early,"),
            false => (Likelihood::Unreadable, "is damaged"),
        };
        reading.suspect(likelihood, format!("{} {what} at byte {len}", path.display()));
        // What a limit that was lowered since does not allow is there all the same.
        (self.options.space.used_bytes).fetch_add(len, Ordering::Relaxed);
        self.segments.push_back(Segment {
            number,
            writer: FrameWriter::stream(reader.identity().unwrap_or_default()),
            path,
            file,
            len,
            end_record: reading.next.unwrap_or(0),
            is_ours: false,
        });
        Ok(())
    }

    /// Writes what can be read to new segments, which have no gaps, and removes the others.
    fn write_again(
        &mut self,
        places: Vec<SpillLocation>,
    ) -> Result<Vec<SpillLocation>, SpillError> {
        let old = std::mem::take(&mut self.segments);
        for segment in &old {
            self.options.space.give_back(segment.len);
        }
        self.released = self.next_record;
        let mut written = Vec::new();
        for place in places {
            let of_place = |segment: &&Segment| Arc::ptr_eq(&segment.file, &place.file);
            let path = old.iter().find(of_place).map(|segment| &segment.path);
            let path = path.unwrap_or(&self.options.directory);
            let record = place.read().map_err(SpillError::io(path))?;
            written.push(self.add(&record)?);
        }
        self.write_note()?;
        for segment in old {
            let _ = fs::remove_file(&segment.path);
        }
        Ok(written)
    }

    /// Appends a record, which is kept from here on.
    ///
    /// # Errors
    /// [`SpillError`]; then a start may find the record, or not.
    pub fn append(&mut self, record: &[u8]) -> Result<SpillLocation, SpillError> {
        let place = self.add(record)?;
        self.write_note()?;
        Ok(place)
    }

    fn add(&mut self, record: &[u8]) -> Result<SpillLocation, SpillError> {
        let last = self.segments.back();
        let most = SEGMENT_BYTES.min(self.options.space.limit_bytes / 8);
        let is_open = last.is_some_and(|last| last.is_ours && last.len < most);
        if !is_open {
            self.begin_segment()?;
        }
        let Some(segment) = self.segments.back_mut() else {
            return Err(SpillError::Full(0));
        };
        if record.len() > RECORD_BYTES_MAX {
            return Err(SpillError::io(&segment.path)(io::ErrorKind::FileTooLarge.into()));
        }
        let mut payload = Vec::with_capacity(8 + record.len());
        payload.extend_from_slice(&self.next_record.to_le_bytes());
        payload.extend_from_slice(record);
        let space = &self.options.space;
        let mut writer = segment.writer.clone();
        let mut frame = Vec::with_capacity(payload.len() + 64);
        writer.append(SpillFrame::Record, now_ms(), &payload, &mut frame);
        if !space.take(frame.len() as u64) {
            return Err(SpillError::Full(space.limit_bytes));
        }
        if let Err(error) = segment.file.write_all_at(&frame, segment.len) {
            space.give_back(frame.len() as u64);
            // If it cannot be cut off, it is written over.
            let _ = segment.file.set_len(segment.len);
            return Err(SpillError::io(&segment.path)(error));
        }
        let place = SpillLocation {
            number: self.next_record,
            file: Arc::clone(&segment.file),
            identity: segment.writer.identity(),
            offset: segment.len,
            len: frame.len(),
        };
        segment.writer = writer;
        segment.len += frame.len() as u64;
        self.next_record += 1;
        segment.end_record = self.next_record;
        Ok(place)
    }

    /// Notes which records and segments have to be there. It is too short to be written in part.
    fn write_note(&mut self) -> Result<(), SpillError> {
        let first = self.segments.front().map_or(self.next_segment, |first| first.number);
        let numbers = [self.released, self.next_record, first, self.next_segment];
        let payload: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut frame = Vec::new();
        FrameWriter::stream(NOTE_IDENTITY).append(SpillFrame::Note, now_ms(), &payload, &mut frame);
        let path = self.note_path();
        let open = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).open(&path)
        };
        let note = match self.note.take() {
            Some(note) => Ok(note),
            None => open(),
        };
        let written = note.and_then(|note| {
            note.write_all_at(&frame, 0)?;
            self.note = Some(note);
            Ok(())
        });
        written.map_err(SpillError::io(&path))
    }

    fn begin_segment(&mut self) -> Result<(), SpillError> {
        let path = self.segment_path(self.next_segment);
        let begin = || {
            let identity = random_bytes()?;
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
            Ok((file, writer, first.len() as u64))
        };
        let (file, writer, len) = begin().map_err(SpillError::io(&path))?;
        (self.options.space.used_bytes).fetch_add(len, Ordering::Relaxed);
        self.segments.push_back(Segment {
            number: self.next_segment,
            path,
            file: Arc::new(file),
            writer,
            len,
            end_record: self.next_record,
            is_ours: true,
        });
        self.next_segment += 1;
        Ok(())
    }

    /// A record and all before it are not needed any more.
    pub fn release(&mut self, last: &SpillLocation) {
        self.released = last.number + 1;
        self.remove_released();
    }

    /// Removes segments whose records are all released.
    fn remove_released(&mut self) {
        let is_released = |segment: &Segment| segment.end_record <= self.released;
        let count = self.segments.iter().take_while(|one| is_released(one)).count();
        let released: Vec<Segment> = self.segments.drain(..count).collect();
        if let Err(error) = self.write_note() {
            // A start reads the records again: they are duplicates.
            tracing::warn!("{error}");
            released.into_iter().rev().for_each(|one| self.segments.push_front(one));
            return;
        }
        for segment in released {
            self.options.space.give_back(segment.len);
            // What is left is removed by a later start.
            let _ = fs::remove_file(&segment.path);
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
            StreamFrame::Whole { kind: SpillFrame::Record, payload, .. } if payload.len() >= 8 => {
                Ok(payload[8..].to_vec())
            }
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a spilled batch at byte {} is damaged", self.offset),
            )),
        }
    }
}

fn batches_text(batches: u64) -> String {
    match batches {
        0 => "acknowledged batches may be".into(),
        1 => "1 acknowledged batch is".into(),
        more => format!("{more} acknowledged batches are"),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
