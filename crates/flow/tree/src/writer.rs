//! Writer of a tree: absorbs batches and passes them down.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_config::LockedFile;

use super::layout::{Node, TreeOptions};
use super::manifest::{Manifest, Run, is_file_of_a_tree};
use super::run;
use overside_flow_files::ReadOptions;
use overside_flow_operators::Error;
use overside_flow_operators::{PartitionOptions, partition, values_bytes};
use overside_tables::pack::CodecPool;
use overside_tables::{Error as TableError, Storage, check_schema};

/// Number of small files of a leaf from which on they are merged.
const SMALL_FILES: usize = 8;
/// Number of files of a node above the leaves from which on it passes on its rows, however small the files
/// are.
const NODE_FILES: usize = 64;
/// Maximum memory that a writer uses to split or merge, in capacities: the rows that are read, and the
/// results. A batch larger than the capacity comes on top, as does the memory of [`TreeWriter::compact`].
pub const MEMORY_CAPACITIES: u64 = 4;
/// Name of the file with the schema.
pub(super) const SCHEMA_FILE: &str = "schema.arrows";

/// Tree that absorbs batches. No other process writes to it at the same time; others may read.
pub struct TreeWriter {
    directory: PathBuf,
    lock: LockedFile,
    manifest: Manifest,
    schema: SchemaRef,
    /// Storage types of the leaves: each batch is checked against them when it arrives.
    leaves: Storage,
    /// Batches that the root has absorbed and not yet written to a file.
    waiting: Vec<RecordBatch>,
    waiting_bytes: u64,
    /// Files that no commit needs any more.
    old: Vec<PathBuf>,
    /// Files that are not part of a commit yet.
    fresh: Vec<PathBuf>,
    /// `true` if only [`Self::commit`] commits.
    is_atomic: bool,
    written: TreeWritten,
    /// `true` after an error: memory may lack rows that the last commit has.
    is_spent: bool,
    pool: Arc<CodecPool>,
}

/// Part of a file of the root, for a tree on another machine.
pub struct ForwardedRun<'a> {
    /// Name of this tree, the same in all calls.
    pub name: &'a str,
    /// Index of the root's child that the part is for; the index behind the last child is for rows without an
    /// id.
    pub child: usize,
    /// Number of the file. Only parts for other children have the same number.
    pub number: u64,
    /// Rows, the same whenever this part is passed.
    pub batches: Vec<RecordBatch>,
}

/// Statistics of a writer since it opened the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeWritten {
    /// Number of rows that were absorbed.
    pub rows: u64,
    /// Number of bytes of their values.
    pub bytes: u64,
    /// Number of bytes of values that were written, in all levels together.
    pub written_bytes: u64,
    /// Number of times that a node was split among its children.
    pub splits: u64,
    /// Number of times that the files of a leaf were merged.
    pub merges: u64,
}

impl TreeWriter {
    /// Opens a tree, or creates one with `options` if there is none.
    ///
    /// # Errors
    /// [`Error`]: the columns do not fit, the tree has other options or columns, it is damaged, or
    /// another process writes to it.
    pub fn open(
        directory: &Path,
        schema: &SchemaRef,
        options: &TreeOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        options.check(schema)?;
        let lock = LockedFile::lock(&Manifest::path(directory))?;
        let schema_file = directory.join(SCHEMA_FILE);
        let manifest = match Manifest::path(directory).try_exists()? {
            true => {
                let manifest = Manifest::read(directory)?;
                if manifest.options != *options {
                    return Err(made_otherwise(directory, &manifest.options));
                }
                let own = run::open(&schema_file, &ReadOptions::default(), pool)?.schema().clone();
                check_schema(&own, schema).map_err(|error| has_others(directory, error))?;
                manifest
            }
            false => {
                refuse_others_files(directory)?;
                let manifest = Manifest::new(options.clone());
                let _ = fs::remove_file(&schema_file);
                run::write(&schema_file, schema, &[], run::options(false), pool)?;
                manifest.write(&lock)?;
                manifest
            }
        };
        let tree = Self {
            directory: directory.into(),
            lock,
            manifest,
            schema: schema.clone(),
            leaves: run::options(true).storage(schema)?,
            waiting: Vec::new(),
            waiting_bytes: 0,
            old: Vec::new(),
            fresh: Vec::new(),
            is_atomic: false,
            written: TreeWritten::default(),
            is_spent: false,
            pool: Arc::clone(pool),
        };
        tree.remove_strays()?;
        Ok(tree)
    }

    /// Returns the schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the options of the tree in a directory; `None` if there is no tree.
    ///
    /// # Errors
    /// [`Error`]: it is damaged.
    pub fn options(directory: &Path) -> Result<Option<TreeOptions>, Error> {
        let found = Manifest::path(directory).try_exists();
        match found.map_err(|error| Error::file(directory, error))? {
            true => Ok(Some(Manifest::read(directory)?.options)),
            false => Ok(None),
        }
    }

    /// Commits nothing before [`Self::commit`], however much is absorbed. Files that a split replaces stay on
    /// the disk until then.
    #[must_use]
    pub fn atomic(mut self) -> Self {
        self.is_atomic = true;
        self
    }

    /// Makes trees on other machines the root's children: only [`Self::pass`] splits the root.
    ///
    /// # Errors
    /// [`Error::Refused`]: it has children of its own.
    pub fn passing(mut self) -> Result<Self, Error> {
        if self.manifest.runs.iter().any(|run| run.node != Node::ROOT) {
            return Err(Error::Refused(format!(
                "{}: the tree has nodes below its root here; take another directory",
                self.directory.display()
            )));
        }
        if self.manifest.name.is_none() {
            // The keys of a hash map are random numbers from the system.
            let number = RandomState::new().hash_one(&self.directory);
            self.manifest.name = Some(format!("tree-{number:016x}"));
            self.manifest.write(&self.lock)?;
        }
        Ok(self)
    }

    /// Returns `true` if the root's children are trees on other machines.
    pub fn passes(&self) -> bool {
        self.manifest.name.is_some()
    }

    /// Returns `true` if the root's rows must be passed on now: the root is full, or an earlier pass may have
    /// passed on a part of them.
    pub fn has_to_pass(&self) -> bool {
        self.passes() && (self.is_full(Node::ROOT) || self.manifest.passed.is_some())
    }

    /// Passes on all committed rows. `to` returns once the part is committed by the other tree; until `pass`
    /// has returned, the same part may be passed again. If a child refuses its part, its parts stay here
    /// and it gets no later one; other children get theirs.
    ///
    /// # Errors
    /// The first error of `to`, and those of [`Self::absorb`].
    pub fn pass(
        &mut self,
        to: &mut dyn FnMut(ForwardedRun<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.attempt(|tree| tree.pass_all(to))
    }

    fn pass_all(
        &mut self,
        to: &mut dyn FnMut(ForwardedRun<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(name) = self.manifest.name.clone() else {
            return Err(Error::Refused("the tree has children of its own".into()));
        };
        let runs: Vec<Run> = self.manifest.of(Node::ROOT).cloned().collect();
        let before = self.manifest.passed.get_or_insert_default().clone();
        self.manifest.write(&self.lock)?;
        let (key, child) = self.manifest.options.children(Node::ROOT);
        let mut children: Vec<u32> = Vec::new();
        let mut lost = BTreeMap::new();
        for run in &runs {
            let batches = self.read(std::slice::from_ref(run))?;
            let parts = partition(&self.schema, &batches, &key, PartitionOptions::default())?;
            drop(batches);
            self.written.splits += 1;
            children = (0..parts.tables.len()).map(|index| child(index).index).collect();
            for (&child, batches) in children.iter().zip(parts.tables) {
                if batches.is_empty() || before.contains(&child) || lost.contains_key(&child) {
                    continue;
                }
                let part = ForwardedRun {
                    name: &name,
                    child: child as usize,
                    number: run.number,
                    batches,
                };
                if let Err(error) = to(part) {
                    lost.insert(child, error);
                }
            }
            if lost.is_empty() {
                self.forget(std::slice::from_ref(run));
                self.commit_all()?;
            }
        }
        children.retain(|child| !lost.contains_key(child));
        self.manifest.passed = (!lost.is_empty()).then_some(children);
        self.commit_all()?;
        lost.into_values().next().map_or(Ok(()), Err)
    }

    /// Returns the statistics since the tree was opened.
    pub fn written(&self) -> TreeWritten {
        self.written
    }

    /// Absorbs a batch. Its rows can be read, and are on the disk, after the next commit; the writer
    /// commits each time that the root reaches its capacity.
    ///
    /// # Errors
    /// [`Error`]. A batch of another schema, or with a value that leaves cannot store, is refused and has no
    /// effect. After any other error the tree is in the state of the last commit and must be opened again.
    pub fn absorb(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.check(batch)?;
        self.attempt(|tree| tree.take_in(batch))
    }

    /// Refuses a batch of another schema, or with values that leaves cannot store.
    fn check(&self, batch: &RecordBatch) -> Result<(), Error> {
        check_schema(&self.schema, batch.schema_ref())?;
        Ok(self.leaves.store(batch).map(drop)?)
    }

    /// Absorbs a batch of a producer that numbers its batches in ascending order, unless the tree or this
    /// writer already has it. The numbers are committed with the rows.
    ///
    /// # Errors
    /// Those of [`Self::absorb`].
    pub fn absorb_numbered(
        &mut self,
        producer: &str,
        sequence: u64,
        batch: &RecordBatch,
    ) -> Result<(), Error> {
        self.check(batch)?;
        if self.manifest.sequences.has(producer, sequence) {
            return Ok(());
        }
        self.attempt(|tree| {
            // Recorded first, because absorbing may commit.
            tree.manifest.sequences.note(producer, sequence);
            tree.take_in(batch)
        })
    }

    /// Writes the root's rows and commits: all absorbed rows are on the disk then.
    ///
    /// # Errors
    /// Those of [`Self::absorb`].
    pub fn commit(&mut self) -> Result<(), Error> {
        self.attempt(Self::commit_all)
    }

    /// Passes all rows down to the leaves and merges the files of each leaf as far as they fit into one
    /// of eight times the capacity.
    ///
    /// # Errors
    /// Those of [`Self::absorb`].
    pub fn compact(&mut self) -> Result<(), Error> {
        self.attempt(Self::compact_all)
    }

    fn attempt(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        if self.is_spent {
            return Err(Error::Spent);
        }
        let done = work(self);
        self.is_spent = done.is_err();
        done
    }

    fn take_in(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let bytes = values_bytes(batch) as u64;
        self.waiting.push(batch.clone());
        self.waiting_bytes += bytes;
        self.manifest.absorbed_bytes += bytes;
        self.written.rows += batch.num_rows() as u64;
        self.written.bytes += bytes;
        if self.waiting_bytes < self.manifest.options.capacity_bytes {
            return Ok(());
        }
        match self.passes() {
            true => self.keep()?,
            false => self.split_root()?,
        }
        match self.is_atomic {
            true => Ok(()),
            false => self.commit_all(),
        }
    }

    /// Writes the waiting batches to a file of the root.
    fn keep(&mut self) -> Result<(), Error> {
        let batches = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        if let Some(passed) = &mut self.manifest.passed {
            // No other tree has these rows.
            passed.clear();
        }
        self.add(Node::ROOT, &batches)
    }

    fn commit_all(&mut self) -> Result<(), Error> {
        if !self.waiting.is_empty() {
            self.keep()?;
            if self.is_full(Node::ROOT) && !self.passes() {
                self.split(Node::ROOT)?;
            }
        }
        // A failed attempt may have replaced the manifest, so these files must stay. The next process that
        // opens the tree removes those that are not needed.
        self.fresh.clear();
        self.manifest.write(&self.lock)?;
        for file in self.old.drain(..) {
            remove(&file)?;
        }
        Ok(())
    }

    fn compact_all(&mut self) -> Result<(), Error> {
        if self.passes() {
            let reason = "the tree passes its rows to other machines: compact the trees there";
            return Err(Error::Refused(reason.into()));
        }
        self.split_root()?;
        for level in 1..self.manifest.options.levels {
            for index in 0..1 << (level * self.manifest.options.bits) {
                self.split(Node { level, index })?;
            }
        }
        for index in 0..=self.manifest.options.leaves() {
            let level = self.manifest.options.levels;
            self.merge(Node { level, index }, 2, SMALL_FILES as u64)?;
        }
        self.commit_all()
    }

    /// Passes the root's batches, in memory and in files, to its children.
    fn split_root(&mut self) -> Result<(), Error> {
        let batches = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        self.pass_down(Node::ROOT, batches)
    }

    fn split(&mut self, node: Node) -> Result<(), Error> {
        self.pass_down(node, Vec::new())
    }

    /// Passes the batches of a node, waiting ones first and then its files, to its children. Children that
    /// become full pass on their rows, too.
    fn pass_down(&mut self, node: Node, mut waiting: Vec<RecordBatch>) -> Result<(), Error> {
        let mut full = vec![node];
        while let Some(node) = full.pop() {
            let mut grown = BTreeSet::new();
            loop {
                let runs = self.some_of(node, bytes_of(&waiting));
                let mut batches = self.take(&runs)?;
                batches.append(&mut waiting);
                if batches.is_empty() {
                    break;
                }
                let (key, child) = self.manifest.options.children(node);
                let parts = partition(&self.schema, &batches, &key, PartitionOptions::default())?;
                drop(batches);
                self.written.splits += 1;
                for (index, batches) in parts.tables.into_iter().enumerate() {
                    if !batches.is_empty() {
                        self.add(child(index), &batches)?;
                        grown.insert(child(index));
                    }
                }
            }
            for child in grown {
                match self.manifest.options.is_leaf(child) {
                    true => self.merge(child, SMALL_FILES, MEMORY_CAPACITIES / 2)?,
                    false if self.is_full(child) => full.push(child),
                    false => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the oldest files of a node that can be read at a time, with `beside` bytes in memory
    /// already. At least one file if `beside` is 0.
    fn some_of(&self, node: Node, beside: u64) -> Vec<Run> {
        let capacity = self.manifest.options.capacity_bytes;
        let mut bytes = beside;
        let runs = self.manifest.of(node).take_while(|run| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(run.bytes);
            is_first || bytes <= capacity.saturating_mul(MEMORY_CAPACITIES / 2)
        });
        runs.cloned().collect()
    }

    /// Returns `true` if a node above the leaves has to pass on its rows, because it has its
    /// capacity or too many files.
    fn is_full(&self, node: Node) -> bool {
        let bytes: u64 = self.manifest.of(node).map(|run| run.bytes).sum();
        bytes >= self.manifest.options.capacity_bytes
            || self.manifest.of(node).count() >= NODE_FILES
    }

    /// Adds a file with these rows to a node.
    fn add(&mut self, node: Node, batches: &[RecordBatch]) -> Result<(), Error> {
        let options = &self.manifest.options;
        if !options.is_leaf(node) {
            return self.write(node, batches);
        }
        let sorted = run::sorted(batches, &options.id, &options.time)?;
        self.write(node, &[sorted])
    }

    /// Merges the small files of a leaf if there are at least `least`, into a file of at most `capacities`
    /// times the capacity.
    fn merge(&mut self, leaf: Node, least: usize, capacities: u64) -> Result<(), Error> {
        let options = &self.manifest.options;
        let mut room = options.capacity_bytes.saturating_mul(capacities);
        let small: Vec<Run> = (self.manifest.of(leaf))
            .filter(|run| run.bytes < options.capacity_bytes)
            .take_while(|run| {
                let fits = run.bytes <= room;
                room = room.saturating_sub(run.bytes);
                fits
            })
            .cloned()
            .collect();
        if small.len() < least {
            return Ok(());
        }
        let (id, time) = (options.id.clone(), options.time.clone());
        let batches = self.take(&small)?;
        let sorted = run::sorted(&batches, &id, &time)?;
        drop(batches);
        self.written.merges += 1;
        self.write(leaf, &[sorted])
    }

    fn write(&mut self, node: Node, batches: &[RecordBatch]) -> Result<(), Error> {
        let run = Run {
            node,
            number: self.manifest.next,
            rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            bytes: bytes_of(batches),
        };
        self.manifest.next += 1;
        let path = self.manifest.file(&self.directory, &run);
        let options = run::options(self.manifest.options.is_leaf(node));
        self.fresh.push(path.clone());
        run::write(&path, &self.schema, batches, options, &self.pool)
            .map_err(|error| Error::file(&path, error))?;
        self.manifest.written_bytes += run.bytes;
        self.written.written_bytes += run.bytes;
        self.manifest.runs.push(run);
        Ok(())
    }

    /// Reads the rows of files and removes the files from the tree with the next commit.
    fn take(&mut self, runs: &[Run]) -> Result<Vec<RecordBatch>, Error> {
        let batches = self.read(runs)?;
        self.forget(runs);
        Ok(batches)
    }

    fn read(&self, runs: &[Run]) -> Result<Vec<RecordBatch>, Error> {
        let mut batches = Vec::new();
        let options =
            ReadOptions { written: Some(SchemaRef::clone(&self.schema)), ..ReadOptions::default() };
        for run in runs {
            let path = self.manifest.file(&self.directory, run);
            let read = run::open(&path, &options, &self.pool).and_then(|reader| {
                for batch in reader {
                    let batch = batch?;
                    check_schema(&self.schema, batch.schema_ref())?;
                    batches.push(batch);
                }
                Ok(())
            });
            read.map_err(|error| Error::file(&path, error))?;
        }
        Ok(batches)
    }

    /// Removes files from the tree with the next commit.
    fn forget(&mut self, runs: &[Run]) {
        for run in runs {
            self.old.push(self.manifest.file(&self.directory, run));
        }
        self.manifest.runs.retain(|run| !runs.contains(run));
    }

    /// Removes files that an earlier process wrote and did not commit.
    fn remove_strays(&self) -> Result<(), Error> {
        let runs = self.manifest.runs.iter();
        let known: HashSet<PathBuf> =
            runs.map(|run| self.manifest.file(&self.directory, run)).collect();
        for path in files(&self.directory)? {
            if !known.contains(&path) {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

impl Drop for TreeWriter {
    /// Removes files that were not committed. If that fails, the next process that opens the tree removes
    /// them.
    fn drop(&mut self) {
        for file in &self.fresh {
            let _ = remove(file);
        }
    }
}

/// Returns the number of bytes of the values of batches.
fn bytes_of(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| values_bytes(batch) as u64).sum()
}

/// Returns the numbered files in a directory.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_file_of_a_tree) {
            files.push(directory.join(entry.file_name()));
        }
    }
    Ok(files)
}

/// Refuses a directory with numbered files but no manifest: the files may not belong to a tree.
fn refuse_others_files(directory: &Path) -> Result<(), Error> {
    match files(directory)?.first() {
        Some(path) => Err(Error::Refused(format!(
            "{}: {} is there, but no tree; take an empty directory",
            directory.display(),
            path.display()
        ))),
        None => Ok(()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn has_others(directory: &Path, error: TableError) -> Error {
    match error {
        TableError::SchemaChange { difference } => Error::Refused(format!(
            "the columns are not those of the tree in {}: {difference}",
            directory.display()
        )),
        other => other.into(),
    }
}

fn made_otherwise(directory: &Path, options: &TreeOptions) -> Error {
    Error::Refused(format!(
        "{}: the tree was made by the {} of {:?}, with time {:?}, {} levels of {} bits and a capacity \
         of {} bytes; name these or none, or another directory",
        directory.display(),
        options.key,
        options.id,
        options.time,
        options.levels,
        options.bits,
        options.capacity_bytes
    ))
}
