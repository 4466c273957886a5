//! The schemas of input and outputs, which the first stream decides, or the batches that a start finds on disk.

use std::sync::{Arc, Mutex};

use arrow_schema::SchemaRef;
use overside_base::lock;
use overside_flow::Definition;
use overside_flow::schema_difference;
use tokio::sync::Notify;

use crate::error::ServiceError;

/// Schemas, and the tasks that wait for them.
#[derive(Default)]
pub struct Schemas {
    known: Mutex<KnownSchemas>,
    changed: Notify,
}

/// Schemas that are known so far; each is `None` until a stream or a start decides it.
#[derive(Clone, Default)]
pub struct KnownSchemas {
    /// Schema of input batches.
    pub input: Option<SchemaRef>,
    /// Schema of output batches.
    pub output: Option<SchemaRef>,
}

impl Schemas {
    /// Returns the schemas that are known now.
    pub fn known(&self) -> KnownSchemas {
        lock(&self.known).clone()
    }

    /// Compares the schema of a stream with that of the pipeline's input, which the first stream decides.
    ///
    /// # Errors
    /// [`ServiceError::Schema`]: it is another one; others if the stages cannot take it.
    pub fn take_input(
        &self,
        definition: &Definition,
        schema: &SchemaRef,
    ) -> Result<(), ServiceError> {
        let mut known = lock(&self.known);
        if let Some(input) = &known.input {
            return same(input, schema, "input");
        }
        let output = definition.output_schema(schema)?;
        if let Some(known) = &known.output {
            same(known, &output, "output, of which batches wait,")?;
        }
        known.output.get_or_insert(output);
        known.input = Some(Arc::clone(schema));
        self.changed.notify_waiters();
        Ok(())
    }

    /// Notes the schema of output batches that wait on disk.
    ///
    /// # Errors
    /// [`ServiceError::Schema`]: others have another one.
    pub fn take_output(&self, schema: &SchemaRef) -> Result<(), ServiceError> {
        let mut known = lock(&self.known);
        let known = known.output.get_or_insert_with(|| Arc::clone(schema));
        same(known, schema, "output, of which batches wait,")
    }

    /// The schema of input batches, once it is known.
    pub async fn input(&self) -> SchemaRef {
        self.wait(|known| known.input.clone()).await
    }

    /// The schema of output batches, once it is known.
    pub async fn output(&self) -> SchemaRef {
        self.wait(|known| known.output.clone()).await
    }

    async fn wait(&self, of: impl Fn(&KnownSchemas) -> Option<SchemaRef>) -> SchemaRef {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(schema) = of(&lock(&self.known)) {
                return schema;
            }
            changed.await;
        }
    }
}

fn same(expected: &SchemaRef, found: &SchemaRef, of: &'static str) -> Result<(), ServiceError> {
    match expected.fields() == found.fields() {
        true => Ok(()),
        false => Err(ServiceError::Schema { of, difference: schema_difference(expected, found) }),
    }
}
