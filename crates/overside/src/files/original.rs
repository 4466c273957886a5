//! Removal of the original after its output is written.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use overside_base::rename_to_new;
use rustix::fs::{FlockOperation, flock};

use super::input::Input;
use super::unfinished::{is_called, set_aside};
use overside_command::{messages::shown, system};

/// Outcome of removing the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemovalOutcome {
    Removed,
    /// The file was modified while it was read.
    Changed,
    /// Another file has its name now.
    Replaced,
    /// No file has its name any more.
    Gone,
}

/// Removes the input, named `path`, if it is the file that was read and was read completely.
///
/// The file with that name is renamed first, then checked, and renamed back if it is another file.
/// Checking before removing would be a race: another file could get the name in between.
pub(super) fn remove(input: &Input, path: &Path) -> io::Result<RemovalOutcome> {
    if let Some(kept) = kept(input, path) {
        return Ok(kept);
    }
    let _held = system::hold_signals();
    // `overside clean` skips a locked file while it has the other name. If it cannot be locked,
    // another process has locked it.
    let _ = flock(&input.file, FlockOperation::NonBlockingLockExclusive);
    let aside = match set_aside(path) {
        Ok(aside) => aside,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(RemovalOutcome::Gone),
        Err(error) => return Err(error),
    };
    let put_back = || {
        rename_to_new(&aside, path).or_else(|_| {
            let mut name = OsString::from(path);
            name.push(".kept");
            rename_to_new(&aside, Path::new(&name)).map_err(|error| {
                io::Error::other(format!("it is called {} now: {error}", shown(&aside)))
            })?;
            let now = shown(name);
            Err(io::Error::other(format!("two files took its name; one is called {now} now")))
        })
    };
    if let Some(kept) = kept(input, &aside) {
        put_back()?;
        return Ok(kept);
    }
    match fs::remove_file(&aside) {
        Ok(()) => Ok(RemovalOutcome::Removed),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(RemovalOutcome::Removed),
        Err(error) => {
            put_back()?;
            Err(error)
        }
    }
}

/// Returns the reason to keep the file that has the name `path`; `None` if it may be removed.
fn kept(input: &Input, path: &Path) -> Option<RemovalOutcome> {
    if input.has_changed() {
        return Some(RemovalOutcome::Changed);
    }
    if is_called(&input.file, path) {
        return None;
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Some(RemovalOutcome::Gone),
        _ => Some(RemovalOutcome::Replaced),
    }
}
