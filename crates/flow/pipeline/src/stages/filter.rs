//! `filter`: keeps the rows for which an SQL condition is true.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::stage::{CompiledStage, Resources, StageKind};
use overside_flow_operators as operators;

/// SQL condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Filter(String);

impl StageKind for Filter {
    fn compile(&self, schema: &SchemaRef, _: &Resources) -> Result<CompiledStage, Error> {
        let text = self.0.clone();
        let input = Arc::clone(schema);
        // Each thread has its own filter: only one thread at a time can use its patterns.
        operators::Filter::new(Arc::clone(schema), &text)?;
        let make = move || {
            let filter = operators::Filter::new(Arc::clone(&input), &text)?;
            Ok(CompiledStage::boxed(move |batch| filter.apply(batch)))
        };
        Ok(CompiledStage { schema: Arc::clone(schema), make: Box::new(make) })
    }
}
