//! Unfinished files. Each is written under a temporary name in the directory of the final one, and its writer
//! holds a lock on it. So a file that a killed process left behind is recognized: it is not locked.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use overside_base::rename_to_new;
use overside_command::{
    messages::shown,
    system::{self, TempFileGuard},
};
use rustix::fs::{FlockOperation, flock, syncfs};
use rustix::io::Errno;

/// Maximum number of attempts to create a temporary file before the name counts as taken by another process.
const ATTEMPTS_MAX: u32 = 100;
/// Pause before the next attempt, while another process unlocks or removes a file that it considers
/// abandoned.
const RETRY: Duration = Duration::from_millis(1);

/// File that is written under another name and renamed when it is complete. It is removed if it is
/// dropped before, or if a signal ends the process.
pub(super) struct TempFile {
    /// File, locked as a sign of being written until it has its name or is removed.
    pub file: File,
    /// Path of the file until it is finished, in the same directory as `name`.
    temporary: PathBuf,
    name: PathBuf,
    replace: bool,
    /// Guard that removes the file on a signal; `None` once it has its name.
    unfinished: Option<TempFileGuard>,
}

impl TempFile {
    /// Creates the file that will be named `name`, and removes the rest of an earlier attempt. With
    /// `private`, only its owner can read it until it gets the attributes of another file. With
    /// `replace`, it replaces a file of that name. Returns `None` if another process is writing it.
    pub(super) fn create(name: &Path, private: bool, replace: bool) -> io::Result<Option<Self>> {
        let mut hasher = DefaultHasher::new();
        name.file_name().hash(&mut hasher);
        let temporary = unfinished_name(name, hasher.finish());
        // Signals wait until the file is registered for removal.
        let _held = system::hold_signals();
        let mode = if private { 0o600 } else { 0o666 };
        let Some(file) = make(&temporary, mode)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            file,
            unfinished: Some(TempFileGuard::new(&temporary)?),
            temporary,
            name: name.into(),
            replace,
        }))
    }

    /// Renames the file to its final name. With `durable`, it survives a crash of the machine.
    pub(super) fn finish(mut self, durable: bool) -> io::Result<()> {
        if durable {
            where_possible(self.file.sync_all())?;
        }
        // Some file systems report only now that the disk is full.
        system::close(self.file.try_clone()?)?;
        {
            let _held = system::hold_signals();
            if self.replace {
                fs::rename(&self.temporary, &self.name)?;
            } else {
                rename_to_new(&self.temporary, &self.name)?;
            }
            self.unfinished = None;
        }
        if durable {
            sync_name(&self.name, &self.file)?;
        }
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _held = system::hold_signals();
        if self.unfinished.is_some() {
            // The file may have been removed with its directory.
            let _ = fs::remove_file(&self.temporary);
            self.unfinished = None;
        }
    }
}

/// Returns a name for a temporary file in the directory of `beside`. It is hidden and has a prefix
/// of its own, so that it does not collide with names of users.
fn unfinished_name(beside: &Path, number: u64) -> PathBuf {
    // `overside clean` recognizes temporary files by this form.
    beside.with_file_name(format!(".overside-{number:016x}.tmp"))
}

/// Returns `true` if the name of the file has the form of names of unfinished files.
pub(super) fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().map(OsStrExt::as_bytes);
    name.is_some_and(|name| name.starts_with(b".overside-") && name.ends_with(b".tmp"))
}

/// Creates a file and locks it while it is open. An existing file that is not locked is removed.
/// Returns `None` if another process has locked it.
fn make(path: &Path, mode: u32) -> io::Result<Option<File>> {
    let in_the_way = |error: io::Error| {
        io::Error::new(error.kind(), format!("{} is in the way: {error}", shown(path)))
    };
    for _ in 0..ATTEMPTS_MAX {
        let mut options = OpenOptions::new();
        options.write(true).mode(mode).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let (file, is_new) = match options.clone().create_new(true).open(path) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                match open_any(path, &options) {
                    Ok(file) => (file, false),
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(in_the_way(error)),
                }
            }
            Err(error) => return Err(error),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if !is_called(&file, path) => {}
            Ok(()) if is_new => return Ok(Some(file)),
            Ok(()) => fs::remove_file(path).map_err(in_the_way)?,
            // Another process considers the file abandoned and is about to remove it.
            Err(Errno::WOULDBLOCK) if is_new => thread::sleep(RETRY),
            Err(Errno::WOULDBLOCK) => return Ok(None),
            // The file system has no locks: an existing file may belong to another process.
            Err(_) if is_new => return Ok(Some(file)),
            Err(error) => return Err(in_the_way(error.into())),
        }
    }
    Ok(None)
}

/// Opens a file to lock it. The file may be read-only, like its original.
fn open_any(path: &Path, options: &OpenOptions) -> io::Result<File> {
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            options.clone().write(false).read(true).open(path)
        }
        opened => opened,
    }
}

/// Returns `true` if `name` refers to the open file, by device and inode.
pub(super) fn is_called(file: &File, name: &Path) -> bool {
    let key = |one: fs::Metadata| (one.dev(), one.ino());
    match (file.metadata(), fs::metadata(name)) {
        (Ok(file), Ok(named)) => key(file) == key(named),
        _ => false,
    }
}

/// Renames a file to a new unique name and returns that name.
pub(super) fn set_aside(name: &Path) -> io::Result<PathBuf> {
    let aside = unfinished_name(name, RandomState::new().hash_one(std::process::id()));
    rename_to_new(name, &aside)?;
    Ok(aside)
}

/// Waits until the name of a file is on the disk.
fn sync_name(name: &Path, file: &File) -> io::Result<()> {
    let directory = match name.parent() {
        Some(parent) if parent != "" => parent,
        _ => Path::new("."),
    };
    where_possible(match File::open(directory) {
        Ok(directory) => directory.sync_all(),
        // The directory may not be readable.
        Err(_) => syncfs(file).map_err(Into::into),
    })
}

/// Ignores the error of file systems that cannot synchronize.
fn where_possible(synced: io::Result<()>) -> io::Result<()> {
    use ErrorKind::{InvalidInput, Unsupported};
    match synced {
        Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
        synced => synced,
    }
}
