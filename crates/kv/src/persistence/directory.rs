//! The directory that holds logs and snapshots, and their names.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::PersistenceError;

const SNAPSHOT: &str = "snapshot-";
const LOG: &str = "log-";
const UNFINISHED: &str = ".tmp";
/// How long another server may take to let go of a directory.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// A directory that this process alone uses.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Ends with the process as well.
    _lock: File,
}

/// What a directory holds, by generation, in order.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub snapshots: Vec<u64>,
    pub logs: Vec<u64>,
}

impl Directory {
    /// Makes the directory if it is missing, locks it, and removes snapshots that were not completed.
    pub fn open(path: &Path) -> Result<Self, PersistenceError> {
        // What clients store is nobody else's business.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(PersistenceError::io(path))?;
        let name = path.join("lock");
        let mut options = OpenOptions::new();
        let lock = (options.write(true).create(true).truncate(false).open(&name))
            .map_err(PersistenceError::io(&name))?;
        // One that has just ended may hold it for a moment: a process that it was about to start has
        // its files until it begins.
        let begin = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if begin.elapsed() < PATIENCE => {
                    thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(PersistenceError::InUse { path: path.into() });
                }
                Err(TryLockError::Error(error)) => return Err(PersistenceError::io(&name)(error)),
            }
        }
        let directory = Self {
            path: path.into(),
            _lock: lock,
        };
        for name in directory.names()? {
            if name.starts_with(SNAPSHOT) && name.ends_with(UNFINISHED) {
                let path = path.join(name);
                fs::remove_file(&path).map_err(PersistenceError::io(&path))?;
            }
        }
        Ok(directory)
    }

    pub fn contents(&self) -> Result<Contents, PersistenceError> {
        let names = self.names()?;
        let numbers = |prefix| {
            let numbers = names.iter().filter_map(|name| name.strip_prefix(prefix));
            let mut numbers: Vec<u64> = numbers.filter_map(|n| n.parse().ok()).collect();
            numbers.sort_unstable();
            numbers
        };
        Ok(Contents {
            snapshots: numbers(SNAPSHOT),
            logs: numbers(LOG),
        })
    }

    fn names(&self) -> Result<Vec<String>, PersistenceError> {
        let entries = fs::read_dir(&self.path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(PersistenceError::io(&self.path))?;
        let names = entries.into_iter().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn log(&self, generation: u64) -> PathBuf {
        self.path.join(format!("{LOG}{generation:010}"))
    }

    pub fn snapshot(&self, generation: u64) -> PathBuf {
        self.path.join(format!("{SNAPSHOT}{generation:010}"))
    }

    /// What a snapshot is called until it is complete.
    pub fn unfinished_snapshot(&self, generation: u64) -> PathBuf {
        self.path
            .join(format!("{SNAPSHOT}{generation:010}{UNFINISHED}"))
    }

    /// Has names of files reach the disk.
    pub fn sync(&self) -> io::Result<()> {
        sync(&self.path)
    }

    /// Removes what is older than the snapshot of `generation`; says what could not be.
    pub fn remove_older(&self, generation: u64) -> Result<(), PersistenceError> {
        let contents = self.contents()?;
        let older = |numbers: Vec<u64>| numbers.into_iter().filter(move |n| *n < generation);
        let snapshots = older(contents.snapshots).map(|number| self.snapshot(number));
        for path in snapshots.chain(older(contents.logs).map(|number| self.log(number))) {
            fs::remove_file(&path).map_err(PersistenceError::io(&path))?;
        }
        Ok(())
    }
}

/// Has names of files reach the disk.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
