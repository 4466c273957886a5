//! The C side's table of functions for Ethernet ports; mirrors `shim/shim.h`.

#![allow(missing_docs)]

use std::ffi::{c_char, c_void};

/// Flag of received frames: the device has checked the checksums of IPv4 and UDP, and they are right.
pub const CHECKSUM_GOOD: u32 = 1;
/// A checksum is wrong.
pub const CHECKSUM_BAD: u32 = 2;
/// The frame is not in one piece.
pub const TOO_LONG: u32 = 4;
/// Flag of sent frames: the device fills in both checksums.
pub const OFFLOADS: u32 = 8;

/// Properties of a port, as the shim reports them.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RawPortInfo {
    pub driver: [c_char; 64],
    pub mac: [u8; 6],
    pub mtu: u16,
    pub queues: u16,
}

/// Number of queues and receive descriptors that a port is started with.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawPortSetup {
    pub queues: u16,
    pub rx_descriptors: u16,
}

/// A frame, or a buffer for one.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RawFrame {
    pub buffer: *mut c_void,
    pub data: *mut u8,
    pub len: u32,
    pub flags: u32,
    pub l2_len: u32,
}

/// Frames of a port since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PortStatistics {
    /// Received.
    pub received: u64,
    /// Number of frames that were sent.
    pub sent: u64,
    /// Dropped because no descriptor was free.
    pub missed: u64,
    /// Dropped because no buffer was free.
    pub no_buffer: u64,
    /// Malformed, by the device's count.
    pub receive_errors: u64,
    /// Number of frames that could not be sent.
    pub send_errors: u64,
}

/// The functions.
#[derive(Debug)]
#[repr(C)]
pub struct EthernetTable {
    pub attach: unsafe extern "C" fn(*const c_char, *const c_char) -> i32,
    pub info: unsafe extern "C" fn(i32, *mut RawPortInfo) -> i32,
    pub start: unsafe extern "C" fn(i32, *const RawPortSetup, *mut *mut c_void) -> i32,
    pub stop: unsafe extern "C" fn(i32),
    pub receive: unsafe extern "C" fn(*mut c_void, *mut RawFrame, u32) -> i32,
    pub allocate: unsafe extern "C" fn(*mut c_void, *mut RawFrame, u32) -> u32,
    pub release: unsafe extern "C" fn(*mut c_void),
    pub transmit: unsafe extern "C" fn(*mut c_void, *const RawFrame, u32) -> u32,
    pub waiting: unsafe extern "C" fn(*mut c_void) -> i32,
    pub statistics: unsafe extern "C" fn(i32, *mut PortStatistics) -> i32,
    pub is_up: unsafe extern "C" fn(i32) -> i32,
    pub steer: unsafe extern "C" fn(i32, u32, u16, u16) -> i32,
    pub unsteer: unsafe extern "C" fn(i32),
}
