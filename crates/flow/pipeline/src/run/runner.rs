//! Runs a single stage, as a node does.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use overside_tables::check_schema;

use crate::Error;
use crate::definition::stage::StageDefinition;
use crate::stage::{CompiledStage, PartitionedBatch, Resources, StageFunction};

/// Stage for one thread, which a node makes from the host's text.
pub struct StageRunner {
    name: String,
    input: SchemaRef,
    output: SchemaRef,
    function: Box<dyn StageFunction>,
}

impl StageRunner {
    /// Creates a runner from a stage's definition, for batches of a schema. Opens the stage's
    /// device here, if it has one.
    ///
    /// # Errors
    /// [`Error::Stage`]: it does not accept such batches; [`Error::Refused`]: no such device.
    pub fn new(stage: &StageDefinition, schema: &SchemaRef) -> Result<Self, Error> {
        let compiled = compile(stage, schema, stage.device())?;
        let function = (compiled.make)().map_err(|error| in_stage(stage.name(), error))?;
        Ok(Self {
            name: stage.name().to_owned(),
            input: Arc::clone(schema),
            output: compiled.schema,
            function,
        })
    }

    /// Creates a runner from the output of [`StageDefinition::to_toml`].
    ///
    /// # Errors
    /// [`Error::Refused`] for an invalid text, and those of [`StageRunner::new`].
    pub fn parse(text: &str, schema: &SchemaRef) -> Result<Self, Error> {
        let stage = StageDefinition::parse("stage", text);
        Self::new(&stage.map_err(|error| Error::Refused(error.to_string()))?, schema)
    }

    /// Returns the schema of the results.
    pub fn output_schema(&self) -> &SchemaRef {
        &self.output
    }

    /// Runs the stage on a batch, given as its pieces. Returns the resulting pieces.
    ///
    /// # Errors
    /// [`Error::Stage`]; the next batch may succeed. [`TableError::SchemaChange`](crate::TableError).
    pub fn run(&mut self, pieces: Vec<PartitionedBatch>) -> Result<Vec<PartitionedBatch>, Error> {
        for piece in &pieces {
            check_schema(&self.input, piece.batch.schema_ref())?;
        }
        let result = apply(&mut *self.function, pieces);
        result.map_err(|error| in_stage(&self.name, error))
    }
}

/// Applies a stage's function to the pieces of a batch. Drops results without rows.
pub(crate) fn apply(
    function: &mut dyn StageFunction,
    pieces: Vec<PartitionedBatch>,
) -> Result<Vec<PartitionedBatch>, Error> {
    let mut all = Vec::with_capacity(pieces.len());
    for PartitionedBatch { partition, batch } in pieces {
        for piece in function.apply(&batch)? {
            if piece.batch.num_rows() > 0 {
                all.push(PartitionedBatch { partition: piece.partition.or(partition), ..piece });
            }
        }
    }
    Ok(all)
}

/// Compiles a stage for a schema, with that device or those devices.
pub(crate) fn compile(
    stage: &StageDefinition,
    schema: &SchemaRef,
    device: Option<&str>,
) -> Result<CompiledStage, Error> {
    let opened = device.map(|name| overside_backends::open_accelerators(name, 1));
    let opened = opened.transpose();
    let opened = opened.map_err(|error| in_stage(stage.name(), Error::Refused(error.to_string())));
    let policy = stage.device_policy();
    let resources = Resources {
        devices: opened?.filter(|devices| !devices.is_empty()).map(|devices| (devices, policy)),
    };
    let compiled = stage.compile(schema, &resources);
    compiled.map_err(|error| in_stage(stage.name(), error))
}

pub(crate) fn in_stage(name: &str, error: Error) -> Error {
    Error::Stage { stage: name.to_owned(), error: Box::new(error) }
}
