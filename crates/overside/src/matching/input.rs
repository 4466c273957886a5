//! Files, pipes and terminals.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use overside_match::{Format, Input};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Something that was opened.
pub enum Opened {
    /// A file that can be read from any place, and how it begins.
    File { file: File, head: Vec<u8> },
    /// What comes as it is written: a pipe, a terminal.
    Stream(File),
}

/// Opens a file, or stdin.
pub fn open(path: &OsStr) -> io::Result<Opened> {
    let file = match path == "-" {
        true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
        false => File::open(path)?,
    };
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a directory; directories are not searched",
        ));
    }
    if !metadata.is_file() {
        return Ok(Opened::Stream(file));
    }
    let mut head = vec![0; Format::HEAD_BYTES];
    let mut filled = 0;
    while filled < head.len() {
        match file.read_at(&mut head[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(filled);
    Ok(Opened::File { file, head })
}

/// How a stream begins, and all of it.
pub fn peek(mut file: File) -> io::Result<(Vec<u8>, impl Read)> {
    let mut head = Vec::new();
    file.by_ref()
        .take(Format::HEAD_BYTES as u64)
        .read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(file)))
}

/// Text that may have to be waited for.
pub struct Pipe(pub File);

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Input for Pipe {
    fn waits(&self) -> bool {
        let now = Timespec::default();
        let mut descriptors = [PollFd::new(&self.0, PollFlags::IN)];
        // What cannot be asked does not wait, as far as anybody knows.
        poll(&mut descriptors, Some(&now)).is_ok_and(|ready| ready == 0)
    }
}
