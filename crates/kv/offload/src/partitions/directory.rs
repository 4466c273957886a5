//! A directory for each partition, in that of the server; and the names of a DPU's partitions.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use overside_base::random_hex;

use overside_kv_backend::persistence;

/// Name of the file with the number of partitions. If it is missing, there is one, in the directory itself.
const FILE: &str = "partitions";
/// Letters of [`RemotePartitions::id`].
const ID_LEN: usize = 40;

/// Places where the partitions of a store are kept.
#[derive(Debug)]
pub struct KeptPartitions {
    /// Directories of the partitions on this machine, in order.
    pub here: Vec<PathBuf>,
    /// Partitions on an agent; `None` if there are none.
    pub elsewhere: Option<RemotePartitions>,
}

/// Partitions on an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemotePartitions {
    /// Name of the store on the agent: random, so that no other host knows it.
    pub id: String,
    /// `true` until the agent has confirmed that it keeps them.
    pub is_new: bool,
}

/// Division of a store's partitions between this machine and an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLayout {
    /// Number of partitions that are kept in a directory.
    pub here: usize,
    /// Number of all partitions, including those on an agent.
    pub all: usize,
}

impl fmt::Display for PartitionLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} partitions", self.here)?;
        match self.all - self.here {
            0 => Ok(()),
            more => write!(f, " and {more} on a DPU"),
        }
    }
}

impl PartitionLayout {
    /// Returns the options with which a server has this division.
    fn options(self) -> String {
        match self.all - self.here {
            0 => format!("--cores {}", self.here),
            there => format!("the design of before and --dpu-cores {there}"),
        }
    }
}

/// Reason why partitions cannot be kept in a directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// A file of it.
        path: PathBuf,
        /// Underlying I/O error.
        source: io::Error,
    },
    /// The directory has another number of partitions.
    #[error(
        "{path} holds {holds}, one a core, and not {wanted}; start with {options}, or give another directory and \
         copy the keys with a client",
        path = path.display(),
        options = holds.options()
    )]
    PartitionLayout {
        /// The directory.
        path: PathBuf,
        /// Division that the directory has.
        holds: PartitionLayout,
        /// Division that the caller requested.
        wanted: PartitionLayout,
    },
    /// The file that says how partitions are divided has something else.
    #[error("{path} does not say how many partitions there are; restore the file from a copy", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// Content of the file `partitions`.
struct Record {
    division: PartitionLayout,
    elsewhere: Option<RemotePartitions>,
}

impl KeptPartitions {
    /// Opens a store that has `here` partitions in a directory and `elsewhere` on an agent.
    /// Prepares a new directory for them.
    ///
    /// # Errors
    /// [`DirectoryError`]; above all if it holds other numbers of partitions.
    pub fn open(path: &Path, here: usize, elsewhere: usize) -> Result<Self, DirectoryError> {
        let all = here + elsewhere;
        let wanted = PartitionLayout { here, all };
        let record = match Record::read(path)? {
            Some(record) if record.division != wanted => {
                return Err(DirectoryError::PartitionLayout {
                    path: path.into(),
                    holds: record.division,
                    wanted,
                });
            }
            Some(record) => record,
            None => {
                let id = || random_hex().map(|id| RemotePartitions { id, is_new: true });
                let elsewhere = (elsewhere > 0).then(id).transpose();
                let record =
                    Record { division: wanted, elsewhere: elsewhere.map_err(io_error(path))? };
                if all > 1 || record.elsewhere.is_some() {
                    record.write(path)?;
                }
                record
            }
        };
        let part = |number| path.join(format!("partition-{number}"));
        Ok(Self {
            here: match all {
                1 if here == 1 => vec![path.into()],
                _ => (0..here).map(part).collect(),
            },
            elsewhere: record.elsewhere,
        })
    }

    /// Remembers that the agent keeps the other partitions: from now on it must have them.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn confirm(path: &Path) -> Result<(), DirectoryError> {
        match Record::read(path)? {
            Some(Record { division, elsewhere: Some(RemotePartitions { id, is_new: true }) }) => {
                let elsewhere = Some(RemotePartitions { id, is_new: false });
                Record { division, elsewhere }.write(path)
            }
            _ => Ok(()),
        }
    }
}

impl RemotePartitions {
    /// Returns `true` if `text` can be the name of a store on an agent. No other text becomes the
    /// name of a directory there.
    #[must_use]
    pub fn is_id(text: &str) -> bool {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.len() == ID_LEN && text.bytes().all(is_hex)
    }
}

impl Record {
    /// Reads the record of a directory; `None` if the directory is new.
    fn read(path: &Path) -> Result<Option<Self>, DirectoryError> {
        let name = path.join(FILE);
        match fs::read_to_string(&name) {
            Ok(text) => match Self::parse(&text) {
                Some(record) => Ok(Some(record)),
                None => Err(DirectoryError::Damaged { path: name }),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let whole = Self { division: PartitionLayout { here: 1, all: 1 }, elsewhere: None };
                match has_any(path, &["partition-"])? {
                    true => Err(DirectoryError::Damaged { path: name }),
                    false => Ok(has_any(path, &["log-", "snapshot-"])?.then_some(whole)),
                }
            }
            // Creating the directory reports what is wrong with it.
            Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(None),
            Err(source) => Err(io_error(&name)(source)),
        }
    }

    /// `N`, or `HERE of ALL` and a line `dpu ID`, with `new` behind it.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let words: Vec<&str> = lines.next()?.split_whitespace().collect();
        let (here, all) = match words[..] {
            [all] => (all, all),
            [here, "of", all] => (here, all),
            _ => return None,
        };
        let (here, all) = (here.parse().ok()?, all.parse().ok()?);
        let elsewhere = match lines.next() {
            None => None,
            Some(line) => {
                let (id, is_new) = match line.split_whitespace().collect::<Vec<_>>()[..] {
                    ["dpu", id] => (id, false),
                    ["dpu", id, "new"] => (id, true),
                    _ => return None,
                };
                let id = RemotePartitions::is_id(id).then(|| id.to_owned())?;
                Some(RemotePartitions { id, is_new })
            }
        };
        let is_possible = all > 0 && here <= all && (here < all) == elsewhere.is_some();
        is_possible.then_some(Self { division: PartitionLayout { here, all }, elsewhere })
    }

    /// Writes it durably, before anything else is written.
    fn write(&self, path: &Path) -> Result<(), DirectoryError> {
        let PartitionLayout { here, all } = self.division;
        let text = match &self.elsewhere {
            None => format!("{all}\n"),
            Some(RemotePartitions { id, is_new }) => {
                let new = if *is_new { " new" } else { "" };
                format!("{here} of {all}\ndpu {id}{new}\n")
            }
        };
        persistence::make(path).map_err(io_error(path))?;
        let (name, unfinished) = (path.join(FILE), path.join(format!("{FILE}.tmp")));
        let write = || {
            let file = File::create(&unfinished)?;
            file.write_all_at(text.as_bytes(), 0)?;
            file.sync_all()?;
            fs::rename(&unfinished, &name)?;
            File::open(path)?.sync_all()
        };
        write().map_err(io_error(&name))
    }
}

/// Returns `true` if a directory has files whose names begin with one of these.
fn has_any(path: &Path, prefixes: &[&str]) -> Result<bool, DirectoryError> {
    let is_one = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let names = match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.file_name())),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(io_error(path)(source)),
    };
    let names = names.collect::<io::Result<Vec<_>>>();
    let names = names.map_err(io_error(path))?;
    Ok((names.iter()).any(|name| name.to_str().is_some_and(is_one)))
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> DirectoryError {
    move |source| DirectoryError::Io { path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{DirectoryError, KeptPartitions, RemotePartitions};

    fn open(path: &Path, here: usize, elsewhere: usize) -> KeptPartitions {
        KeptPartitions::open(path, here, elsewhere).unwrap()
    }

    fn refused(path: &Path, here: usize, elsewhere: usize, holds: &str) {
        match KeptPartitions::open(path, here, elsewhere) {
            Err(error @ DirectoryError::PartitionLayout { .. }) => {
                assert!(error.to_string().contains(holds), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn another_number_of_partitions_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = &directory.path().join("new");
        let two = open(path, 2, 0).here;
        assert_eq!(two, [path.join("partition-0"), path.join("partition-1")]);
        assert_eq!(open(path, 2, 0).here, two);
        refused(path, 1, 0, "holds 2 partitions, one");
        refused(path, 3, 0, "holds 2 partitions, one");
        refused(path, 2, 1, "not 2 partitions and 1 on a DPU");
        let file = path.join("partitions");
        for damaged in ["two\n", "0\n", "", "1 of 2\n", "2 of 1\n", "1 of 2\ndpu ../x\n"] {
            fs::write(&file, damaged).unwrap();
            let read = KeptPartitions::open(path, 2, 0);
            assert!(matches!(read, Err(DirectoryError::Damaged { .. })), "{damaged}");
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&two[1]).unwrap();
        let read = KeptPartitions::open(path, 1, 0);
        assert!(matches!(read, Err(DirectoryError::Damaged { .. })));
        fs::remove_dir(&two[1]).unwrap();
        fs::write(path.join("log-0000000001"), "").unwrap();
        assert_eq!(&open(path, 1, 0).here, std::slice::from_ref(path));
        refused(path, 2, 0, "holds 1 partitions");
        refused(path, 0, 1, "holds 1 partitions");
    }

    #[test]
    fn what_is_on_an_agent_has_a_name_there_that_stays() {
        let directory = tempfile::tempdir().unwrap();
        for (name, here, elsewhere) in [("shrd", 1, 2), ("proc", 0, 1)] {
            let path = &directory.path().join(name);
            let RemotePartitions { id, is_new } = open(path, here, elsewhere).elsewhere.unwrap();
            assert!(is_new && RemotePartitions::is_id(&id), "{id}");
            // The agent may not have it yet.
            let again = open(path, here, elsewhere);
            assert_eq!(again.here.len(), here);
            assert_eq!(again.elsewhere, Some(RemotePartitions { id: id.clone(), is_new }));
            KeptPartitions::confirm(path).unwrap();
            let is_new = false;
            let confirmed = open(path, here, elsewhere).elsewhere;
            assert_eq!(confirmed, Some(RemotePartitions { id, is_new }));
            refused(path, 1, 0, "on a DPU, one a core");
            refused(path, here + 1, elsewhere, "on a DPU, one a core");
        }
        assert!(!RemotePartitions::is_id(&"../".repeat(13)));
    }
}
