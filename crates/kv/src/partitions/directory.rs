//! A directory for each partition, in that of the server.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file that says how many partitions there are. Where it is missing there is one, in the directory itself.
const COUNT: &str = "partitions";

/// Why partitions cannot be kept in a directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// A file of it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its keys are divided otherwise.
    #[error(
        "{path} holds {holds} partitions, one a core, and not {wanted}; start with --cores {holds}, or \
         give another directory and copy the keys with a client",
        path = path.display()
    )]
    Count {
        /// The directory.
        path: PathBuf,
        /// How many it holds.
        holds: usize,
        /// How many are asked for.
        wanted: usize,
    },
    /// The file with the number of partitions has something else.
    #[error("{path} holds no number of partitions", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// Where each of `count` partitions is kept. Makes a directory that is new ready for them.
///
/// # Errors
/// [`DirectoryError`]; above all if it holds another number of partitions.
pub fn directories(path: &Path, count: usize) -> Result<Vec<PathBuf>, DirectoryError> {
    match held(path)? {
        Some(holds) if holds != count => {
            let (path, wanted) = (path.into(), count);
            return Err(DirectoryError::Count {
                path,
                holds,
                wanted,
            });
        }
        None if count > 1 => record(path, count)?,
        _ => {}
    }
    Ok(match count {
        1 => vec![path.into()],
        _ => (0..count)
            .map(|number| path.join(format!("partition-{number}")))
            .collect(),
    })
}

/// How many partitions a directory holds; `None`: it is new.
fn held(path: &Path) -> Result<Option<usize>, DirectoryError> {
    let name = path.join(COUNT);
    match fs::read_to_string(&name) {
        Ok(text) => match text.trim().parse() {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => Err(DirectoryError::Damaged { path: name }),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let is_state = |name: &str| name.starts_with("log-") || name.starts_with("snapshot-");
            let names = match fs::read_dir(path) {
                Ok(entries) => entries.map(|entry| entry.map(|entry| entry.file_name())),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(source) => return Err(io_error(path)(source)),
            };
            let names = names.collect::<io::Result<Vec<_>>>();
            let names = names.map_err(io_error(path))?;
            let has_state = (names.iter()).any(|name| name.to_str().is_some_and(is_state));
            Ok(has_state.then_some(1))
        }
        // Whoever makes the directory says what is wrong with it.
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(None),
        Err(source) => Err(io_error(&name)(source)),
    }
}

/// Has the number reach the disk before anything else does.
fn record(path: &Path, count: usize) -> Result<(), DirectoryError> {
    // What clients store is nobody else's business.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(io_error(path))?;
    let (name, unfinished) = (path.join(COUNT), path.join(format!("{COUNT}.tmp")));
    let write = || {
        let mut file = File::create(&unfinished)?;
        writeln!(file, "{count}")?;
        file.sync_all()?;
        fs::rename(&unfinished, &name)?;
        File::open(path)?.sync_all()
    };
    write().map_err(io_error(&name))
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> DirectoryError {
    move |source| DirectoryError::Io {
        path: path.into(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{DirectoryError, directories};

    #[test]
    fn another_number_of_partitions_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let refused = |count, expected| match directories(&path, count) {
            Err(DirectoryError::Count { holds, wanted, .. }) => {
                assert_eq!((holds, wanted), (expected, count));
            }
            other => panic!("{other:?}"),
        };
        let two = directories(&path, 2).unwrap();
        assert_eq!(two, [path.join("partition-0"), path.join("partition-1")]);
        assert_eq!(directories(&path, 2).unwrap(), two);
        refused(1, 2);
        refused(3, 2);
        fs::write(path.join("partitions"), "two\n").unwrap();
        let damaged = directories(&path, 2);
        assert!(matches!(damaged, Err(DirectoryError::Damaged { .. })));
        fs::remove_file(path.join("partitions")).unwrap();
        fs::write(path.join("log-0000000001"), "").unwrap();
        assert_eq!(directories(&path, 1).unwrap(), std::slice::from_ref(&path));
        refused(2, 1);
    }
}
