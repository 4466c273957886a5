//! A network card with rules, which no software driver here has: frames return by the queue of
//! their rule, or else of their number.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, c_char, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard};

use overside_backend_dpdk::ethernet::table::{
    EthernetTable, OFFLOADS, PortStatistics, RawFrame, RawPortInfo, RawPortSetup,
};
use overside_base::lock;

/// Bytes of a buffer.
const ROOM: usize = 2_048;
/// Rules that the card has room for.
pub(crate) const RULES_MAX: usize = 3;

#[derive(Default)]
pub(crate) struct Card {
    /// UDP port and queue.
    pub rules: Vec<(u16, u16)>,
    pub is_started: bool,
    /// Frames that the next calls to send take at most; none: all.
    pub takes: VecDeque<usize>,
    /// Frames of which the device was to fill in checksums, and where IP begins in them.
    pub offloads: Vec<u32>,
    waiting: HashMap<usize, VecDeque<RawCopy>>,
    /// Buffers that are handed out.
    pub buffers: HashMap<usize, Box<[u8]>>,
}

type RawCopy = (usize, u32);

static CARD: LazyLock<Mutex<Card>> = LazyLock::new(Mutex::default);

pub(crate) fn network_card() -> MutexGuard<'static, Card> {
    lock(&CARD)
}

pub(crate) static TABLE: EthernetTable = EthernetTable {
    attach,
    info,
    start,
    stop,
    receive,
    allocate,
    release,
    transmit,
    waiting,
    statistics,
    is_up,
    steer,
    unsteer,
};

unsafe extern "C" fn attach(name: *const c_char, _: *const c_char) -> i32 {
    // SAFETY: a NUL-terminated name.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"0000:03:00.0" => 0,
        _ => -19,
    }
}

unsafe extern "C" fn info(_: i32, out: *mut RawPortInfo) -> i32 {
    let info = RawPortInfo {
        driver: std::array::from_fn(|at| b"net_rules\0".get(at).map_or(0, |byte| *byte as c_char)),
        mac: [2, 0, 0, 0, 0, 9],
        mtu: 1500,
        queues: 4,
    };
    // SAFETY: the caller's structure.
    unsafe { out.write(info) };
    0
}

unsafe extern "C" fn start(_: i32, setup: *const RawPortSetup, queues: *mut *mut c_void) -> i32 {
    // SAFETY: the caller's structure, and room for as many queues.
    unsafe {
        for queue in 0..usize::from((*setup).queues) {
            queues.add(queue).write((queue + 1) as *mut c_void);
        }
    }
    network_card().is_started = true;
    0
}

unsafe extern "C" fn stop(_: i32) {
    let mut card = network_card();
    card.is_started = false;
    card.rules.clear();
}

fn buffer(card: &mut Card) -> RawFrame {
    let mut memory = vec![0; ROOM].into_boxed_slice();
    let data = memory.as_mut_ptr();
    card.buffers.insert(data as usize, memory);
    RawFrame { buffer: data.cast(), data, len: ROOM as u32, flags: OFFLOADS, l2_len: 0 }
}

unsafe extern "C" fn receive(queue: *mut c_void, out: *mut RawFrame, max: u32) -> i32 {
    let mut card = network_card();
    let all = card.waiting.entry(queue as usize).or_default();
    let count = all.len().min(max as usize);
    for (number, (data, len)) in all.drain(..count).enumerate() {
        let raw = RawFrame {
            buffer: data as *mut c_void,
            data: data as *mut u8,
            len,
            flags: 0,
            l2_len: 0,
        };
        // SAFETY: there is room for `max`.
        unsafe { out.add(number).write(raw) };
    }
    count as i32
}

unsafe extern "C" fn allocate(_: *mut c_void, out: *mut RawFrame, count: u32) -> u32 {
    let mut card = network_card();
    for number in 0..count as usize {
        // SAFETY: there is room for `count`.
        unsafe { out.add(number).write(buffer(&mut card)) };
    }
    count
}

unsafe extern "C" fn release(buffer: *mut c_void) {
    let freed = network_card().buffers.remove(&(buffer as usize));
    assert!(freed.is_some(), "a buffer is released once");
}

unsafe extern "C" fn transmit(queue: *mut c_void, frames: *const RawFrame, count: u32) -> u32 {
    let mut card = network_card();
    assert!(card.is_started);
    let most = card.takes.pop_front().unwrap_or(usize::MAX);
    let taken = (count as usize).min(most);
    for number in 0..taken {
        // SAFETY: there are `count`, in buffers that are ours now.
        let (raw, port) = unsafe {
            let raw = frames.add(number).read();
            (raw, u16::from_be_bytes([*raw.data.add(36), *raw.data.add(37)]))
        };
        if raw.flags & OFFLOADS != 0 {
            card.offloads.push(raw.l2_len);
        }
        let rule = card.rules.iter().find(|(of, _)| *of == port);
        let to = rule.map_or(queue as usize, |(_, queue)| usize::from(*queue) + 1);
        let all = card.waiting.entry(to).or_default();
        all.push_back((raw.data as usize, raw.len));
    }
    taken as u32
}

unsafe extern "C" fn waiting(queue: *mut c_void) -> i32 {
    let mut card = network_card();
    card.waiting.entry(queue as usize).or_default().len() as i32
}

unsafe extern "C" fn statistics(_: i32, out: *mut PortStatistics) -> i32 {
    // SAFETY: the caller's structure.
    unsafe { (*out).missed = 7 };
    0
}

unsafe extern "C" fn is_up(_: i32) -> i32 {
    1
}

unsafe extern "C" fn steer(_: i32, address: u32, port: u16, queue: u16) -> i32 {
    let mut card = network_card();
    assert_eq!(address, 0x0a00_0002);
    if card.rules.len() == RULES_MAX {
        return -28;
    }
    card.rules.push((port, queue));
    0
}

unsafe extern "C" fn unsteer(_: i32) {
    network_card().rules.clear();
}
