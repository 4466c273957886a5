//! Buffers out of a data set: its files as one stream, buffers evenly spaced over it; or each file as
//! an input of its own, cut into buffers.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use overside_base::Random;
use overside_device::{Device, ExternalBytes, MemoryKind, Operation, Region, Slice};
use overside_ops::{Config, Format, prepare};

use crate::table_pieces::{table_pieces, unreadable};
use crate::test::{Data, SAMPLE_BYTES_MAX};
use overside_probe::{Failure, FailureKind};

/// The most distinct buffers of one test. Tiny buffers reach it before `sample_bytes`.
pub const BUFFERS_MAX: u64 = 65_536;

/// Buffers begin at multiples of this many bytes, as those of real programs do.
const ALIGN: usize = 64;

/// Buffers in one piece of memory.
#[derive(Clone)]
pub(crate) struct Buffers {
    memory: Slice,
    ranges: Vec<Range<usize>>,
    /// Number of buffers of each input, in order. If buffers have several lengths, number of
    /// buffers of each length.
    inputs: Vec<usize>,
}

/// Rule for the lengths of buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// All of the same length, but for a rest.
    Fixed,
    /// Lengths drawn at random with this seed.
    Mixed(u64),
    /// Lengths of the data's own pieces; longer pieces are cut.
    Own,
}

impl Cut {
    /// Returns a function that yields the length of the next buffer. The buffer is shorter if the
    /// data end earlier.
    fn lengths(self, buffer_size: u64) -> impl FnMut() -> u64 {
        let mut random = match self {
            Self::Mixed(seed) => Some(Random::new(seed)),
            Self::Fixed | Self::Own => None,
        };
        move || {
            let drawn = random.as_mut().map(|it| drawn_length(it, buffer_size));
            drawn.unwrap_or(buffer_size)
        }
    }
}

/// Reason why no buffers could be made.
pub(crate) enum NoData {
    /// The stream is shorter than one buffer.
    TooShort(String),
    /// The data cannot be read.
    Failed(Failure),
}

impl From<Failure> for NoData {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Buffers {
    /// Reads them from the files, of `buffer_size` or shorter by `cut`.
    pub(crate) fn read(data: &Data, buffer_size: u64, cut: Cut) -> Result<Self, NoData> {
        let stream = Stream::open(&data.files)?;
        if cut == Cut::Own {
            let ranges = stream.spread(buffer_size, data.sample_bytes)?;
            if ranges.is_empty() {
                return Err(without_bytes(data));
            }
            return Ok(stream.filled(&ranges)?);
        }
        if stream.len < buffer_size {
            return Err(too_short(data, stream.len, buffer_size));
        }
        let mut next_length = cut.lengths(buffer_size);
        let places = places(stream.len, buffer_size, data.sample_bytes).into_iter();
        let ranges: Vec<_> = (places.map(|place| place..place + next_length())).collect();
        Ok(stream.filled(&ranges)?)
    }

    /// Takes them from the files once for each of these lengths, the shorter ones first.
    pub(crate) fn read_lengths(data: &Data, all: &[usize]) -> Result<Self, NoData> {
        let stream = Stream::open(&data.files)?;
        let longest = all.last().map_or(1, |&length| length as u64);
        if stream.len < longest {
            return Err(too_short(data, stream.len, longest));
        }
        let (mut ranges, mut inputs) = (Vec::new(), Vec::new());
        for length in all.iter().map(|&length| length as u64) {
            let places = places(stream.len, length, data.sample_bytes);
            inputs.push(places.len());
            ranges.extend(places.into_iter().map(|place| place..place + length));
        }
        let buffers = stream.filled(&ranges)?;
        Ok(Self { inputs, ..buffers })
    }

    /// The length of its files together.
    pub(crate) fn stream_bytes(data: &Data) -> Result<u64, Failure> {
        Ok(Stream::open(&data.files)?.len)
    }

    /// The beginning of each file, of up to `sample_bytes`, cut into buffers of `buffer_size` and a
    /// rest, or shorter ones by `cut`. Empty files are left out.
    pub(crate) fn read_files(data: &Data, buffer_size: u64, cut: Cut) -> Result<Self, NoData> {
        let stream = Stream::open(&data.files)?;
        let (mut ranges, mut inputs) = (Vec::<Range<u64>>::new(), Vec::new());
        let mut next_length = cut.lengths(buffer_size);
        let mut total = 0;
        for number in 0..stream.files.len() {
            let file = stream.range(number);
            let end = file.end.min(file.start.saturating_add(data.sample_bytes));
            let pieces = match cut {
                Cut::Own => stream.pieces(number)?,
                Cut::Fixed | Cut::Mixed(_) => vec![file],
            };
            let first = ranges.len();
            for piece in pieces {
                let mut start = piece.start;
                while start < piece.end.min(end) {
                    let range = start..piece.end.min(end).min(start + next_length());
                    total += range.end - range.start;
                    start = range.end;
                    ranges.push(range);
                    if total > SAMPLE_BYTES_MAX || ranges.len() as u64 > BUFFERS_MAX {
                        return Err(NoData::TooShort(format!(
                            "the files of data set {} have more than {SAMPLE_BYTES_MAX} bytes, or \
                             more than {BUFFERS_MAX} buffers of {buffer_size}: take less of each \
                             (sample_bytes)",
                            data.name
                        )));
                    }
                }
            }
            inputs.extend((ranges.len() > first).then_some(ranges.len() - first));
        }
        if inputs.is_empty() {
            return Err(without_bytes(data));
        }
        let buffers = stream.filled(&ranges)?;
        Ok(Self { inputs, ..buffers })
    }

    /// Lays out buffers of these lengths and lets each be filled.
    fn filled(
        lengths: &[usize],
        mut fill: impl FnMut(usize, &mut [u8]) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let mut ranges = Vec::with_capacity(lengths.len());
        let mut end = 0_usize;
        for len in lengths {
            let start = end.next_multiple_of(ALIGN);
            end = start + len;
            ranges.push(start..end);
        }
        let mut region = Region::allocate(end, 4096, None)
            .map_err(|error| Failure::new(FailureKind::Data, error.to_string()))?;
        for (number, range) in ranges.iter().enumerate() {
            fill(number, &mut region[range.clone()])?;
        }
        Ok(Self { memory: region.share(), inputs: vec![ranges.len()], ranges })
    }

    /// Returns the number of buffers; at least one.
    pub(crate) fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the number of buffers of each input; there is one input if the buffers are spread
    /// over all files. If buffers have several lengths, returns the number of each length.
    pub(crate) fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// The buffer of that number.
    pub(crate) fn get(&self, number: usize) -> &[u8] {
        &self.memory[self.ranges[number].clone()]
    }

    /// All buffers, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count()).map(|number| self.get(number))
    }

    /// The longest one's length in bytes.
    pub(crate) fn longest(&self) -> u64 {
        self.ranges.iter().map(|range| range.len() as u64).max().unwrap_or(0)
    }

    /// Bytes of memory they take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Returns the buffers as sources for `device`. They are used in place if the device reads any
    /// memory. Otherwise they are registered with it, or, if it cannot reach them, copied into its
    /// own memory.
    pub(crate) fn sources(
        &self,
        device: &dyn Device,
        memory: MemoryKind,
    ) -> Result<Vec<Slice>, Failure> {
        let whole = match memory {
            MemoryKind::Any => self.memory.clone(),
            MemoryKind::Registered => {
                match device.register(ExternalBytes::new(Holder(self.memory.clone()))) {
                    Ok(slice) => slice,
                    Err(_) => {
                        let mut region = device
                            .alloc(self.memory.len(), 4096)
                            .map_err(|error| Failure::new(FailureKind::Job, error.to_string()))?;
                        region.copy_from_slice(&self.memory);
                        region.share()
                    }
                }
            }
            MemoryKind::Device => {
                let message = "this task cannot verify what is in memory that only the device \
                               can address";
                return Err(Failure::new(FailureKind::Job, message));
            }
        };
        Ok(self.ranges.iter().map(|range| whole.slice(range.clone())).collect())
    }

    /// Result of an operation for each of them, by the same library for all whose sources they will
    /// be: zlib at level 6 for DEFLATE in any framing, LZ4's own, Zstandard at level 3.
    pub(crate) fn made_by(&self, operation: Operation) -> Result<Self, Failure> {
        let (variant, level) = match operation {
            Operation::Compress(Format::Lz4Block | Format::Lz4) => ("lz4", None),
            Operation::Compress(Format::Zstd) => ("zstd", Some(3)),
            Operation::Compress(_) => ("zlib", Some(6)),
            _ => ("auto", None),
        };
        let config = Config { variant: variant.into(), level, ..Config::new(operation) };
        let failed = |error: overside_ops::Error| {
            Failure::new(
                FailureKind::Data,
                format!("the data cannot be prepared by {operation} ({variant}): {error}"),
            )
        };
        let prepared = prepare(&config).map_err(failed)?;
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(16));
        let share = self.count().div_ceil(threads);
        let numbers: Vec<usize> = (0..self.count()).collect();
        let parts = std::thread::scope(|scope| {
            let running: Vec<_> = (numbers.chunks(share))
                .map(|part| {
                    let prepared = &prepared;
                    scope.spawn(move || -> Result<Vec<Vec<u8>>, overside_ops::Error> {
                        let mut kernel = prepared.kernel()?;
                        let most = operation.result_bytes_max(&[], self.longest());
                        let mut out = vec![0; most as usize];
                        (part.iter())
                            .map(|&number| {
                                let done = kernel.run(&[self.get(number)], &mut out)?;
                                Ok(out[..done.written].to_vec())
                            })
                            .collect()
                    })
                })
                .collect();
            running.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        let mut all = Vec::with_capacity(self.count());
        for part in parts {
            let part = part
                .map_err(|_| Failure::new(FailureKind::Internal, format!("{variant} panicked")))?
                .map_err(failed)?;
            all.extend(part);
        }
        let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
        let compressed = Self::filled(&lengths, |number, buffer| {
            buffer.copy_from_slice(&all[number]);
            Ok(())
        });
        Ok(Self { inputs: self.inputs.clone(), ..compressed? })
    }
}

fn too_short(data: &Data, len: u64, buffer_size: u64) -> NoData {
    NoData::TooShort(format!(
        "data set {} has {len} bytes, less than one buffer of {buffer_size}",
        data.name
    ))
}

fn without_bytes(data: &Data) -> NoData {
    NoData::TooShort(format!("data set {} has no file with a byte in it", data.name))
}

/// A length from a sixteenth of `longest` to all of it, each octave as likely as another.
fn drawn_length(random: &mut Random, longest: u64) -> u64 {
    let length = longest as f64 * 16_f64.powf(random.uniform() - 1.0);
    (length.round() as u64).clamp(1, longest)
}

/// Keeps a slice alive for a device that has registered it.
struct Holder(Slice);

impl AsRef<[u8]> for Holder {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the offsets of buffers in the stream: evenly spaced, the first buffer at the beginning
/// and the last at the end.
fn places(stream_len: u64, buffer_size: u64, sample_bytes: u64) -> Vec<u64> {
    let count = (sample_bytes.min(stream_len) / buffer_size).clamp(1, BUFFERS_MAX);
    let room = u128::from(stream_len - buffer_size);
    let gaps = u128::from((count - 1).max(1));
    (0..count).map(|number| (room * u128::from(number) / gaps) as u64).collect()
}

/// Files as one stream.
struct Stream<'a> {
    /// Each file and where it begins.
    files: Vec<(&'a Path, u64)>,
    len: u64,
}

impl<'a> Stream<'a> {
    fn open(paths: &'a [PathBuf]) -> Result<Self, Failure> {
        let mut files = Vec::with_capacity(paths.len());
        let mut len = 0_u64;
        for path in paths {
            let metadata = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
            // A pipe or a device has no length and may never end.
            if !metadata.is_file() {
                return Err(unreadable(path, &"it is not a file"));
            }
            files.push((path.as_path(), len));
            len = len
                .checked_add(metadata.len())
                .ok_or_else(|| unreadable(path, &"the data set is too large"))?;
        }
        Ok(Self { files, len })
    }

    /// Returns the byte range of file `number` in the stream.
    fn range(&self, number: usize) -> Range<u64> {
        let next = self.files.get(number + 1);
        self.files[number].1..next.map_or(self.len, |&(_, start)| start)
    }

    /// Returns the byte ranges in the stream of a file's row groups or record batches. A file that
    /// is not a table is one range.
    fn pieces(&self, number: usize) -> Result<Vec<Range<u64>>, Failure> {
        let (path, file) = (self.files[number].0, self.range(number));
        let open = File::open(path).map_err(|error| unreadable(path, &error))?;
        let Some(pieces) = table_pieces(&open, path)? else {
            return Ok(vec![file]);
        };
        if pieces.last().is_some_and(|last| last.end > file.end - file.start) {
            return Err(unreadable(path, &"it has changed meanwhile"));
        }
        let place = |piece: Range<u64>| file.start + piece.start..file.start + piece.end;
        Ok(pieces.into_iter().map(place).collect())
    }

    /// Pieces of all files, longer ones cut at `buffer_size`: evenly spaced, up to `sample_bytes`
    /// together, and at least one.
    fn spread(&self, buffer_size: u64, sample_bytes: u64) -> Result<Vec<Range<u64>>, Failure> {
        let mut pieces = Vec::new();
        for number in 0..self.files.len() {
            pieces.extend(self.pieces(number)?);
        }
        let bytes = |range: &Range<u64>| range.end - range.start;
        let total: u64 = pieces.iter().map(bytes).sum();
        let count = (pieces.iter()).fold(0, |sum, piece| sum + bytes(piece).div_ceil(buffer_size));
        let every = total.div_ceil(sample_bytes).max(count.div_ceil(BUFFERS_MAX));
        let cut = pieces.into_iter().flat_map(|piece| {
            let starts = (piece.start..piece.end).step_by(buffer_size as usize);
            starts.map(move |start| start..piece.end.min(start + buffer_size))
        });
        let mut left = sample_bytes;
        let fits = |range: &Range<u64>| {
            let is_first = left == sample_bytes;
            let fits = is_first || bytes(range) <= left;
            left = left.saturating_sub(bytes(range));
            fits
        };
        let spread = cut.step_by(every.max(1) as usize).take_while(fits);
        Ok(spread.take(BUFFERS_MAX as usize).collect())
    }

    /// Returns buffers with these ranges of the stream.
    fn filled(&self, ranges: &[Range<u64>]) -> Result<Buffers, Failure> {
        let mut reader = Reader { stream: self, open: None };
        let lengths = ranges.iter().map(|range| (range.end - range.start) as usize);
        Buffers::filled(&lengths.collect::<Vec<_>>(), |number, buffer| {
            reader.read(ranges[number].start, buffer)
        })
    }
}

struct Reader<'a> {
    stream: &'a Stream<'a>,
    /// The file that was read last; buffers come in order.
    open: Option<(usize, File)>,
}

impl Reader<'_> {
    fn read(&mut self, mut place: u64, mut buffer: &mut [u8]) -> Result<(), Failure> {
        let files = &self.stream.files;
        let mut number = files.partition_point(|&(_, start)| start <= place) - 1;
        while !buffer.is_empty() {
            let path = files[number].0;
            let Range { start, end } = self.stream.range(number);
            let here = (buffer.len() as u64).min(end - place) as usize;
            let (now, rest) = buffer.split_at_mut(here);
            let file = match self.open.take() {
                Some((open, file)) if open == number => file,
                _ => File::open(path).map_err(|error| unreadable(path, &error))?,
            };
            file.read_exact_at(now, place - start).map_err(|error| unreadable(path, &error))?;
            self.open = Some((number, file));
            buffer = rest;
            place += here as u64;
            number += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buffers_are_spread_over_all_of_the_stream(
            size in 1_u64..5000, more in 0_u64..1_000_000, sample in 1_u64..2_000_000
        ) {
            let len = size + more;
            let places = places(len, size, sample);
            prop_assert!(!places.is_empty() && places.len() as u64 <= BUFFERS_MAX);
            prop_assert!(places.len() as u64 * size <= sample.max(size));
            prop_assert_eq!(places[0], 0);
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= size), "no overlap");
            if places.len() > 1 {
                prop_assert_eq!(*places.last().unwrap(), len - size);
            }
        }

        #[test]
        fn files_are_read_as_one_stream(
            files in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..6),
            size in 1_u64..40,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let paths: Vec<_> = (files.iter().enumerate())
                .map(|(number, bytes)| {
                    let path = dir.path().join(number.to_string());
                    std::fs::write(&path, bytes).unwrap();
                    path
                })
                .collect();
            let all = files.concat();
            let data = Data { name: "made".into(), files: paths, sample_bytes: 1000 };
            match Buffers::read(&data, size, Cut::Fixed) {
                Ok(buffers) => {
                    let places = places(all.len() as u64, size, 1000);
                    prop_assert_eq!(buffers.count(), places.len());
                    for (place, buffer) in places.iter().zip(buffers.iter()) {
                        let place = *place as usize;
                        prop_assert_eq!(&all[place..place + size as usize], buffer);
                    }
                }
                Err(NoData::TooShort(reason)) => {
                    prop_assert!((all.len() as u64) < size);
                    prop_assert!(reason.contains("less than one buffer"));
                }
                Err(NoData::Failed(failure)) => prop_assert!(false, "{}", failure),
            }
        }
    }

    fn failure(path: &Path) -> Failure {
        let data = Data { name: "bad".into(), files: vec![path.into()], sample_bytes: 1 };
        match Buffers::read(&data, 1, Cut::Fixed) {
            Err(NoData::Failed(failure)) => failure,
            _ => panic!("{} was read", path.display()),
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = failure(&dir.path().join("missing"));
        assert_eq!(missing.kind, FailureKind::Data);
        assert!(missing.message.contains("missing"), "{missing}");
        assert!(failure(dir.path()).message.contains("not a file"));
        assert!(failure(Path::new("/dev/zero")).message.contains("not a file"));
    }
}
