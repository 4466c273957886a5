//! Sorts the rows of a block by partition.

use std::sync::OnceLock;

use arrow_buffer::Buffer;

use super::slots::Slots;

/// Rows of one partition within a block.
pub(super) struct Segment<'a> {
    pub partition: usize,
    /// Row numbers in the block, ascending.
    pub rows: &'a [u16],
    /// Index of the first of these rows among the block's ordered rows.
    pub begin: usize,
}

/// Rows of a block sorted by partition, and within a partition in the order of the input.
#[derive(Default)]
pub(super) struct Order {
    /// Number of rows to reserve in a partition when it begins a new batch.
    pub capacity: usize,
    pub slots: Slots,
    rows: OnceLock<Buffer>,
}

impl Order {
    /// Creates an empty order. `capacity` is the number of rows to reserve when a partition begins
    /// a batch.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Sorts the rows of a block, whose partitions are `ids`.
    pub(super) fn sort(&mut self, ids: &[u16], partitions: usize) {
        self.slots.find(ids, partitions);
        self.rows.take();
    }

    /// Returns each partition that has rows in the block, with its number of rows.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, usize)> {
        let counts = self.slots.counts().iter().enumerate();
        counts.map(|(partition, rows)| (partition, *rows as usize)).filter(|(_, rows)| *rows > 0)
    }

    /// Returns the number of rows to reserve in a partition with `has` rows: the `comes` new ones or, at the
    /// beginning of a batch, those of the whole batch.
    pub(super) fn room(&self, has: usize, comes: usize) -> usize {
        match has {
            0 => self.capacity.max(comes),
            _ => comes,
        }
    }

    /// Returns the rows of each partition that has any.
    pub(super) fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        let (mut begin, all) = (0, self.rows().typed_data::<u16>());
        self.counts().map(move |(partition, rows)| {
            let segment = Segment { partition, rows: &all[begin..begin + rows], begin };
            begin += rows;
            segment
        })
    }

    /// Returns all rows in order, for Arrow's own kernels. Computed on demand: columns of a fixed width do
    /// not need them.
    pub(super) fn rows(&self) -> &Buffer {
        self.rows.get_or_init(|| {
            let mut begins = vec![0; self.slots.counts().len()];
            let mut begin = 0;
            for (first, rows) in begins.iter_mut().zip(self.slots.counts()) {
                *first = begin;
                begin += *rows as usize;
            }
            let mut rows = vec![0_u16; begin];
            for (row, (partition, place)) in self.slots.iter().enumerate() {
                rows[begins[partition] + place] = row as u16;
            }
            Buffer::from_vec(rows)
        })
    }
}
