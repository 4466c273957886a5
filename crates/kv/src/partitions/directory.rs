//! A directory for each partition, in that of the server; and what the partitions on a DPU are called there.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::server::random_hex;

/// The file that says how many partitions there are. Where it is missing there is one, in the directory itself.
const FILE: &str = "partitions";
/// Letters of [`Elsewhere::id`].
const ID_LEN: usize = 40;

/// Where the partitions of a store are kept.
#[derive(Debug)]
pub struct KeptPartitions {
    /// Those of this machine, in order.
    pub here: Vec<PathBuf>,
    /// Those on an agent, if it has some.
    pub elsewhere: Option<Elsewhere>,
}

/// Partitions on an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// What they are called there: random, so that no other host knows it.
    pub id: String,
    /// The agent has not said yet that it keeps them.
    pub is_new: bool,
}

/// How the partitions of a store are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// So many are kept in a directory.
    pub here: usize,
    /// Of so many.
    pub all: usize,
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} partitions", self.here)?;
        match self.all - self.here {
            0 => Ok(()),
            more => write!(f, " and {more} on a DPU"),
        }
    }
}

impl Division {
    /// What a server is started with that has it.
    fn options(self) -> String {
        match self.all - self.here {
            0 => format!("--cores {}", self.here),
            there => format!("the design of before and --dpu-cores {there}"),
        }
    }
}

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
        "{path} holds {holds}, one a core, and not {wanted}; start with {options}, or give another directory and \
         copy the keys with a client",
        path = path.display(),
        options = holds.options()
    )]
    Division {
        /// The directory.
        path: PathBuf,
        /// What it holds.
        holds: Division,
        /// What is asked for.
        wanted: Division,
    },
    /// The file that says how partitions are divided has something else.
    #[error("{path} does not say how many partitions there are", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

/// What the file says.
struct Record {
    division: Division,
    elsewhere: Option<Elsewhere>,
}

impl KeptPartitions {
    /// Of `here` partitions in a directory and so many `elsewhere`. Makes a directory that is new ready for them.
    ///
    /// # Errors
    /// [`DirectoryError`]; above all if it holds other numbers of partitions.
    pub fn open(path: &Path, here: usize, elsewhere: usize) -> Result<Self, DirectoryError> {
        let all = here + elsewhere;
        let wanted = Division { here, all };
        let record = match Record::read(path)? {
            Some(record) if record.division != wanted => {
                return Err(DirectoryError::Division {
                    path: path.into(),
                    holds: record.division,
                    wanted,
                });
            }
            Some(record) => record,
            None => {
                let id = || random_hex().map(|id| Elsewhere { id, is_new: true });
                let elsewhere = (elsewhere > 0).then(id).transpose();
                let record = Record {
                    division: wanted,
                    elsewhere: elsewhere.map_err(io_error(path))?,
                };
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

    /// Remembers that the agent keeps what is elsewhere: from now on it must have it.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn confirm(path: &Path) -> Result<(), DirectoryError> {
        match Record::read(path)? {
            Some(Record {
                division,
                elsewhere: Some(Elsewhere { id, is_new: true }),
            }) => {
                let elsewhere = Some(Elsewhere { id, is_new: false });
                Record {
                    division,
                    elsewhere,
                }
                .write(path)
            }
            _ => Ok(()),
        }
    }
}

impl Elsewhere {
    /// Whether a store can be called that: nothing else becomes the name of a directory.
    #[must_use]
    pub fn is_id(text: &str) -> bool {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.len() == ID_LEN && text.bytes().all(is_hex)
    }
}

impl Record {
    /// Of a directory; `None`: it is new.
    fn read(path: &Path) -> Result<Option<Self>, DirectoryError> {
        let name = path.join(FILE);
        match fs::read_to_string(&name) {
            Ok(text) => match Self::parse(&text) {
                Some(record) => Ok(Some(record)),
                None => Err(DirectoryError::Damaged { path: name }),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let whole = Self {
                    division: Division { here: 1, all: 1 },
                    elsewhere: None,
                };
                Ok(has_state(path)?.then_some(whole))
            }
            // Whoever makes the directory says what is wrong with it.
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
                let id = Elsewhere::is_id(id).then(|| id.to_owned())?;
                Some(Elsewhere { id, is_new })
            }
        };
        let is_possible = all > 0 && here <= all && (here < all) == elsewhere.is_some();
        is_possible.then_some(Self {
            division: Division { here, all },
            elsewhere,
        })
    }

    /// Has it reach the disk before anything else does.
    fn write(&self, path: &Path) -> Result<(), DirectoryError> {
        let Division { here, all } = self.division;
        let text = match &self.elsewhere {
            None => format!("{all}\n"),
            Some(Elsewhere { id, is_new }) => {
                let new = if *is_new { " new" } else { "" };
                format!("{here} of {all}\ndpu {id}{new}\n")
            }
        };
        // What clients store is nobody else's business.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(io_error(path))?;
        let (name, unfinished) = (path.join(FILE), path.join(format!("{FILE}.tmp")));
        let write = || {
            let mut file = File::create(&unfinished)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, &name)?;
            File::open(path)?.sync_all()
        };
        write().map_err(io_error(&name))
    }
}

/// Whether a directory has logs or snapshots of one partition.
fn has_state(path: &Path) -> Result<bool, DirectoryError> {
    let is_state = |name: &str| name.starts_with("log-") || name.starts_with("snapshot-");
    let names = match fs::read_dir(path) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.file_name())),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(io_error(path)(source)),
    };
    let names = names.collect::<io::Result<Vec<_>>>();
    let names = names.map_err(io_error(path))?;
    Ok((names.iter()).any(|name| name.to_str().is_some_and(is_state)))
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
    use std::path::Path;

    use super::{DirectoryError, Elsewhere, KeptPartitions};

    fn open(path: &Path, here: usize, elsewhere: usize) -> KeptPartitions {
        KeptPartitions::open(path, here, elsewhere).unwrap()
    }

    fn refused(path: &Path, here: usize, elsewhere: usize, holds: &str) {
        match KeptPartitions::open(path, here, elsewhere) {
            Err(error @ DirectoryError::Division { .. }) => {
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
        for damaged in [
            "two\n",
            "0\n",
            "",
            "1 of 2\n",
            "2 of 1\n",
            "1 of 2\ndpu ../x\n",
        ] {
            fs::write(&file, damaged).unwrap();
            let read = KeptPartitions::open(path, 2, 0);
            assert!(
                matches!(read, Err(DirectoryError::Damaged { .. })),
                "{damaged}"
            );
        }
        fs::remove_file(&file).unwrap();
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
            let Elsewhere { id, is_new } = open(path, here, elsewhere).elsewhere.unwrap();
            assert!(is_new && Elsewhere::is_id(&id), "{id}");
            // Nobody knows yet whether the agent has it.
            let again = open(path, here, elsewhere);
            assert_eq!(again.here.len(), here);
            assert_eq!(
                again.elsewhere,
                Some(Elsewhere {
                    id: id.clone(),
                    is_new
                })
            );
            KeptPartitions::confirm(path).unwrap();
            let is_new = false;
            let confirmed = open(path, here, elsewhere).elsewhere;
            assert_eq!(confirmed, Some(Elsewhere { id, is_new }));
            refused(path, 1, 0, "on a DPU, one a core");
            refused(path, here + 1, elsewhere, "on a DPU, one a core");
        }
        assert!(!Elsewhere::is_id(&"../".repeat(13)));
    }
}
