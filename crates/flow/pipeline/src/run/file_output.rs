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

use crate::Error;
use crate::definition::outputs::{Destination, Output, Partition};
use crate::object_store::{ObjectFile, ObjectStore, ObjectStoreSettings};
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
    rechunk: RechunkOptions,
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
    waiting: Rechunker,
    /// Number of batches that arrived, and of their rows.
    batches: u64,
    rows: u64,
}

/// Completed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// Partition whose rows the file has.
    pub partition: Partition,
    /// Path of the file, or address of the object.
    pub path: PathBuf,
    /// Number of rows in it.
    pub rows: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Options for writing an output's files.
#[derive(Clone, Debug)]
pub struct FileOutputOptions {
    /// Prefix of the file names, such as `part` in `part-0.arrow`.
    pub prefix: String,
    /// `true` if existing files are replaced.
    pub replace: bool,
    /// Approximate maximum of bytes of gathered batches.
    pub gathered_bytes: u64,
}

impl FileOutput {
    /// Creates the directory. Files are created with their first rows. Settings of a bucket other than its
    /// address come from the environment ([`ObjectStoreSettings`]).
    ///
    /// # Errors
    /// [`Error::Refused`] for an output without files, or a bucket without credentials; [`Error::File`].
    pub fn new(
        output: &Output,
        schema: &SchemaRef,
        partitions: Option<u32>,
        options: FileOutputOptions,
        packing: &Arc<Packing>,
    ) -> Result<Self, Error> {
        let place = match &output.to {
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
                let settings = ObjectStoreSettings::from_environment();
                Place::Bucket(Arc::new(ObjectStore::new(address, &settings)?))
            }
            other => return Err(Error::Refused(format!("{other} has no files"))),
        };
        let files = partitions.unwrap_or(0) as usize + 1;
        let gathered_bytes = usize::try_from(options.gathered_bytes).unwrap_or(usize::MAX);
        let write_options = output.write_options();
        let (batch_bytes, row_group_bytes) = match write_options.format {
            FileFormat::Parquet => (gathered_bytes / 4, gathered_bytes / 4 * 3),
            _ => (gathered_bytes, 0),
        };
        Ok(Self {
            place,
            options: write_options,
            rechunk: RechunkOptions {
                rows: output.rows.unwrap_or(ROWS),
                bytes: (batch_bytes / files).clamp(1, BATCH_BYTES_MAX),
            },
            schema: Arc::clone(schema),
            partitions,
            prefix: options.prefix,
            replace: options.replace,
            packing: Arc::clone(packing),
            row_groups: RowGroupMemory::new(row_group_bytes),
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
        let batches = file.waiting.push(&piece.batch)?;
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
            let rest = file.waiting.finish()?;
            let (output, time) = self.packing.repack.work(|| {
                write_all(&mut file.writer, &rest)?;
                file.writer.finish()
            })?;
            self.packing.repack.done(file.batches, file.rows, time);
            written.push((partition, output.path(), file.rows, output));
        }
        // Everything that can fail has been written: now the files get their names.
        let name =
            |(partition, path, rows, output): (Partition, PathBuf, u64, Box<dyn PartFile>)| {
                let bytes = output.finish(durable)?;
                Ok(WrittenFile { partition, path, rows, bytes })
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
                    waiting: Rechunker::new(Arc::clone(&self.schema), self.rechunk),
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
pub fn partition_name(prefix: &str, partition: u32, partitions: u32) -> String {
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
