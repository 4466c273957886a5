//! A directory of one's own that goes.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// New directory that only this user can read. Dropping it removes it with its content.
#[derive(Debug)]
pub struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    /// Makes it among the temporary files, beginning with `name`.
    ///
    /// # Errors
    /// The system's.
    pub fn new(name: &str) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("{name}-{process}-{number}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // Another process's, or left by a process with the same id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 10_000 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the path of the directory, which is removed when this value is dropped.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // An error cannot be reported, and there is nothing else to do.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
