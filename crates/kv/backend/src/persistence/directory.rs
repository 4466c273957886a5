//! The directory that holds logs and snapshots, their names, and the file `lock`, which the server that uses
//! the directory has locked, and which names the newest files.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use overside_base::random_bytes;

use super::PersistenceError;
use super::error::LOG;
use super::frame::{FrameReader, FrameWriter, Next, more};
use super::link::Newest;

const SNAPSHOT: &str = "snapshot-";
/// Digits of a generation in a name.
const DIGITS: usize = 10;
const LOCK: &str = "lock";
const UNFINISHED: &str = ".tmp";
/// Longest time to wait until another server releases the directory.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// A directory that only this process uses.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// The lock ends with the process as well.
    lock: File,
}

/// Generations of the snapshots and logs in a directory, in ascending order.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub snapshots: Vec<u64>,
    pub logs: Vec<u64>,
}

impl Directory {
    /// Makes the directory if it is missing, locks it, and removes snapshots that were not completed.
    pub(super) fn open(path: &Path) -> Result<Self, PersistenceError> {
        make(path).map_err(PersistenceError::io(path))?;
        let name = path.join(LOCK);
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
        let directory = Self { path: path.into(), lock };
        for name in directory.names()? {
            if name.starts_with(SNAPSHOT) && name.ends_with(UNFINISHED) {
                let path = path.join(name);
                fs::remove_file(&path).map_err(PersistenceError::io(&path))?;
            }
        }
        Ok(directory)
    }

    pub(super) fn contents(&self) -> Result<Contents, PersistenceError> {
        let names = self.names()?;
        let numbers = |prefix| {
            let numbers = names.iter().filter_map(|name| name.strip_prefix(prefix));
            let numbers = numbers.filter(|number| number.len() == DIGITS);
            let mut numbers: Vec<u64> = numbers.filter_map(|n| n.parse().ok()).collect();
            numbers.sort_unstable();
            numbers
        };
        Ok(Contents { snapshots: numbers(SNAPSHOT), logs: numbers(LOG) })
    }

    fn names(&self) -> Result<Vec<String>, PersistenceError> {
        let entries = fs::read_dir(&self.path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(PersistenceError::io(&self.path))?;
        let names = entries.into_iter().map(|entry| entry.file_name());
        Ok(names.filter_map(|name| name.into_string().ok()).collect())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    pub(super) fn log(&self, generation: u64) -> PathBuf {
        self.path.join(format!("{LOG}{generation:0DIGITS$}"))
    }

    pub(super) fn snapshot(&self, generation: u64) -> PathBuf {
        self.path.join(format!("{SNAPSHOT}{generation:0DIGITS$}"))
    }

    /// Returns the path that a snapshot has until it is complete.
    pub(super) fn unfinished_snapshot(&self, generation: u64) -> PathBuf {
        self.path.join(format!("{SNAPSHOT}{generation:0DIGITS$}{UNFINISHED}"))
    }

    /// Returns the files that `lock` names as the newest; `None`: it names none, or cannot be read.
    pub(super) fn newest(&self) -> Result<Option<Newest>, PersistenceError> {
        let path = self.lock_path();
        let read = || {
            let mut reader = FrameReader::open(&path)?;
            Ok(match reader.next()? {
                Next::Frame(frame) => Some(Newest::decode(more(frame.payload))),
                Next::End => None,
                _ => Some(None),
            })
        };
        let newest = read().map_err(PersistenceError::io(&path))?;
        if newest == Some(None) {
            tracing::warn!(
                "{} is damaged: if the newest files of the directory were missing, it would not be noticed",
                path.display()
            );
        }
        Ok(newest.flatten())
    }

    /// Writes down which files are the newest, and waits for the disk. The same bytes are written over each
    /// time: if they do not reach the disk as a whole, only the next start is less careful.
    pub(super) fn set_newest(&self, newest: &Newest) -> io::Result<()> {
        let mut frame = Vec::new();
        FrameWriter::begin(random_bytes()?, 0, &newest.encode(), 0, &mut frame);
        self.lock.write_all_at(&frame, 0)?;
        self.lock.sync_data()
    }

    /// Syncs names of files to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        sync(&self.path)
    }

    /// Removes the snapshots and logs older than `generation`; stops at the first that cannot be removed.
    pub(super) fn remove_older(&self, generation: u64) -> Result<(), PersistenceError> {
        let contents = self.contents()?;
        let older = |numbers: Vec<u64>| numbers.into_iter().filter(move |n| *n < generation);
        let snapshots = older(contents.snapshots).map(|number| self.snapshot(number));
        for path in snapshots.chain(older(contents.logs).map(|number| self.log(number))) {
            fs::remove_file(&path).map_err(PersistenceError::io(&path))?;
        }
        Ok(())
    }
}

/// Creates a directory and those above it, for its owner only, because clients' data are private. Their names
/// are also written to the disk.
pub fn make(path: &Path) -> io::Result<()> {
    let missing: Vec<_> = path.ancestors().take_while(|path| !path.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let mut parents = missing.iter().filter_map(|path| path.parent());
    parents.try_for_each(|parent| match parent.as_os_str().is_empty() {
        true => sync(Path::new(".")),
        false => sync(parent),
    })
}

/// Writes the names of files to the disk.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
