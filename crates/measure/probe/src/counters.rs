//! Events counted by the processor itself: cache and translation misses, instructions, cycles.

// System calls without a safe wrapper.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

use overside_link::agent::MAX_TEXT_BYTES;
use overside_link::codec;
use serde::{Deserialize, Serialize};

/// Processor event that is counted, in user code only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Cycles of the core.
    Cycles,
    /// Instructions.
    Instructions,
    /// Reads that missed the first cache.
    L1dMisses,
    /// Reads that missed the second cache.
    L2Misses,
    /// Reads that missed the last cache.
    LlcMisses,
    /// Reads whose address was translated by a page-table walk.
    DtlbMisses,
}

/// Kinds of events.
const KINDS: usize = 6;

impl Event {
    /// All events.
    pub const ALL: [Self; KINDS] = [
        Self::Cycles,
        Self::Instructions,
        Self::L1dMisses,
        Self::L2Misses,
        Self::LlcMisses,
        Self::DtlbMisses,
    ];

    /// Type and number for the kernel (`linux/perf_event.h`): a cache event is the cache, the
    /// operation (read: 0) and the result (miss: 1), eight bits each. The kernel has no name for
    /// the second cache; `None` where its number is not known.
    fn number(self) -> Option<(u32, u64)> {
        const HARDWARE: u32 = 0;
        const CACHE: u32 = 3;
        const RAW: u32 = 4;
        const READ_MISS: u64 = 1 << 16;
        Some(match self {
            Self::Cycles => (HARDWARE, 0),
            Self::Instructions => (HARDWARE, 1),
            Self::L1dMisses => (CACHE, READ_MISS),
            Self::L2Misses => (RAW, l2_read_misses()?),
            Self::LlcMisses => (CACHE, 2 | READ_MISS),
            Self::DtlbMisses => (CACHE, 3 | READ_MISS),
        })
    }
}

/// Returns the number of the processor maker's event for demand reads that miss the second cache:
/// `L2_RQSTS` (Intel, since Skylake), `L2CacheReqStat` (AMD, since Zen), `L2D_CACHE_REFILL` (Arm,
/// which counts writes as well). `None` for other processors.
fn l2_read_misses() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = core::arch::x86_64::__cpuid(0);
        let words = [vendor.ebx, vendor.edx, vendor.ecx];
        match words.map(u32::to_le_bytes).as_flattened() {
            b"GenuineIntel" => Some(0x2124),
            b"AuthenticAMD" => Some(0x0864),
            _ => None,
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        Some(0x17)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        None
    }
}

/// Counts over all threads, or why there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// Counts by event, extrapolated if the processor had fewer counters than events.
    #[serde(deserialize_with = "codec::list::<_, _, KINDS>")]
    pub counts: Vec<(Event, f64)>,
    /// Events that were not counted, with the system's reason.
    #[serde(deserialize_with = "codec::list::<_, _, KINDS>")]
    pub refused: Vec<(Event, String)>,
}

impl Events {
    /// Adds up the events of several threads; `None` if there are none.
    pub(crate) fn of_all(all: impl Iterator<Item = Self>) -> Option<Self> {
        all.reduce(|mut all, one| {
            all.add(one);
            all
        })
    }

    /// Returns `true` if counts from another machine are plausible and each event is reported once.
    /// Makes the reasons printable.
    pub fn tidy(&mut self) -> bool {
        for (_, why) in &mut self.refused {
            *why = codec::clean(why, MAX_TEXT_BYTES);
        }
        let counted = self.counts.iter().map(|(event, _)| *event);
        let told: Vec<Event> =
            counted.chain(self.refused.iter().map(|(event, _)| *event)).collect();
        let is_once = (told.iter().enumerate()).all(|(at, event)| !told[..at].contains(event));
        is_once && (self.counts.iter()).all(|(_, count)| count.is_finite() && *count >= 0.0)
    }

    /// Adds another thread's counts. An event that one of them could not count has no result.
    pub(crate) fn add(&mut self, other: Self) {
        for (event, why) in other.refused {
            self.counts.retain(|(counted, _)| *counted != event);
            if self.refused.iter().all(|(known, _)| *known != event) {
                self.refused.push((event, why));
            }
        }
        for (event, count) in other.counts {
            match self.counts.iter_mut().find(|(known, _)| *known == event) {
                Some((_, sum)) => *sum += count,
                None if self.refused.iter().any(|(known, _)| *known == event) => {}
                None => self.counts.push((event, count)),
            }
        }
    }
}

/// `struct perf_event_attr`, its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Times that an event was enabled and that it was really counted: it shares counters with others.
const FORMAT_TIMES: u64 = 1 | 2;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE: u64 = 0x2400;
const DISABLE: u64 = 0x2401;

/// The counters of the thread that opened them.
#[derive(Default)]
pub(crate) struct Counters {
    open: Vec<(Event, File)>,
    refused: Vec<(Event, String)>,
}

impl Counters {
    /// Opens the available counters; nothing counts yet.
    pub(crate) fn open() -> Self {
        let mut counters = Self::default();
        for event in Event::ALL {
            match open(event) {
                Ok(file) => counters.open.push((event, file)),
                Err(error) => counters.refused.push((event, why(&error))),
            }
        }
        counters
    }

    /// Counts from now on.
    pub(crate) fn start(&self) {
        self.tell(ENABLE);
    }

    /// Does not count until it is started again.
    pub(crate) fn stop(&self) {
        self.tell(DISABLE);
    }

    fn tell(&self, request: u64) {
        for (_, file) in &self.open {
            // SAFETY: the descriptor is open, and these requests take no pointer.
            unsafe { libc::ioctl(file.as_raw_fd(), request as _, 0) };
        }
    }

    /// Returns the events counted between all starts and stops.
    pub(crate) fn events(mut self) -> Events {
        let mut counts = Vec::new();
        for (event, mut file) in self.open {
            match count(&mut file) {
                Ok(Some(count)) => counts.push((event, count)),
                Ok(None) => {
                    let text = "the processor had no counter free for it";
                    self.refused.push((event, text.into()));
                }
                Err(error) => self.refused.push((event, why(&error))),
            }
        }
        Events { counts, refused: self.refused }
    }
}

/// Opens an event for this thread, on whichever core it runs.
fn open(event: Event) -> io::Result<File> {
    let no_counter = || io::Error::from_raw_os_error(libc::ENODEV);
    let (kind, config) = event.number().ok_or_else(no_counter)?;
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        read_format: FORMAT_TIMES,
        flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // SAFETY: the attributes live through the call and say their own size; thread 0 is this one, and
    // without a group (-1) no other descriptor is used.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            0 as libc::pid_t,
            -1 as libc::c_int,
            -1 as libc::c_int,
            CLOSE_ON_EXEC,
        )
    };
    match fd {
        // SAFETY: a new descriptor that nothing else owns.
        0.. => Ok(unsafe { File::from_raw_fd(fd as i32) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The count, for the whole time that it was enabled; `None` if it never ran.
fn count(file: &mut File) -> io::Result<Option<f64>> {
    let mut bytes = [0; 24];
    file.read_exact(&mut bytes)?;
    let [count, enabled, running] =
        [0, 8, 16].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes")));
    Ok((running > 0).then(|| count as f64 * (enabled as f64 / running as f64)))
}

fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "this machine's processor, or what it runs in, gives no such counter".into()
        }
        Some(libc::ENOSYS) => "this kernel has no perf events".into(),
        Some(libc::EACCES | libc::EPERM) => "the system does not allow it".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Counters, Event, Events};

    #[test]
    fn every_event_is_counted_or_there_is_a_reason() {
        let counters = Counters::open();
        counters.start();
        std::hint::black_box((0..100_000_u64).map(std::hint::black_box).sum::<u64>());
        counters.stop();
        let events = counters.events();
        for event in Event::ALL {
            let counted = events.counts.iter().find(|(known, _)| *known == event);
            let refused = events.refused.iter().find(|(known, _)| *known == event);
            assert!(counted.is_some() != refused.is_some(), "{event:?}");
            if let (Event::Instructions, Some((_, count))) = (event, counted) {
                assert!(*count >= 100_000.0, "{count}");
            }
        }
    }

    #[test]
    fn what_one_thread_could_not_count_is_not_told() {
        let told = |counts: &[(Event, f64)], refused: &[Event]| Events {
            counts: counts.to_vec(),
            refused: refused.iter().map(|&event| (event, "why".into())).collect(),
        };
        let mut sum = Events::default();
        sum.add(told(&[(Event::Cycles, 1.0), (Event::L1dMisses, 2.0)], &[]));
        sum.add(told(&[(Event::Cycles, 3.0)], &[Event::L1dMisses]));
        sum.add(told(&[(Event::Cycles, 5.0), (Event::L1dMisses, 2.0)], &[]));
        assert_eq!(sum, told(&[(Event::Cycles, 9.0)], &[Event::L1dMisses]));
    }
}
