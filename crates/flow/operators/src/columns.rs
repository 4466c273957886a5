//! Collectors of the values of one column by partition. A block's rows are appended partition by partition,
//! in the order that was computed once for all columns; no value is copied twice. Types without a collector
//! of their own use Arrow's `take`, and its `concat` at the end of a batch.

mod bits;
mod bytes;
mod dictionary;
mod fixed;
mod generic;
mod nested;
mod unchecked;
mod views;

use std::sync::Arc;

use arrow_array::types::{
    BinaryType, BinaryViewType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use overside_tables::memory::BufferPool;

use super::order::Order;
use crate::Error;

/// Maximum number of bytes that are reserved in advance: a few long values do not predict the next ones.
const ROOM_BYTES_MAX: usize = 4 << 20;

/// Column with the values of all partitions.
pub(super) trait Column: Send {
    /// Returns `true` if the block can be appended to the collected values. Otherwise all
    /// partitions must be flushed first.
    fn is_compatible(&self, _block: &dyn Array) -> bool {
        true
    }

    /// Appends each partition's rows of the block.
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error>;

    /// Returns a partition's collected values and their size in bytes, without values that
    /// partitions share. The partition is empty afterwards.
    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error>;
}

/// Makes a column of `partitions` partitions that collects its values in `memory`.
pub(super) fn column(
    kind: &DataType,
    partitions: usize,
    memory: &Arc<BufferPool>,
) -> Box<dyn Column> {
    use DataType as Kind;
    let (kind, width) = (kind.clone(), kind.primitive_width());
    match &kind {
        Kind::Boolean => Box::new(bits::Booleans::new(partitions)),
        Kind::Utf8 => Box::new(bytes::Bytes::<Utf8Type>::new(partitions, memory)),
        Kind::LargeUtf8 => Box::new(bytes::Bytes::<LargeUtf8Type>::new(partitions, memory)),
        Kind::Binary => Box::new(bytes::Bytes::<BinaryType>::new(partitions, memory)),
        Kind::LargeBinary => Box::new(bytes::Bytes::<LargeBinaryType>::new(partitions, memory)),
        Kind::Utf8View => Box::new(views::Views::<StringViewType>::new(partitions, memory)),
        Kind::BinaryView => Box::new(views::Views::<BinaryViewType>::new(partitions, memory)),
        Kind::FixedSizeBinary(_) => Box::new(fixed::FixedBytes::new(kind, partitions, memory)),
        Kind::Dictionary(_, _) => Box::new(dictionary::Dictionary::new(&kind, partitions, memory)),
        Kind::Struct(_) => Box::new(nested::Struct::new(kind, partitions, memory)),
        _ => match width {
            Some(1) => Box::new(fixed::Fixed::<1>::new(kind, partitions, memory)),
            Some(2) => Box::new(fixed::Fixed::<2>::new(kind, partitions, memory)),
            Some(4) => Box::new(fixed::Fixed::<4>::new(kind, partitions, memory)),
            Some(8) => Box::new(fixed::Fixed::<8>::new(kind, partitions, memory)),
            Some(16) => Box::new(fixed::Fixed::<16>::new(kind, partitions, memory)),
            Some(32) => Box::new(fixed::Fixed::<32>::new(kind, partitions, memory)),
            _ => Box::new(generic::GatheredColumn::new(kind, partitions)),
        },
    }
}
