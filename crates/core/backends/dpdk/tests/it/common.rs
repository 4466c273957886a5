//! Cards without a software driver, as functions in place of the shim's.
//!
//! They compute with the libraries here when their completions are polled, with the known behaviour
//! of real cards: single segments only, no stored blocks, registered memory only, one error for
//! several causes.

// The functions have C's calling convention and take C's pointers.
#![allow(unsafe_code)]
// Each test uses a part.
#![allow(dead_code)]

pub(crate) mod ethernet;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::{c_char, c_void};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock};

use overside_backend_dpdk::shim::{self, RawDevice, RawJob, RawLimits, RawResult, RawSetup, Table};
use overside_backend_dpdk::{DpdkDevice, Environment};
use overside_base::lock;
use overside_device::{Operation, OperationConfig};
use overside_ops::{Error, Format, Kernel, prepare};
use regex::bytes::Regex;

/// Behavior of a simulated card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behavior {
    #[default]
    Good,
    /// The device completes nothing.
    Stalled,
    /// The device is unplugged.
    Gone,
    /// The device takes no jobs.
    Refuses,
}

/// The cards by number. Each test has one of its own.
const CARDS: [&str; 8] = ["card0", "card1", "card2", "card3", "card4", "card5", "old6", "blind7"];
/// An older driver, which has one error for a destination that is too short and invalid data.
const OLD: i32 = 6;
/// A driver that does not notice streams that end early.
const BLIND: i32 = 7;
/// The regular-expression engine's number, in a class of its own.
pub(crate) const REGEX: i32 = 0;
/// Maximum number of matches that it reports.
pub(crate) const MAX_MATCHES: u32 = 2000;

#[derive(Default)]
struct World {
    behaviors: HashMap<i32, Behavior>,
    queues: HashMap<(u32, i32, u16), VecDeque<Owned>>,
    /// Known memory, by its first address; and how much of it is allocated.
    known: BTreeMap<usize, usize>,
    /// The part of `known` that was registered: length in bytes by first address. Areas do not
    /// overlap.
    mapped: BTreeMap<usize, usize>,
    allocated: HashMap<usize, Layout>,
    rules: Vec<Regex>,
    /// The regex engine's answers, kept for being pointed to.
    answers: VecDeque<Vec<u64>>,
}

struct Owned(RawJob);
// SAFETY: what a job points to stays until the job has come back, which the contract promises.
unsafe impl Send for Owned {}

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(Mutex::default);

fn world() -> MutexGuard<'static, World> {
    lock(&WORLD)
}

/// The environment of all tests.
pub(crate) fn environment() -> Arc<Environment> {
    static ENVIRONMENT: OnceLock<Arc<Environment>> = OnceLock::new();
    let start = || {
        // SAFETY: the functions below do what `shim.h` says.
        unsafe { Environment::with_table(&TABLE) }.unwrap()
    };
    Arc::clone(ENVIRONMENT.get_or_init(start))
}

/// A card that behaves well.
pub(crate) fn card(name: &str) -> Arc<DpdkDevice> {
    Arc::new(DpdkDevice::open_in(&environment(), name).unwrap())
}

/// Changes how a card behaves.
pub(crate) fn behave(id: i32, behavior: Behavior) {
    world().behaviors.insert(id, behavior);
}

/// Areas of others' memory that are registered now.
pub(crate) fn mapped_within(start: usize, len: usize) -> usize {
    world().mapped.range(start..start + len).count()
}

/// Bytes that are allocated now.
pub(crate) fn allocated_bytes() -> usize {
    world().allocated.values().map(Layout::size).sum()
}

static TABLE: Table = Table {
    abi: shim::ABI,
    version,
    start,
    messages,
    thread_enter,
    thread_leave,
    create,
    devices,
    limits,
    configure,
    allocate,
    release,
    map,
    unmap,
    known,
    transform,
    transform_free,
    slots,
    slots_free,
    enqueue,
    dequeue,
    ethernet: Some(&ethernet::TABLE),
};

unsafe extern "C" fn version() -> *const c_char {
    c"cards 1".as_ptr()
}

unsafe extern "C" fn start(_: i32, _: *mut *mut c_char, _: *const c_char) -> i32 {
    0
}

unsafe extern "C" fn messages(out: *mut c_char, len: usize) {
    if len > 0 {
        // SAFETY: there is room for `len` bytes.
        unsafe { *out = 0 };
    }
}

unsafe extern "C" fn thread_enter() -> i32 {
    0
}

unsafe extern "C" fn thread_leave() {}

unsafe extern "C" fn create(_: *const c_char) -> i32 {
    -libc::ENODEV
}

unsafe extern "C" fn devices(out: *mut RawDevice, max: u32) -> u32 {
    let text = |text: &str| {
        let mut field = [0; 64];
        for (to, from) in field.iter_mut().zip(text.bytes()) {
            *to = from as c_char;
        }
        field
    };
    let device = |kind, id, name, driver| RawDevice {
        kind,
        id,
        socket: 0,
        hardware: 1,
        name: text(name),
        driver: text(driver),
    };
    let mut all: Vec<RawDevice> =
        (CARDS.iter().zip(0..)).map(|(name, id)| device(1, id, name, "compress_card")).collect();
    all.push(device(3, REGEX, "regex0", "regex_card"));
    for (number, one) in all.iter().enumerate().take(max as usize) {
        // SAFETY: there is room for `max` devices.
        unsafe { out.add(number).write(*one) };
    }
    all.len() as u32
}

unsafe extern "C" fn limits(kind: u32, _: i32, out: *mut RawLimits) -> i32 {
    let found = match kind {
        1 => RawLimits {
            queues: 4,
            descriptors: 256,
            flags: shim::SHARED_TRANSFORM,
            ..RawLimits::default()
        },
        _ => RawLimits {
            queues: 4,
            descriptors: 256,
            source_bytes: 16_383,
            matches: MAX_MATCHES,
            flags: 0,
        },
    };
    // SAFETY: there is room for one.
    unsafe { out.write(found) };
    0
}

unsafe extern "C" fn configure(kind: u32, _: i32, setup: *const RawSetup) -> i32 {
    // SAFETY: the caller's structure, as in `shim.h`.
    let setup = unsafe { &*setup };
    if kind == shim::Kind::Match as u32 {
        // SAFETY: as above.
        let rules = unsafe {
            std::slice::from_raw_parts(setup.rules.cast::<u8>(), setup.rules_len as usize)
        };
        let rule = |line: &str| Regex::new(&format!("(?m-u){line}")).unwrap();
        world().rules = std::str::from_utf8(rules).unwrap().lines().map(rule).collect();
    }
    0
}

unsafe extern "C" fn allocate(len: usize, align: usize) -> *mut c_void {
    let Ok(layout) = Layout::from_size_align(len.max(1), align) else {
        return std::ptr::null_mut();
    };
    // SAFETY: the size is not 0.
    let start = unsafe { alloc_zeroed(layout) };
    if !start.is_null() {
        let mut world = world();
        world.known.insert(start as usize, layout.size());
        world.allocated.insert(start as usize, layout);
    }
    start.cast()
}

unsafe extern "C" fn release(start: *mut c_void) {
    let mut world = world();
    world.known.remove(&(start as usize));
    let layout = world.allocated.remove(&(start as usize)).unwrap();
    // SAFETY: allocated above with this layout.
    unsafe { dealloc(start.cast(), layout) };
}

unsafe extern "C" fn map(start: *mut c_void, len: usize) -> i32 {
    let (start, page) = (start as usize, 4096);
    assert!(start.is_multiple_of(page) && len.is_multiple_of(page), "whole pages are mapped");
    let mut world = world();
    let before = world.mapped.range(..start + len).next_back();
    if before.is_some_and(|(known, len)| known + len > start) {
        return -libc::EEXIST;
    }
    world.mapped.insert(start, len);
    0
}

unsafe extern "C" fn unmap(start: *mut c_void, len: usize) -> i32 {
    match world().mapped.remove(&(start as usize)) == Some(len) {
        true => 0,
        false => -libc::ENOENT,
    }
}

impl World {
    fn knows(&self, at: usize, len: usize) -> bool {
        // Areas may lie side by side.
        let mut at = at;
        let end = at + len;
        while at < end {
            let areas = [&self.known, &self.mapped];
            let last = areas.map(|areas| areas.range(..=at).next_back());
            let ends = last.iter().flatten().map(|(start, len)| *start + *len);
            match ends.max() {
                Some(end) if end > at => at = end,
                _ => return false,
            }
        }
        true
    }
}

unsafe extern "C" fn known(start: *const c_void, len: usize) -> i32 {
    i32::from(world().knows(start as usize, len))
}

unsafe extern "C" fn transform(_: i32, transform: u32, _: i32, out: *mut *mut c_void) -> i32 {
    // A BlueField-3 decompresses LZ4 and does not compress it.
    if transform == shim::Transform::Lz4Compress as u32 {
        return -libc::ENOTSUP;
    }
    // SAFETY: there is room for one.
    unsafe { out.write(transform as usize as *mut c_void) };
    0
}

unsafe extern "C" fn transform_free(_: i32, transform: *mut c_void) {
    assert!((1..=4).contains(&(transform as usize)));
}

unsafe extern "C" fn slots(
    _: u32,
    count: u32,
    _: u32,
    _: u32,
    out: *mut *mut c_void,
    pool: *mut *mut c_void,
) -> i32 {
    for number in 0..count as usize {
        // SAFETY: there is room for `count`.
        unsafe { out.add(number).write(number as *mut c_void) };
    }
    // SAFETY: there is room for one.
    unsafe { pool.write(std::ptr::dangling_mut()) };
    0
}

unsafe extern "C" fn slots_free(_: u32, _: *mut c_void) {}

unsafe extern "C" fn enqueue(
    kind: u32,
    id: i32,
    queue: u16,
    jobs: *const RawJob,
    count: u32,
) -> i32 {
    let mut world = world();
    let behavior = world.behaviors.get(&id).copied().unwrap_or_default();
    match behavior {
        Behavior::Gone => return -libc::ENODEV,
        Behavior::Refuses => return 0,
        Behavior::Good | Behavior::Stalled => {}
    }
    // SAFETY: the caller's jobs.
    let jobs = unsafe { std::slice::from_raw_parts(jobs, count as usize) };
    let queue = world.queues.entry((kind, id, queue)).or_default();
    // Fewer at once than are offered, as cards do.
    let taken = jobs.len().min(256 - queue.len()).min(5);
    // SAFETY: segments stay for this call only, so they are kept elsewhere until the job is done.
    let keep = |job: &RawJob| unsafe {
        let segments = std::slice::from_raw_parts(job.segments, job.segment_count as usize);
        let kept: &'static mut [_] = Box::leak(segments.to_vec().into_boxed_slice());
        Owned(RawJob { segments: kept.as_ptr(), ..*job })
    };
    queue.extend(jobs[..taken].iter().map(keep));
    taken as i32
}

unsafe extern "C" fn dequeue(kind: u32, id: i32, queue: u16, out: *mut RawResult, max: u32) -> i32 {
    let mut world = world();
    let behavior = world.behaviors.get(&id).copied().unwrap_or_default();
    match behavior {
        Behavior::Gone => return -libc::ENODEV,
        Behavior::Stalled => return 0,
        Behavior::Good | Behavior::Refuses => {}
    }
    let mut count = 0;
    while count < max as usize {
        let next = world.queues.get_mut(&(kind, id, queue)).and_then(VecDeque::pop_front);
        let Some(Owned(job)) = next else { break };
        let result = run(&mut world, kind, id, &job);
        // SAFETY: there is room for `max`.
        unsafe { out.add(count).write(result) };
        count += 1;
    }
    count as i32
}

fn run(world: &mut World, kind: u32, id: i32, job: &RawJob) -> RawResult {
    let mut result = RawResult {
        token: job.token,
        detail: 0,
        status: shim::DONE,
        produced: 0,
        consumed: 0,
        match_count: 0,
        matches: std::ptr::null(),
    };
    // SAFETY: kept by `enqueue`, and freed here.
    let segments = unsafe {
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(
            job.segments.cast_mut(),
            job.segment_count as usize,
        ))
    };
    if segments.len() != 1 {
        result.status = shim::INVALID;
        return result;
    }
    let (start, len) = (segments[0].start, segments[0].len as usize);
    let (to, capacity) = (job.destination, job.destination_len as usize);
    assert!(world.knows(start as usize, len), "the source is registered");
    assert!(world.knows(to as usize, capacity), "the destination is registered");
    assert!(len <= 65_535 && capacity <= 65_535, "16 bits are enough");
    // SAFETY: the job's memory, which nothing else accesses until the job is back.
    let (source, destination) = unsafe {
        (std::slice::from_raw_parts(start, len), std::slice::from_raw_parts_mut(to, capacity))
    };
    if kind == shim::Kind::Match as u32 {
        return matches(world, source, result);
    }
    let (operation, variant) = match job.transform as usize {
        1 => (Operation::Compress(Format::Deflate), "libdeflate"),
        2 => (Operation::Decompress(Format::Deflate), "libdeflate"),
        _ => (Operation::Decompress(Format::Lz4Block), "lz4"),
    };
    match kernel(operation, variant).run(&[source], destination) {
        // There are no stored blocks, so what does not compress grows.
        Ok(output) if matches!(operation, Operation::Compress(_)) && output.written >= len => {
            match capacity >= len + len / 8 {
                true => result.produced = (len + len / 10) as u32,
                false => result.status = shim::NO_SPACE,
            }
            result.consumed = len as u32;
        }
        Ok(output) => (result.produced, result.consumed) = (output.written as u32, len as u32),
        Err(Error::OutputTooSmall { .. }) if id == OLD => result.status = shim::ERROR,
        Err(Error::OutputTooSmall { .. }) => result.status = shim::NO_SPACE,
        Err(_) if id == BLIND => (result.produced, result.consumed) = (1, len as u32),
        Err(_) => (result.status, result.detail) = (shim::ERROR, 0x2a),
    }
    result
}

fn kernel(operation: Operation, variant: &str) -> Box<dyn Kernel> {
    let mut config = OperationConfig::new(operation);
    if prepare(&OperationConfig { variant: variant.into(), ..config.clone() }).is_ok() {
        config.variant = variant.into();
    }
    prepare(&config).unwrap().kernel().unwrap()
}

fn matches(world: &mut World, source: &[u8], mut result: RawResult) -> RawResult {
    let mut found = Vec::new();
    for (rule, number) in world.rules.iter().zip(1u64..) {
        for one in rule.find_iter(source) {
            found.push(number | (one.start() as u64) << 32 | (one.len() as u64) << 48);
        }
    }
    if found.len() > MAX_MATCHES as usize {
        found.truncate(MAX_MATCHES as usize);
        result.status = shim::INCOMPLETE;
    }
    result.match_count = found.len() as u32;
    result.matches = found.as_ptr();
    world.answers.push_back(found);
    if world.answers.len() > 10_000 {
        world.answers.pop_front();
    }
    result
}
