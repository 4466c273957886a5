//! Output files that get their names when they are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use overside_base::rename_to_new;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, linkat, openat};
use rustix::io::Errno;

use overside_flow_operators::Error;

/// Size of the buffer in which a file's bytes are collected before they are written, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// File that gets its name when it is complete. Until then it has none if the file system supports that
/// (`O_TMPFILE`, open(2)), so a process that ends early leaves nothing behind.
#[derive(Debug)]
pub struct OutputFile {
    writer: BufWriter<File>,
    path: PathBuf,
    /// Temporary name of the incomplete file; `None` if the file system needs none. `overside
    /// clean` also removes such files.
    temporary: Option<PathBuf>,
    replace: bool,
}

impl OutputFile {
    /// Creates the file. With `replace`, it replaces a file of that name in the end.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::File`]. Anything but a regular file is never replaced.
    pub fn create(path: &Path, replace: bool) -> Result<Self, Error> {
        let what = match fs::metadata(path) {
            Ok(there) if there.is_dir() => Some("a directory; name a file"),
            Ok(there) if !there.is_file() => Some("a pipe or a device; name a file"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(Error::file(path, Error::Refused(what.into())));
        }
        if !replace && path.symlink_metadata().is_ok() {
            return Err(Error::Exists(path.into()));
        }
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let opened = openat(CWD, directory(path), flags, Mode::from_raw_mode(0o666));
        let (file, temporary) = match opened {
            Ok(file) => (Ok(File::from(file)), None),
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                let temporary = temporary_name(path);
                (File::create_new(&temporary), Some(temporary))
            }
            Err(error) => (Err(error.into()), None),
        };
        let file = file.and_then(|file| {
            if temporary.is_some() {
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            }
            Ok(file)
        });
        Ok(Self {
            writer: BufWriter::with_capacity(
                BUFFER_BYTES,
                file.map_err(|error| Error::file(path, error))?,
            ),
            path: path.into(),
            temporary,
            replace,
        })
    }

    /// Returns the name that the file has once [`OutputFile::finish`] succeeds.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name. Returns its length in bytes. With `durable`, it survives a crash of the
    /// machine.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::File`]; then the file is removed.
    pub fn finish(mut self, durable: bool) -> Result<u64, Error> {
        let finished = self.writer.flush().and_then(|()| {
            let file = self.writer.get_ref();
            let len = file.metadata()?.len();
            if durable {
                file.sync_all()?;
            }
            self.give_name()?;
            if durable {
                File::open(directory(&self.path))?.sync_all()?;
            }
            Ok(len)
        });
        finished.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::Exists(self.path.clone()),
            _ => Error::file(&self.path, error),
        })
    }

    fn give_name(&mut self) -> io::Result<()> {
        if self.temporary.is_none() {
            let own = format!("/proc/self/fd/{}", self.writer.get_ref().as_raw_fd());
            let link = |path: &Path| linkat(CWD, &own, CWD, path, AtFlags::SYMLINK_FOLLOW);
            match link(&self.path) {
                // A link cannot replace a file, but renaming can.
                Err(Errno::EXIST) if self.replace => {
                    let temporary = temporary_name(&self.path);
                    link(&temporary)?;
                    self.temporary = Some(temporary);
                }
                linked => return Ok(linked?),
            }
        }
        let Some(temporary) = self.temporary.as_ref() else {
            return Ok(());
        };
        match self.replace {
            true => fs::rename(temporary, &self.path)?,
            false => rename_to_new(temporary, &self.path)?,
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes to the file. Errors contain its path.
impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes);
        written.map_err(|error| named(&self.path, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| named(&self.path, &error))
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn directory(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Returns a name in the same directory that is unique: it contains the process id and a counter.
fn temporary_name(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    directory(path).join(format!(".overside-{process:08x}{number:08x}.tmp"))
}
