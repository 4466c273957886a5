//! Columns of other types, by Arrow's own kernels: `take` for each partition of a block, and `concat` at the
//! end of a batch.

use arrow_array::{Array, ArrayRef, UInt16Array, new_empty_array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use arrow_select::concat::concat;
use arrow_select::take::take;

use super::Column;
use crate::Error;
use crate::order::Order;

/// Column of any type.
pub(super) struct GatheredColumn {
    kind: DataType,
    parts: Vec<Vec<ArrayRef>>,
    /// `true` if the type contains dictionaries, which `concat` may be unable to join.
    has_dictionary: bool,
    is_used: bool,
}

impl GatheredColumn {
    pub(super) fn new(kind: DataType, partitions: usize) -> Self {
        Self {
            has_dictionary: has_dictionary(&kind),
            kind,
            parts: vec![Vec::new(); partitions],
            is_used: false,
        }
    }
}

fn has_dictionary(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, _) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => has_dictionary(field.data_type()),
        DataType::Union(fields, _) => {
            fields.iter().any(|(_, field)| has_dictionary(field.data_type()))
        }
        _ => false,
    }
}

impl Column for GatheredColumn {
    fn is_compatible(&self, _: &dyn Array) -> bool {
        !(self.has_dictionary && self.is_used)
    }

    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        self.is_used = true;
        for segment in order.segments() {
            let rows = order.rows().clone();
            let rows = ScalarBuffer::new(rows, segment.begin, segment.rows.len());
            let part = take(block, &UInt16Array::new(rows, None), None)?;
            self.parts[segment.partition].push(part);
        }
        Ok(())
    }

    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let parts = std::mem::take(&mut self.parts[partition]);
        let array = match &parts[..] {
            [] => new_empty_array(&self.kind),
            [one] => one.clone(),
            parts => {
                let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                concat(&parts)?
            }
        };
        let data = array.to_data();
        let bytes = data.get_slice_memory_size().unwrap_or_else(|_| data.get_buffer_memory_size());
        Ok((array, bytes as u64))
    }
}
