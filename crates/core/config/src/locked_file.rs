//! Files that several processes change.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Error;

/// Longest time that [`LockedFile::lock`] waits for another process to finish its change.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(5);

/// A file that no other process changes as long as this lives. Read its content after it is locked;
/// a reader without a lock sees the content before or after a change, never a part.
pub struct LockedFile {
    /// Path of the file, with symbolic links resolved.
    path: PathBuf,
    /// Lock file next to the file, which is replaced. The lock ends with the process as well.
    _lock: File,
}

impl LockedFile {
    /// Waits until no other process changes the file. There need not be one yet; its directory is
    /// made.
    ///
    /// # Errors
    /// [`Error`]: the directory cannot be written to, or another process changes the file for more
    /// than ten seconds.
    pub fn lock(path: &Path) -> Result<Self, Error> {
        Self::lock_within(path, PATIENCE)
    }

    fn lock_within(path: &Path, patience: Duration) -> Result<Self, Error> {
        let failed = |error| cannot_write(path, &error);
        if let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let path = path.canonicalize().unwrap_or_else(|_| target(path));
        let beside = beside(&path, ".lock").map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false);
        let lock = options.open(&beside).map_err(failed)?;
        let begin = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { path, _lock: lock }),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) if begin.elapsed() < patience => {
                    std::thread::sleep(PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    let file = path.display().to_string();
                    let problem = format!("another process has been changing it for {patience:?}");
                    let remedy =
                        format!("end the process that has {} open (lsof)", beside.display());
                    return Err(Error::of_file(&file, problem, remedy));
                }
            }
        }
    }

    /// Returns the path of the file, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the content of the file atomically and durably: it is on the disk when this
    /// returns. Permissions stay.
    ///
    /// # Errors
    /// [`Error`].
    pub fn replace(&self, text: &str) -> Result<(), Error> {
        self.try_replace(text).map_err(|error| cannot_write(&self.path, &error))
    }

    fn try_replace(&self, text: &str) -> io::Result<()> {
        let fresh = beside(&self.path, ".new")?;
        // Of a process that was killed: no other one is here now.
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let written = self.write_and_rename(&fresh, text);
        if written.is_err() {
            // That it is left is no worse than what went wrong.
            let _ = std::fs::remove_file(&fresh);
        }
        written
    }

    fn write_and_rename(&self, fresh: &Path, text: &str) -> io::Result<()> {
        let mut file = File::create_new(fresh)?;
        if let Ok(before) = self.path.metadata() {
            file.set_permissions(before.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(fresh, &self.path)?;
        let directory = self.path.parent().filter(|path| !path.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// Returns the target of a symbolic link, even if no file exists there. Returns `path` if it is not
/// a link.
fn target(path: &Path) -> PathBuf {
    match (path.read_link(), path.parent()) {
        (Ok(target), Some(directory)) => directory.join(target),
        _ => path.into(),
    }
}

/// A hidden name in the same directory.
fn beside(path: &Path, ending: &str) -> io::Result<PathBuf> {
    let name = (path.file_name()).ok_or_else(|| io::Error::other("it is no name of a file"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(ending);
    Ok(path.with_file_name(hidden))
}

fn cannot_write(path: &Path, error: &io::Error) -> Error {
    let problem = format!("cannot be written: {error}");
    Error::of_file(&path.display().to_string(), problem, "name another file")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn changes_of_many_at_once_are_all_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deeper/list");
        std::thread::scope(|scope| {
            for number in 0..20 {
                let path = &path;
                scope.spawn(move || {
                    let file = LockedFile::lock_within(path, 6 * PATIENCE).unwrap();
                    let before = std::fs::read_to_string(path).unwrap_or_default();
                    file.replace(&format!("{before}{number}\n")).unwrap();
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let mut numbers: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_link_stays_one_and_who_may_read_stays_too() {
        let directory = tempfile::tempdir().unwrap();
        let (real, link) = (directory.path().join("real"), directory.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        LockedFile::lock(&link).unwrap().replace("new").unwrap();
        assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        std::fs::remove_file(&real).unwrap();
        LockedFile::lock(&link).unwrap().replace("new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&real).unwrap(), "new");
    }

    #[test]
    fn nobody_waits_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        let _held = LockedFile::lock(&path).unwrap();
        let error = LockedFile::lock_within(&path, Duration::from_millis(20));
        let error = error.err().expect("it is locked").to_string();
        assert!(error.contains("another process"), "{error}");
    }

    #[test]
    fn what_a_killed_process_left_is_in_nobodys_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        std::fs::write(directory.path().join(".list.new"), "half").unwrap();
        LockedFile::lock(&path).unwrap().replace("whole").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
    }
}
