//! Reads and writes of the size of a pointer, one after the other or at random.

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::memory;
use crate::memory::Pages;
use crate::memory::order::Mixed;
use crate::memory::pages::Block;
use crate::memory::passes::{Work, in_parts};

/// Number of accesses of one pass before it is repeated; a smaller object is accessed as a whole.
const PART: usize = 1 << 20;
/// Largest number of words that are checked after each pass of writes; the last one is among them.
const LOOKED_AT: usize = 4096;
/// Spreads numbers over all bits of a word.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Reading or writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Reading.
    #[default]
    Read,
    /// Writing.
    Write,
}

/// The order of accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// One word after the other.
    #[default]
    Sequential,
    /// Each word once, in an order that no prefetcher can predict. The next address does not depend
    /// on the last read, so several are under way at once.
    Random,
}

/// An object that is read or written. The value of each word follows from its number, so sums are
/// known without reading them.
pub(crate) struct Object {
    block: Block,
    access: Access,
    /// The order of the words, if it is not theirs.
    mixed: Option<Mixed>,
    /// The sum of all words, if they have their initial values.
    whole: u64,
    /// The part that comes next.
    part: usize,
    /// Record of the last `run`, for its check.
    last: Last,
}

/// Record of a `run`: the first part, the number of parts, and for reads the sum. The values
/// written follow from the first two.
#[derive(Default)]
struct Last {
    first: usize,
    repeats: u64,
    /// Reading: the sum of the words read.
    sum: u64,
}

impl Object {
    /// `size_bytes` is a multiple of 8, and a power of two for an access at random.
    pub(crate) fn new(
        size_bytes: usize,
        pages: Pages,
        access: Access,
        order: Order,
        seed: u64,
    ) -> Result<Self, Failure> {
        let block = Block::new(size_bytes, pages)?;
        let words = block.words();
        for (number, word) in words.iter().enumerate() {
            word.store(made(number as u64), Ordering::Relaxed);
        }
        let mixed = match order {
            Order::Sequential => None,
            Order::Random => Some(Mixed::new(words.len().trailing_zeros(), seed)),
        };
        Ok(Self {
            whole: sum_made(0..words.len() as u64),
            block,
            access,
            mixed,
            part: 0,
            last: Last::default(),
        })
    }

    fn parts(&self) -> usize {
        self.block.words().len().div_ceil(PART)
    }

    /// The numbers of the accesses of a part.
    fn numbers(&self, part: usize) -> Range<usize> {
        let from = part % self.parts() * PART;
        from..(from + PART).min(self.block.words().len())
    }

    /// Returns the sum of the words of a part.
    fn expected(&self, part: usize) -> u64 {
        let numbers = self.numbers(part);
        let numbers = numbers.start as u64..numbers.end as u64;
        match self.mixed {
            _ if self.parts() == 1 => self.whole,
            None => sum_made(numbers),
            Some(mixed) => numbers.fold(0, |sum, number| sum.wrapping_add(made(mixed.at(number)))),
        }
    }

    fn check_reads(&self) -> Result<(), Failure> {
        // In the order of the parts, each as often as it was read.
        let parts = self.parts() as u64;
        let Last { first, repeats, sum } = self.last;
        let mut expected = 0_u64;
        for at in 0..parts.min(repeats) {
            let times = (repeats - at).div_ceil(parts);
            let part = self.expected(first + at as usize);
            expected = expected.wrapping_add(part.wrapping_mul(times));
        }
        Failure::unless_same(|| "the sum of the words read is".into(), sum, expected)
    }

    fn check_writes(&self) -> Result<(), Failure> {
        let Last { first, repeats, .. } = self.last;
        let Some(last) = repeats.checked_sub(1) else {
            return Ok(());
        };
        let part = first + last as usize;
        let numbers = self.numbers(part);
        let step = numbers.len().div_ceil(LOOKED_AT);
        let end = numbers.end;
        for number in numbers.rev().step_by(step) {
            self.is_written(number, last, end)?;
        }
        Ok(())
    }

    /// Checks that access `number` left the right value in its word.
    fn is_written(&self, number: usize, repeat: u64, end: usize) -> Result<(), Failure> {
        let place = match self.mixed {
            None => number,
            Some(mixed) => mixed.at(number as u64) as usize,
        };
        let found = self.block.words()[place].load(Ordering::Relaxed);
        let what = || format!("word {place}, written as number {number} of {end}, holds");
        Failure::unless_same(what, found, tag(repeat).wrapping_add(number as u64))
    }
}

impl Work for Object {
    fn run(&mut self, repeats: u64) -> (u64, u64) {
        let first = self.part;
        let mut sum = 0_u64;
        let mut accesses = 0;
        let words = self.block.words();
        for repeat in 0..repeats {
            let numbers = self.numbers(first + repeat as usize);
            accesses += numbers.len() as u64;
            match (self.access, self.mixed) {
                (Access::Read, None) => sum = sum.wrapping_add(read(&words[numbers])),
                (Access::Read, Some(mixed)) => {
                    sum = sum.wrapping_add(read_mixed(words, mixed, numbers));
                }
                (Access::Write, None) => {
                    let value = tag(repeat).wrapping_add(numbers.start as u64);
                    write(&words[numbers], value);
                }
                (Access::Write, Some(mixed)) => write_mixed(words, mixed, numbers, tag(repeat)),
            }
        }
        self.last = Last { first, repeats, sum };
        self.part = (first + repeats as usize) % self.parts();
        (accesses, accesses * size_of::<u64>() as u64)
    }

    fn check(&mut self) -> Result<(), Failure> {
        match self.access {
            Access::Read => self.check_reads(),
            Access::Write => self.check_writes(),
        }
    }

    /// Reads or writes each word once, and verifies all of them.
    fn verify(&mut self, deadline: Instant) -> Result<(u64, u64), Failure> {
        let words = self.block.words().len();
        for _ in 0..self.parts() {
            if Instant::now() >= deadline {
                return Err(memory::out_of_time());
            }
            self.run(1);
            if self.access == Access::Read {
                self.check_reads()?;
            }
        }
        if self.access == Access::Write {
            in_parts(words, PART, deadline, |numbers| {
                for number in numbers {
                    self.is_written(number, 0, words)?;
                }
                Ok(())
            })?;
        }
        Ok((self.whole, words as u64))
    }

    fn pages(&self) -> &str {
        &self.block.title
    }
}

/// Returns the initial value of word `number`.
fn made(number: u64) -> u64 {
    (number + 1).wrapping_mul(SPREAD)
}

/// The sum of the words' initial values: that of an arithmetic series.
fn sum_made(numbers: Range<u64>) -> u64 {
    let up_to = |count: u64| (u128::from(count) * (u128::from(count) + 1) / 2) as u64;
    (up_to(numbers.end).wrapping_sub(up_to(numbers.start))).wrapping_mul(SPREAD)
}

/// Returns the value that a repetition writes into the word of number 0; it differs from the
/// previous repetition's.
fn tag(repeat: u64) -> u64 {
    (repeat + 1).wrapping_mul(SPREAD).rotate_left(17)
}

// One word at a time, as a program that follows its own data does: loads and stores that are atomic
// are neither joined to vectors nor left out.

#[inline(never)]
fn read(words: &[AtomicU64]) -> u64 {
    let add = |sum: u64, word: &AtomicU64| sum.wrapping_add(word.load(Ordering::Relaxed));
    // Four sums, so that no read waits until the one before has been added.
    let (fours, rest) = words.as_chunks::<4>();
    let mut sums = [0_u64; 4];
    for four in fours {
        for (sum, word) in sums.iter_mut().zip(four) {
            *sum = add(*sum, word);
        }
    }
    let sum = sums.into_iter().fold(0, u64::wrapping_add);
    black_box(rest.iter().fold(sum, add))
}

#[inline(never)]
fn read_mixed(words: &[AtomicU64], mixed: Mixed, numbers: Range<usize>) -> u64 {
    assert!(!words.is_empty());
    let mut sum = 0_u64;
    for number in numbers.start as u64..numbers.end as u64 {
        let word = &words[mixed.at(number) as usize & (words.len() - 1)];
        sum = sum.wrapping_add(word.load(Ordering::Relaxed));
    }
    black_box(sum)
}

#[inline(never)]
fn write(words: &[AtomicU64], first: u64) {
    for (value, word) in (first..).zip(words) {
        word.store(value, Ordering::Relaxed);
    }
}

#[inline(never)]
fn write_mixed(words: &[AtomicU64], mixed: Mixed, numbers: Range<usize>, tag: u64) {
    assert!(!words.is_empty());
    for number in numbers.start as u64..numbers.end as u64 {
        let word = &words[mixed.at(number) as usize & (words.len() - 1)];
        word.store(tag.wrapping_add(number), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    use super::{Object, PART, made, sum_made};
    use crate::memory::passes::{LONG, Work};
    use crate::memory::{Access, Order, Pages, is_wrong};

    const WAYS: [(Access, Order); 4] = [
        (Access::Read, Order::Sequential),
        (Access::Read, Order::Random),
        (Access::Write, Order::Sequential),
        (Access::Write, Order::Random),
    ];

    fn object(words: usize, (access, order): (Access, Order)) -> Object {
        Object::new(words * 8, Pages::System, access, order, 7).unwrap()
    }

    #[test]
    fn the_sum_is_that_of_the_words() {
        let sum = (5..1000).fold(0_u64, |sum, number| sum.wrapping_add(made(number)));
        assert_eq!(sum_made(5..1000), sum);
    }

    #[test]
    fn every_way_is_verified_in_objects_of_one_part_and_of_several() {
        for way in WAYS {
            for words in [1, 2, 2048, 4 * PART] {
                let mut object = object(words, way);
                let (_, items) = object.verify(Instant::now() + LONG).unwrap();
                assert_eq!(items, words as u64);
                for repeats in [1, 5] {
                    let parts = object.parts() as u64;
                    let (accesses, bytes) = object.run(repeats);
                    assert_eq!(accesses, repeats * words as u64 / parts);
                    assert_eq!(bytes, 8 * accesses);
                    object.check().unwrap();
                }
            }
        }
        // An order that is not mixed needs no power of two.
        for way in [WAYS[0], WAYS[2]] {
            let mut object = object(PART + 5, way);
            object.verify(Instant::now() + LONG).unwrap();
            object.run(7);
            object.check().unwrap();
        }
    }

    #[test]
    fn a_word_that_is_not_what_it_should_be_is_noticed() {
        for way in WAYS {
            let mut object = object(2048, way);
            let run = |object: &mut Object| {
                object.run(2);
                if way.0 == Access::Write {
                    object.block.words()[100].fetch_add(1, Ordering::Relaxed);
                }
                object.check()
            };
            if way.0 == Access::Read {
                object.block.words()[100].fetch_add(1, Ordering::Relaxed);
            }
            assert!(is_wrong(run(&mut object)), "{way:?}");
        }
    }

    #[test]
    fn an_access_that_was_left_out_is_noticed() {
        for way in WAYS {
            let mut object = object(2048, way);
            object.run(2);
            // As if one repetition more had been claimed.
            object.last.repeats += 1;
            assert!(is_wrong(object.check()), "{way:?}");
        }
    }
}
