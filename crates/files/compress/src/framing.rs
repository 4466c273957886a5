//! Framing of a compressed stream: the headers, checksums and trailers around its chunks.

use std::io::Write;

use overside_device::threads::thread_cpu_ns;
use overside_ops::checksum::{adler32, adler32_combine, crc32};
use overside_ops::{DeflateJoiner, Format, Operation, lz4_frame};
use xxhash_rust::xxh32::Xxh32;

use crate::output::Output;
use crate::{Container, Error, GzipOriginal, Joining, Options, gzip, lz4, stored, zlib, zstd};

/// Length and checksum of a chunk's content, as far as its frame needs them.
pub(crate) struct Content {
    len: usize,
    /// CRC-32 for gzip, Adler-32 for zlib; nothing for others.
    check: u32,
}

impl Content {
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Writer of the headers, checksums and trailers of one stream.
pub(crate) struct Framing {
    kind: Kind,
    level: Option<u32>,
    /// Checksum so far of the chunk that is being filled.
    check: u32,
    /// The stream has been begun.
    begun: bool,
    /// Makes chunks that are whole streams parts of this one.
    joiner: Option<Joiner>,
}

struct Joiner {
    kernel: DeflateJoiner,
    cost: Joining,
}

impl Joiner {
    fn new() -> Result<Self, Error> {
        Ok(Self { kernel: DeflateJoiner::new()?, cost: Joining::default() })
    }

    fn part(&mut self, stream: &[u8], len: usize) -> Result<&[u8], Error> {
        let begin = thread_cpu_ns();
        let part = self.kernel.part(stream, len)?;
        self.cost.chunks += 1;
        self.cost.cpu_ns += thread_cpu_ns().saturating_sub(begin);
        Ok(part)
    }
}

enum Kind {
    /// Name and time of the original, for the first member; `None` after that member.
    Gzip(Option<GzipOriginal>),
    /// The checksum of everything.
    Zlib(u32),
    Lz4(lz4_frame::Header, Xxh32),
    Zstd,
}

impl Framing {
    /// Makes the framing for chunks of at most `chunk_bytes`, each of which is compressed by
    /// `operation`.
    pub(crate) fn new(
        container: Container,
        options: &Options,
        (operation, chunk_bytes): (Operation, usize),
    ) -> Result<Self, Error> {
        let kind = match container {
            Container::Gzip => Kind::Gzip(Some(original(options)?)),
            Container::Zlib => Kind::Zlib(1),
            Container::Lz4 => {
                let header = lz4_frame::Header::for_blocks(chunk_bytes, options.content_bytes);
                Kind::Lz4(header, Xxh32::new(0))
            }
            Container::Zstd => Kind::Zstd,
        };
        let whole = Operation::Compress(Format::Deflate);
        let joins = container == Container::Zlib && operation == whole;
        Ok(Self {
            check: begin(&kind),
            kind,
            level: options.level,
            begun: false,
            joiner: joins.then(Joiner::new).transpose()?,
        })
    }

    /// Returns the cost of joining so far; `None` if chunks are not joined.
    pub(crate) fn joining(&self) -> Option<Joining> {
        self.joiner.as_ref().map(|joiner| joiner.cost)
    }

    /// Looks at bytes that came for the current chunk, while they are warm in the cache.
    pub(crate) fn took(&mut self, bytes: &[u8]) {
        match &mut self.kind {
            Kind::Gzip(_) => self.check = crc32(self.check, bytes),
            Kind::Zlib(_) => self.check = adler32(self.check, bytes),
            Kind::Lz4(_, content) => content.update(bytes),
            Kind::Zstd => {}
        }
    }

    /// The current chunk is complete.
    pub(crate) fn sealed(&mut self, len: usize) -> Content {
        let check = std::mem::replace(&mut self.check, begin(&self.kind));
        Content { len, check }
    }

    /// Writes a chunk: compressed, or as it is where that is not longer. Returns the number of
    /// members that it ends.
    pub(crate) fn chunk<W: Write>(
        &mut self,
        output: &mut Output<W>,
        content: &Content,
        source: &[u8],
        compressed: Option<&[u8]>,
    ) -> Result<u64, Error> {
        self.begin(output)?;
        let Content { len, check } = *content;
        match &mut self.kind {
            Kind::Gzip(original) => {
                let bytes = compressed.map_or_else(|| gzip::stored_bytes(len), <[u8]>::len);
                let frame = gzip::frame(original.take().as_ref(), self.level, bytes, len, check);
                match compressed {
                    Some(bytes) => output.write(&[&frame.header, bytes, &frame.trailer])?,
                    None => write_stored(output, &frame.header, source, true, &frame.trailer)?,
                }
                return Ok(1);
            }
            Kind::Zlib(all) => {
                *all = adler32_combine(*all, check, len as u64);
                match (compressed, &mut self.joiner) {
                    (Some(stream), Some(joiner)) => output.write(&[joiner.part(stream, len)?])?,
                    (Some(part), None) => output.write(&[part])?,
                    (None, _) => write_stored(output, &[], source, false, &[])?,
                }
            }
            Kind::Lz4(..) => {
                let (bytes, flag) = match compressed {
                    Some(bytes) => (bytes, 0),
                    None => (source, lz4::STORED),
                };
                // A block has at most 4 MiB.
                output.write(&[&(bytes.len() as u32 | flag).to_le_bytes(), bytes])?;
            }
            Kind::Zstd => {
                match compressed {
                    Some(bytes) => output.write(&[bytes])?,
                    None => output.write(&zstd::Stored::new(source).parts(source))?,
                }
                return Ok(1);
            }
        }
        Ok(0)
    }

    /// Ends the stream. Returns the number of members that this completes.
    pub(crate) fn end<W: Write>(&mut self, output: &mut Output<W>) -> Result<u64, Error> {
        let begun = self.begun;
        self.begin(output)?;
        match &mut self.kind {
            // Without a chunk there is no member yet, and no file without one.
            Kind::Gzip(_) | Kind::Zstd if begun => return Ok(0),
            Kind::Gzip(_) | Kind::Zstd => {
                let nothing = self.sealed(0);
                return self.chunk(output, &nothing, &[], None);
            }
            Kind::Zlib(all) => output.write(&[&zlib::LAST_BLOCK, &all.to_be_bytes()])?,
            Kind::Lz4(_, content) => {
                output.write(&[&[0; 4], &content.digest().to_le_bytes()])?;
            }
        }
        Ok(1)
    }

    /// Writes the header before all chunks.
    fn begin<W: Write>(&mut self, output: &mut Output<W>) -> Result<(), Error> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        match &self.kind {
            Kind::Zlib(_) => output.write(&[&zlib::header(self.level)]),
            Kind::Lz4(header, _) => output.write(&[&header.write()]),
            Kind::Gzip(_) | Kind::Zstd => Ok(()),
        }
    }
}

/// The checksum of nothing.
fn begin(kind: &Kind) -> u32 {
    match kind {
        Kind::Zlib(_) => 1,
        _ => 0,
    }
}

fn original(options: &Options) -> Result<GzipOriginal, Error> {
    let name = options.name.clone();
    if name.as_ref().is_some_and(|name| name.contains(&0) || name.len() > gzip::MAX_NAME_BYTES) {
        return Err(Error::Option(format!(
            "a name in a gzip header has no zero byte and at most {} bytes",
            gzip::MAX_NAME_BYTES
        )));
    }
    Ok(GzipOriginal { name, mtime: options.mtime })
}

/// Writes bytes in blocks that store them, with header and trailer.
fn write_stored<W: Write>(
    output: &mut Output<W>,
    before: &[u8],
    content: &[u8],
    last: bool,
    behind: &[u8],
) -> Result<(), Error> {
    let blocks: Vec<_> = stored::deflate(content, last).collect();
    let mut parts: Vec<&[u8]> = vec![before];
    for (header, bytes) in &blocks {
        parts.push(header);
        parts.push(bytes);
    }
    parts.push(behind);
    output.write(&parts)
}
