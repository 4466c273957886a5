//! Times and bytes of the stages of a flow.

use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::time::Instant;

use overside_device::threads::thread_cpu_ns;
use serde::Serialize;

use super::threads::tasks_ns;

/// Time and bytes of one stage. Stages may run in parallel, so their wall times do not add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StageTime {
    /// Time that the caller spent in the stage, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of all threads that worked for it, in nanoseconds.
    pub cpu_ns: u64,
    /// Number of input bytes: of files as they are stored, of batches in memory.
    pub bytes_in: u64,
    /// Number of output bytes, likewise.
    pub bytes_out: u64,
}

/// Times and bytes of all stages of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StageTimes {
    /// Reading, decompressing and validating.
    pub unpack: StageTime,
    /// Distributing rows to partitions.
    pub partition: StageTime,
    /// Compressing and writing.
    pub repack: StageTime,
}

impl StageTime {
    /// Returns the time and the bytes added since the value was `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            wall_ns: self.wall_ns - before.wall_ns,
            cpu_ns: self.cpu_ns - before.cpu_ns,
            bytes_in: self.bytes_in - before.bytes_in,
            bytes_out: self.bytes_out - before.bytes_out,
        }
    }

    /// Runs `work` on this thread and adds its time, without tasks of other stages that ran on this
    /// thread meanwhile.
    pub fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (begin, cpu_ns) = (Instant::now(), own_cpu_ns());
        let result = work();
        self.wall_ns += begin.elapsed().as_nanos() as u64;
        self.cpu_ns += own_cpu_ns().saturating_sub(cpu_ns);
        result
    }
}

/// Returns the CPU time of this thread without that of tasks, which count for their own stages.
fn own_cpu_ns() -> u64 {
    thread_cpu_ns().saturating_sub(tasks_ns())
}

impl AddAssign for StageTime {
    fn add_assign(&mut self, other: Self) {
        self.wall_ns += other.wall_ns;
        self.cpu_ns += other.cpu_ns;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }
}

impl Add for StageTime {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sum for StageTime {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::StageTime;

    #[test]
    fn times_add_up() {
        let mut time = StageTime::default();
        let spin = || {
            let begin = std::time::Instant::now();
            while begin.elapsed().as_micros() < 200 {}
        };
        time.measure(spin);
        assert!(time.wall_ns >= 200_000 && time.cpu_ns > 0, "{time:?}");
        let twice = [time, time].into_iter().sum::<StageTime>();
        assert_eq!(twice.wall_ns, 2 * time.wall_ns);
        assert_eq!(twice.cpu_ns, 2 * time.cpu_ns);
        assert_eq!(twice.since(time), time);
    }
}
