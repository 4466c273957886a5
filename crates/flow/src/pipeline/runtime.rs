//! A pipeline that runs.

use std::sync::Arc;

use arrow_schema::SchemaRef;

use super::definition::Definition;
use super::runner::{compile, in_stage};
use super::stage::{CompiledStage, StageDefinition};
use super::stream::Stream;
use crate::Error;

/// The threads, nodes and memory of a definition.
pub struct Pipeline {
    definition: Arc<Definition>,
}

impl Pipeline {
    /// Makes what the definition asks for.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(definition: Definition) -> Result<Self, Error> {
        Ok(Self {
            definition: Arc::new(definition),
        })
    }

    /// What it was made of.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Begins a stream of batches of a schema.
    ///
    /// # Errors
    /// [`Error`]: a stage cannot take such batches, and says which.
    pub fn stream(&self, schema: &SchemaRef) -> Result<Stream, Error> {
        let mut output = Arc::clone(schema);
        let mut functions = Vec::new();
        for stage in &self.definition.stages {
            let compiled = host_stage(stage, &output)?;
            let made = (compiled.make)();
            functions.push(made.map_err(|error| in_stage(stage.name(), error))?);
            output = compiled.schema;
        }
        Ok(Stream::new(Arc::clone(schema), output, functions))
    }
}

impl Definition {
    /// The schema of what comes out of batches of a schema.
    ///
    /// # Errors
    /// As [`Pipeline::stream`].
    pub fn output_schema(&self, schema: &SchemaRef) -> Result<SchemaRef, Error> {
        let mut output = Arc::clone(schema);
        for stage in &self.stages {
            output = host_stage(stage, &output)?.schema;
        }
        Ok(output)
    }
}

/// A stage on the host; a device that is named beside a node is the node's.
fn host_stage(stage: &StageDefinition, schema: &SchemaRef) -> Result<CompiledStage, Error> {
    let device = stage.device().filter(|_| stage.node().is_none());
    compile(stage, schema, device)
}
