//! `sort`: sorts the rows of each batch by columns, such as a key and the time.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use overside_config::Error as ConfigError;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::definition::word::Word;
use crate::stage::{CompiledStage, Resources, StageKind};
use overside_flow_operators::{SortColumn, sort};

/// Columns to sort by, the most significant first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sort(Vec<Word<SortColumn>>);

const COLUMNS_MAX: usize = 64;

impl StageKind for Sort {
    fn check(&mut self, _: &std::path::Path) -> Result<(), ConfigError> {
        match self.0.len() {
            1..=COLUMNS_MAX => Ok(()),
            count => Err(ConfigError::of_key(
                "",
                format!("{count} columns"),
                format!("1 to {COLUMNS_MAX} columns"),
            )),
        }
    }

    fn compile(&self, schema: &SchemaRef, _: &Resources) -> Result<CompiledStage, Error> {
        for column in &self.0 {
            column.0.position(schema)?;
        }
        let columns: Vec<SortColumn> = self.0.iter().map(|column| column.0.clone()).collect();
        Ok(CompiledStage::of(Arc::clone(schema), move |batch| {
            sort(std::slice::from_ref(batch), &columns)
        }))
    }
}
