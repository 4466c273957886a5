//! The four kernels of McCalpin's STREAM.

use std::hint::black_box;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::memory::Pages;
use crate::memory::pages::Block;
use crate::memory::passes::{Work, in_parts};

/// Number of elements that are overwritten before each pass and verified after it.
const LOOKED_AT: usize = 64;
/// Elements between looking at the time.
const PART: usize = 1 << 22;

/// Operation on each element of the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// `c = a`
    Copy,
    /// `b = s * c`
    Scale,
    /// `c = a + b`
    Add,
    /// `a = b + s * c`
    Triad,
}

/// `s`
const SCALE: f64 = 3.0;

impl Kernel {
    /// All kernels.
    pub const ALL: [Self; 4] = [Self::Copy, Self::Scale, Self::Add, Self::Triad];

    /// Returns the kernel's name in lower case, such as `copy`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Scale => "scale",
            Self::Add => "add",
            Self::Triad => "triad",
        }
    }

    /// Arrays that are read or written.
    pub const fn arrays(self) -> usize {
        match self {
            Self::Copy | Self::Scale => 2,
            Self::Add | Self::Triad => 3,
        }
    }

    /// The array that is written: 0 is `a`.
    const fn written(self) -> usize {
        match self {
            Self::Copy | Self::Add => 2,
            Self::Scale => 1,
            Self::Triad => 0,
        }
    }

    const fn reads(self, array: usize) -> bool {
        match self {
            Self::Copy => array == 0,
            Self::Scale => array == 2,
            Self::Add => array != 2,
            Self::Triad => array != 0,
        }
    }

    #[inline(never)]
    fn run(self, a: &mut [f64], b: &mut [f64], c: &mut [f64]) {
        match self {
            Self::Copy => c.copy_from_slice(a),
            Self::Scale => {
                for (b, c) in b.iter_mut().zip(&*c) {
                    *b = SCALE * c;
                }
            }
            Self::Add => {
                for ((c, a), b) in c.iter_mut().zip(&*a).zip(&*b) {
                    *c = a + b;
                }
            }
            Self::Triad => {
                for ((a, b), c) in a.iter_mut().zip(&*b).zip(&*c) {
                    *a = b + SCALE * c;
                }
            }
        }
    }

    /// Returns the value that element `number` of the written array must have after the kernel has
    /// run.
    fn expected(self, number: usize) -> f64 {
        let [a, b, c] = [0, 1, 2].map(|array| made(array, number));
        match self {
            Self::Copy => a,
            Self::Scale => SCALE * c,
            Self::Add => a + b,
            Self::Triad => b + SCALE * c,
        }
    }
}

/// Returns the initial value of an element: a small whole number, so that results are exact.
fn made(array: usize, number: usize) -> f64 {
    let period = [1021, 1019, 1013][array];
    (number % period + 1) as f64
}

/// Arrays that a kernel runs over.
pub(crate) struct Stream {
    kernel: Kernel,
    arrays: [Block; 3],
    elements: usize,
}

impl Stream {
    /// Arrays of `size_bytes` each, a multiple of 8.
    pub(crate) fn new(size_bytes: usize, pages: Pages, kernel: Kernel) -> Result<Self, Failure> {
        let elements = size_bytes / size_of::<f64>();
        let array = |array: usize| {
            let used = array == kernel.written() || kernel.reads(array);
            let mut block = match used {
                true => Block::new(size_bytes, pages)?,
                false => Block::new(8, Pages::System)?,
            };
            for (number, element) in block.floats().iter_mut().enumerate() {
                *element = made(array, number);
            }
            Ok::<_, Failure>(block)
        };
        Ok(Self { kernel, arrays: [array(0)?, array(1)?, array(2)?], elements })
    }

    fn written(&mut self) -> &mut [f64] {
        self.arrays[self.kernel.written()].floats()
    }

    /// Evenly spaced elements, the first and the last among them.
    fn looked_at(&self) -> impl Iterator<Item = usize> + use<> {
        let last = self.elements - 1;
        (0..=LOOKED_AT).map(move |part| last * part / LOOKED_AT)
    }

    fn is_right(&mut self, number: usize) -> Result<(), Failure> {
        let expected = self.kernel.expected(number);
        let kernel = self.kernel.name();
        let what = || format!("element {number} after {kernel} is");
        Failure::unless_same(what, self.written()[number], expected)
    }
}

impl Work for Stream {
    fn run(&mut self, repeats: u64) -> (u64, u64) {
        let [a, b, c] = &mut self.arrays;
        let (a, b, c) = (a.floats(), b.floats(), c.floats());
        for _ in 0..repeats {
            self.kernel.run(black_box(a), black_box(b), black_box(c));
        }
        let elements = self.elements as u64 * repeats;
        let each = (size_of::<f64>() * self.kernel.arrays()) as u64;
        (elements, elements * each)
    }

    fn prepare(&mut self) {
        for number in self.looked_at() {
            self.written()[number] = f64::NAN;
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        for number in self.looked_at() {
            self.is_right(number)?;
        }
        Ok(())
    }

    /// Overwrites the destination, runs once and verifies every element.
    fn verify(&mut self, deadline: Instant) -> Result<(u64, u64), Failure> {
        self.written().fill(f64::NAN);
        self.run(1);
        let mut sum = 0.0;
        in_parts(self.elements, PART, deadline, |part| {
            for number in part {
                self.is_right(number)?;
                sum += self.written()[number];
            }
            Ok(())
        })?;
        Ok((sum as u64, self.elements as u64))
    }

    fn pages(&self) -> &str {
        &self.arrays[self.kernel.written()].title
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::{Kernel, Stream};
    use crate::memory::passes::{LONG, Work};
    use crate::memory::{Pages, is_wrong};

    #[test]
    fn kernels_compute_what_they_are_named_after() {
        let (mut a, mut b, mut c) = ([1.0; 4], [2.0; 4], [0.5; 4]);
        Kernel::Copy.run(&mut a, &mut b, &mut c);
        assert_eq!(c, [1.0; 4]);
        Kernel::Scale.run(&mut a, &mut b, &mut c);
        assert_eq!(b, [3.0; 4]);
        Kernel::Add.run(&mut a, &mut b, &mut c);
        assert_eq!(c, [4.0; 4]);
        Kernel::Triad.run(&mut a, &mut b, &mut c);
        assert_eq!(a, [15.0; 4]);
    }

    #[test]
    fn every_kernel_is_verified_and_what_it_left_out_noticed() {
        for kernel in Kernel::ALL {
            for elements in [1, 3, 5000] {
                let mut stream = Stream::new(elements * 8, Pages::System, kernel).unwrap();
                let (_, items) = stream.verify(Instant::now() + LONG).unwrap();
                assert_eq!(items, elements as u64);
                stream.prepare();
                assert!(is_wrong(stream.check()));
                let (_, bytes) = stream.run(3);
                assert_eq!(bytes, 3 * (elements * 8 * kernel.arrays()) as u64);
                stream.check().unwrap();
                stream.written()[elements - 1] += 1.0;
                assert!(is_wrong(stream.check()));
            }
        }
    }
}
