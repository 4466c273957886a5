//! Output files and stdout, and how they are finished.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

use super::unfinished::TempFile;
use overside_command::system;

/// Open output that receives the bytes.
pub(super) enum Output {
    /// File that gets its name when it is complete.
    Named(TempFile),
    /// Existing destination: stdout, a device, a pipe.
    Open(File),
    /// No destination.
    Nothing,
}

impl Output {
    /// Opens standard output without a buffer.
    pub(super) fn stdout() -> io::Result<Self> {
        let owned = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self::Open(owned.into()))
    }

    /// Completes the output. A named file gets the attributes of `like` and then its name. With
    /// `durable`, both survive a crash of the machine.
    pub(super) fn finish(self, like: Option<&Metadata>, durable: bool) -> io::Result<()> {
        match self {
            Self::Named(named) => {
                if let Some(like) = like {
                    take_after(&named.file, like);
                }
                named.finish(durable)
            }
            Self::Open(file) => system::close(file),
            Self::Nothing => Ok(()),
        }
    }

    fn file(&mut self) -> Option<&mut File> {
        match self {
            Self::Named(named) => Some(&mut named.file),
            Self::Open(file) => Some(file),
            Self::Nothing => None,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().map_or(Ok(bytes.len()), |file| file.write(bytes))
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

/// Sets owner, mode and times of the file to those of `like`, as far as permitted. It never becomes
/// readable by users who cannot read `like`.
fn take_after(file: &File, like: &Metadata) {
    let mut mode = like.permissions().mode() & 0o777;
    let same_group = fchown(file, Some(like.uid()), Some(like.gid())).is_ok()
        || fchown(file, None, Some(like.gid())).is_ok();
    if !same_group {
        // If the group differs, it gets the permissions of others.
        mode &= 0o707 | (mode & 0o007) << 3;
    }
    // Errors are ignored: some file systems have no modes or times.
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
