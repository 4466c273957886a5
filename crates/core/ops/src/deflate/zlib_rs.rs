//! zlib-rs: zlib rewritten in Rust, with SIMD instructions where the processor has them.

use ::zlib_rs::{DeflateConfig, DeflateFlush, InflateError, InflateFlush, Status};

use super::one_call::{Compressor, Decompressor, Flush, Progress, Stream};
use super::{WHOLE_AND_PARTS, window_bits};
use crate::codec::entry::Codec;
use crate::variant::Library;
use crate::{Error, Format};

const NAME: &str = "zlib-rs";

pub(super) const CODEC: Codec = Codec {
    library: Library {
        name: NAME,
        label: NAME,
        title: NAME,
        version: || "0.6.8".into(),
        simd: true,
    },
    formats: WHOLE_AND_PARTS,
    levels: Some((0..=9, 6)),
    compress_rank: 3,
    decompress_rank: 3,
    compressor_bytes: |_, _| 1 << 20,
    decompressor_bytes: 128 << 10,
    compressor: |format, level| {
        let config = DeflateConfig {
            window_bits: window_bits(format),
            ..DeflateConfig::new(i32::try_from(level).unwrap_or(i32::MAX))
        };
        let stream = ::zlib_rs::Deflate::new_with_config(config);
        Ok(Box::new(Compressor::new(Deflate(stream), format)))
    },
    decompressor: |format| Ok(Box::new(Decompressor::new(Inflate::new(format), format))),
};

struct Deflate(::zlib_rs::Deflate);

impl Stream for Deflate {
    fn reset(&mut self) -> Result<(), Error> {
        self.0.reset();
        Ok(())
    }

    fn step(&mut self, source: &[u8], room: &mut [u8], flush: Flush) -> Result<Progress, Error> {
        let flush = match flush {
            Flush::Sync => DeflateFlush::SyncFlush,
            Flush::Full => DeflateFlush::FullFlush,
            Flush::Finish => DeflateFlush::Finish,
        };
        let before = (self.0.total_in(), self.0.total_out());
        let status = (self.0.compress(source, room, flush))
            .map_err(|error| Error::Library { library: NAME, reason: error.as_str().into() })?;
        Ok(progress(status, before, (self.0.total_in(), self.0.total_out())))
    }
}

struct Inflate {
    stream: ::zlib_rs::Inflate,
    format: Format,
}

impl Inflate {
    fn new(format: Format) -> Self {
        let bits = window_bits(format);
        let stream = ::zlib_rs::Inflate::new(bits > 0, bits.unsigned_abs() as u8);
        Self { stream, format }
    }
}

impl Stream for Inflate {
    fn reset(&mut self) -> Result<(), Error> {
        match self.format {
            // The library's reset does not support gzip.
            Format::Gzip => *self = Self::new(self.format),
            format => self.stream.reset(format == Format::Zlib),
        }
        Ok(())
    }

    fn step(&mut self, source: &[u8], room: &mut [u8], flush: Flush) -> Result<Progress, Error> {
        let flush = match flush {
            Flush::Sync | Flush::Full => InflateFlush::SyncFlush,
            Flush::Finish => InflateFlush::Finish,
        };
        let stream = &mut self.stream;
        let before = (stream.total_in(), stream.total_out());
        match stream.decompress(source, room, flush) {
            Ok(status) => {
                let after = (stream.total_in(), stream.total_out());
                Ok(progress(status, before, after))
            }
            Err(InflateError::NeedDict { .. }) => {
                Err(Error::Corrupt("it needs a preset dictionary".into()))
            }
            Err(InflateError::DataError) => {
                let reason = stream.error_message().unwrap_or("invalid data");
                Err(Error::Corrupt(reason.into()))
            }
            Err(error) => Err(Error::Library { library: NAME, reason: error.as_str().into() }),
        }
    }
}

/// Computes the result of a call from the library's counts before and after it.
fn progress(status: Status, before: (u64, u64), after: (u64, u64)) -> Progress {
    // The counts of one call are at most the lengths of two slices.
    Progress {
        taken: (after.0 - before.0) as usize,
        made: (after.1 - before.1) as usize,
        ended: status == Status::StreamEnd,
    }
}
