//! Files that are not finished yet. Each is written under a name of its own beside the one that it
//! is going to have, and is locked as long as somebody writes it. So what a killed process left is
//! known from what a living one writes: nobody has locked it.

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

/// Highest number of attempts to create a temporary file before the name counts as taken by another
/// process.
const ATTEMPTS_MAX: u32 = 100;
/// Pause before the next attempt, in which another process unlocks or removes a file that it took
/// for left behind.
const RETRY: Duration = Duration::from_millis(1);

/// A file that is written under another name and renamed when it is complete. Dropped before, or
/// left behind by a signal, it goes.
pub(super) struct TempFile {
    /// Locked, and so known to be written, until it has its name or is gone.
    pub file: File,
    /// Path of the file until it is finished, in the same directory as `name`.
    temporary: PathBuf,
    name: PathBuf,
    replace: bool,
    /// `None` once it has its name.
    unfinished: Option<TempFileGuard>,
}

impl TempFile {
    /// Makes the file that is going to be called `name`, and removes what was left of an earlier
    /// attempt. `private`: only its owner can read it until it gets the attributes of another one.
    /// `replace`: if there is one of that name by then, it goes. `None`: another process is
    /// writing it.
    pub(super) fn create(name: &Path, private: bool, replace: bool) -> io::Result<Option<Self>> {
        let mut hasher = DefaultHasher::new();
        name.file_name().hash(&mut hasher);
        let temporary = unfinished_name(name, hasher.finish());
        // Until the file is one that a signal removes.
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

    /// Gives the file its name. `durable`: it is not lost any more when the machine fails.
    pub(super) fn finish(mut self, durable: bool) -> io::Result<()> {
        if durable {
            where_possible(self.file.sync_all())?;
        }
        // Some file systems find out only now that there was no room.
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
            // It may be gone already, with its directory.
            let _ = fs::remove_file(&self.temporary);
            self.unfinished = None;
        }
    }
}

/// Returns a name for a temporary file in the directory of `beside`. It is hidden and has a prefix
/// of its own, so that no user looks for it.
fn unfinished_name(beside: &Path, number: u64) -> PathBuf {
    // `overside clean` knows them by this.
    beside.with_file_name(format!(".overside-{number:016x}.tmp"))
}

/// Returns `true` if the name of the file has the form of names of unfinished files.
pub(super) fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().map(OsStrExt::as_bytes);
    name.is_some_and(|name| name.starts_with(b".overside-") && name.ends_with(b".tmp"))
}

/// Makes a file and locks it for as long as it is open. One of that name that nobody has locked
/// goes. `None`: somebody has.
fn make(path: &Path, mode: u32) -> io::Result<Option<File>> {
    let in_the_way = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("{} is in the way: {error}", shown(path)),
        )
    };
    for _ in 0..ATTEMPTS_MAX {
        let mut options = OpenOptions::new();
        options
            .write(true)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
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
            // Somebody takes it for left behind, and is about to remove it.
            Err(Errno::WOULDBLOCK) if is_new => thread::sleep(RETRY),
            Err(Errno::WOULDBLOCK) => return Ok(None),
            // A file system without locks: what is there may be somebody's.
            Err(_) if is_new => return Ok(Some(file)),
            Err(error) => return Err(in_the_way(error.into())),
        }
    }
    Ok(None)
}

/// Opens a file to lock it. It may be for reading only, as its original was.
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

/// Takes a file away from its name. What it is called then; nobody else uses that name.
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
        // A directory may be one to write to only.
        Err(_) => syncfs(file).map_err(Into::into),
    })
}

/// Some file systems have nothing to wait for.
fn where_possible(synced: io::Result<()>) -> io::Result<()> {
    use ErrorKind::{InvalidInput, Unsupported};
    match synced {
        Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
        synced => synced,
    }
}
