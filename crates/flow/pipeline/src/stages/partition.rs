//! `partition`: distributes the rows by a key.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::definition::word::Word;
use crate::stage::{CompiledStage, PartitionedBatch, Resources, StageFunction, StageKind};
use overside_flow_operators::{PartitionKey, PartitionMethod, PartitionOptions, Partitioner};

/// Key and method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Partition {
    /// Name of the key column.
    key: String,
    /// Method: `bits:2`, `bits:4..6`, `hash:16` or `ranges:10,20`.
    by: Word<PartitionMethod>,
}

impl StageKind for Partition {
    fn partitions(&self) -> Option<u32> {
        u32::try_from(self.by.0.partitions()).ok()
    }

    fn compile(&self, schema: &SchemaRef, _: &Resources) -> Result<CompiledStage, Error> {
        let key = PartitionKey { column: self.key.clone(), method: self.by.0.clone() };
        let input = Arc::clone(schema);
        let new = move || {
            let options = PartitionOptions::streaming();
            Partitioner::new(Arc::clone(&input), &key, options)
        };
        new()?;
        let make = move || {
            let mut partitioner = new()?;
            let apply = move |batch: &RecordBatch| {
                let pieces = partitioner.push(batch)?.into_iter();
                let piece = |(partition, batch)| PartitionedBatch {
                    partition: Some(partition as u32),
                    batch,
                };
                Ok(pieces.map(piece).collect())
            };
            Ok(Box::new(apply) as Box<dyn StageFunction>)
        };
        Ok(CompiledStage { schema: Arc::clone(schema), make: Box::new(make) })
    }
}
