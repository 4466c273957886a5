//! The rows of a block in the order of their partitions.

use std::sync::OnceLock;

use arrow_buffer::Buffer;

/// Most rows of a block, so that a row's number fits into 16 bits.
pub(super) const MAX_BLOCK_ROWS: usize = 1 << 16;

/// Rows of one partition within a block.
pub(super) struct Segment<'a> {
    pub partition: usize,
    /// Their numbers in the block, ascending.
    pub rows: &'a [u16],
    /// Where they begin among the block's rows in order.
    pub begin: usize,
    /// How many rows to make room for where a batch begins.
    pub capacity: usize,
}

impl Segment<'_> {
    /// Rows to make room for: those of the segment, and of the whole batch where it begins.
    pub(super) fn room(&self, len: usize) -> usize {
        match len {
            0 => self.capacity.max(self.rows.len()),
            _ => self.rows.len(),
        }
    }
}

/// The rows of a block in the order of their partitions, and within one in the order of the input.
#[derive(Default)]
pub(super) struct Order {
    rows: Vec<u16>,
    /// Each partition's rows, and then where they end; without partitions that have none.
    segments: Vec<(usize, usize)>,
    next: Vec<u32>,
    /// Rows to make room for in each partition; if empty, `capacity` in each.
    capacities: Vec<u32>,
    capacity: usize,
    shared: OnceLock<Buffer>,
}

impl Order {
    /// What each partition's batches are to have room for.
    pub(super) fn set_capacity(&mut self, rows: usize) {
        self.capacity = rows;
        self.capacities.clear();
    }

    /// Makes room for all these rows.
    pub(super) fn set_capacities(&mut self, ids: &[u16], partitions: usize) {
        count(ids, partitions, &mut self.capacities);
    }

    /// Sorts by counting; `ids` has the partitions of a block's rows.
    pub(super) fn sort(&mut self, ids: &[u16], partitions: usize) {
        self.shared.take();
        count(ids, partitions, &mut self.next);
        self.segments.clear();
        let mut begin = 0;
        for (partition, next) in self.next.iter_mut().enumerate() {
            let rows = *next;
            *next = begin;
            begin += rows;
            if rows > 0 {
                self.segments.push((partition, begin as usize));
            }
        }
        self.rows.clear();
        self.rows.resize(ids.len(), 0);
        for (row, &id) in ids.iter().enumerate() {
            let next = &mut self.next[usize::from(id)];
            self.rows[*next as usize] = row as u16;
            *next += 1;
        }
    }

    pub(super) fn segments(&self) -> impl ExactSizeIterator<Item = Segment<'_>> {
        let mut begin = 0;
        self.segments.iter().map(move |&(partition, end)| {
            let capacity = self.capacities.get(partition);
            let segment = Segment {
                partition,
                rows: &self.rows[begin..end],
                begin,
                capacity: capacity.map_or(self.capacity, |rows| *rows as usize),
            };
            begin = end;
            segment
        })
    }

    /// All rows in order, for Arrow's own kernels.
    pub(super) fn shared(&self) -> &Buffer {
        self.shared
            .get_or_init(|| Buffer::from_slice_ref(&self.rows))
    }
}

/// Two counters in turns: the same one twice in a row would wait for itself.
fn count(ids: &[u16], partitions: usize, counts: &mut Vec<u32>) {
    counts.clear();
    counts.resize(2 * partitions, 0);
    let (even, odd) = counts.split_at_mut(partitions);
    let pairs = ids.chunks_exact(2);
    for &id in pairs.remainder() {
        even[usize::from(id)] += 1;
    }
    for pair in pairs {
        even[usize::from(pair[0])] += 1;
        odd[usize::from(pair[1])] += 1;
    }
    for (even, odd) in even.iter_mut().zip(odd) {
        *even += *odd;
    }
    counts.truncate(partitions);
}
