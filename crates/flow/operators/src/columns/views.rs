//! Text and binary by views. Long values are copied, so that a partition neither keeps nor writes the buffers
//! of all others.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};
use overside_tables::memory::{BufferPool, Growing};

use super::Column;
use super::bits::Validity;
use super::unchecked;
use crate::Error;
use crate::order::Order;

/// Maximum length in bytes of a buffer that views point into.
const BUFFER_BYTES: usize = 1 << 30;
const VIEW_BYTES: usize = size_of::<u128>();

/// Values of one partition.
struct Part {
    views: Growing,
    full: Vec<Buffer>,
    values: Growing,
}

/// Column of text or binary by views.
pub(super) struct Views<T> {
    parts: Vec<Part>,
    validity: Validity,
    kind: PhantomData<fn() -> T>,
}

impl<T: ByteViewType> Views<T> {
    pub(super) fn new(partitions: usize, memory: &Arc<BufferPool>) -> Self {
        let part = |_| Part {
            views: Growing::new(memory),
            full: Vec::new(),
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
    /// Returns a view of the same value, which is copied if it is long.
    fn moved(&mut self, view: u128, buffers: &[Buffer]) -> Result<u128, Error> {
        let long = ByteView::from(view);
        if long.length <= MAX_INLINE_VIEW_LEN {
            return Ok(view);
        }
        let source = &buffers[long.buffer_index as usize];
        let value = &source[long.offset as usize..][..long.length as usize];
        if !self.values.is_empty() && self.values.len() + value.len() > BUFFER_BYTES {
            self.full.push(self.values.finish()?);
        }
        let moved = ByteView {
            buffer_index: self.full.len() as u32,
            offset: self.values.len() as u32,
            ..long
        };
        self.values.reserve(value.len())?;
        self.values.room()[..value.len()].copy_from_slice(value);
        self.values.advance(value.len());
        Ok(moved.as_u128())
    }
}

impl<T: ByteViewType> Column for Views<T> {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let block = block.as_byte_view::<T>();
        // Many views may refer to the same bytes.
        let bytes: u64 = block.lengths().map(u64::from).sum();
        if bytes > i32::MAX as u64 {
            return Err(Error::BatchBytes { bytes });
        }
        let views = block.views();
        for segment in order.segments() {
            let part = &mut self.parts[segment.partition];
            let room = order.room(part.views.len(), segment.rows.len());
            part.views.reserve(VIEW_BYTES * room)?;
            for (number, row) in segment.rows.iter().enumerate() {
                let row = usize::from(*row);
                // A null row may have any view.
                let view = if block.is_valid(row) { views[row] } else { 0 };
                let view = part.moved(view, block.data_buffers())?;
                part.views.room().as_chunks_mut().0[number] = view.to_ne_bytes();
            }
            part.views.advance(VIEW_BYTES * segment.rows.len());
        }
        self.validity.append(block.nulls(), order);
        Ok(())
    }

    #[allow(unsafe_code)]
    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (rows, nulls, bytes) = self.validity.flush(partition);
        let part = &mut self.parts[partition];
        let (views, mut full) = (part.views.finish()?, std::mem::take(&mut part.full));
        if !part.values.is_empty() {
            full.push(part.values.finish()?);
        }
        let long: usize = full.iter().map(Buffer::len).sum();
        let bytes = bytes + (views.len() + long) as u64;
        let views = ScalarBuffer::new(views, 0, rows);
        // SAFETY: short views are those of an array of this type, or empty; long ones have the length and
        // first bytes of such a view, and point at the copy of its value.
        let array = unsafe { unchecked::views::<T>(views, full, nulls) };
        Ok((Arc::new(array), bytes))
    }
}
