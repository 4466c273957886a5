//! `select`: computes columns with SQL expressions.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::stage::{CompiledStage, Resources, StageKind};
use overside_flow_operators::Projection;

/// List of columns and expressions, as it is written between SELECT and FROM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Select(String);

impl StageKind for Select {
    fn compile(&self, schema: &SchemaRef, _: &Resources) -> Result<CompiledStage, Error> {
        let text = self.0.clone();
        let input = Arc::clone(schema);
        let schema = Arc::clone(Projection::new(Arc::clone(schema), &text)?.schema());
        let make = move || {
            let projection = Projection::new(Arc::clone(&input), &text)?;
            Ok(CompiledStage::boxed(move |batch| projection.apply(batch)))
        };
        Ok(CompiledStage { schema, make: Box::new(make) })
    }
}
