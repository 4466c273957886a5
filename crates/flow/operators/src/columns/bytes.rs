//! Text and binary with offsets.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::{OffsetBuffer, ScalarBuffer, ToByteSlice};
use overside_tables::memory::{BufferPool, Growing};

use super::bits::Validity;
use super::unchecked;
use super::{Column, ROOM_BYTES_MAX};
use crate::Error;
use crate::order::Order;
use crate::slots::{PIECE, TextRoom};

/// Values of one partition.
struct Part {
    /// Offsets: none, or one more than there are values.
    offsets: Growing,
    values: Growing,
}

/// Column of text or binary.
pub(super) struct Bytes<T> {
    parts: Vec<Part>,
    validity: Validity,
    kind: PhantomData<fn() -> T>,
}

impl<T: ByteArrayType> Bytes<T> {
    pub(super) fn new(partitions: usize, memory: &Arc<BufferPool>) -> Self {
        let part = |_| Part { offsets: Growing::new(memory), values: Growing::new(memory) };
        Self {
            parts: (0..partitions).map(part).collect(),
            validity: Validity::new(partitions),
            kind: PhantomData,
        }
    }
}

impl Part {
    /// Reserves memory for these numbers of rows and bytes.
    fn reserve<O: OffsetSizeTrait>(
        &mut self,
        rows: usize,
        bytes: usize,
        order: &Order,
    ) -> Result<(), Error> {
        let (width, end) = (size_of::<O>(), self.values.len() + bytes);
        if end > O::MAX_OFFSET {
            return Err(Error::BatchBytes { bytes: end as u64 });
        }
        (self.offsets).reserve(width * (1 + order.room(self.offsets.len(), rows)))?;
        if self.offsets.is_empty() {
            self.offsets.room()[..width].copy_from_slice(O::usize_as(0).to_byte_slice());
            self.offsets.advance(width);
        }
        let room = match self.values.len() {
            // Assumes that later values are slightly longer than these.
            0 => (bytes / rows.max(1)).saturating_mul(order.capacity) / 8 * 9,
            _ => 0,
        };
        self.values.reserve(bytes.max(room.min(ROOM_BYTES_MAX)) + PIECE)?;
        Ok(())
    }
}

impl<T: ByteArrayType> Column for Bytes<T> {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let block = block.as_bytes::<T>();
        let (offsets, values) = (block.value_offsets(), block.value_data());
        let bytes = order.slots.text_bytes(offsets);
        for (partition, rows) in order.counts() {
            self.parts[partition].reserve::<T::Offset>(rows, bytes[partition], order)?;
        }
        let rooms = self.parts.iter_mut().map(|part| TextRoom {
            begin: part.values.len(),
            ends: part.offsets.room(),
            values: part.values.room(),
        });
        order.slots.scatter_text(offsets, values, &mut rooms.collect::<Vec<_>>());
        for (partition, rows) in order.counts() {
            let part = &mut self.parts[partition];
            part.offsets.advance(size_of::<T::Offset>() * rows);
            part.values.advance(bytes[partition]);
        }
        self.validity.append(block.nulls(), order);
        Ok(())
    }

    #[allow(unsafe_code)]
    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (rows, nulls, bytes) = self.validity.flush(partition);
        let part = &mut self.parts[partition];
        let (offsets, values) = (part.offsets.finish()?, part.values.finish()?);
        let bytes = bytes + (offsets.len() + values.len()) as u64;
        let offsets = match offsets.is_empty() {
            true => OffsetBuffer::new_empty(),
            // SAFETY: offsets begin with 0; each is the sum of the one before and the length of the value
            // that was appended with it.
            false => unsafe {
                OffsetBuffer::new_unchecked(ScalarBuffer::new(offsets, 0, rows + 1))
            },
        };
        // SAFETY: the bytes between two offsets are a value of an array of this type.
        let array = unsafe { unchecked::bytes::<T>(offsets, values, nulls) };
        Ok((Arc::new(array), bytes))
    }
}
