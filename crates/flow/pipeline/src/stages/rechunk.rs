//! `rechunk`: splits batches to a number of rows or bytes.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_config::{ByteSize, Error as ConfigError};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::stage::{CompiledStage, PartitionedBatch, Resources, StageFunction, StageKind};
use overside_flow_operators::{RechunkOptions, Rechunker};

/// Maximum size of batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rechunk {
    /// Maximum number of rows.
    rows: Option<usize>,
    /// Approximate maximum of bytes.
    bytes: Option<ByteSize>,
}

const ROWS: RangeInclusive<usize> = 1..=16 << 20;
const BYTES: RangeInclusive<u64> = 1 << 10..=1 << 30;

impl Rechunk {
    fn options(&self) -> RechunkOptions {
        let default = RechunkOptions::default();
        let bytes = self.bytes.and_then(|bytes| usize::try_from(bytes.0).ok());
        RechunkOptions {
            rows: self.rows.unwrap_or(default.rows),
            bytes: bytes.unwrap_or(default.bytes),
        }
    }
}

impl StageKind for Rechunk {
    fn check(&mut self, _: &Path) -> Result<(), ConfigError> {
        let wrong = |key: &str, least: u64, most: u64| {
            Err(ConfigError::of_key(key, "out of range", format!("{least} to {most}")))
        };
        match (self.rows, self.bytes) {
            (Some(rows), _) if !ROWS.contains(&rows) => {
                wrong("rows", *ROWS.start() as u64, *ROWS.end() as u64)
            }
            (_, Some(bytes)) if !BYTES.contains(&bytes.0) => {
                wrong("bytes", *BYTES.start(), *BYTES.end())
            }
            _ => Ok(()),
        }
    }

    fn compile(&self, schema: &SchemaRef, _: &Resources) -> Result<CompiledStage, Error> {
        let (input, options) = (Arc::clone(schema), self.options());
        let make = move || {
            let input = Arc::clone(&input);
            let apply = move |batch: &RecordBatch| {
                let mut rechunker = Rechunker::new(Arc::clone(&input), options);
                let mut batches = rechunker.push(batch)?;
                batches.extend(rechunker.finish()?);
                Ok(batches.into_iter().map(PartitionedBatch::new).collect())
            };
            Ok(Box::new(apply) as Box<dyn StageFunction>)
        };
        Ok(CompiledStage { schema: Arc::clone(schema), make: Box::new(make) })
    }
}
