//! Definition of a pipeline, read from a file. `docs/flow/flow-pipeline.md` describes every key.

pub(crate) mod node;
pub(crate) mod outputs;
pub(crate) mod packing;
pub(crate) mod placement;
pub(crate) mod stage;
pub(crate) mod tree;
pub(crate) mod word;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use overside_config::{ByteSize, Document, Error, Limits, Source, read_text};
use serde::Deserialize;

use crate::definition::node::NodeDefinition;
use crate::definition::outputs::{Destination, Output, Partition};
use crate::definition::packing::PackingDefinition;
use crate::definition::stage::StageDefinition;

/// Value of the key `schema` in a definition.
pub const SCHEMA: &str = "flow-pipeline/1";

const LIMITS: Limits = Limits::bytes(1 << 20);
pub(crate) const NAME_CHARS_MAX: usize = 64;
const STAGES_MAX: usize = 64;
const NODES_MAX: usize = 64;
const OUTPUTS_MAX: usize = 1024;
const FILES_MAX: usize = 100_000;
pub(crate) const THREADS: RangeInclusive<usize> = 1..=1024;
const STREAMS: RangeInclusive<usize> = 1..=1024;
const ROWS: RangeInclusive<usize> = 1..=1 << 20;
const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 46;

/// Pipeline as a user wrote it, checked as far as possible without data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    schema: String,
    /// Name of the pipeline.
    pub name: String,
    /// Number of host threads that work on all streams together (default: one for each core).
    threads: Option<usize>,
    /// Approximate maximum of bytes of batches that all streams together may hold (default: 256 MiB).
    memory: Option<ByteSize>,
    /// Maximum number of streams at a time, which share the memory evenly (default: 8).
    streams: Option<usize>,
    /// Directory in which a service stores batches that do not fit into memory; without it producers wait.
    pub spill: Option<Spill>,
    /// Tables or streams that the pipeline reads.
    #[serde(default)]
    pub input: Input,
    /// Placement of the decompression of input.
    #[serde(default)]
    pub unpack: PackingDefinition,
    /// Placement of the compression of output.
    #[serde(default)]
    pub repack: PackingDefinition,
    /// Other machines, by name.
    #[serde(default)]
    pub nodes: BTreeMap<String, NodeDefinition>,
    /// Stages that each batch passes, in order.
    #[serde(default)]
    pub stages: Vec<StageDefinition>,
    /// Destinations of the results, by name.
    #[serde(default)]
    pub outputs: BTreeMap<String, Output>,
}

/// Input of a pipeline: tables to read, or a Flight path that takes streams.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Tables that `flow run` reads one after the other, as one stream.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Path of the Flight descriptor under which `flow serve` takes streams (default: the pipeline's name).
    pub flight: Option<String>,
    /// Maximum number of rows of a batch; larger ones are split (default: 65,536).
    rows: Option<usize>,
}

/// Directory in which a service stores batches that do not fit into memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spill {
    /// Directory, created if absent.
    pub directory: PathBuf,
    /// Maximum number of bytes in it.
    pub bytes: ByteSize,
    /// `true` if a service starts although batches that were acknowledged are lost there. No key of the definition.
    #[serde(skip)]
    pub accepts_loss: bool,
}

/// Checks that a value, if it is set, is within its bounds.
pub(crate) fn check_range<T: PartialOrd + std::fmt::Display>(
    key: &str,
    value: Option<T>,
    range: &RangeInclusive<T>,
) -> Result<(), Error> {
    match value {
        Some(value) if !range.contains(&value) => {
            let remedy = format!("from {} to {}", range.start(), range.end());
            Err(Error::of_key(key, format!("{value} is out of range"), remedy))
        }
        _ => Ok(()),
    }
}

impl Definition {
    /// Reads the file at `path`, of at most 1 MiB. Paths in it are relative to its directory.
    ///
    /// # Errors
    /// It cannot be read, and those of [`Definition::parse`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_text(path, LIMITS.bytes, Source::Any)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::parse(&path.display().to_string(), &text, directory)
    }

    /// Parses and checks a text; `file` is its name in messages. Paths in it are relative to `directory`.
    ///
    /// # Errors
    /// The first wrong key, its position, and the allowed values.
    pub fn parse(file: &str, text: &str, directory: &Path) -> Result<Self, Error> {
        let document = Document::toml(file, text, LIMITS)?;
        document.schema(SCHEMA)?;
        let mut definition: Self = document.read()?;
        definition.resolve(directory);
        definition.check(directory).map_err(|error| document.locate(error))?;
        document.text("name", &definition.name, NAME_CHARS_MAX)?;
        Ok(definition)
    }

    /// Returns the number of host threads that work on all streams together.
    pub fn threads(&self) -> NonZeroUsize {
        let cores = || available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.and_then(NonZeroUsize::new).unwrap_or_else(cores)
    }

    /// Returns the number of bytes of batches that all streams and queues together may hold: `memory` without
    /// the share of trees.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.map_or(256 << 20, |memory| memory.0.saturating_sub(self.trees_bytes()))
    }

    /// Returns the maximum number of bytes that the trees of all outputs use.
    fn trees_bytes(&self) -> u64 {
        let trees = (self.outputs.values()).filter_map(|output| output.tree.as_ref());
        trees.fold(0, |sum, tree| sum.saturating_add(tree.memory_bytes()))
    }

    /// Returns the maximum number of streams at a time.
    pub fn streams(&self) -> usize {
        self.streams.unwrap_or(8)
    }

    /// Returns the maximum number of rows of a batch.
    pub fn input_rows(&self) -> usize {
        self.input.rows.unwrap_or(64 << 10)
    }

    /// Returns the path of the Flight descriptor that takes streams.
    pub fn flight_path(&self) -> &str {
        self.input.flight.as_deref().unwrap_or(&self.name)
    }

    /// Returns the number of partitions, without the one of null keys; `None` without a stage that
    /// partitions.
    pub fn partitions(&self) -> Option<u32> {
        self.stages.iter().find_map(StageDefinition::partitions)
    }

    /// Returns the outputs of a partition with their names: at least one.
    pub fn routes(&self, partition: Partition) -> impl Iterator<Item = (&str, &Output)> {
        let partitions = self.partitions().unwrap_or(0);
        (self.outputs.iter())
            .filter(move |(_, output)| output.takes(partition, partitions))
            .map(|(name, output)| (name.as_str(), output))
    }

    /// Returns the definition with the number of threads from the command line.
    #[must_use]
    pub fn with_threads(self, threads: NonZeroUsize) -> Self {
        Self { threads: Some(threads.get()), ..self }
    }

    fn resolve(&mut self, directory: &Path) {
        let resolve = |path: &mut PathBuf| *path = directory.join(&path);
        self.input.files.iter_mut().for_each(resolve);
        self.spill.iter_mut().for_each(|spill| resolve(&mut spill.directory));
        for node in self.nodes.values_mut() {
            node.password_file.iter_mut().for_each(resolve);
            node.tls_keys.iter_mut().for_each(resolve);
        }
        for output in self.outputs.values_mut() {
            if let Destination::Directory(path) = &mut output.to {
                resolve(path);
            }
            output.password_file.iter_mut().for_each(resolve);
            output.tls_keys.iter_mut().for_each(resolve);
        }
    }

    fn check(&mut self, directory: &Path) -> Result<(), Error> {
        check_range("threads", self.threads, &THREADS)?;
        check_range("streams", self.streams, &STREAMS)?;
        check_range("input.rows", self.input.rows, &ROWS)?;
        check_range("input.files", Some(self.input.files.len()), &(0..=FILES_MAX))?;
        check_range("stages", Some(self.stages.len()), &(0..=STAGES_MAX))?;
        check_range("nodes", Some(self.nodes.len()), &(0..=NODES_MAX))?;
        if self.outputs.is_empty() {
            let remedy = "add [outputs.NAME] with `to`, as in to = \"results\"";
            return Err(Error::of_key("outputs", "there is none", remedy));
        }
        check_range("outputs", Some(self.outputs.len()), &(1..=OUTPUTS_MAX))?;
        if self.memory.is_some_and(|memory| !MEMORY.contains(&memory.0)) {
            let remedy = "1 MiB to 65536 GiB";
            return Err(Error::of_key("memory", "out of range", remedy));
        }
        for (name, node) in &self.nodes {
            if ["host", "device", "adaptive"].contains(&name.as_str()) || name.contains(':') {
                let key = format!("nodes.{name}");
                let problem = "a placement is called so";
                return Err(Error::of_key(&key, problem, "give the node another name"));
            }
            node.check().map_err(|error| below(&format!("nodes.{name}"), error))?;
        }
        for (key, packing) in [("unpack", &self.unpack), ("repack", &self.repack)] {
            packing.check(&self.nodes).map_err(|error| below(key, error))?;
        }
        let mut has_partitions = false;
        for (index, stage) in self.stages.iter_mut().enumerate() {
            let key = format!("stages.{index}");
            stage.check(directory).map_err(|error| below(&key, error))?;
            let node = stage.placement().node_of(stage.node.as_deref(), &self.nodes);
            node.map_err(|error| below(&key, error))?;
            if stage.partitions().is_some() && std::mem::replace(&mut has_partitions, true) {
                let problem = "another stage has partitioned already";
                let remedy = "partition once, by more bits or a larger hash";
                return Err(below(&key, Error::of_key("partition", problem, remedy)));
            }
        }
        let partitions = self.partitions();
        for (name, output) in &self.outputs {
            let checked = output.check(partitions);
            checked.map_err(|error| below(&format!("outputs.{name}"), error))?;
            let same = |(other, _): &(&String, &Output)| *other < name;
            let mut earlier = self.outputs.iter().filter(same);
            if let Some((other, _)) = earlier.find(|(_, other)| other.shares_files(output)) {
                let problem = format!("output {other:?} writes there, too");
                let error = Error::of_key("to", problem, "give each a directory of its own");
                return Err(below(&format!("outputs.{name}"), error));
            }
        }
        let trees_bytes = self.trees_bytes();
        if trees_bytes > 0 && self.memory.is_some() && self.memory_bytes() < *MEMORY.start() {
            let problem = format!("trees take {trees_bytes} bytes of it");
            let remedy = "more memory, or a smaller `capacity` of the trees";
            return Err(Error::of_key("memory", problem, remedy));
        }
        self.check_routes()
    }

    /// Checks that each partition goes to at least one output.
    fn check_routes(&self) -> Result<(), Error> {
        let all: Vec<Partition> = match self.partitions() {
            Some(partitions) => (0..=partitions).map(Some).collect(),
            None => vec![None],
        };
        let lost = all.into_iter().find(|one| self.routes(*one).next().is_none());
        let Some(lost) = lost else {
            return Ok(());
        };
        let name = match lost {
            Some(number) if Some(number) < self.partitions() => format!("partition {number}"),
            _ => "the partition of rows without a key".to_owned(),
        };
        let remedy = "name it in the `partitions` of an output, or add an output without them";
        Err(Error::of_key("outputs", format!("{name} goes nowhere"), remedy))
    }
}

/// Returns the error for a key below another one.
fn below(key: &str, error: Error) -> Error {
    let key = match error.key.is_empty() {
        true => key.to_owned(),
        false => format!("{key}.{}", error.key),
    };
    Error { key, ..error }
}
