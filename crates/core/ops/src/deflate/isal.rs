//! Intel ISA-L (igzip), the system's library: whole buffers at once, optimized for SIMD units.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

use isal::isal_sys::igzip_lib as igzip;

use super::{LAST_BLOCK, MAX_LEN, WHOLE_AND_PARTS, ends_early, ends_with_source, no_room};
use crate::codec::entry::Codec;
use crate::variant::{Library, at_most, single, written};
use crate::{Error, Format, Kernel, Output, Step, StreamDecoder as _};

const LIBRARY: &str = "ISA-L";

pub(super) const CODEC: Codec = Codec {
    library: Library {
        name: "isal",
        label: "ISA-L",
        title: LIBRARY,
        version: || env!("OVERSIDE_VERSION_ISAL").into(),
        simd: true,
    },
    formats: WHOLE_AND_PARTS,
    levels: Some((0..=igzip::ISAL_DEF_MAX_LEVEL, 1)),
    compress_rank: 0,
    decompress_rank: 1,
    compressor_bytes: |_, _| 1 << 20,
    decompressor_bytes: 256 << 10,
    compressor: |format, level| Ok(Box::new(Compressor::new(format, level)?)),
    decompressor: |format| {
        Ok(match format {
            Format::DeflatePart => Box::new(PartDecompressor::new()),
            _ => Box::new(Decompressor::new(format)),
        })
    },
};

struct Compressor {
    stream: Box<igzip::isal_zstream>,
    /// Tables of the higher levels; empty for level 0.
    tables: Vec<u8>,
    format: Format,
    level: u32,
}

// SAFETY: each call of `run` sets the pointers inside the stream to memory that lives during that
// call; they are not followed between calls.
unsafe impl Send for Compressor {}

impl Compressor {
    fn new(format: Format, level: u32) -> Result<Self, Error> {
        let tables_len = match level {
            0 => igzip::ISAL_DEF_LVL0_DEFAULT,
            1 => igzip::ISAL_DEF_LVL1_DEFAULT,
            2 => igzip::ISAL_DEF_LVL2_DEFAULT,
            _ => igzip::ISAL_DEF_LVL3_DEFAULT,
        };
        let tables = vec![0; tables_len as usize];
        Ok(Self { stream: zeroed(), tables, format, level })
    }
}

impl Kernel for Compressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        at_most(source, MAX_LEN)?;
        let capacity = destination.len();
        let stream = &mut *self.stream;
        // SAFETY: the stream is valid; the function sets its fields.
        unsafe { igzip::isal_deflate_stateless_init(stream) };
        stream.level = self.level;
        stream.level_buf = self.tables.as_mut_ptr();
        stream.level_buf_size = self.tables.len() as u32;
        stream.gzip_flag = match self.format {
            Format::Gzip => igzip::IGZIP_GZIP,
            Format::Zlib => igzip::IGZIP_ZLIB,
            _ => igzip::IGZIP_DEFLATE,
        } as u16;
        let part = self.format == Format::DeflatePart;
        stream.end_of_stream = u16::from(!part);
        stream.flush = if part { igzip::FULL_FLUSH } else { igzip::NO_FLUSH } as u16;
        stream.next_in = source.as_ptr().cast_mut();
        stream.avail_in = source.len() as u32;
        stream.next_out = destination.as_mut_ptr();
        stream.avail_out = capacity.min(MAX_LEN) as u32;
        // SAFETY: the stream's pointers and lengths are those of two slices, which cannot overlap,
        // and of the tables, which have the length for the level; the source is only read.
        match unsafe { igzip::isal_deflate_stateless(stream) } {
            0 => Ok(written(stream.total_out as usize)),
            igzip::STATELESS_OVERFLOW => Err(no_room(capacity)),
            code => Err(Error::Library { library: LIBRARY, reason: format!("error {code}") }),
        }
    }
}

struct Decompressor {
    state: Box<igzip::inflate_state>,
    format: Format,
}

// SAFETY: as for `Compressor`.
unsafe impl Send for Decompressor {}

impl Decompressor {
    fn new(format: Format) -> Self {
        Self { state: zeroed(), format }
    }
}

impl Decompressor {
    /// Prepares the state for a stream.
    fn begin(&mut self, source: &[u8], destination: &mut [u8]) -> &mut igzip::inflate_state {
        let state = &mut *self.state;
        // SAFETY: the state is valid; the function sets its fields.
        unsafe { igzip::isal_inflate_init(state) };
        state.crc_flag = match self.format {
            Format::Gzip => igzip::ISAL_GZIP,
            Format::Zlib => igzip::ISAL_ZLIB,
            _ => igzip::ISAL_DEFLATE,
        };
        state.next_in = source.as_ptr().cast_mut();
        state.avail_in = source.len() as u32;
        state.next_out = destination.as_mut_ptr();
        state.avail_out = destination.len().min(MAX_LEN) as u32;
        state
    }

    /// Returns `true` if the stream is valid and only its output is too long, although the library refused it
    /// because of a distance. If the last literals before a match do not fit, the one-call function reports
    /// that the match reaches too far back. The streaming function is slower and reports the right reason.
    fn is_too_long(&mut self, source: &[u8], destination: &mut [u8]) -> bool {
        let state = self.begin(source, destination);
        // SAFETY: as in `run`.
        let code = unsafe { igzip::isal_inflate(state) };
        code == OK && state.avail_out == 0 && state.block_state != FINISHED
    }
}

impl Kernel for Decompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        at_most(source, MAX_LEN)?;
        let capacity = destination.len();
        let state = self.begin(source, destination);
        // SAFETY: the state's pointers and lengths are those of two slices, which cannot overlap;
        // the source is only read.
        let code = unsafe { igzip::isal_inflate_stateless(state) };
        match code {
            OK => {
                ends_with_source(state.avail_in as usize)?;
                Ok(written(state.total_out as usize))
            }
            OUT_OVERFLOW => Err(no_room(capacity)),
            igzip::ISAL_INVALID_LOOKBACK if self.is_too_long(source, destination) => {
                Err(no_room(capacity))
            }
            code => Err(corrupt(code)),
        }
    }
}

/// Decompresses in pieces, as much of the source as the output has room for.
pub(crate) struct StreamDecoder(Box<igzip::inflate_state>);

// SAFETY: as for `Compressor`.
unsafe impl Send for StreamDecoder {}

impl StreamDecoder {
    pub(crate) fn new() -> Self {
        let mut state = zeroed();
        // SAFETY: the state is valid; the function sets its fields.
        unsafe { igzip::isal_inflate_init(&raw mut *state) };
        Self(state)
    }
}

impl crate::StreamDecoder for StreamDecoder {
    fn reset(&mut self) -> Result<(), Error> {
        // SAFETY: the state was initialised.
        unsafe { igzip::isal_inflate_reset(&raw mut *self.0) };
        Ok(())
    }

    fn step(&mut self, source: &[u8], room: &mut [u8]) -> Result<Step, Error> {
        let (source_len, room_len) = (source.len().min(MAX_LEN), room.len().min(MAX_LEN));
        let state = &mut *self.0;
        state.next_in = source.as_ptr().cast_mut();
        state.avail_in = source_len as u32;
        state.next_out = room.as_mut_ptr();
        state.avail_out = room_len as u32;
        // SAFETY: the state was initialised; its pointers and lengths are those of two slices, which cannot
        // overlap; the source is only read. The library copies into the state what it needs after the call.
        let code = unsafe { igzip::isal_inflate(state) };
        if code != OK {
            return Err(corrupt(code));
        }
        let ended = state.block_state == FINISHED;
        // The library reads ahead and keeps the bytes it has read in a register.
        let unread = match ended {
            true => usize::try_from(state.read_in_length / 8).unwrap_or(0),
            false => 0,
        };
        Ok(Step {
            taken: source_len - state.avail_in as usize,
            made: room_len - state.avail_out as usize,
            ended,
            unread,
        })
    }
}

struct PartDecompressor(StreamDecoder);

impl PartDecompressor {
    fn new() -> Self {
        Self(StreamDecoder::new())
    }

    /// Decompresses as much of `source` as there is room for. Returns the number of bytes written,
    /// and the step to report if the output is complete.
    fn drain(&mut self, source: &[u8], room: &mut [u8]) -> Result<(usize, Option<Step>), Error> {
        let (mut taken, mut made) = (0, 0);
        loop {
            let step = self.0.step(&source[taken..], &mut room[made..])?;
            taken += step.taken;
            made += step.made;
            if step.ended {
                let unread = step.unread + source.len() - taken;
                return Ok((made, Some(Step { unread, ..step })));
            }
            if (step.taken, step.made) == (0, 0) {
                return Ok((made, None));
            }
        }
    }
}

impl Kernel for PartDecompressor {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let source = single(source)?;
        at_most(source, MAX_LEN)?;
        let capacity = destination.len();
        self.0.reset()?;
        let (made, ended) = self.drain(source, destination)?;
        if let Some(end) = ended {
            ends_with_source(end.unread)?;
            return Err(Error::Corrupt("one of its blocks is the last one".into()));
        }
        if self.drain(&[], &mut [0; 1])?.0 > 0 {
            return Err(no_room(capacity));
        }
        match self.drain(&LAST_BLOCK, &mut [0; 1])? {
            (0, Some(end)) if end.unread == 0 => Ok(written(made)),
            _ => Err(ends_early()),
        }
    }
}

/// Converts ISA-L's error code for a stream to an error.
fn corrupt(code: i32) -> Error {
    Error::Corrupt(match code {
        END_INPUT => return ends_early(),
        NEED_DICT => "it needs a preset dictionary".into(),
        igzip::ISAL_INVALID_BLOCK => "invalid block".into(),
        igzip::ISAL_INVALID_SYMBOL => "invalid symbol".into(),
        igzip::ISAL_INVALID_LOOKBACK => "invalid distance".into(),
        igzip::ISAL_INVALID_WRAPPER => "invalid header".into(),
        igzip::ISAL_UNSUPPORTED_METHOD => "unknown compression method".into(),
        igzip::ISAL_INCORRECT_CHECKSUM => "wrong checksum".into(),
        code => format!("error {code}"),
    })
}

const OK: i32 = igzip::ISAL_DECOMP_OK as i32;
const END_INPUT: i32 = igzip::ISAL_END_INPUT as i32;
const OUT_OVERFLOW: i32 = igzip::ISAL_OUT_OVERFLOW as i32;
const NEED_DICT: i32 = igzip::ISAL_NEED_DICT as i32;

const FINISHED: u32 = igzip::isal_block_state_ISAL_BLOCK_FINISH;

/// C structures for which all zeros are a valid value.
trait Zeroable {}
impl Zeroable for igzip::isal_zstream {}
impl Zeroable for igzip::inflate_state {}

/// Allocates a zeroed structure on the heap: ISA-L's are too large for a small stack.
fn zeroed<T: Zeroable>() -> Box<T> {
    let layout = Layout::new::<T>();
    // SAFETY: the layout is not empty (`Zeroable` is implemented for two long structures only);
    // the memory has the layout of T and comes from the allocator that `Box` uses; T consists of
    // numbers and raw pointers, for which all zeros are valid.
    unsafe {
        let memory = alloc_zeroed(layout).cast::<T>();
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(memory)
    }
}
