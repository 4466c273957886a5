//! Text and binary with offsets.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_buffer::ArrowNativeType;

use super::bits::Validity;
use super::copy::append_values;
use super::unchecked;
use super::{Column, ROOM_BYTES_MAX};
use crate::Error;
use crate::operators::order::{Order, Segment};

/// One partition's values.
#[derive(Default)]
struct Part<O> {
    /// Empty, or one more than values.
    offsets: Vec<O>,
    values: Vec<u8>,
}

/// A column of text or binary.
pub(super) struct Bytes<T: ByteArrayType> {
    parts: Vec<Part<T::Offset>>,
    validity: Validity,
}

impl<T: ByteArrayType> Bytes<T> {
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            parts: (0..partitions).map(|_| Part::default()).collect(),
            validity: Validity::new(partitions),
        }
    }
}

impl<O: OffsetSizeTrait> Part<O> {
    fn append(&mut self, offsets: &[O], values: &[u8], segment: &Segment) -> Result<(), Error> {
        if self.offsets.is_empty() {
            self.offsets
                .reserve_exact(1 + segment.capacity.max(segment.rows.len()));
            self.offsets.push(O::usize_as(0));
        }
        let begin = self.values.len();
        let mut end = begin;
        self.offsets.extend(segment.rows.iter().map(|row| {
            let row = usize::from(*row);
            end += offsets[row + 1].as_usize() - offsets[row].as_usize();
            O::usize_as(end)
        }));
        if end > O::MAX_OFFSET {
            return Err(Error::BatchBytes { bytes: end as u64 });
        }
        if begin == 0 {
            // As if what is still to come were as long as this.
            let rows = segment.rows.len().max(1);
            let room = (end / rows).saturating_mul(segment.capacity);
            self.values.reserve(end.max(room.min(ROOM_BYTES_MAX)));
        }
        append_values(values, offsets, segment.rows, end - begin, &mut self.values);
        Ok(())
    }
}

impl<T: ByteArrayType> Column for Bytes<T> {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let block = block.as_bytes::<T>();
        for segment in order.segments() {
            let part = &mut self.parts[segment.partition];
            part.append(block.value_offsets(), block.value_data(), &segment)?;
        }
        self.validity.append(block.nulls(), order);
        Ok(())
    }

    #[allow(unsafe_code)]
    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (_, nulls, bytes) = self.validity.flush(partition);
        let Part {
            mut offsets,
            mut values,
        } = std::mem::take(&mut self.parts[partition]);
        if offsets.is_empty() {
            offsets.push(T::Offset::usize_as(0));
        }
        if offsets.len() < offsets.capacity() / 2 {
            offsets.shrink_to_fit();
        }
        if values.len() < values.capacity() / 2 {
            values.shrink_to_fit();
        }
        let bytes = bytes + (size_of_val(&offsets[..]) + values.len()) as u64;
        // SAFETY: offsets begin with 0, and each is the one before and the length of the value that
        // was appended with it, which came from an array of this type.
        let array = unsafe { unchecked::bytes::<T>(offsets, values, nulls) };
        Ok((Arc::new(array), bytes))
    }
}
