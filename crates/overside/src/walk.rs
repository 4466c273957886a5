//! Iterator over the regular files in a directory and below it.

use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};
use std::vec::IntoIter;

/// Iterator over regular files, sorted by name within each directory. It does not follow symbolic
/// links, so it ends. Anything but files and directories is left out. A directory is read when it
/// is entered: files that are created in it later are not seen.
pub(crate) struct Walk(Vec<IntoIter<(PathBuf, FileType)>>);

/// Directory that cannot be read, and the error.
pub(crate) struct Unreadable(pub PathBuf, pub io::Error);

impl Walk {
    /// Starts a walk.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn new(directory: &Path) -> Result<Self, Unreadable> {
        entries(directory).map(|entries| Self(vec![entries]))
    }
}

impl Iterator for Walk {
    type Item = Result<PathBuf, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((path, kind)) = self.0.last_mut()?.next() else {
                self.0.pop();
                continue;
            };
            if kind.is_file() {
                return Some(Ok(path));
            }
            if kind.is_dir() {
                match entries(&path) {
                    Ok(entries) => self.0.push(entries),
                    Err(error) => return Some(Err(error)),
                }
            }
        }
    }
}

fn entries(directory: &Path) -> Result<IntoIter<(PathBuf, FileType)>, Unreadable> {
    let read = || -> io::Result<Vec<(PathBuf, FileType)>> {
        let entries = fs::read_dir(directory)?.map(|entry| {
            let entry = entry?;
            Ok((entry.path(), entry.file_type()?))
        });
        entries.collect()
    };
    let mut entries = read().map_err(|error| Unreadable(directory.into(), error))?;
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(entries.into_iter())
}
