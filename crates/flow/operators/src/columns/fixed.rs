//! Values of a fixed width.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use overside_tables::memory::{BufferPool, Growing};

use super::bits::Validity;
use super::{Column, ROOM_BYTES_MAX};
use crate::Error;
use crate::order::Order;

/// Column of numbers, dates, times or decimals, as values of `WIDTH` bytes.
pub(super) struct Fixed<const WIDTH: usize> {
    kind: DataType,
    parts: Vec<Growing>,
    validity: Validity,
}

impl<const WIDTH: usize> Fixed<WIDTH> {
    pub(super) fn new(kind: DataType, partitions: usize, memory: &Arc<BufferPool>) -> Self {
        Self {
            kind,
            parts: (0..partitions).map(|_| Growing::new(memory)).collect(),
            validity: Validity::new(partitions),
        }
    }
}

impl<const WIDTH: usize> Column for Fixed<WIDTH> {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let data = block.to_data();
        let (begin, len) = (data.offset() * WIDTH, data.len() * WIDTH);
        let (values, _) = data.buffers()[0][begin..begin + len].as_chunks::<WIDTH>();
        for (partition, rows) in order.counts() {
            let part = &mut self.parts[partition];
            part.reserve(WIDTH * order.room(part.len(), rows))?;
        }
        let rooms = self.parts.iter_mut().map(|part| part.room().as_chunks_mut().0);
        order.slots.scatter(values, &mut rooms.collect::<Vec<_>>());
        for (partition, rows) in order.counts() {
            self.parts[partition].advance(WIDTH * rows);
        }
        self.validity.append(data.nulls(), order);
        Ok(())
    }

    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (rows, nulls, bytes) = self.validity.flush(partition);
        let data = ArrayData::builder(self.kind.clone())
            .len(rows)
            .add_buffer(self.parts[partition].finish()?)
            .nulls(nulls)
            .build()?;
        Ok((make_array(data), bytes + (rows * WIDTH) as u64))
    }
}

/// Column of values of `width` bytes.
pub(super) struct FixedBytes {
    width: usize,
    parts: Vec<Growing>,
    validity: Validity,
}

impl FixedBytes {
    pub(super) fn new(kind: DataType, partitions: usize, memory: &Arc<BufferPool>) -> Self {
        Self {
            width: match kind {
                DataType::FixedSizeBinary(width) => width as usize,
                _ => 0,
            },
            parts: (0..partitions).map(|_| Growing::new(memory)).collect(),
            validity: Validity::new(partitions),
        }
    }
}

impl Column for FixedBytes {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let (block, width) = (block.as_fixed_size_binary(), self.width);
        let values = &block.value_data()[..block.len() * width];
        for segment in order.segments() {
            let part = &mut self.parts[segment.partition];
            let bytes = width * segment.rows.len();
            let room = width.saturating_mul(order.room(part.len(), segment.rows.len()));
            part.reserve(bytes.max(room.min(ROOM_BYTES_MAX)))?;
            for (row, room) in segment.rows.iter().zip(part.room().chunks_mut(width.max(1))) {
                room[..width].copy_from_slice(&values[usize::from(*row) * width..][..width]);
            }
            part.advance(bytes);
        }
        self.validity.append(block.nulls(), order);
        Ok(())
    }

    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (rows, nulls, bytes) = self.validity.flush(partition);
        let values = self.parts[partition].finish()?;
        let bytes = bytes + values.len() as u64;
        // With a width of 0, the number of values cannot be computed from the bytes.
        let data = ArrayData::builder(DataType::FixedSizeBinary(self.width as i32))
            .len(rows)
            .add_buffer(values)
            .nulls(nulls)
            .build()?;
        Ok((make_array(data), bytes))
    }
}
