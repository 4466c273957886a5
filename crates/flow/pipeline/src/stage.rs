//! Stages: functions that are applied to each batch. A kind of stage is a file in `stages` and a line in the
//! table in `definition::stage`.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_config::Error as ConfigError;
use overside_device::{Device, Operation};
use overside_placement::{Policy, Report};

use crate::Error;
use crate::definition::outputs::Partition;
use overside_flow_operators::values_bytes;

/// Batch with its partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionedBatch {
    /// Partition of the rows; that of null keys comes after all others.
    pub partition: Partition,
    /// Rows of the batch.
    pub batch: RecordBatch,
}

impl PartitionedBatch {
    /// Wraps a batch that is not partitioned.
    pub fn new(batch: RecordBatch) -> Self {
        Self { partition: None, batch }
    }
}

/// Returns the number of bytes of the values of several batches.
pub(crate) fn bytes_of(pieces: &[PartitionedBatch]) -> u64 {
    let bytes = pieces.iter().map(|piece| values_bytes(&piece.batch) as u64);
    bytes.sum()
}

/// Kind of a stage: the settings that a definition gives it, and the work that they describe.
pub(crate) trait StageKind: Debug + Send + Sync {
    /// Checks the settings as far as that is possible without data. Files that they name are relative to
    /// `directory` and read now, so that the settings are complete without them.
    fn check(&mut self, directory: &Path) -> Result<(), ConfigError> {
        let _ = directory;
        Ok(())
    }

    /// Returns `true` if a device can do the work of this kind.
    fn takes_device(&self) -> bool {
        false
    }

    /// Returns its number of partitions, without that of null keys; `None` if it does not partition.
    fn partitions(&self) -> Option<u32> {
        None
    }

    /// Compiles the stage for batches of a schema.
    fn compile(&self, schema: &SchemaRef, resources: &Resources) -> Result<CompiledStage, Error>;
}

/// Devices that a stage may use on the machine that it runs on.
#[derive(Clone, Default)]
pub(crate) struct Resources {
    /// Devices that take part, and their shares.
    pub devices: Option<(Vec<Arc<dyn Device>>, Policy)>,
}

/// Function that makes the stage's function for one thread.
pub(crate) type MakeFunction = Box<dyn Fn() -> Result<Box<dyn StageFunction>, Error> + Send + Sync>;

/// Stage for batches of one schema.
pub(crate) struct CompiledStage {
    /// Schema of the results.
    pub schema: SchemaRef,
    /// Makes the stage's function for one thread.
    pub make: MakeFunction,
}

/// Function of a stage on one thread: a pure function of a batch.
pub(crate) trait StageFunction: Send {
    /// Returns the results of a batch. A piece whose partition is `None` belongs to the partition
    /// of the batch.
    fn apply(&mut self, batch: &RecordBatch) -> Result<Vec<PartitionedBatch>, Error>;

    /// Returns the work that it has run through executors, on their threads and on devices.
    fn reports(&self) -> Vec<(Operation, Report)> {
        Vec::new()
    }
}

impl CompiledStage {
    /// Creates a stage from a function that needs no state and no resources.
    pub(crate) fn of<F>(schema: SchemaRef, function: F) -> Self
    where
        F: Fn(&RecordBatch) -> Result<RecordBatch, Error> + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        let make = move || {
            let function = Arc::clone(&function);
            Ok(Self::boxed(move |batch| function(batch)))
        };
        Self { schema, make: Box::new(make) }
    }

    /// Boxes a function that makes one batch of each batch.
    pub(crate) fn boxed<F>(mut function: F) -> Box<dyn StageFunction>
    where
        F: FnMut(&RecordBatch) -> Result<RecordBatch, Error> + Send + 'static,
    {
        Box::new(move |batch: &RecordBatch| Ok(vec![PartitionedBatch::new(function(batch)?)]))
    }
}

impl<F: FnMut(&RecordBatch) -> Result<Vec<PartitionedBatch>, Error> + Send> StageFunction for F {
    fn apply(&mut self, batch: &RecordBatch) -> Result<Vec<PartitionedBatch>, Error> {
        self(batch)
    }
}
