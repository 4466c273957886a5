//! Computes the target position of each row of a block, and moves values there. Values are read in memory
//! order; those of each partition are written one after the other. Memory is fastest when read in order, but
//! a processor prefetches only within a page. So lines are prefetched a page ahead.
#![allow(unsafe_code)]

use arrow_array::OffsetSizeTrait;
use overside_base::{prefetch_read, prefetch_write};

/// Maximum number of rows of a block, so that a position among them fits into 16 bits.
pub(super) const MAX_BLOCK_ROWS: usize = 1 << 16;
/// Number of bytes of text or binary that are moved at once. The last move may write up to this number of
/// bytes beyond the value.
pub(super) const PIECE: usize = 32;
const HALF: usize = PIECE / 2;
const LINE_BYTES: usize = 64;
/// Distance in bytes from the line that is read to the line that is prefetched. On the measured machines,
/// values from 2 to 8 KiB hardly differ.
const AHEAD_BYTES: usize = 4 << 10;
/// Maximum number of rooms for which a processor detects by itself that each is written in order. With more,
/// lines are prefetched `WRITTEN_AHEAD_BYTES` ahead.
const FEW_ROOMS: usize = 8;
const WRITTEN_AHEAD_BYTES: usize = 256;

/// Memory into which the text or binary values of a partition's rows are written.
pub(super) struct TextRoom<'r> {
    /// Number of bytes before `values`.
    pub begin: usize,
    /// End offset of each value: one for each row.
    pub ends: &'r mut [u8],
    /// Memory for the bytes of the values, and [`PIECE`] more.
    pub values: &'r mut [u8],
}

/// Partition of each row of a block, and its position among that partition's rows of the block.
#[derive(Default)]
pub(super) struct Slots {
    /// Position in the low 16 bits, partition in the high 16 bits. Each partition is an index of `counts`,
    /// and the position is less than its count.
    slots: Vec<u32>,
    /// Number of rows of each partition.
    counts: Vec<u32>,
}

impl Slots {
    /// Computes the positions of rows whose partitions are `ids`.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_BLOCK_ROWS`] rows, or a row's partition is not below `partitions`.
    pub(super) fn find(&mut self, ids: &[u16], partitions: usize) {
        assert!(ids.len() <= MAX_BLOCK_ROWS);
        self.counts.clear();
        self.counts.resize(partitions, 0);
        self.slots.clear();
        let counts = &mut self.counts[..];
        self.slots.extend(ids.iter().map(|id| {
            let place = &mut counts[usize::from(*id)];
            let slot = u32::from(*id) << 16 | *place;
            *place += 1;
            slot
        }));
    }

    /// Returns the number of rows of each partition.
    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Yields each row's partition and position, in the order of the rows.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (usize, usize)> {
        self.slots.iter().map(|slot| split(*slot))
    }

    /// Copies each row's value to its position in its partition's room.
    ///
    /// # Panics
    ///
    /// If there is not one value for each row, or a partition's room is shorter than its number of rows.
    pub(super) fn scatter<T: Copy>(&self, values: &[T], rooms: &mut [&mut [T]]) {
        assert_eq!(values.len(), self.slots.len());
        assert_eq!(rooms.len(), self.counts.len());
        for (room, count) in rooms.iter().zip(&self.counts) {
            assert!(room.len() >= *count as usize);
        }
        let starts: Vec<*mut T> = rooms.iter_mut().map(|room| room.as_mut_ptr()).collect();
        let copy = |(value, slot): (&T, &u32)| {
            let (partition, place) = split(*slot);
            // SAFETY: the partition is an index of the rooms, and the position is less than its count, which
            // is at most the length of its room; `rooms` are borrowed while this runs.
            unsafe { starts.get_unchecked(partition).add(place).write(*value) };
        };
        let rows = (LINE_BYTES / size_of::<T>()).max(1);
        let (lines, slots) = (values.chunks_exact(rows), self.slots.chunks_exact(rows));
        lines.remainder().iter().zip(slots.remainder()).for_each(copy);
        for (line, slots) in lines.zip(slots) {
            prefetch_read(line.as_ptr().wrapping_byte_add(AHEAD_BYTES));
            line.iter().zip(slots).for_each(copy);
        }
    }

    /// Returns the number of bytes of text or binary that the rows of each partition have.
    ///
    /// # Panics
    ///
    /// If the number of offsets is not the number of rows plus one.
    pub(super) fn text_bytes<O: OffsetSizeTrait>(&self, offsets: &[O]) -> Vec<usize> {
        assert_eq!(offsets.len(), self.slots.len() + 1);
        let mut bytes = vec![0; self.counts.len()];
        for (pair, (partition, _)) in offsets.windows(2).zip(self.iter()) {
            bytes[partition] += pair[1].as_usize() - pair[0].as_usize();
        }
        bytes
    }

    /// Copies `values[offsets[row]..offsets[row + 1]]` of each row to its partition's room, behind the
    /// values of earlier rows.
    ///
    /// # Panics
    ///
    /// If the number of offsets is not the number of rows plus one, offsets descend or lie outside of
    /// `values`, or a room is too short.
    pub(super) fn scatter_text<O: OffsetSizeTrait>(
        &self,
        offsets: &[O],
        values: &[u8],
        rooms: &mut [TextRoom<'_>],
    ) {
        struct Target {
            ends: *mut u8,
            values: *mut u8,
            begin: usize,
            written: usize,
            room: usize,
        }
        assert_eq!(offsets.len(), self.slots.len() + 1);
        assert_eq!(rooms.len(), self.counts.len());
        let target = |(room, count): (&mut TextRoom, &u32)| {
            assert!(room.ends.len() >= *count as usize * size_of::<O>());
            Target {
                ends: room.ends.as_mut_ptr(),
                values: room.values.as_mut_ptr(),
                begin: room.begin,
                written: 0,
                room: room.values.len().saturating_sub(PIECE),
            }
        };
        let are_many = rooms.len() > FEW_ROOMS;
        let targets = rooms.iter_mut().zip(&self.counts).map(target);
        let mut targets: Vec<Target> = targets.collect();
        for (pair, slot) in offsets.windows(2).zip(&self.slots) {
            let (partition, place) = split(*slot);
            let (from, to) = (pair[0].as_usize(), pair[1].as_usize());
            let target = &mut targets[partition];
            assert!(from <= to && to <= values.len() && to - from <= target.room - target.written);
            let len = to - from;
            prefetch_read(values.as_ptr().wrapping_add(from + AHEAD_BYTES));
            // SAFETY: `from + len` is within `values`, and a whole piece is read only if it is too. `written
            // + len` is at most `room`, behind which there is one more piece, so a piece that begins at
            // `written` ends within the values' room. The position is less than the partition's count, which
            // is the number of ends. Rooms are borrowed mutably while this runs, so they do not overlap
            // `values` and `offsets`.
            unsafe {
                let source = values.as_ptr().add(from);
                let out = target.values.add(target.written);
                let readable = values.len() - from;
                if are_many {
                    prefetch_write(out.wrapping_add(WRITTEN_AHEAD_BYTES));
                }
                if len <= HALF && readable >= HALF {
                    move_piece::<HALF>(source, out);
                } else if len <= PIECE && readable >= PIECE {
                    move_piece::<PIECE>(source, out);
                } else {
                    std::ptr::copy_nonoverlapping(source, out, len);
                }
                target.written += len;
                let end = O::usize_as(target.begin + target.written);
                target.ends.cast::<O>().add(place).write_unaligned(end);
            }
        }
    }
}

#[inline(always)]
fn split(slot: u32) -> (usize, usize) {
    ((slot >> 16) as usize, (slot & 0xFFFF) as usize)
}

/// Moves `LEN` bytes with a load and a store or two. The compiler might merge plain copies of this
/// length into a call.
///
/// # Safety
///
/// `LEN` bytes can be read at `source` and written at `out`.
#[inline(always)]
unsafe fn move_piece<const LEN: usize>(source: *const u8, out: *mut u8) {
    // SAFETY: as the caller promises; arrays of bytes have no alignment.
    unsafe { out.cast::<[u8; LEN]>().write(source.cast::<[u8; LEN]>().read()) };
}

#[cfg(test)]
mod tests {
    use super::{PIECE, Slots, TextRoom};

    #[test]
    fn values_go_to_their_partitions_in_order() {
        let ids: Vec<u16> = (0..1000_u32).map(|row| (row * row % 7) as u16).collect();
        let mut slots = Slots::default();
        slots.find(&ids, 8);
        let values: Vec<u64> = (0..1000).collect();
        let mut rooms: Vec<Vec<u64>> =
            slots.counts().iter().map(|rows| vec![0; *rows as usize]).collect();
        let mut borrowed: Vec<&mut [u64]> = rooms.iter_mut().map(Vec::as_mut_slice).collect();
        slots.scatter(&values, &mut borrowed);
        for (partition, room) in rooms.into_iter().enumerate() {
            let expected =
                values.iter().copied().filter(|row| usize::from(ids[*row as usize]) == partition);
            assert_eq!(room, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "room.len() >=")]
    fn too_little_room_is_refused() {
        let mut slots = Slots::default();
        slots.find(&[0, 1, 1], 2);
        slots.scatter(&[1_u8, 2, 3], &mut [&mut [0], &mut [0]]);
    }

    #[test]
    fn text_of_all_lengths_is_copied() {
        let lengths = [0, 1, 15, 16, 17, 40, 0, 32, 33];
        let ids = [1, 0, 0, 1, 2, 2, 1, 0, 1];
        let values: Vec<u8> = (0..lengths.iter().sum::<usize>()).map(|at| at as u8).collect();
        let mut offsets = vec![0_i32];
        for len in lengths {
            offsets.push(offsets[offsets.len() - 1] + len as i32);
        }
        let mut slots = Slots::default();
        slots.find(&ids, 3);
        let bytes = slots.text_bytes(&offsets);
        let mut rooms: Vec<(Vec<u8>, Vec<u8>)> =
            bytes.iter().map(|bytes| (vec![0; 4 * ids.len()], vec![0; bytes + PIECE])).collect();
        let room = |(ends, values)| TextRoom { begin: 7, ends, values };
        let mut borrowed: Vec<TextRoom> = rooms
            .iter_mut()
            .map(|(ends, values)| (&mut ends[..], &mut values[..]))
            .map(room)
            .collect();
        slots.scatter_text(&offsets, &values, &mut borrowed);
        for (partition, (ends, out)) in rooms.iter().enumerate() {
            let (mut expected, mut at): (Vec<u8>, usize) = Default::default();
            for row in (0..ids.len()).filter(|row| usize::from(ids[*row]) == partition) {
                expected.extend(&values[offsets[row] as usize..offsets[row + 1] as usize]);
                let end = i32::from_ne_bytes(ends[at..at + 4].try_into().unwrap());
                assert_eq!(end as usize, 7 + expected.len());
                at += 4;
            }
            assert_eq!(out[..bytes[partition]], expected);
        }
    }

    #[test]
    #[should_panic(expected = "to <= values.len()")]
    fn offsets_outside_are_refused() {
        let mut slots = Slots::default();
        slots.find(&[0], 1);
        let room = TextRoom { begin: 0, ends: &mut [0; 8], values: &mut [0; 64] };
        slots.scatter_text(&[0_i64, 4], &[1, 2, 3], &mut [room]);
    }
}
