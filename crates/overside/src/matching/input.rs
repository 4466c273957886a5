//! Files, pipes and terminals, and what is inside compressed ones.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use overside_compress::{Container, DecompressReader, Options};
use overside_match::{Format, Input};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How much of a file is looked at to tell whether it is text, in bytes.
const HEAD_BYTES: usize = 32 << 10;
/// Bytes of a compressed file that are worth a thread.
const PART_BYTES: u64 = 128 << 10;

/// Something that was opened.
pub struct Opened {
    pub source: Source,
    /// How its content begins; of what comes as it is written, no more than was there.
    pub head: Vec<u8>,
}

pub enum Source {
    /// A file that can be read from any place.
    File(File),
    /// What comes as it is written: a pipe, a terminal.
    Stream(Pipe),
    /// What is inside a compressed file.
    Decompressed(Box<dyn Read + Send>),
}

impl Opened {
    /// What kind of file its content is.
    pub fn format(&self) -> Format {
        Format::of(&self.head)
    }

    /// Whether it is known not to be text.
    pub fn is_binary(&self) -> bool {
        self.head.contains(&0)
    }
}

/// Opens a file, or stdin. If it is compressed by gzip, zstd or lz4, then what is inside. `threads`
/// decompress. `with_head`: a pipe is waited for until it is known how it begins.
pub fn open(path: &OsStr, threads: usize, with_head: bool) -> io::Result<Opened> {
    let file = match path == "-" {
        true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        false => File::open(path)?,
    };
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(
            ErrorKind::IsADirectory,
            "it is a directory; -r searches the files in it",
        ));
    }
    if !metadata.is_file() {
        return stream(file, threads, with_head);
    }
    let head = head_of(&file)?;
    match container(&head) {
        Some(container) => {
            let parts = usize::try_from(metadata.len().div_ceil(PART_BYTES)).unwrap_or(usize::MAX);
            decompressed(file, container, threads.min(parts.max(1)))
        }
        None => Ok(Opened {
            source: Source::File(file),
            head,
        }),
    }
}

fn head_of(file: &File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; HEAD_BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(filled);
    Ok(head)
}

fn stream(file: File, threads: usize, with_head: bool) -> io::Result<Opened> {
    let mut pipe = Pipe {
        file,
        head: Vec::new(),
        taken: 0,
    };
    pipe.peek(|head| match with_head {
        true => head.len() >= Format::HEAD_BYTES,
        false => !Format::may_be_compressed(head),
    })?;
    match container(&pipe.head) {
        Some(container) => decompressed(pipe, container, threads),
        None => Ok(Opened {
            head: pipe.head.clone(),
            source: Source::Stream(pipe),
        }),
    }
}

/// What is inside, if a file begins like that and it can be read here.
fn container(head: &[u8]) -> Option<Container> {
    match Format::of(head) {
        Format::Compressed(program) => program.parse().ok(),
        _ => None,
    }
}

fn decompressed(
    source: impl Read + Send + 'static,
    container: Container,
    threads: usize,
) -> io::Result<Opened> {
    let options = Options {
        container: Some(container),
        threads,
        ..Options::default()
    };
    let mut reader = DecompressReader::new(source, options)?;
    let mut head = Vec::new();
    // A failure comes again when the rest is read.
    let failure = reader
        .by_ref()
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)
        .err();
    let rest: Box<dyn Read + Send> = match failure {
        Some(error) => Box::new(Failing(Some(error))),
        None => Box::new(reader),
    };
    Ok(Opened {
        source: Source::Decompressed(Box::new(Cursor::new(head.clone()).chain(rest))),
        head,
    })
}

/// Fails once.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Text that may have to be waited for.
pub struct Pipe {
    file: File,
    /// What was read to see what it is, and how much of it was taken.
    head: Vec<u8>,
    taken: usize,
}

impl Pipe {
    /// Reads until its beginning is known well enough, or all of it.
    fn peek(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let mut buffer = [0; Format::HEAD_BYTES];
        while !is_enough(&self.head) {
            match self.file.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => self.head.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut head = &self.head[self.taken..];
        if head.is_empty() {
            return self.file.read(buffer);
        }
        let read = head.read(buffer)?;
        self.taken += read;
        Ok(read)
    }
}

impl Input for Pipe {
    fn waits(&self) -> bool {
        if self.taken < self.head.len() {
            return false;
        }
        let now = Timespec::default();
        let mut descriptors = [PollFd::new(&self.file, PollFlags::IN)];
        // What cannot be asked does not wait, as far as anybody knows.
        poll(&mut descriptors, Some(&now)).is_ok_and(|ready| ready == 0)
    }
}

/// What is inside a compressed file; it is not waited for line by line.
pub struct Inside(pub Box<dyn Read + Send>);

impl Read for Inside {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Input for Inside {}
