//! Unpack, partition, pack again: the three stages of tables whose producers and consumers want
//! other rows together.

use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_tables::pack::{CodecPool, StageTime, StageTimes};

use crate::Error;
use crate::files::{FileWriter, WriteOptions};
use crate::operators::{
    PartitionKey, PartitionOptions, Partitioner, Piece, SkewReport, values_bytes,
};

/// Splits batches into one table for each partition. `create` makes the output of a partition when
/// its first rows come; the index is that of [`Piece`].
pub struct Repartition<W: Write + Send + 'static, F> {
    partitioner: Partitioner,
    time: StageTime,
    tables: Tables<W, F>,
}

/// What was written.
pub struct Repartitioned<W> {
    /// The outputs by partition, those without rows left out.
    pub outputs: Vec<(usize, W)>,
    /// Rows and bytes of each partition.
    pub skew: SkewReport,
    /// What partitioning and packing took; unpacking is the caller's.
    pub times: StageTimes,
}

/// The tables that are being written.
struct Tables<W: Write + Send + 'static, F> {
    writers: Vec<Option<FileWriter<W>>>,
    create: F,
    schema: SchemaRef,
    options: WriteOptions,
    pool: Arc<CodecPool>,
}

impl<W: Write + Send + 'static, F: FnMut(usize) -> Result<W, Error>> Repartition<W, F> {
    /// Begins with tables of that schema.
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
            },
            partitioner,
            time: StageTime::default(),
        })
    }

    /// Takes a batch.
    ///
    /// # Errors
    /// [`Error`]; a batch of another schema is one.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let pieces = self.time.measure(|| self.partitioner.push(batch))?;
        self.time.bytes_in += values_bytes(batch) as u64;
        self.tables.write(pieces)
    }

    /// Writes what is left and ends the tables.
    ///
    /// # Errors
    /// [`Error`].
    pub fn finish(mut self) -> Result<Repartitioned<W>, Error> {
        let partitioner = self.partitioner;
        let (pieces, skew) = self.time.measure(|| partitioner.finish())?;
        self.tables.write(pieces)?;
        self.time.bytes_out = skew.bytes();
        let (outputs, repack) = self.tables.finish()?;
        Ok(Repartitioned {
            outputs,
            skew,
            times: StageTimes {
                unpack: StageTime::default(),
                partition: self.time,
                repack,
            },
        })
    }
}

impl<W: Write + Send + 'static, F: FnMut(usize) -> Result<W, Error>> Tables<W, F> {
    fn write(&mut self, pieces: Vec<Piece>) -> Result<(), Error> {
        for (partition, batch) in pieces {
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
