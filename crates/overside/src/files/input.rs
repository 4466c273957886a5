//! Input files and stdin, and the checks before they are read.

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::Advice;

use super::arguments::Request;
use super::{FileError, Verb, names};
use overside_command::messages::shown;

/// Open input.
pub(super) struct Input {
    /// Name of the input in messages.
    pub name: String,
    /// Path of the input; `None` for stdin.
    pub path: Option<PathBuf>,
    pub file: File,
    /// Metadata at the time of opening; `None` if the input is not a regular file.
    pub metadata: Option<Metadata>,
}

impl Input {
    /// Opens a named file if it may be processed.
    pub(super) fn open(named: &OsStr, request: &Request) -> Result<Self, FileError> {
        if named == "-" {
            return Self::stdin(request);
        }
        let mut path = PathBuf::from(named);
        let mut opened = open(&path, request);
        if request.verb == Verb::Decompress
            && (opened.as_ref()).is_err_and(|error| error.kind() == ErrorKind::NotFound)
            && let Some((candidate, file)) = (names::candidates(&path, request.suffix())
                .into_iter())
            .find_map(|candidate| open(&candidate, request).ok().map(|file| (candidate, file)))
        {
            (path, opened) = (candidate, Ok(file));
        }
        let file = opened.map_err(|error| refused(&path, &error))?;
        let metadata = file.metadata().map_err(|error| refused(&path, &error))?;
        let name = shown(&path);
        may_be_worked_on(&name, &metadata, request)?;
        Ok(Self::new(name, Some(path), file, metadata))
    }

    fn stdin(request: &Request) -> Result<Self, FileError> {
        let stdin = io::stdin();
        if request.verb == Verb::Decompress && !request.force() && stdin.is_terminal() {
            return Err(FileError::Error(
                "compressed data is not read from a terminal; -f does, --help says more".into(),
            ));
        }
        let failed = |error: io::Error| FileError::Error(format!("stdin: {error}"));
        let file = File::from(stdin.as_fd().try_clone_to_owned().map_err(failed)?);
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(FileError::Warning("stdin is a directory; skipped".into()));
        }
        Ok(Self::new("stdin".into(), None, file, metadata))
    }

    fn new(name: String, path: Option<PathBuf>, file: File, metadata: Metadata) -> Self {
        let metadata = metadata.is_file().then_some(metadata);
        if metadata.is_some() {
            // The call is a hint: its failure does not matter.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::Sequential);
        }
        Self { name, path, file, metadata }
    }

    /// Returns the metadata that a file replacing the input takes over; `None` for stdin, which no
    /// file replaces, and for anything but a regular file.
    pub(super) fn attributes(&self) -> Option<&Metadata> {
        self.metadata.as_ref().filter(|_| self.path.is_some())
    }

    /// Returns the length in bytes at the time of opening; `None` if the input is not a regular file.
    pub(super) fn len(&self) -> Option<u64> {
        self.metadata.as_ref().map(Metadata::len)
    }

    /// Returns `true` if length or modification time have changed since the opening. Anything but a
    /// regular file counts as unchanged.
    pub(super) fn has_changed(&self) -> bool {
        let (Some(before), Ok(now)) = (&self.metadata, self.file.metadata()) else {
            return false;
        };
        let key = |one: &Metadata| (one.len(), one.mtime(), one.mtime_nsec());
        key(before) != key(&now)
    }

    /// Returns the name without its directory, and the time, for a gzip header. The time is 0 if a
    /// header cannot represent it.
    pub(super) fn original(&self) -> (Option<Vec<u8>>, u32) {
        let name = self.path.as_deref().and_then(Path::file_name);
        let mtime = self.metadata.as_ref().map_or(0, MetadataExt::mtime);
        (name.map(|name| name.as_bytes().to_vec()), u32::try_from(mtime).unwrap_or(0))
    }
}

/// Opens a file. It does not block on a FIFO or device.
fn open(path: &Path, request: &Request) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    if !request.only_reads() {
        let links = if request.force() { 0 } else { libc::O_NOFOLLOW };
        options.custom_flags(links | libc::O_NONBLOCK | libc::O_NOCTTY);
    }
    options.open(path)
}

fn refused(path: &Path, error: &io::Error) -> FileError {
    let name = shown(path);
    if error.raw_os_error() == Some(libc::ELOOP)
        && std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
    {
        return FileError::Error(format!(
            "{name} is a symbolic link; -f follows it and removes it, -c only reads"
        ));
    }
    FileError::Error(format!("{name}: {error}"))
}

/// Refuses files that gzip would skip.
fn may_be_worked_on(name: &str, metadata: &Metadata, request: &Request) -> Result<(), FileError> {
    let warn = |what: &str| Err(FileError::Warning(format!("{name} {what}; skipped")));
    let kind = metadata.file_type();
    if kind.is_dir() {
        return warn("is a directory (-r goes into it)");
    }
    if request.only_reads() {
        return Ok(());
    }
    if !kind.is_file() {
        return warn(match kind.is_fifo() {
            true => "is a pipe and no regular file (-c reads it)",
            false => "is no regular file (-c reads it)",
        });
    }
    let mode = metadata.permissions().mode();
    if mode & 0o6000 != 0 {
        return warn("runs as another user or group (set-user-ID, set-group-ID)");
    }
    if request.force() {
        return Ok(());
    }
    if mode & 0o1000 != 0 {
        return warn("has the sticky bit set (-f goes on)");
    }
    match metadata.nlink() {
        0 | 1 => Ok(()),
        links => warn(&format!("has {} other link(s) (-f goes on)", links - 1)),
    }
}
