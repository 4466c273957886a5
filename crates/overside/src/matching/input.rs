//! Files, pipes and terminals, and the content of compressed files.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use overside_base::FileFormat;
use overside_compress::{Container, DecompressReader, Options};
use overside_match::Input;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Number of bytes at the beginning of a file that are inspected to decide whether it is text.
const HEAD_BYTES: usize = 32 << 10;
/// Minimum number of bytes of a compressed file for each thread.
const PART_BYTES: u64 = 128 << 10;

/// Open input.
pub(super) struct Opened {
    pub source: Source,
    /// Beginning of the content. For a stream it has only the bytes that were available.
    pub head: Vec<u8>,
}

pub(super) enum Source {
    /// File that can be read from any offset.
    File(File),
    /// Stream whose bytes arrive as they are written: a pipe or a terminal.
    Stream(Pipe),
    /// Decompressed content of a compressed file.
    Decompressed(Box<dyn Read + Send>),
}

impl Opened {
    /// Returns the format of the content, detected by its beginning.
    pub(super) fn format(&self) -> FileFormat {
        FileFormat::of(&self.head)
    }

    /// Returns `true` if the beginning of the content has a zero byte: text has none.
    pub(super) fn is_binary(&self) -> bool {
        self.head.contains(&0)
    }
}

/// Opens a file or stdin. If it is compressed by gzip, zstd or lz4, its content is decompressed by
/// `threads` threads. With `with_head`, it waits for enough bytes of a pipe to detect the format.
pub(super) fn open(path: &OsStr, threads: usize, with_head: bool) -> io::Result<Opened> {
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
        None => Ok(Opened { source: Source::File(file), head }),
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
    let mut pipe = Pipe { file, head: Vec::new(), taken: 0 };
    pipe.peek(|head| match with_head {
        true => head.len() >= FileFormat::HEAD_BYTES,
        false => !FileFormat::may_be_compressed(head),
    })?;
    match container(&pipe.head) {
        Some(container) => decompressed(pipe, container, threads),
        None => Ok(Opened { head: pipe.head.clone(), source: Source::Stream(pipe) }),
    }
}

/// Returns the compression format of a file that begins with `head`; `None` if it is not compressed
/// or its format is not supported.
fn container(head: &[u8]) -> Option<Container> {
    match FileFormat::of(head) {
        FileFormat::Compressed(program) => program.parse().ok(),
        _ => None,
    }
}

fn decompressed(
    source: impl Read + Send + 'static,
    container: Container,
    threads: usize,
) -> io::Result<Opened> {
    let options = Options { container: Some(container), threads, ..Options::default() };
    let mut reader = DecompressReader::new(source, options)?;
    let mut head = Vec::new();
    // Reading the rest will return the error again.
    let failure = reader.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head).err();
    let rest: Box<dyn Read + Send> = match failure {
        Some(error) => Box::new(Failing(Some(error))),
        None => Box::new(reader),
    };
    Ok(Opened {
        source: Source::Decompressed(Box::new(Cursor::new(head.clone()).chain(rest))),
        head,
    })
}

/// Reader that fails once.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Stream whose reader may have to wait.
pub(super) struct Pipe {
    file: File,
    /// Bytes that were read in advance to detect the format, and the number of them that were consumed.
    head: Vec<u8>,
    taken: usize,
}

impl Pipe {
    /// Reads until `is_enough` accepts the beginning, or until the end.
    fn peek(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let mut buffer = [0; FileFormat::HEAD_BYTES];
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
        // If it cannot be polled, it counts as not waiting.
        poll(&mut descriptors, Some(&now)).is_ok_and(|ready| ready == 0)
    }
}

/// Decompressed content of a compressed file. Reads of it do not stop at line ends to show records
/// early.
pub(super) struct Inside(pub Box<dyn Read + Send>);

impl Read for Inside {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Input for Inside {}
