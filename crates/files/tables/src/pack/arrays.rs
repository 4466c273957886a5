//! Makes columns from the buffers of a message.
//!
//! The schema is traversed from its first field to its last, children after their parents; each
//! field takes the next node and the next buffers. Arrow validates the result: lengths, offsets,
//! UTF-8, keys of dictionaries.

use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_ipc::{FieldNode, MetadataVersion, RecordBatch};
use arrow_schema::{DataType, Field, UnionMode};

use super::dictionaries::Dictionaries;
use crate::Error;

/// Maximum number of rows of a batch: a column of nulls can have any number without any bytes.
pub(super) const ROWS_MAX: i64 = 1 << 31;
/// Maximum number of values of a child, for the same reason.
const VALUES_MAX: i64 = 1 << 40;

/// Nodes and buffers of a message that no column has taken yet.
pub(super) struct Arrays<'a> {
    nodes: std::vec::IntoIter<FieldNode>,
    buffers: std::vec::IntoIter<Buffer>,
    variadic: std::vec::IntoIter<i64>,
    dictionaries: &'a Dictionaries,
    version: MetadataVersion,
}

impl<'a> Arrays<'a> {
    /// Starts with the nodes of a batch's header, and its decompressed buffers.
    pub(super) fn new(
        batch: &RecordBatch<'_>,
        buffers: Vec<Buffer>,
        dictionaries: &'a Dictionaries,
        version: MetadataVersion,
    ) -> Self {
        let nodes = batch.nodes().into_iter().flatten().copied();
        let variadic = batch.variadicBufferCounts().into_iter().flatten();
        Self {
            nodes: nodes.collect::<Vec<_>>().into_iter(),
            buffers: buffers.into_iter(),
            variadic: variadic.collect::<Vec<_>>().into_iter(),
            dictionaries,
            version,
        }
    }

    /// Makes the next column.
    pub(super) fn column(&mut self, field: &Field) -> Result<ArrayRef, Error> {
        Ok(make_array(self.data(field.data_type(), Some(field))?))
    }

    /// Skips the next column. Returns its number of buffers.
    pub(super) fn skip(&mut self, kind: &DataType) -> Result<usize, Error> {
        self.nodes.next().ok_or_else(too_few)?;
        let left = self.buffers.len();
        for _ in 0..i64::from(self.has_validity(kind)) + self.buffer_count(kind)? {
            self.buffer()?;
        }
        let mut buffers = left - self.buffers.len();
        if !matches!(kind, DataType::Dictionary(..)) {
            for child in children(kind) {
                buffers += self.skip(child.data_type())?;
            }
        }
        Ok(buffers)
    }

    /// Makes the values of a dictionary.
    pub(super) fn values(&mut self, kind: &DataType) -> Result<ArrayRef, Error> {
        Ok(make_array(self.data(kind, None)?))
    }

    /// Checks that all nodes and buffers have been used.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        let is_used = self.nodes.next().is_none()
            && self.buffers.next().is_none()
            && self.variadic.next().is_none();
        match is_used {
            true => Ok(()),
            false => Err(damaged("a batch has more columns than its schema")),
        }
    }

    fn data(&mut self, kind: &DataType, field: Option<&Field>) -> Result<ArrayData, Error> {
        let node = self.nodes.next().ok_or_else(too_few)?;
        let (len, nulls) = (node.length(), node.null_count());
        if !(0..=VALUES_MAX).contains(&len) || !(0..=len).contains(&nulls) {
            return Err(damaged("a column has an impossible length"));
        }
        let mut builder = ArrayData::builder(kind.clone()).len(len as usize);
        if self.has_validity(kind) {
            let validity = self.buffer()?;
            builder = builder.null_bit_buffer((nulls > 0).then_some(validity));
        }
        let mut buffers = Vec::new();
        for _ in 0..self.buffer_count(kind)? {
            buffers.push(self.buffer()?);
        }
        builder = builder.buffers(buffers);
        match kind {
            DataType::Dictionary(_, _) => {
                #[allow(deprecated)] // There is no other way to the number.
                let number = field.and_then(Field::dict_id);
                let values = number.and_then(|number| self.dictionaries.get(number));
                let values = values.ok_or_else(|| damaged("a dictionary is missing"))?;
                builder = builder.add_child_data(values.to_data());
            }
            _ => {
                for child in children(kind) {
                    builder = builder.add_child_data(self.data(child.data_type(), Some(child))?);
                }
            }
        }
        if len == 0 && matches!(kind, DataType::RunEndEncoded(..)) {
            // Some writers give an empty column a run that ends at 0.
            return Ok(ArrayData::new_empty(kind));
        }
        // Offsets and views of a misaligned buffer are copied to where they can be read.
        Ok(builder.align_buffers(true).build()?)
    }

    fn buffer(&mut self) -> Result<Buffer, Error> {
        self.buffers.next().ok_or_else(too_few)
    }

    fn has_validity(&self, kind: &DataType) -> bool {
        match kind {
            DataType::Null | DataType::RunEndEncoded(..) => false,
            DataType::Union(..) => self.version < MetadataVersion::V5,
            _ => true,
        }
    }

    /// Returns the number of buffers that a column of that type has besides its validity.
    fn buffer_count(&mut self, kind: &DataType) -> Result<i64, Error> {
        Ok(match kind {
            DataType::Null
            | DataType::Struct(_)
            | DataType::FixedSizeList(..)
            | DataType::RunEndEncoded(..) => 0,
            DataType::Utf8
            | DataType::Binary
            | DataType::LargeUtf8
            | DataType::LargeBinary
            | DataType::ListView(_)
            | DataType::LargeListView(_)
            | DataType::Union(_, UnionMode::Dense) => 2,
            DataType::Utf8View | DataType::BinaryView => {
                let count = self.variadic.next().ok_or_else(too_few)?;
                let possible = 0..=self.buffers.len() as i64;
                if !possible.contains(&count) {
                    return Err(too_few());
                }
                1 + count
            }
            _ => 1,
        })
    }
}

/// Returns the child fields of a type.
pub(super) fn children(kind: &DataType) -> Vec<&Field> {
    match kind {
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::FixedSizeList(child, _)
        | DataType::Map(child, _) => vec![child],
        DataType::Struct(fields) => fields.iter().map(|field| &**field).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| &**field).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends, values],
        _ => Vec::new(),
    }
}

fn too_few() -> Error {
    damaged("a batch has fewer columns than its schema")
}

fn damaged(what: &str) -> Error {
    Error::Damaged(what.into())
}
