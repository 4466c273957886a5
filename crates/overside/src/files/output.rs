//! What is written: under a name that nobody looks for until it is complete.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::system::{self, TempFileGuard};

/// Where the bytes go.
pub enum Output {
    /// A file that gets its name when it is complete.
    Named(TempFile),
    /// Something that is there already: stdout, a device, a pipe.
    Open(File),
    /// Nowhere.
    Nothing,
}

impl Output {
    /// Standard output, without a buffer.
    pub fn stdout() -> io::Result<Self> {
        let owned = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self::Open(owned.into()))
    }

    /// Ends it. A named file gets the attributes of `like`, and then its name.
    pub fn finish(self, like: Option<&Metadata>) -> io::Result<()> {
        match self {
            Self::Named(named) => named.finish(like),
            Self::Open(file) => system::close(file),
            Self::Nothing => Ok(()),
        }
    }

    fn file(&mut self) -> Option<&mut File> {
        match self {
            Self::Named(named) => named.file.as_mut(),
            Self::Open(file) => Some(file),
            Self::Nothing => None,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()
            .map_or(Ok(bytes.len()), |file| file.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.file() {
            Some(file) => file.write_vectored(parts),
            None => Ok(parts.iter().map(|part| part.len()).sum()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is written under another name and renamed when it is complete. Dropped before, or
/// left behind by a signal, it goes.
pub struct TempFile {
    /// `None` once it is closed.
    file: Option<File>,
    /// What it is called until then, in the same directory.
    temporary: PathBuf,
    name: PathBuf,
    replace: bool,
    /// It has its name.
    complete: bool,
    _unfinished: TempFileGuard,
}

impl TempFile {
    /// Makes the file that is going to be called `name`. `private`: only its owner can read it
    /// until it gets the attributes of another one. `replace`: if there is one of that name by
    /// then, it goes.
    pub fn create(name: &Path, private: bool, replace: bool) -> io::Result<Self> {
        let directory = name.parent().unwrap_or(Path::new(""));
        let mut attempts = 0;
        loop {
            // As many bits of chance as make a second attempt unlikely.
            let chance = RandomState::new().hash_one(std::process::id());
            let temporary = directory.join(format!(".overside-{chance:016x}.tmp"));
            let unfinished = TempFileGuard::new(&temporary)?;
            let mode = if private { 0o600 } else { 0o666 };
            let opened = (OpenOptions::new().write(true).create_new(true))
                .mode(mode)
                .open(&temporary);
            attempts += 1;
            let file = match opened {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && attempts < 8 => continue,
                opened => opened?,
            };
            return Ok(Self {
                file: Some(file),
                temporary,
                name: name.into(),
                replace,
                complete: false,
                _unfinished: unfinished,
            });
        }
    }

    fn finish(mut self, like: Option<&Metadata>) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            if let Some(like) = like {
                take_after(&file, like);
            }
            system::close(file)?;
        }
        if self.replace {
            fs::rename(&self.temporary, &self.name)?;
        } else {
            rename_to_new(&self.temporary, &self.name)?;
        }
        self.complete = true;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.complete {
            // It may be gone already, with its directory.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Gives the file the owner, mode and times of `like`, as far as it may be given them. Nobody gets
/// to read it who could not read the other.
fn take_after(file: &File, like: &Metadata) {
    let mut mode = like.permissions().mode() & 0o777;
    let same_group = fchown(file, Some(like.uid()), Some(like.gid())).is_ok()
        || fchown(file, None, Some(like.gid())).is_ok();
    if !same_group {
        // A group of another name gets what everybody gets.
        mode &= 0o707 | (mode & 0o007) << 3;
    }
    // Where a file system has no modes or times there is nothing to be kept.
    let _ = file.set_permissions(Permissions::from_mode(mode));
    let mut times = fs::FileTimes::new();
    if let Ok(modified) = like.modified() {
        times = times.set_modified(modified);
    }
    if let Ok(accessed) = like.accessed() {
        times = times.set_accessed(accessed);
    }
    let _ = file.set_times(times);
}

/// Renames, but never onto a file that is there.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems cannot do it in one step.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::symlink_metadata(to) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        result => Ok(result?),
    }
}
