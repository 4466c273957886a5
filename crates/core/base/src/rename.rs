//! Renaming without replacing.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Renames, but never onto a file that is there.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`] among those of rename(2).
pub fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems cannot do it in one step.
        Err(Errno::INVAL | Errno::NOSYS) => match fs::symlink_metadata(to) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        result => Ok(result?),
    }
}
