//! Values of a fixed width.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::bits::Validity;
use super::{Column, ROOM_BYTES_MAX};
use crate::Error;
use crate::operators::order::{MAX_BLOCK_ROWS, Order};

/// Values of each partition.
pub(super) struct Values<T> {
    parts: Vec<Vec<T>>,
}

impl<T: ArrowNativeType> Values<T> {
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            parts: vec![Vec::new(); partitions],
        }
    }

    pub(super) fn append(&mut self, source: &[T], order: &Order) {
        for segment in order.segments() {
            let part = &mut self.parts[segment.partition];
            if part.is_empty() {
                part.reserve_exact(segment.capacity.max(segment.rows.len()));
            }
            gather(source, segment.rows, part);
        }
    }

    pub(super) fn flush(&mut self, partition: usize) -> Vec<T> {
        let mut part = std::mem::take(&mut self.parts[partition]);
        // What is kept should not keep room for rows that never came.
        if part.len() < part.capacity() / 2 {
            part.shrink_to_fit();
        }
        part
    }
}

/// Appends the values of these rows. A length that is known when this is compiled spares a
/// comparison for each.
fn gather<T: Copy>(source: &[T], rows: &[u16], out: &mut Vec<T>) {
    const SMALL: usize = super::super::partition::BLOCK_ROWS;
    if let Ok(source) = <&[T; SMALL]>::try_from(source) {
        out.extend(rows.iter().map(|row| source[usize::from(*row) % SMALL]));
    } else if let Ok(source) = <&[T; MAX_BLOCK_ROWS]>::try_from(source) {
        out.extend(rows.iter().map(|row| source[usize::from(*row)]));
    } else {
        out.extend(rows.iter().map(|row| source[usize::from(*row)]));
    }
}

/// A column of numbers, dates, times or decimals, as values `T` of their width.
pub(super) struct Fixed<T> {
    kind: DataType,
    values: Values<T>,
    validity: Validity,
}

impl<T: ArrowNativeType> Fixed<T> {
    pub(super) fn new(kind: DataType, partitions: usize) -> Self {
        Self {
            kind,
            values: Values::new(partitions),
            validity: Validity::new(partitions),
        }
    }
}

impl<T: ArrowNativeType> Column for Fixed<T> {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let data = block.to_data();
        self.values.append(data.buffer::<T>(0), order);
        self.validity.append(data.nulls(), order);
        Ok(())
    }

    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (rows, nulls, bytes) = self.validity.flush(partition);
        let values = self.values.flush(partition);
        let data = ArrayData::builder(self.kind.clone())
            .len(rows)
            .add_buffer(Buffer::from_vec(values))
            .nulls(nulls)
            .build()?;
        Ok((make_array(data), bytes + (rows * size_of::<T>()) as u64))
    }
}

/// A column of so many bytes a value.
pub(super) struct FixedBytes {
    width: usize,
    parts: Vec<Vec<u8>>,
    validity: Validity,
}

impl FixedBytes {
    pub(super) fn new(kind: DataType, partitions: usize) -> Self {
        Self {
            width: match kind {
                DataType::FixedSizeBinary(width) => width as usize,
                _ => 0,
            },
            parts: vec![Vec::new(); partitions],
            validity: Validity::new(partitions),
        }
    }
}

impl Column for FixedBytes {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let block = block.as_fixed_size_binary();
        let values = &block.value_data()[..block.len() * self.width];
        for segment in order.segments() {
            let part = &mut self.parts[segment.partition];
            if part.is_empty() {
                let room = self.width.saturating_mul(segment.capacity);
                part.reserve_exact(room.min(ROOM_BYTES_MAX));
            }
            for row in segment.rows {
                part.extend_from_slice(&values[usize::from(*row) * self.width..][..self.width]);
            }
        }
        self.validity.append(block.nulls(), order);
        Ok(())
    }

    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (rows, nulls, bytes) = self.validity.flush(partition);
        let mut values = std::mem::take(&mut self.parts[partition]);
        if values.len() < values.capacity() / 2 {
            values.shrink_to_fit();
        }
        let bytes = bytes + values.len() as u64;
        // The bytes do not tell how many values of no bytes there are.
        let data = ArrayData::builder(DataType::FixedSizeBinary(self.width as i32))
            .len(rows)
            .add_buffer(Buffer::from_vec(values))
            .nulls(nulls)
            .build()?;
        Ok((make_array(data), bytes))
    }
}
