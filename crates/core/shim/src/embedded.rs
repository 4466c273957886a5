//! A library's bytes as something that can be opened as a library.

use std::io::{Result, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::PrivateDirectory;

/// Storage from which the loader can open a library. It is released when this value is dropped.
pub(crate) enum Embedded {
    /// File in memory; needs `/proc` and a system that can execute it.
    Memory(OwnedFd),
    /// File in a private directory, which is removed at the end.
    File(PrivateDirectory),
}

impl Embedded {
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Memory(file) => format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
            Self::File(directory) => directory.path().join("library.so"),
        }
    }
}

/// Puts a library into memory.
pub(crate) fn in_memory(name: &str, bytes: &[u8]) -> Option<Embedded> {
    // Newer kernels require this flag for execution; older ones do not know it.
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
        .or_else(|_| memfd_create(name, MemfdFlags::CLOEXEC))
        .ok()?;
    let mut file = std::fs::File::from(file);
    file.write_all(bytes).ok()?;
    Some(Embedded::Memory(file.into()))
}

/// Puts a library into a file.
pub(crate) fn in_a_file(name: &str, bytes: &[u8]) -> Result<Embedded> {
    let embedded = Embedded::File(PrivateDirectory::new(name)?);
    std::fs::write(embedded.path(), bytes)?;
    Ok(embedded)
}
