//! Text and binary with offsets.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::{ArrowNativeType, OffsetBuffer, ScalarBuffer, ToByteSlice};
use overside_tables::memory::{BufferPool, Growing};

use super::bits::Validity;
use super::copy::{PIECE, copy_values};
use super::unchecked;
use super::{Column, ROOM_BYTES_MAX, fetch};
use crate::Error;
use crate::operators::order::{Order, Segment};

/// One partition's values.
struct Part {
    /// Empty, or one more than values.
    offsets: Growing,
    values: Growing,
}

/// A column of text or binary.
pub(super) struct Bytes<T> {
    parts: Vec<Part>,
    validity: Validity,
    kind: PhantomData<fn() -> T>,
}

impl<T: ByteArrayType> Bytes<T> {
    pub(super) fn new(partitions: usize, memory: &Arc<BufferPool>) -> Self {
        let part = |_| Part {
            offsets: Growing::new(memory),
            values: Growing::new(memory),
        };
        Self {
            parts: (0..partitions).map(part).collect(),
            validity: Validity::new(partitions),
            kind: PhantomData,
        }
    }
}

impl Part {
    fn append<O: OffsetSizeTrait>(
        &mut self,
        offsets: &[O],
        values: &[u8],
        segment: &Segment,
    ) -> Result<(), Error> {
        let (width, rows) = (size_of::<O>(), segment.rows.len());
        let room = 1 + segment.room(self.offsets.len());
        self.offsets.reserve(width * room)?;
        if self.offsets.is_empty() {
            self.offsets.room()[..width].copy_from_slice(O::usize_as(0).to_byte_slice());
            self.offsets.advance(width);
        }
        let begin = self.values.len();
        let mut end = begin;
        let room = self.offsets.room().chunks_exact_mut(width);
        for (row, room) in segment.rows.iter().zip(room) {
            let row = usize::from(*row);
            end += offsets[row + 1].as_usize() - offsets[row].as_usize();
            room.copy_from_slice(O::usize_as(end).to_byte_slice());
        }
        self.offsets.advance(width * rows);
        if end > O::MAX_OFFSET {
            return Err(Error::BatchBytes { bytes: end as u64 });
        }
        let total = end - begin;
        let room = match begin {
            // As if what is still to come were as long as this, and a little longer.
            0 => (total / rows.max(1)).saturating_mul(segment.capacity) / 8 * 9,
            _ => 0,
        };
        (self.values).reserve(total.max(room.min(ROOM_BYTES_MAX)) + PIECE)?;
        copy_values(values, offsets, segment.rows, total, self.values.room());
        self.values.advance(total);
        Ok(())
    }
}

impl<T: ByteArrayType> Column for Bytes<T> {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let block = block.as_bytes::<T>();
        let (offsets, values) = (block.value_offsets(), block.value_data());
        fetch(offsets.to_byte_slice(), order);
        if let [first, .., last] = offsets {
            fetch(&values[first.as_usize()..last.as_usize()], order);
        }
        for segment in order.segments() {
            let part = &mut self.parts[segment.partition];
            part.append(offsets, values, &segment)?;
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
            // SAFETY: offsets begin with 0, and each is the one before and the length of the value
            // that was appended with it.
            false => unsafe {
                OffsetBuffer::new_unchecked(ScalarBuffer::new(offsets, 0, rows + 1))
            },
        };
        // SAFETY: what lies between two offsets came from an array of this type.
        let array = unsafe { unchecked::bytes::<T>(offsets, values, nulls) };
        Ok((Arc::new(array), bytes))
    }
}
