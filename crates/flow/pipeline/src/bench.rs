//! Measures unpacking, partitioning and packing a table. The stages run one after the other, from memory to
//! memory, so that each has its own time. `overside flow partition` runs them concurrently instead.
//!
//! 1. The table is packed once, as the stages will read and write it.
//! 2. A pass unpacks it, partitions it by the algorithm, and packs each partition. Outputs reuse the
//!    memory of the previous pass.
//! 3. After its clock has stopped, each pass is verified (`check`).
//!
//! Emulated devices have a virtual clock of work, which is the clock of the pass.

mod check;
mod device;

use std::io::Write;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use overside_device::CpuTime;
use overside_device::threads::process_cpu_ns;
use overside_flow_operators::{PartitionKey, PartitionOptions, partition, partition_by_filters};
use overside_tables::pack::{
    CodecPool, Layout, PackOptions, Packer, StageTime, StageTimes, UnpackOptions, Unpacker,
};
use serde::Serialize;

use crate::Error;
pub use check::Check;
use check::Checker;
pub use device::DeviceWork;

/// Algorithm that distributes rows to their partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Each row is read once and copied to its partition.
    #[default]
    OnePass,
    /// One filter over the whole table for each partition, as published implementations do.
    Filters,
}

overside_base::words! {
    Algorithm, "no algorithm is called";
    OnePass "one-pass", Filters "filters"
}

impl Algorithm {
    fn other(self) -> Self {
        match self {
            Self::OnePass => Self::Filters,
            Self::Filters => Self::OnePass,
        }
    }
}

/// Partition key, algorithm and packing that a benchmark measures.
#[derive(Clone, Debug, Default)]
pub struct BenchOptions {
    /// Partition key; without a key the table is only unpacked and packed.
    pub key: Option<PartitionKey>,
    /// Algorithm that distributes rows to their partitions.
    pub algorithm: Algorithm,
    /// Compression of the packed table and of its packed partitions. The layout is always a stream.
    pub pack: PackOptions,
}

/// Size of one packed partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PackedPart {
    /// Number of rows in the partition.
    pub rows: u64,
    /// Length of the packed partition in bytes.
    pub bytes: u64,
}

/// Result of one pass over the table.
#[derive(Clone, Debug, Serialize)]
pub struct Pass {
    /// Times of the stages; their wall times add up.
    #[serde(flatten)]
    pub times: StageTimes,
    /// CPU time of the whole process for the stages and for freeing their memory.
    pub cpu: CpuTime,
    /// Sizes of the partitions, that of null keys last.
    #[serde(skip)]
    pub parts: Vec<PackedPart>,
    /// Work that devices did during this pass.
    pub device: DeviceWork,
    /// Result of verifying the outputs.
    pub check: Check,
}

impl Pass {
    /// Returns the time of all stages.
    pub fn elapsed_ns(&self) -> u64 {
        let StageTimes { unpack, partition, repack } = self.times;
        unpack.wall_ns + partition.wall_ns + repack.wall_ns
    }
}

/// Benchmark of one table.
pub struct Bench {
    schema: SchemaRef,
    options: BenchOptions,
    pool: Arc<CodecPool>,
    packed: Buffer,
    checker: Checker,
    /// Outputs of the previous pass, whose memory is reused.
    outputs: Vec<Vec<u8>>,
}

/// Result of packing: the outputs, the rows of each, and the time.
type Packed = (Vec<Vec<u8>>, Vec<u64>, StageTime);

impl Bench {
    /// Packs the table, and computes the expected partitions.
    ///
    /// # Errors
    /// [`Error`]: the key does not fit the schema, or the table cannot be packed with these options.
    pub fn new(
        schema: &SchemaRef,
        batches: Vec<RecordBatch>,
        mut options: BenchOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        options.pack.layout = Layout::Stream;
        let expected = partitioned(schema, &batches, &options, options.algorithm.other())?;
        let (mut packed, ..) = pack(schema, &[batches], &options, pool, Vec::new())?;
        Ok(Self {
            schema: SchemaRef::clone(schema),
            packed: packed.pop().unwrap_or_default().into(),
            checker: Checker::new(expected)?,
            outputs: Vec::new(),
            pool: Arc::clone(pool),
            options,
        })
    }

    /// Returns the number of bytes of the packed table.
    pub fn packed_bytes(&self) -> u64 {
        self.packed.len() as u64
    }

    /// Unpacks, partitions and packs, and verifies the result.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Verification`] if a partition is wrong.
    pub fn pass(&mut self) -> Result<Pass, Error> {
        let (cpu_ns, device) = (cpu_ns(), DeviceWork::of(&self.pool));
        let (batches, unpack) = self.unpack()?;
        let mut partition = StageTime { bytes_in: unpack.bytes_out, ..StageTime::default() };
        let (algorithm, clock) = (self.options.algorithm, self.pool.clock());
        let begin = clock.now();
        let tables =
            partition.measure(|| partitioned(&self.schema, &batches, &self.options, algorithm))?;
        partition.wall_ns = clock.since(begin).as_nanos() as u64;
        drop(batches);
        let spare = std::mem::take(&mut self.outputs);
        let (outputs, rows, repack) =
            pack(&self.schema, &tables, &self.options, &self.pool, spare)?;
        partition.bytes_out = repack.bytes_in;
        drop(tables);
        let device = DeviceWork::of(&self.pool).since(&device);
        let cpu = device.split(self::cpu_ns() - cpu_ns);
        let sizes = outputs.iter().map(|output| output.len() as u64);
        let parts = (rows.into_iter().zip(sizes)).map(|(rows, bytes)| PackedPart { rows, bytes });
        let pass = Pass {
            times: StageTimes { unpack, partition, repack },
            cpu,
            parts: parts.collect(),
            device,
            check: self.checker.check(&outputs, self.options.pack.outer.is_some())?,
        };
        self.outputs = outputs;
        Ok(pass)
    }

    fn unpack(&self) -> Result<(Vec<RecordBatch>, StageTime), Error> {
        let begin = self.pool.clock().now();
        let mut unpacker =
            Unpacker::bytes(self.packed.clone(), UnpackOptions::default(), &self.pool)?;
        let batches = unpacker.by_ref().collect::<Result<_, _>>()?;
        let wall_ns = self.pool.clock().since(begin).as_nanos() as u64;
        let time = StageTime { wall_ns, ..unpacker.time() };
        Ok((batches, time))
    }
}

fn cpu_ns() -> u64 {
    process_cpu_ns(std::process::id()).unwrap_or(0)
}

/// Batches of each partition, that of null keys last.
fn partitioned(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    options: &BenchOptions,
    algorithm: Algorithm,
) -> Result<Vec<Vec<RecordBatch>>, Error> {
    match (&options.key, algorithm) {
        (None, _) => Ok(vec![batches.to_vec()]),
        (Some(key), Algorithm::OnePass) => {
            let options = PartitionOptions::default();
            Ok(partition(schema, batches, key, options)?.tables)
        }
        (Some(key), Algorithm::Filters) => partition_by_filters(schema, batches, key),
    }
}

/// Packs tables into memory, first into the buffers of `spare`.
fn pack(
    schema: &SchemaRef,
    tables: &[Vec<RecordBatch>],
    options: &BenchOptions,
    pool: &Arc<CodecPool>,
    spare: Vec<Vec<u8>>,
) -> Result<Packed, Error> {
    let begin = pool.clock().now();
    let spare = spare.into_iter().map(|mut output| {
        output.clear();
        output
    });
    let spare = spare.chain(std::iter::repeat_with(Vec::new));
    let mut packers = (tables.iter().zip(spare))
        .map(|(_, output)| Packer::new(output, SchemaRef::clone(schema), options.pack, pool))
        .collect::<Result<Vec<_>, _>>()?;
    // Partitions are packed in turns, as when they are returned by one pass.
    let longest = tables.iter().map(Vec::len).max().unwrap_or(0);
    for number in 0..longest {
        for (packer, table) in packers.iter_mut().zip(tables) {
            if let Some(batch) = table.get(number) {
                packer.write(batch)?;
            }
        }
    }
    let (mut outputs, mut time) = (Vec::new(), StageTime::default());
    for packer in packers {
        let (mut output, spent) = packer.finish()?;
        output.flush()?;
        outputs.push(output);
        time += spent;
    }
    time.wall_ns = pool.clock().since(begin).as_nanos() as u64;
    let rows = tables.iter().map(|table| {
        let rows = table.iter().map(|batch| batch.num_rows() as u64);
        rows.sum()
    });
    Ok((outputs, rows.collect(), time))
}
