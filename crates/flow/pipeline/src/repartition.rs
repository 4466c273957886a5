//! Unpacks, partitions and packs tables, whose producers and consumers group rows differently. Rows of a
//! partition can be sorted in between.

use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_tables::pack::{CodecPool, StageTime, StageTimes};

use crate::Error;
use overside_flow_files::{FileWriter, WriteOptions};
use overside_flow_operators::{
    PartitionKey, PartitionOptions, Partitioner, Piece, SkewReport, SortColumn, parts, sort,
    values_bytes,
};

/// Number of rows of a batch of sorted rows.
const SORTED_ROWS: usize = 64 << 10;

/// Splits batches into one table for each partition. `create` makes the output of a partition when its first
/// rows arrive; the index is that of [`Piece`].
pub struct Repartition<W: Write + Send + 'static, F> {
    partitioner: Partitioner,
    time: StageTime,
    tables: Tables<W, F>,
}

/// Outputs of a repartitioning, with sizes and times.
pub struct Repartitioned<W> {
    /// Outputs by partition; those without rows are left out.
    pub outputs: Vec<(usize, W)>,
    /// Rows and bytes of each partition.
    pub skew: SkewReport,
    /// Time of partitioning and packing. The time of unpacking is zero, because the caller unpacks.
    pub times: StageTimes,
    /// Time of sorting; `None` if nothing was sorted.
    pub sort: Option<StageTime>,
}

/// Tables that are being written.
struct Tables<W: Write + Send + 'static, F> {
    writers: Vec<Option<FileWriter<W>>>,
    create: F,
    schema: SchemaRef,
    options: WriteOptions,
    pool: Arc<CodecPool>,
    sort: Option<Sorting>,
}

/// Rows that wait until the input ends.
struct Sorting {
    columns: Vec<SortColumn>,
    /// Waiting batches by partition.
    waiting: Vec<Vec<RecordBatch>>,
    time: StageTime,
}

impl Sorting {
    /// Returns the rows of a partition, sorted, in batches.
    fn sorted(&mut self, partition: usize) -> Result<Vec<RecordBatch>, Error> {
        let batches = std::mem::take(&mut self.waiting[partition]);
        if batches.is_empty() {
            return Ok(batches);
        }
        let sorted = self.time.measure(|| sort(&batches, &self.columns))?;
        let bytes = values_bytes(&sorted) as u64;
        self.time.bytes_in += bytes;
        self.time.bytes_out += bytes;
        Ok(parts(&sorted, SORTED_ROWS).collect())
    }
}

impl<W: Write + Send + 'static, F: FnMut(usize) -> Result<W, Error>> Repartition<W, F> {
    /// Starts with tables of that schema.
    ///
    /// # Errors
    /// [`Error`]: the key does not fit the schema.
    pub fn new(
        schema: &SchemaRef,
        key: &PartitionKey,
        options: WriteOptions,
        pool: &Arc<CodecPool>,
        create: F,
    ) -> Result<Self, Error> {
        options.check_columns(schema)?;
        let schema = SchemaRef::clone(schema);
        let partitioning = PartitionOptions::default();
        let partitioner =
            Partitioner::with_memory(SchemaRef::clone(&schema), key, partitioning, pool.memory())?;
        Ok(Self {
            tables: Tables {
                writers: (0..=partitioner.partitions()).map(|_| None).collect(),
                create,
                schema,
                options,
                pool: Arc::clone(pool),
                sort: None,
            },
            partitioner,
            time: StageTime::default(),
        })
    }

    /// Sorts the rows of each partition by these columns. They wait in memory until the input ends.
    ///
    /// # Errors
    /// [`Error`]: there is no such column, or none is given.
    pub fn sorted_by(mut self, columns: Vec<SortColumn>) -> Result<Self, Error> {
        // Sorting an empty table checks the columns.
        sort(&[RecordBatch::new_empty(Arc::clone(&self.tables.schema))], &columns)?;
        self.tables.sort = Some(Sorting {
            columns,
            waiting: self.tables.writers.iter().map(|_| Vec::new()).collect(),
            time: StageTime::default(),
        });
        Ok(self)
    }

    /// Partitions a batch.
    ///
    /// # Errors
    /// [`Error`], also for a batch of another schema.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let pieces = self.time.measure(|| self.partitioner.push(batch))?;
        self.time.bytes_in += values_bytes(batch) as u64;
        self.tables.write(pieces)
    }

    /// Writes the remaining rows and completes the tables.
    ///
    /// # Errors
    /// [`Error`].
    pub fn finish(mut self) -> Result<Repartitioned<W>, Error> {
        let partitioner = self.partitioner;
        let (pieces, skew) = self.time.measure(|| partitioner.finish())?;
        self.tables.write(pieces)?;
        self.time.bytes_out = skew.bytes();
        let sort = self.tables.write_sorted()?;
        let (outputs, repack) = self.tables.finish()?;
        Ok(Repartitioned {
            outputs,
            skew,
            sort,
            times: StageTimes { unpack: StageTime::default(), partition: self.time, repack },
        })
    }
}

impl<W: Write + Send + 'static, F: FnMut(usize) -> Result<W, Error>> Tables<W, F> {
    fn write(&mut self, pieces: Vec<Piece>) -> Result<(), Error> {
        for (partition, batch) in pieces {
            if let Some(sort) = &mut self.sort {
                sort.waiting[partition].push(batch);
                continue;
            }
            let writer = match &mut self.writers[partition] {
                Some(writer) => writer,
                none => {
                    let output = (self.create)(partition)?;
                    let writer = FileWriter::new(output, &self.schema, self.options, &self.pool)?;
                    none.insert(writer)
                }
            };
            writer.write(&batch)?;
        }
        Ok(())
    }

    /// Sorts and writes the waiting rows. Returns the time of sorting.
    fn write_sorted(&mut self) -> Result<Option<StageTime>, Error> {
        let Some(mut sort) = self.sort.take() else {
            return Ok(None);
        };
        for partition in 0..sort.waiting.len() {
            let batches = sort.sorted(partition)?;
            let pieces = batches.into_iter().map(|batch| (partition, batch));
            self.write(pieces.collect())?;
        }
        Ok(Some(sort.time))
    }

    fn finish(self) -> Result<(Vec<(usize, W)>, StageTime), Error> {
        let mut repack = StageTime::default();
        let mut outputs = Vec::new();
        for (partition, writer) in self.writers.into_iter().enumerate() {
            if let Some(writer) = writer {
                let (output, time) = writer.finish()?;
                repack += time;
                outputs.push((partition, output));
            }
        }
        Ok((outputs, repack))
    }
}
