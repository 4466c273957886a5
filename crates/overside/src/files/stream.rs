//! Passes one input through the library.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read, Write};
use std::os::fd::AsFd;

use overside_compress::{Compressor, Container, Decompressor, Error, Options, Summary};

use super::Verb;
use super::arguments::Request;
use super::input::Input;
use super::output::Output;
use super::progress::Progress;

/// Number of bytes at the beginning of an input that identify its compression format.
pub(super) const MAGIC_BYTES: usize = 4;

/// Compresses or decompresses all of `input` into `output`. Returns `None` if the input was not
/// compressed and `-cf` copied it unchanged.
pub(super) fn run(
    request: &Request,
    options: &Options,
    input: &mut Input,
    output: &mut Output,
) -> Result<Option<Summary>, Error> {
    // Progress and output on the same terminal would be unreadable.
    let hidden = request.arguments.messages.quiet
        || matches!(output, Output::Open(file) if file.is_terminal());
    let mut progress = Progress::new(&input.name, input.len(), !hidden);
    let file = &mut input.file;
    match request.verb {
        Verb::Compress => {
            // A regular file never blocks a reader.
            let is_slow = input.metadata.is_none();
            compress(options, file, is_slow, output, &mut progress).map(Some)
        }
        Verb::Decompress if request.force() && request.arguments.output.stdout => {
            let begin = beginning(file).map_err(Error::Read)?;
            let mut whole = begin.chain(file);
            if is_compressed(&begin) {
                return decompress(options, &mut whole, output, &mut progress).map(Some);
            }
            copy(&mut whole, output)?;
            Ok(None)
        }
        Verb::Decompress => decompress(options, file, output, &mut progress).map(Some),
    }
}

fn compress(
    options: &Options,
    file: &mut File,
    is_slow: bool,
    output: &mut Output,
    progress: &mut Progress,
) -> Result<Summary, Error> {
    let mut compressor = Compressor::new(output, options)?;
    loop {
        if is_slow {
            compressor.wait_for(file.as_fd())?;
        }
        if compressor.fill(file)? == 0 {
            break;
        }
        progress.at(compressor.bytes_in(), compressor.bytes_in());
    }
    compressor.finish().map(|(_, summary)| summary)
}

fn decompress(
    options: &Options,
    reader: &mut impl Read,
    output: &mut Output,
    progress: &mut Progress,
) -> Result<Summary, Error> {
    let mut decompressor = Decompressor::new(output, options)?;
    while decompressor.fill(reader)? > 0 {
        progress.at(decompressor.bytes_in(), decompressor.bytes_out());
    }
    decompressor.finish().map(|(_, summary)| summary)
}

/// Reads the first bytes; fewer only if the input is shorter.
fn beginning(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(MAGIC_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_compressed(begin: &[u8]) -> bool {
    // An LZ4 or Zstandard file can begin with a skippable frame (RFC 8878, section 3.1.2).
    let skippable = matches!(begin, [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
    skippable || Container::detect(begin).is_some()
}

/// Copies everything. Errors of reading and of writing are distinguished.
fn copy(reader: &mut impl Read, output: &mut Output) -> Result<(), Error> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let len = match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::Read(error)),
        };
        (output.write_all(&buffer[..len])).map_err(Error::Write)?;
    }
}
