//! Structs, with a column for each field.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Fields};
use overside_tables::memory::BufferPool;

use super::bits::Validity;
use super::{Column, column};
use crate::Error;
use crate::order::Order;

/// Column of structs.
pub(super) struct Struct {
    fields: Fields,
    columns: Vec<Box<dyn Column>>,
    validity: Validity,
}

impl Struct {
    pub(super) fn new(kind: DataType, partitions: usize, memory: &Arc<BufferPool>) -> Self {
        let fields = match kind {
            DataType::Struct(fields) => fields,
            _ => Fields::empty(),
        };
        let columns = fields.iter().map(|field| column(field.data_type(), partitions, memory));
        Self { columns: columns.collect(), fields, validity: Validity::new(partitions) }
    }
}

impl Column for Struct {
    fn is_compatible(&self, block: &dyn Array) -> bool {
        let mut columns = self.columns.iter().zip(block.as_struct().columns());
        columns.all(|(column, block)| column.is_compatible(block))
    }

    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let block = block.as_struct();
        for (column, block) in self.columns.iter_mut().zip(block.columns()) {
            column.append(block, order)?;
        }
        self.validity.append(block.nulls(), order);
        Ok(())
    }

    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (rows, nulls, mut bytes) = self.validity.flush(partition);
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            let (array, more) = column.flush(partition)?;
            arrays.push(array);
            bytes += more;
        }
        let array = StructArray::try_new_with_length(self.fields.clone(), arrays, nulls, rows)?;
        Ok((Arc::new(array), bytes))
    }
}
