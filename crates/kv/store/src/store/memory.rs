//! The memory of items, by semantics.

use std::ops::Range;

use overside_base::prefetch_read;
use rustix::io::Errno;

use super::Semantics;
use super::item::{NewItem, UNIT, mark_dead};
use super::log::Log;
use super::mapping::Mapping;
use super::size_classes::{PAGE, SizeClasses};

#[derive(Debug)]
enum Allocator {
    Cache(Log),
    Store(SizeClasses),
}

/// Items, and where there is room for more. Offsets are in units of 16 bytes.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Mapping<u8>,
    allocator: Allocator,
}

impl Memory {
    pub(super) fn new(
        max_bytes: usize,
        semantics: Semantics,
        huge_pages: bool,
    ) -> Result<Self, Errno> {
        let capacity = max_bytes / PAGE * PAGE;
        Ok(Self {
            bytes: Mapping::reserve(capacity, huge_pages)?,
            allocator: match semantics {
                Semantics::Cache => Allocator::Cache(Log::new(capacity)),
                Semantics::Store => Allocator::Store(SizeClasses::new(capacity)),
            },
        })
    }

    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, offset: u32) {
        prefetch_read(self.bytes.as_ptr().wrapping_add(offset as usize * UNIT));
    }

    /// Bytes in use, free space inside included.
    pub(super) fn used(&self) -> usize {
        match &self.allocator {
            Allocator::Cache(log) => log.used(),
            Allocator::Store(classes) => classes.used(),
        }
    }

    /// Returns the memory that an item of `size` bytes takes, in bytes.
    pub(super) fn taken(&self, size: usize) -> usize {
        match &self.allocator {
            Allocator::Cache(_) => size,
            Allocator::Store(_) => SizeClasses::piece_size(size),
        }
    }

    /// Returns `true` if an item of `new_size` bytes can be written over the one at `offset`, which
    /// has `size` bytes.
    #[inline(always)]
    pub(super) fn fits_in_place(&self, offset: u32, size: usize, new_size: usize) -> bool {
        match &self.allocator {
            Allocator::Cache(log) => size == new_size && log.is_recent(offset as usize * UNIT),
            Allocator::Store(_) => {
                size == new_size
                    || SizeClasses::piece_size(size) == SizeClasses::piece_size(new_size)
            }
        }
    }

    /// Room for an item, if no more than `room` bytes are in use with it.
    pub(super) fn allocate(&mut self, size: usize, room: usize) -> Option<u32> {
        let at = match &mut self.allocator {
            Allocator::Cache(log) => {
                (log.has_room(size) && log.used() + size <= room).then(|| log.append(size))
            }
            Allocator::Store(classes) => classes.allocate(&self.bytes, size, room),
        }?;
        Some((at / UNIT) as u32)
    }

    /// Takes an item's memory back. Pages that become free go back to the system if more than `room`
    /// bytes have ever been used.
    pub(super) fn free(&mut self, offset: u32, room: usize) {
        match &mut self.allocator {
            Allocator::Cache(_) => mark_dead(&mut self.bytes, offset),
            Allocator::Store(classes) => {
                let pages = classes.free(&mut self.bytes, offset as usize * UNIT);
                if let (Some(pages), true) = (pages, classes.touched() > room) {
                    self.bytes.release(pages);
                }
            }
        }
    }

    pub(super) fn write(&mut self, offset: u32, version: u64, item: &NewItem<'_>) {
        item.write(version, &mut self.bytes[offset as usize * UNIT..]);
    }

    #[inline(always)]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Returns `true` if, with cache semantics, something has to be dropped before an item of `size` bytes is
    /// written, with at most `room` bytes in use.
    pub(super) fn must_drop(&self, size: usize, room: usize) -> bool {
        match &self.allocator {
            Allocator::Cache(log) => !log.has_room(size) || log.used() + size > room,
            Allocator::Store(_) => false,
        }
    }

    /// Cache semantics: the oldest item, if there is one.
    pub(super) fn oldest(&self) -> Option<u32> {
        match &self.allocator {
            Allocator::Cache(log) => log.oldest().map(|at| (at / UNIT) as u32),
            Allocator::Store(_) => None,
        }
    }

    /// Cache semantics: takes back the memory of the oldest item, which has `size` bytes.
    pub(super) fn drop_oldest(&mut self, size: usize) {
        if let Allocator::Cache(log) = &mut self.allocator
            && let Some(blocks) = log.drop_oldest(size)
        {
            self.release(blocks);
        }
    }

    pub(super) fn clear(&mut self) {
        let used = match &mut self.allocator {
            Allocator::Cache(log) => log.clear(),
            Allocator::Store(classes) => classes.clear(),
        };
        self.release(used);
    }

    fn release(&mut self, range: Range<usize>) {
        let end = range.end.next_multiple_of(PAGE).min(self.bytes.len());
        self.bytes.release(range.start..end);
    }
}
