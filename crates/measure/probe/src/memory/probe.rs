//! Definition of a memory probe: its pattern, its memory, its threads and its times.

use crate::bounds::{OutOfRange, cores_within, within};
use crate::failure::Failure;
use crate::memory::access::{Access, Object, Order};
use crate::memory::chase::Chase;
use crate::memory::passes::{self, ProbeResult, Times};
use crate::memory::stream::Stream;
use crate::memory::{Kernel, LINE_BYTES, MAX_BYTES, MAX_THREADS, Pages};

/// Kind of memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Reads at random, each of which has the position of the next: one at a time.
    Chase,
    /// A kernel of STREAM over arrays of this number of bytes each.
    Stream(Kernel),
    /// Reads or writes of 8 bytes.
    Access(Access, Order),
}

/// Memory probe: the accesses, the memory and the number of threads. Each thread has memory of its
/// own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Kind of memory accesses of each thread.
    pub pattern: Pattern,
    /// Bytes of the block, of each array or of the object of one thread.
    pub size_bytes: usize,
    /// Pages of that memory.
    pub pages: Pages,
    /// Number of threads; 1 to [`MAX_THREADS`].
    pub threads: usize,
    /// Cores to which the threads are pinned, in turn; `None`: they are not pinned.
    pub cores: Option<Vec<usize>>,
    /// `true` if the processor's events are counted.
    pub events: bool,
    /// Picks where orders begin.
    pub seed: u64,
}

impl Probe {
    /// 1 MiB on one thread.
    pub fn new(pattern: Pattern) -> Self {
        Self {
            pattern,
            size_bytes: 1 << 20,
            pages: Pages::System,
            threads: 1,
            cores: None,
            events: false,
            seed: 0,
        }
    }

    /// Returns the probe's name, such as `chase`, `copy` or `read-random`.
    pub fn name(&self) -> &'static str {
        match self.pattern {
            Pattern::Chase => "chase",
            Pattern::Stream(kernel) => kernel.name(),
            Pattern::Access(Access::Read, Order::Sequential) => "read-sequential",
            Pattern::Access(Access::Read, Order::Random) => "read-random",
            Pattern::Access(Access::Write, Order::Sequential) => "write-sequential",
            Pattern::Access(Access::Write, Order::Random) => "write-random",
        }
    }

    /// Memory that all threads take together.
    pub fn memory_bytes(&self) -> usize {
        let each = match self.pattern {
            // The order of the lines takes 4 bytes each.
            Pattern::Chase => self.size_bytes + self.size_bytes / 16,
            Pattern::Stream(kernel) => self.size_bytes.saturating_mul(kernel.arrays()),
            Pattern::Access(..) => self.size_bytes,
        };
        each.saturating_mul(self.threads)
    }

    /// Checks that the numbers are within their bounds.
    ///
    /// # Errors
    /// [`OutOfRange`] for the first that does not.
    pub fn check(&self) -> Result<(), OutOfRange> {
        within("threads", self.threads, 1, MAX_THREADS)?;
        let size = self.size_bytes;
        let (least, unit) = match self.pattern {
            Pattern::Chase => (2 * LINE_BYTES, LINE_BYTES),
            _ => (8, 8),
        };
        let refuse = |allowed: String| Err(OutOfRange::new("buffer_size", size, allowed));
        if !(least..=MAX_BYTES).contains(&size) || !size.is_multiple_of(unit) {
            return refuse(format!("{least} to {MAX_BYTES}, in multiples of {unit}"));
        }
        if let (Pattern::Access(_, Order::Random), false) = (self.pattern, size.is_power_of_two()) {
            let allowed = format!("a power of two for accesses at random, {least} to {MAX_BYTES}");
            return refuse(allowed);
        }
        cores_within(self.cores.as_deref())
    }

    /// Does it. Takes its threads' memory, and gives it back at the end.
    ///
    /// # Errors
    /// [`Failure`]
    pub fn run(&self, times: &Times) -> Result<ProbeResult, Failure> {
        self.check()?;
        let (size, pages, seed) = (self.size_bytes, self.pages, self.seed);
        match self.pattern {
            Pattern::Chase => self.run_each(times, |_| Chase::new(size, pages, seed)),
            Pattern::Stream(kernel) => self.run_each(times, |_| Stream::new(size, pages, kernel)),
            Pattern::Access(access, order) => self.run_each(times, |thread| {
                // Threads that go through the same places at the same time are a special case.
                let seed = seed.wrapping_add(thread as u64);
                Object::new(size, pages, access, order, seed)
            }),
        }
    }

    fn run_each<W: passes::Work>(
        &self,
        times: &Times,
        make: impl Fn(usize) -> Result<W, Failure> + Sync,
    ) -> Result<ProbeResult, Failure> {
        passes::run(self.threads, times, self.events, |thread| {
            // Before memory is touched, so that it is near the core.
            if let Some(cores) = &self.cores {
                pin(cores[thread % cores.len()])?;
            }
            make(thread)
        })
    }
}

fn pin(core: usize) -> Result<(), Failure> {
    overside_device::threads::pin(core).map_err(|error| {
        Failure::unsupported(format!(
            "{error}: name cores that this process may run on (taskset -p $$)"
        ))
    })
}
