//! Codecs applied to each value of a column: on this thread, or on a device through the executor, with this
//! thread for values that the device does not support.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use overside_ops::{Config, Error as OpsError, Kernel, Operation, prepare};
use overside_placement::{Report, Verify};
use overside_tables::pack::{CodecPool, Job, Placement};

use super::values::{BytesColumn, NewValues, value};
use crate::Error;
use crate::stage::{PartitionedBatch, Resources, StageFunction};

/// Maximum number of bytes of the results of one batch.
const BATCH_BYTES_MAX: usize = 1 << 30;

/// Bounds for the length of a codec's output.
pub(super) struct Lengths {
    /// Returns the room to try first for a source of that length, in bytes.
    pub first: fn(usize) -> usize,
    /// Returns the maximum length of the output.
    pub most: Arc<dyn Fn(usize) -> usize + Send + Sync>,
}

/// One thread's codec.
pub(super) struct ColumnCodec {
    column: Arc<BytesColumn>,
    operation: Operation,
    level: Option<u32>,
    lengths: Arc<Lengths>,
    kernel: Box<dyn Kernel>,
    pool: Option<CodecPool>,
    /// Length in bytes of the longest result of the device so far.
    longest: usize,
}

impl ColumnCodec {
    pub(super) fn new(
        column: Arc<BytesColumn>,
        operation: Operation,
        level: Option<u32>,
        lengths: Arc<Lengths>,
        resources: &Resources,
    ) -> Result<Self, Error> {
        let config = Config { level, ..Config::new(operation) };
        let pool = resources.devices.as_ref().map(|(devices, policy)| {
            let placement =
                Placement { policy: *policy, devices: devices.clone(), verify: Verify::All };
            // The thread of the executor's CPU works while this one waits.
            CodecPool::with_placement(NonZeroUsize::MIN, placement)
        });
        Ok(Self {
            column,
            operation,
            level,
            lengths,
            kernel: prepare(&config)?.kernel()?,
            pool: pool.transpose()?.filter(|pool| pool.is_placed(operation)),
            longest: 0,
        })
    }

    /// Returns the outputs of the device and its executor's CPU, by value. Missing values must be computed on
    /// this thread.
    fn placed(&mut self, sources: &[Option<&[u8]>]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let Some(pool) = &self.pool else {
            return Ok(Vec::new());
        };
        let jobs = sources.iter().flatten().map(|source| Job {
            source: Buffer::from(*source),
            capacity: (self.lengths.first)(source.len()).max(self.longest),
        });
        let results = pool.run_placed(self.operation, self.level, jobs.collect())?;
        let mut results = results.iter();
        let made: Vec<Option<Vec<u8>>> = (sources.iter())
            .map(|source| {
                let result = source.and_then(|_| results.next());
                result.and_then(|result| result.output().map(<[u8]>::to_vec))
            })
            .collect();
        let longest = made.iter().flatten().map(Vec::len).max().unwrap_or(0);
        self.longest = self.longest.max(longest);
        Ok(made)
    }

    /// Appends this thread's result for a source.
    fn append(&mut self, source: &[u8], bytes: &mut Vec<u8>) -> Result<(), Error> {
        let (begin, most) = (bytes.len(), (self.lengths.most)(source.len()));
        let mut room = (self.lengths.first)(source.len()).min(most);
        loop {
            bytes.resize(begin + room, 0);
            match self.kernel.run(&[source], &mut bytes[begin..]) {
                Ok(output) => {
                    bytes.truncate(begin + output.written);
                    return Ok(());
                }
                Err(OpsError::OutputTooSmall { .. }) if room < most => {
                    room = room.saturating_mul(4).clamp(1, most);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl StageFunction for ColumnCodec {
    fn apply(&mut self, batch: &RecordBatch) -> Result<Vec<PartitionedBatch>, Error> {
        let array = Arc::clone(batch.column(self.column.index));
        let rows = batch.num_rows();
        let sources: Vec<Option<&[u8]>> = (0..rows).map(|row| value(&array, row)).collect();
        let total: usize = sources.iter().flatten().map(|source| source.len()).sum();
        let mut placed = self.placed(&sources)?.into_iter();
        let mut values = NewValues::with_capacity(rows, total);
        for source in sources {
            match (placed.next().flatten(), source) {
                (Some(made), _) => values.bytes.extend(made),
                (None, Some(source)) => {
                    let row = values.len();
                    let made = self.append(source, &mut values.bytes);
                    made.map_err(|error| self.in_row(row, error))?;
                }
                (None, None) => {}
            }
            if values.bytes.len() > BATCH_BYTES_MAX {
                return Err(Error::BatchBytes { bytes: values.bytes.len() as u64 });
            }
            values.end_value();
        }
        Ok(vec![PartitionedBatch::new(self.column.replaced(batch, values)?)])
    }

    fn reports(&self) -> Vec<(Operation, Report)> {
        self.pool.as_ref().map_or_else(Vec::new, CodecPool::reports)
    }
}

impl ColumnCodec {
    fn in_row(&self, row: usize, error: Error) -> Error {
        let name = self.column.schema.field(self.column.index).name();
        match error {
            Error::Codec(OpsError::Corrupt(_) | OpsError::OutputTooSmall { .. }) => {
                Error::Damaged(format!("column {name:?}, row {row} of its batch: {error}"))
            }
            other => other,
        }
    }
}
