//! Memory of store semantics: segregated fit.
//!
//! 1. The range is divided into pages of 64 KiB. Sizes up to 32 KiB are rounded up to one of 72
//!    classes, eight for each doubling, and a page has pieces of one class.
//! 2. Greater sizes take runs of whole pages: of the free runs the smallest that is large enough,
//!    and of those the first.
//! 3. A page whose pieces are all free goes back, and joins the adjacent free runs.
//!
//! Free pieces of a page are linked through the pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(super) const PAGE: usize = 64 << 10;
const LARGEST_CLASS: usize = 32 << 10;
const SMALL: usize = 128;
const CLASSES: usize = 72;
const NONE: u32 = u32::MAX;
const NO_PIECE: u16 = u16::MAX;
const CLASS_OF_RUN: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
struct Page {
    class: u8,
    /// Pieces in use.
    used: u16,
    /// Pieces that have ever been used.
    touched: u16,
    /// The first free piece among them.
    free: u16,
    /// Neighbors among the pages of the class that have a free piece; or the pages of a run.
    previous: u32,
    next: u32,
}

const FREE_PAGE: Page =
    Page { class: 0, used: 0, touched: 0, free: NO_PIECE, previous: NONE, next: NONE };

/// See the module's comment.
#[derive(Debug)]
pub(super) struct SizeClasses {
    page_limit: usize,
    pages: Vec<Page>,
    pages_in_use: usize,
    /// First page of each class that has a free piece.
    partial: Box<[u32]>,
    /// Free runs: first page and number of pages.
    runs: BTreeMap<u32, u32>,
    /// Free runs by length.
    runs_by_len: BTreeSet<(u32, u32)>,
}

fn class_of(size: usize) -> usize {
    if size <= SMALL {
        return size.div_ceil(16).max(1) - 1;
    }
    let log = (size - 1).ilog2();
    8 + (log as usize - 7) * 8 + ((size - 1) >> (log - 3)) - 8
}

fn class_size(class: usize) -> usize {
    if class < 8 {
        return (class + 1) * 16;
    }
    let (group, step) = ((class - 8) / 8, (class - 8) % 8);
    (step + 9) << (group + 4)
}

fn pages_of(size: usize) -> usize {
    size.div_ceil(PAGE)
}

impl SizeClasses {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            page_limit: capacity / PAGE,
            pages: Vec::new(),
            pages_in_use: 0,
            partial: vec![NONE; CLASSES].into(),
            runs: BTreeMap::new(),
            runs_by_len: BTreeSet::new(),
        }
    }

    /// Bytes of the pages that are in use.
    pub(super) fn used(&self) -> usize {
        self.pages_in_use * PAGE
    }

    /// Bytes of the pages that have ever been used, which the system may still count.
    pub(super) fn touched(&self) -> usize {
        self.pages.len() * PAGE
    }

    /// Returns the bytes that a piece for `size` bytes takes.
    pub(super) fn piece_size(size: usize) -> usize {
        match size <= LARGEST_CLASS {
            true => class_size(class_of(size)),
            false => pages_of(size) * PAGE,
        }
    }

    /// A piece of `size` bytes, if no more than `room` bytes of pages are in use with it.
    pub(super) fn allocate(&mut self, memory: &[u8], size: usize, room: usize) -> Option<usize> {
        if size > LARGEST_CLASS {
            let count = pages_of(size) as u32;
            let first = self.take_pages(count, room)?;
            let page = &mut self.pages[first as usize];
            page.class = CLASS_OF_RUN;
            page.next = count;
            return Some(first as usize * PAGE);
        }
        let class = class_of(size);
        if self.partial[class] == NONE {
            let first = self.take_pages(1, room)?;
            self.pages[first as usize].class = class as u8;
            self.link(first);
        }
        let number = self.partial[class];
        let piece_size = class_size(class);
        let page = &mut self.pages[number as usize];
        let piece = match page.free {
            NO_PIECE => {
                page.touched += 1;
                page.touched - 1
            }
            free => {
                let at = number as usize * PAGE + usize::from(free) * piece_size;
                page.free = u16::from_le_bytes([memory[at], memory[at + 1]]);
                free
            }
        };
        page.used += 1;
        if usize::from(page.used) == PAGE / piece_size {
            self.unlink(number);
        }
        Some(number as usize * PAGE + usize::from(piece) * piece_size)
    }

    /// Takes a piece back. Returns the pages that are free now.
    pub(super) fn free(&mut self, memory: &mut [u8], at: usize) -> Option<Range<usize>> {
        let number = (at / PAGE) as u32;
        let page = &mut self.pages[number as usize];
        if page.class == CLASS_OF_RUN {
            let count = page.next;
            self.give_pages(number, count);
            return Some(at..at + count as usize * PAGE);
        }
        let piece_size = class_size(usize::from(page.class));
        let was_full = usize::from(page.used) == PAGE / piece_size;
        page.used -= 1;
        let is_empty = page.used == 0;
        memory[at..at + 2].copy_from_slice(&page.free.to_le_bytes());
        page.free = (at % PAGE / piece_size) as u16;
        match (was_full, is_empty) {
            (false, true) => self.unlink(number),
            (true, false) => self.link(number),
            _ => {}
        }
        is_empty.then(|| {
            self.give_pages(number, 1);
            number as usize * PAGE..(number as usize + 1) * PAGE
        })
    }

    pub(super) fn clear(&mut self) -> Range<usize> {
        let touched = self.touched();
        *self = Self::new(self.page_limit * PAGE);
        0..touched
    }

    fn link(&mut self, number: u32) {
        let class = usize::from(self.pages[number as usize].class);
        let next = std::mem::replace(&mut self.partial[class], number);
        self.pages[number as usize].previous = NONE;
        self.pages[number as usize].next = next;
        if next != NONE {
            self.pages[next as usize].previous = number;
        }
    }

    fn unlink(&mut self, number: u32) {
        let Page { class, previous, next, .. } = self.pages[number as usize];
        match previous {
            NONE => self.partial[usize::from(class)] = next,
            previous => self.pages[previous as usize].next = next,
        }
        if next != NONE {
            self.pages[next as usize].previous = previous;
        }
    }

    fn take_pages(&mut self, count: u32, room: usize) -> Option<u32> {
        let in_use = self.pages_in_use + count as usize;
        if in_use * PAGE > room {
            return None;
        }
        let found = self.runs_by_len.range((count, 0)..).next().copied();
        let first = match found {
            Some((len, first)) => {
                self.remove_run(first, len);
                if len > count {
                    self.add_run(first + count, len - count);
                }
                first
            }
            None => {
                // A free run at the end is part of what is added.
                let end = self.pages.len() as u32;
                let last = self.runs.last_key_value().map(|(first, len)| (*first, *len));
                let first = match last {
                    Some((first, len)) if first + len == end => {
                        if (first + count) as usize > self.page_limit {
                            return None;
                        }
                        self.remove_run(first, len);
                        first
                    }
                    _ => end,
                };
                if (first + count) as usize > self.page_limit {
                    return None;
                }
                self.pages.resize((first + count) as usize, FREE_PAGE);
                first
            }
        };
        self.pages_in_use = in_use;
        self.pages[first as usize] = FREE_PAGE;
        Some(first)
    }

    fn give_pages(&mut self, mut first: u32, mut count: u32) {
        self.pages_in_use -= count as usize;
        let before = self.runs.range(..first).next_back();
        if let Some((start, len)) = before.map(|(start, len)| (*start, *len))
            && start + len == first
        {
            self.remove_run(start, len);
            (first, count) = (start, count + len);
        }
        if let Some(len) = self.runs.get(&(first + count)).copied() {
            self.remove_run(first + count, len);
            count += len;
        }
        self.add_run(first, count);
    }

    fn add_run(&mut self, first: u32, len: u32) {
        self.runs.insert(first, len);
        self.runs_by_len.insert((len, first));
    }

    fn remove_run(&mut self, first: u32, len: u32) {
        self.runs.remove(&first);
        self.runs_by_len.remove(&(len, first));
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, LARGEST_CLASS, PAGE, SizeClasses, class_of, class_size};

    #[test]
    fn every_size_fits_its_class_and_wastes_an_eighth_at_most() {
        for size in 1..=LARGEST_CLASS {
            let class = class_of(size);
            assert!(class < CLASSES && class_size(class) >= size);
            assert!(class == 0 || class_size(class - 1) < size);
            assert!(size <= 128 || class_size(class) - size <= size / 8 + 1);
        }
    }

    #[test]
    fn what_is_freed_is_used_again_and_pages_join() {
        let mut memory = vec![0; 64 * PAGE];
        let mut classes = SizeClasses::new(64 * PAGE);
        let sizes = [16, 48, 200, 5000, 32 << 10, 100_000, 1 << 20];
        for _ in 0..3 {
            let mut pieces = Vec::new();
            for size in sizes.into_iter().cycle() {
                let Some(at) = classes.allocate(&memory, size, 60 * PAGE) else {
                    break;
                };
                memory[at..at + size].fill(0xff);
                pieces.push((at, size));
            }
            assert!(classes.used() > 30 * PAGE && classes.used() <= 60 * PAGE);
            pieces.sort_unstable();
            for pair in pieces.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "pieces overlap");
            }
            pieces.sort_by_key(|(at, _)| at.wrapping_mul(0x9e37_79b9) % 1009);
            for (at, _) in pieces {
                classes.free(&mut memory, at);
            }
            assert_eq!(classes.used(), 0);
            assert_eq!(classes.runs.len(), 1, "all pages are one run again");
        }
        let all = classes.allocate(&memory, 60 * PAGE, 60 * PAGE);
        assert_eq!(all, Some(0));
    }
}
