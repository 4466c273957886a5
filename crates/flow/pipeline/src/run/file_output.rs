//! Output to files in a directory, or to objects in a bucket: one for each partition, each named when it is
//! complete.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_tables::memory::RowGroupMemory;
use overside_tables::pack::StageTime;

use crate::Error;
use crate::definition::outputs::{Destination, Output, Partition};
use crate::object_store::{ObjectFile, ObjectStore};
use crate::run::packing::Packing;
use crate::stage::PartitionedBatch;
use overside_flow_files::{FileFormat, FileWriter, OutputFile, WriteOptions};
use overside_flow_operators::{RechunkOptions, Rechunker};

/// Default number of rows that are gathered for a batch of a file.
const ROWS: usize = 64 << 10;
/// Maximum number of bytes that are gathered for a batch.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// Writer of an output to a directory or a bucket. No file has a name before [`FileOutput::finish`]; if the
/// output is dropped before, no files are left.
pub struct FileOutput {
    place: Place,
    options: WriteOptions,
    /// Sizes of batches; `None` if they are written as they come.
    rechunk: Option<RechunkOptions>,
    schema: SchemaRef,
    /// Number of partitions, without that of null keys; `None` without a stage that partitions.
    partitions: Option<u32>,
    /// Prefix of the file names.
    prefix: String,
    replace: bool,
    packing: Arc<Packing>,
    /// Memory of the row groups of Parquet.
    row_groups: Arc<RowGroupMemory>,
    files: BTreeMap<Partition, OpenFile>,
}

enum Place {
    Directory(PathBuf),
    Bucket(Arc<ObjectStore>),
}

/// File or object that is being written.
trait PartFile: Write + Send {
    /// Returns the path or the address that the output has once it is finished.
    fn path(&self) -> PathBuf;

    /// Gives it its name. Returns its length.
    fn finish(self: Box<Self>, durable: bool) -> Result<u64, Error>;
}

impl PartFile for OutputFile {
    fn path(&self) -> PathBuf {
        self.path().into()
    }

    fn finish(self: Box<Self>, durable: bool) -> Result<u64, Error> {
        (*self).finish(durable)
    }
}

impl PartFile for ObjectFile {
    fn path(&self) -> PathBuf {
        self.address().into()
    }

    fn finish(self: Box<Self>, _: bool) -> Result<u64, Error> {
        (*self).finish()
    }
}

struct OpenFile {
    writer: FileWriter<Box<dyn PartFile>>,
    waiting: Option<Rechunker>,
    /// Number of batches that arrived, and of their rows.
    batches: u64,
    rows: u64,
}

/// Completed file.
#[derive(Clone, Debug)]
pub struct WrittenFile {
    /// Partition whose rows the file has.
    pub partition: Partition,
    /// Path of the file, or address of the object.
    pub path: PathBuf,
    /// Number of rows in it.
    pub rows: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Time of writing it.
    pub time: StageTime,
}

/// Options for writing an output's files.
#[derive(Clone, Debug)]
pub struct FileOutputOptions {
    /// Format and compression of the files.
    pub write: WriteOptions,
    /// Prefix of the file names, such as `part` in `part-0.arrow`.
    pub prefix: String,
    /// `true` if existing files are replaced.
    pub replace: bool,
    /// Sizes of the batches that are gathered; `None` if batches are written as they come, and row groups of Parquet
    /// wait in the memory of the packing's pool.
    pub gather: Option<Gather>,
}

/// Sizes of the batches of files.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// Number of rows of a batch.
    pub rows: usize,
    /// Approximate maximum of bytes of all batches that are gathered.
    pub bytes: u64,
}

impl Output {
    /// Returns options for this output's files. `bytes` are those of [`Gather`].
    pub fn file_options(&self, prefix: String, replace: bool, bytes: u64) -> FileOutputOptions {
        let gather = Some(Gather { rows: self.rows.unwrap_or(ROWS), bytes });
        FileOutputOptions { write: self.write_options(), prefix, replace, gather }
    }
}

impl FileOutput {
    /// Creates the directory. Files are created with their first rows. Settings of a bucket other than its
    /// address come from the environment ([`ObjectStore::new`]).
    ///
    /// # Errors
    /// [`Error::Refused`] for an output without files, or a bucket without credentials; [`Error::File`].
    pub fn new(
        to: &Destination,
        schema: &SchemaRef,
        partitions: Option<u32>,
        options: FileOutputOptions,
        packing: &Arc<Packing>,
    ) -> Result<Self, Error> {
        let place = match to {
            Destination::Directory(directory) => {
                fs::create_dir_all(directory).map_err(|error| match error.kind() {
                    ErrorKind::AlreadyExists => {
                        let reason = Error::Refused("a file; name a directory".into());
                        Error::file(directory, reason)
                    }
                    _ => Error::file(directory, error),
                })?;
                Place::Directory(directory.clone())
            }
            Destination::ObjectStore(address) => {
                let variables = std::env::vars_os().filter_map(|(name, value)| {
                    name.into_string().ok().zip(value.into_string().ok())
                });
                Place::Bucket(Arc::new(ObjectStore::new(address, variables)?))
            }
            other => return Err(Error::Refused(format!("{other} has no files"))),
        };
        let FileOutputOptions { write, prefix, replace, gather } = options;
        let (rechunk, row_groups) = match gather {
            None => (None, Arc::clone(packing.repack.pool().row_groups())),
            Some(Gather { rows, bytes }) => {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                let (batch_bytes, row_group_bytes) = match write.format {
                    FileFormat::Parquet => (bytes / 4, bytes / 4 * 3),
                    _ => (bytes, 0),
                };
                let files = partitions.unwrap_or(0) as usize + 1;
                let bytes = (batch_bytes / files).clamp(1, BATCH_BYTES_MAX);
                (Some(RechunkOptions { rows, bytes }), RowGroupMemory::new(row_group_bytes))
            }
        };
        Ok(Self {
            place,
            options: write,
            rechunk,
            schema: Arc::clone(schema),
            partitions,
            prefix,
            replace,
            packing: Arc::clone(packing),
            row_groups,
            files: BTreeMap::new(),
        })
    }

    /// Writes rows. A full disk is an error with the name of the file.
    ///
    /// # Errors
    /// [`Error`]; then the output must be dropped.
    pub fn write(&mut self, piece: &PartitionedBatch) -> Result<(), Error> {
        let packing = Arc::clone(&self.packing);
        let file = self.file(piece.partition)?;
        file.batches += 1;
        file.rows += piece.batch.num_rows() as u64;
        let Some(waiting) = &mut file.waiting else {
            return packing.repack.work(|| file.writer.write(&piece.batch));
        };
        let batches = waiting.push(&piece.batch)?;
        packing.repack.work(|| write_all(&mut file.writer, &batches))
    }

    /// Gives the files their names. Without partitions there is one file, even without rows. With
    /// `durable`, they survive a crash of the machine.
    ///
    /// # Errors
    /// [`Error`]; files that already have their names keep them.
    pub fn finish(mut self, durable: bool) -> Result<Vec<WrittenFile>, Error> {
        if self.partitions.is_none() {
            self.file(None)?;
        }
        let mut written = Vec::new();
        for (partition, mut file) in std::mem::take(&mut self.files) {
            let rest = file.waiting.map_or(Ok(Vec::new()), Rechunker::finish)?;
            let (output, time) = self.packing.repack.work(|| {
                write_all(&mut file.writer, &rest)?;
                file.writer.finish()
            })?;
            self.packing.repack.done(file.batches, file.rows, time);
            let path = output.path();
            written
                .push((WrittenFile { partition, path, rows: file.rows, bytes: 0, time }, output));
        }
        // Everything that can fail has been written: now the files get their names.
        let name = |(file, output): (WrittenFile, Box<dyn PartFile>)| {
            Ok(WrittenFile { bytes: output.finish(durable)?, ..file })
        };
        written.into_iter().map(name).collect()
    }

    fn file(&mut self, partition: Partition) -> Result<&mut OpenFile, Error> {
        let name = self.file_name(partition);
        match self.files.entry(partition) {
            std::collections::btree_map::Entry::Occupied(file) => Ok(file.into_mut()),
            std::collections::btree_map::Entry::Vacant(place) => {
                let output: Box<dyn PartFile> = match &self.place {
                    Place::Directory(directory) => {
                        Box::new(OutputFile::create(&directory.join(name), self.replace)?)
                    }
                    Place::Bucket(store) => {
                        Box::new(ObjectFile::create(store, name, self.replace)?)
                    }
                };
                let writer = FileWriter::with_memory(
                    output,
                    &self.schema,
                    self.options,
                    &self.row_groups,
                    self.packing.repack.pool(),
                )?;
                Ok(place.insert(OpenFile {
                    writer,
                    waiting: (self.rechunk)
                        .map(|sizes| Rechunker::new(Arc::clone(&self.schema), sizes)),
                    batches: 0,
                    rows: 0,
                }))
            }
        }
    }

    fn file_name(&self, partition: Partition) -> String {
        let (prefix, extension) = (&self.prefix, self.options.format.extension());
        match (partition, self.partitions) {
            (Some(number), Some(partitions)) => {
                format!("{}.{extension}", partition_name(prefix, number, partitions))
            }
            _ => format!("{prefix}.{extension}"),
        }
    }
}

/// Returns the name of a partition's file: `part-02`; that of null keys is `part-null`.
fn partition_name(prefix: &str, partition: u32, partitions: u32) -> String {
    let width = partitions.saturating_sub(1).to_string().len();
    match partition < partitions {
        true => format!("{prefix}-{partition:0width$}"),
        false => format!("{prefix}-null"),
    }
}

fn write_all(
    writer: &mut FileWriter<Box<dyn PartFile>>,
    batches: &[RecordBatch],
) -> Result<(), Error> {
    batches.iter().try_for_each(|batch| writer.write(batch))
}
