//! Text and binary by views. Long values are copied, so that no partition keeps, or writes out, the
//! buffers of all others.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_data::{ByteView, MAX_INLINE_VIEW_LEN};

use super::Column;
use super::bits::Validity;
use super::unchecked;
use crate::Error;
use crate::operators::order::Order;

/// Most bytes of a buffer that views point into.
const BUFFER_BYTES: usize = 1 << 30;

/// One partition's values.
#[derive(Default)]
struct Part {
    views: Vec<u128>,
    full: Vec<Buffer>,
    values: Vec<u8>,
}

/// A column of text or binary by views.
pub(super) struct Views<T> {
    parts: Vec<Part>,
    validity: Validity,
    kind: PhantomData<fn() -> T>,
}

impl<T: ByteViewType> Views<T> {
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            parts: (0..partitions).map(|_| Part::default()).collect(),
            validity: Validity::new(partitions),
            kind: PhantomData,
        }
    }
}

impl Part {
    fn append(&mut self, view: u128, buffers: &[Buffer]) {
        let long = ByteView::from(view);
        if long.length <= MAX_INLINE_VIEW_LEN {
            self.views.push(view);
            return;
        }
        let source = &buffers[long.buffer_index as usize];
        let value = &source[long.offset as usize..][..long.length as usize];
        if !self.values.is_empty() && self.values.len() + value.len() > BUFFER_BYTES {
            self.full
                .push(Buffer::from_vec(std::mem::take(&mut self.values)));
        }
        let moved = ByteView {
            buffer_index: self.full.len() as u32,
            offset: self.values.len() as u32,
            ..long
        };
        self.values.extend_from_slice(value);
        self.views.push(moved.as_u128());
    }
}

impl<T: ByteViewType> Column for Views<T> {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let block = block.as_byte_view::<T>();
        // The same bytes can be seen by many.
        let bytes: u64 = block.lengths().map(u64::from).sum();
        if bytes > i32::MAX as u64 {
            return Err(Error::BatchBytes { bytes });
        }
        let views = block.views();
        for segment in order.segments() {
            let part = &mut self.parts[segment.partition];
            if part.views.is_empty() {
                part.views
                    .reserve_exact(segment.capacity.max(segment.rows.len()));
            }
            for row in segment.rows {
                let row = usize::from(*row);
                // Below a null there may be anything.
                let view = if block.is_valid(row) { views[row] } else { 0 };
                part.append(view, block.data_buffers());
            }
        }
        self.validity.append(block.nulls(), order);
        Ok(())
    }

    #[allow(unsafe_code)]
    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (_, nulls, bytes) = self.validity.flush(partition);
        let Part {
            mut views,
            mut full,
            values,
        } = std::mem::take(&mut self.parts[partition]);
        if !values.is_empty() {
            full.push(Buffer::from_vec(values));
        }
        if views.len() < views.capacity() / 2 {
            views.shrink_to_fit();
        }
        let long: usize = full.iter().map(Buffer::len).sum();
        let bytes = bytes + (size_of_val(&views[..]) + long) as u64;
        // SAFETY: short views are those of an array of this type, or empty; long ones have the
        // length and first bytes of such a view, and point at where its value was copied to.
        let array = unsafe { unchecked::views::<T>(views, full, nulls) };
        Ok((Arc::new(array), bytes))
    }
}
