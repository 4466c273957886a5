//! `compress`: compresses each value of a column.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use overside_config::Error as ConfigError;
use overside_ops::{Config, Operation, prepare};
use overside_tables::pack::Outer;
use serde::{Deserialize, Serialize};

use super::codec::{ColumnCodec, Lengths};
use super::decompress::check_format;
use super::values::BytesColumn;
use crate::Error;
use crate::definition::word::Word;
use crate::stage::{CompiledStage, Resources, StageFunction, StageKind};

/// Column and its codec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Compress {
    column: String,
    /// Codec: `deflate`, `zlib`, `gzip`, `lz4`, `lz4-block` or `zstd`, each also with a level: `zstd:9`.
    codec: Word<Outer>,
}

impl StageKind for Compress {
    fn check(&mut self, _: &Path) -> Result<(), ConfigError> {
        let codec = self.codec.0;
        check_format(codec.format())?;
        let config =
            Config { level: codec.level(), ..Config::new(Operation::Compress(codec.format())) };
        let prepared = prepare(&config).map(|_| ());
        prepared.map_err(|error| ConfigError::of_key("codec", error.to_string(), ""))
    }

    fn takes_device(&self) -> bool {
        true
    }

    fn compile(&self, schema: &SchemaRef, resources: &Resources) -> Result<CompiledStage, Error> {
        let role = "compressed";
        let column = Arc::new(BytesColumn::new(schema, &self.column, Some(false), role)?);
        let (operation, level) = (Operation::Compress(self.codec.0.format()), self.codec.0.level());
        // Headers make incompressible values longer.
        let lengths = Arc::new(Lengths {
            first: |len| len + len / 64 + 1024,
            most: Arc::new(|len| 4 * len + (64 << 10)),
        });
        let (schema, resources) = (Arc::clone(&column.schema), resources.clone());
        let make = move || {
            let (column, lengths) = (Arc::clone(&column), Arc::clone(&lengths));
            let codec = ColumnCodec::new(column, operation, level, lengths, &resources)?;
            Ok(Box::new(codec) as Box<dyn StageFunction>)
        };
        Ok(CompiledStage { schema, make: Box::new(make) })
    }
}
