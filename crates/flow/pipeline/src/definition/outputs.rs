//! Outputs of a pipeline: destinations, and rules for the partitions that go to each.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use overside_config::{ByteSize, Error};
use overside_tables::pack::{Codec, Outer, PackOptions};
use serde::Deserialize;

use crate::definition::tree::TreeDefinition;
use crate::definition::word::{self, Word};
use overside_flow_files::{FileFormat, WriteOptions};
use overside_flow_operators::MAX_PARTITIONS;

/// Destination with its partitions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Destination of the rows.
    #[serde(deserialize_with = "word::deserialize")]
    pub to: Destination,
    /// Partitions that go there (default: all).
    partitions: Option<Word<Partitions>>,
    /// File format (default: `arrow`).
    pub format: Option<Word<FileFormat>>,
    /// Codec of buffers or pages in files, and of buffers in messages to another endpoint (default: `none`).
    pub codec: Option<Word<Codec>>,
    /// Codec that compresses whole messages in Arrow files, and those to another endpoint.
    pub outer: Option<Word<Outer>>,
    /// Number of rows that are gathered for a batch of a file (default: 65,536).
    pub rows: Option<usize>,
    /// Number of bytes of batches after which a service starts another file (default: 256 MiB).
    pub file_bytes: Option<ByteSize>,
    /// Log-structured tree in the directory, which absorbs the rows.
    pub tree: Option<TreeDefinition>,
    /// File whose first line is the token that another endpoint requires.
    pub password_file: Option<PathBuf>,
    /// Directory with the TLS keys for another endpoint: `ca.pem`, and `host.pem` and `host.key` if
    /// it requires certificates.
    pub tls_keys: Option<PathBuf>,
}

/// Destination of an output.
#[derive(Clone, Debug, PartialEq)]
pub enum Destination {
    /// Files in a directory, one for each partition.
    Directory(PathBuf),
    /// Objects of a bucket, `s3://BUCKET/PREFIX`, one for each partition.
    ObjectStore(String),
    /// Subscribers that request the output from the service.
    Subscribers,
    /// Another Arrow Flight endpoint: `grpc://HOST:PORT/PATH` or `grpc+tls://...`.
    Flight(String),
}

/// Ascending numbers of partitions, and `true` if that of null keys is included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partitions {
    ranges: Vec<(u32, u32)>,
    with_null: bool,
}

/// Partition of a pipeline's batches; `None` without a stage that partitions.
pub type Partition = Option<u32>;

impl Output {
    /// Returns `true` if the partition goes to this output. `partitions` is the number of partitions, without
    /// that of null keys.
    pub fn takes(&self, partition: Partition, partitions: u32) -> bool {
        match (&self.partitions, partition) {
            (Some(rule), Some(number)) => rule.0.contains(number, partitions),
            (Some(_), None) => false,
            (None, _) => true,
        }
    }

    /// Returns format and compression of the output's files.
    pub fn write_options(&self) -> WriteOptions {
        WriteOptions {
            format: self.format.as_ref().map_or_else(FileFormat::default, |word| word.0),
            codec: self.codec.as_ref().map_or(Codec::None, |word| word.0),
            outer: self.outer.as_ref().map(|word| word.0),
            ..WriteOptions::default()
        }
    }

    /// Returns the compression of messages to another endpoint.
    pub fn message_options(&self) -> PackOptions {
        let WriteOptions { codec, outer, .. } = self.write_options();
        PackOptions { codec, outer, ..PackOptions::default() }
    }

    /// Returns `true` if the output consists of files in a directory or an object store; a tree's
    /// files count too.
    fn has_files(&self) -> bool {
        matches!(self.to, Destination::Directory(_) | Destination::ObjectStore(_))
    }

    /// Returns `true` if both outputs write files to the same location.
    pub(crate) fn shares_files(&self, other: &Self) -> bool {
        self.has_files() && self.to == other.to
    }

    pub(crate) fn check(&self, partitions: Option<u32>) -> Result<(), Error> {
        const ROWS: std::ops::RangeInclusive<usize> = 1..=16 << 20;
        let file_keys = [
            ("format", self.format.is_some()),
            ("codec", self.codec.is_some()),
            ("outer", self.outer.is_some()),
            ("rows", self.rows.is_some()),
            ("file_bytes", self.file_bytes.is_some()),
        ];
        let is_flight = matches!(self.to, Destination::Flight(_));
        let passes = self.tree.as_ref().is_some_and(TreeDefinition::passes);
        let sends = is_flight || passes;
        let of_messages = |key: &str| sends && ["codec", "outer"].contains(&key);
        if let Some((key, _)) =
            (file_keys.iter()).find(|(key, is_set)| *is_set && !of_messages(key))
        {
            let problem = match &self.tree {
                Some(_) => Some("a tree has files of its own kind".into()),
                None if !self.has_files() => Some(format!("{} has no files", self.to)),
                None => None,
            };
            let remedy = match self.to {
                Destination::Subscribers if ["codec", "outer"].contains(key) => {
                    "leave it out: a subscriber asks for it"
                }
                _ => "leave it out",
            };
            if let Some(problem) = problem {
                return Err(Error::of_key(key, problem, remedy));
            }
        }
        if let Some(tree) = &self.tree {
            if !matches!(self.to, Destination::Directory(_)) {
                let problem = format!("{} is no directory of this machine", self.to);
                return Err(Error::of_key("tree", problem, "send it to a service with a tree"));
            }
            tree.check()?;
        }
        let flight_keys = [
            ("password_file", self.password_file.is_some()),
            ("tls_keys", self.tls_keys.is_some()),
        ];
        if let Some((key, _)) = flight_keys.iter().find(|(_, is_set)| *is_set)
            && !sends
        {
            let problem = format!("{} is no other endpoint", self.to);
            return Err(Error::of_key(key, problem, "leave it out"));
        }
        self.write_options().check().map_err(|error| {
            Error::of_key("format", error.to_string(), "choose another format or codec")
        })?;
        if let Some(Err(error)) = self.outer.as_ref().map(|outer| outer.0.check()) {
            return Err(Error::of_key("outer", error.to_string(), "choose another level"));
        }
        if let Some(rows) = self.rows
            && !ROWS.contains(&rows)
        {
            let remedy = format!("from {} to {}", ROWS.start(), ROWS.end());
            return Err(Error::of_key("rows", format!("{rows} rows"), remedy));
        }
        match (&self.partitions, partitions) {
            (Some(_), None) => Err(Error::of_key(
                "partitions",
                "no stage partitions",
                "leave it out, or add a stage with `partition`",
            )),
            (Some(rule), Some(count)) => match rule.0.ranges.last() {
                Some((_, last)) if *last >= count => Err(Error::of_key(
                    "partitions",
                    format!("there is no partition {last}"),
                    format!("0 to {}, and null", count - 1),
                )),
                _ => Ok(()),
            },
            (None, _) => Ok(()),
        }
    }
}

impl Partitions {
    /// Returns `true` if the partition is in these ranges. `partitions` is the number of partitions, without
    /// that of null keys.
    pub fn contains(&self, partition: u32, partitions: u32) -> bool {
        match partition < partitions {
            true => (self.ranges.iter()).any(|(first, last)| (*first..=*last).contains(&partition)),
            false => self.with_null,
        }
    }
}

/// Parses `0,2..5,null`: the end of a range is excluded, as for bits.
impl FromStr for Partitions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        let number = |part: &str| {
            let parsed: Option<u32> = part.trim().parse().ok();
            parsed
                .filter(|number| *number as usize <= MAX_PARTITIONS)
                .ok_or_else(|| format!("{part:?} is no number of a partition"))
        };
        for part in text.split(',') {
            if part.trim() == "null" {
                all.with_null = true;
                continue;
            }
            let (first, end) = match part.split_once("..") {
                Some((first, end)) => (number(first)?, number(end)?),
                None => (number(part)?, number(part)? + 1),
            };
            if first >= end {
                return Err(format!("{part:?} has no partition in it"));
            }
            all.ranges.push((first, end - 1));
        }
        all.ranges.sort_by_key(|(_, last)| *last);
        Ok(all)
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bounded = (1..=4096).contains(&text.len()) && !text.contains(char::is_control);
        let schemes = "a directory, s3://BUCKET/PREFIX, grpc://HOST:PORT/PATH, grpc+tls://..., or \
                       subscribers";
        match text.split_once("://") {
            _ if !bounded => Err(format!("not 1 to 4096 characters; write {schemes}")),
            Some(("s3", _)) => Ok(Self::ObjectStore(text.into())),
            Some(("grpc" | "grpc+tls", _)) => Ok(Self::Flight(text.into())),
            Some((scheme, _)) => Err(format!("{scheme}:// is not known; write {schemes}")),
            None if text == "subscribers" => Ok(Self::Subscribers),
            None => Ok(Self::Directory(text.into())),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::ObjectStore(address) | Self::Flight(address) => f.write_str(address),
            Self::Subscribers => f.write_str("subscribers"),
        }
    }
}
