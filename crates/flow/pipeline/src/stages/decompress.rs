//! `decompress`: decompresses each value of a column.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use overside_config::{ByteSize, Error as ConfigError};
use overside_ops::{Format, Operation};
use overside_tables::pack::Outer;
use serde::{Deserialize, Serialize};

use super::codec::{ColumnCodec, Lengths};
use super::values::BytesColumn;
use crate::Error;
use crate::definition::word::Word;
use crate::stage::{CompiledStage, Resources, StageFunction, StageKind};

/// Column and its codec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decompress {
    column: String,
    /// Codec: `deflate`, `zlib`, `gzip` (one member), `lz4`, `lz4-block` or `zstd` (one frame).
    codec: Word<Outer>,
    /// `true` if the decompressed values are text; the column then has a string type.
    #[serde(default)]
    text: bool,
    /// Maximum length of a decompressed value (default: 64 MiB).
    value_bytes_max: Option<ByteSize>,
}

const VALUE_BYTES: std::ops::RangeInclusive<u64> = 1..=1 << 30;
const VALUE_BYTES_MAX: u64 = 64 << 20;

impl StageKind for Decompress {
    fn check(&mut self, _: &Path) -> Result<(), ConfigError> {
        let wrong =
            |key: &str, problem: &str, remedy: &str| Err(ConfigError::of_key(key, problem, remedy));
        if self.codec.0.level().is_some() {
            return wrong("codec", "decompression has no level", "leave it out");
        }
        check_format(self.codec.0.format())?;
        match self.value_bytes_max {
            Some(most) if !VALUE_BYTES.contains(&most.0) => {
                wrong("value_bytes_max", "out of range", "1 B to 1 GiB")
            }
            _ => Ok(()),
        }
    }

    fn takes_device(&self) -> bool {
        true
    }

    fn compile(&self, schema: &SchemaRef, resources: &Resources) -> Result<CompiledStage, Error> {
        let role = "decompressed";
        let column = Arc::new(BytesColumn::new(schema, &self.column, Some(self.text), role)?);
        let operation = Operation::Decompress(self.codec.0.format());
        let most = self.value_bytes_max.map_or(VALUE_BYTES_MAX, |most| most.0) as usize;
        let lengths = Arc::new(Lengths {
            first: |len| len.saturating_mul(4).max(256),
            most: Arc::new(move |_| most),
        });
        let (schema, resources) = (Arc::clone(&column.schema), resources.clone());
        let make = move || {
            let (column, lengths) = (Arc::clone(&column), Arc::clone(&lengths));
            let codec = ColumnCodec::new(column, operation, None, lengths, &resources)?;
            Ok(Box::new(codec) as Box<dyn StageFunction>)
        };
        Ok(CompiledStage { schema, make: Box::new(make) })
    }
}

/// Refuses formats that are not of whole values.
pub(super) fn check_format(format: Format) -> Result<(), ConfigError> {
    match format {
        Format::DeflatePart => Err(ConfigError::of_key(
            "codec",
            "deflate-part is no whole stream",
            "there are: deflate, zlib, gzip, lz4-block, lz4, zstd",
        )),
        _ => Ok(()),
    }
}
