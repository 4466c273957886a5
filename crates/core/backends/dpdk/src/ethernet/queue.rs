//! Queues of a port: frames in and out.

// Calls through the table, and memory of frames.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use super::table::{OFFLOADS, RawFrame};
use super::{EthernetPort, ReceivedFrame};

/// Maximum number of frames of one call.
pub const BURST: usize = 32;
/// Number of transmit attempts in a row that send nothing before the remaining frames are dropped.
const SEND_TRIES: usize = 64;

/// A queue of a port, both ways, for one thread.
#[derive(Debug)]
pub struct EthernetQueue {
    port: Arc<EthernetPort>,
    handle: *mut c_void,
    /// Empty buffers, followed by frames that are ready to be sent.
    buffers: Vec<RawFrame>,
    outgoing: Vec<RawFrame>,
}

// SAFETY: DPDK's queues may be used by any thread, one at a time; so may buffers.
unsafe impl Send for EthernetQueue {}

/// Frame that is being written.
#[derive(Debug)]
pub struct OutgoingFrame<'q> {
    /// Buffer to write the frame to, as long as the longest frame that fits.
    pub bytes: &'q mut [u8],
    /// `true` if the device can fill in the checksums of IPv4 (without options) and UDP. The UDP
    /// checksum field must then contain the checksum of the pseudo header.
    pub has_offloads: bool,
}

/// Length of the frame that was written, in bytes, and the offset of its IP header if the device is
/// to fill in checksums. `None`: nothing was written because the frame does not fit.
pub type Written = Option<(usize, Option<usize>)>;

impl EthernetQueue {
    /// Wraps `handle`, which the start of the port has returned.
    pub(super) fn new(port: Arc<EthernetPort>, handle: *mut c_void) -> Self {
        Self {
            port,
            handle,
            buffers: Vec::with_capacity(BURST),
            outgoing: Vec::with_capacity(BURST),
        }
    }

    /// Returns the port that this queue belongs to.
    #[must_use]
    pub fn port(&self) -> &Arc<EthernetPort> {
        &self.port
    }

    /// Makes the calling thread, which uses it from now on, known to DPDK.
    pub fn enter(&self) {
        self.port.environment.runtime.enter_thread();
    }

    /// Appends received frames, at most [`BURST`]. Returns their number.
    pub fn receive(&mut self, frames: &mut Vec<ReceivedFrame>) -> usize {
        let mut raw = [EMPTY; BURST];
        // SAFETY: there is room for as many; the handle is that of a port that runs.
        let count =
            unsafe { (self.port.table.receive)(self.handle, raw.as_mut_ptr(), BURST as u32) };
        let count = usize::try_from(count).unwrap_or(0).min(BURST);
        let table = self.port.table;
        frames.extend(raw[..count].iter().map(|raw| ReceivedFrame::new(*raw, table)));
        count
    }

    /// Number of frames that wait to be received; `None` if the driver does not report it.
    #[must_use]
    pub fn waiting(&self) -> Option<usize> {
        // SAFETY: the handle is that of a port that runs.
        let count = unsafe { (self.port.table.waiting)(self.handle) };
        usize::try_from(count).ok()
    }

    /// Writes a frame, which [`Self::flush`] sends with the others, or an earlier call if they are many.
    /// Returns the number of frames that were sent now, and the number that could not be sent.
    pub fn send(&mut self, write: impl FnOnce(OutgoingFrame<'_>) -> Written) -> (usize, usize) {
        if self.buffers.is_empty() && !self.take_buffers() {
            return (0, 1);
        }
        let Some(mut raw) = self.buffers.pop() else {
            return (0, 1);
        };
        let room = raw.len as usize;
        let frame = OutgoingFrame {
            // SAFETY: the buffer is ours alone, and has that much room behind `data`; pools come from the
            // system, which zeroes memory.
            bytes: unsafe { std::slice::from_raw_parts_mut(raw.data, room) },
            has_offloads: raw.flags & OFFLOADS != 0,
        };
        let Some((len, ip_at)) = write(frame) else {
            self.buffers.push(raw);
            return (0, 1);
        };
        raw.len = len.min(room) as u32;
        raw.flags = if ip_at.is_some() { OFFLOADS } else { 0 };
        raw.l2_len = ip_at.unwrap_or(0) as u32;
        self.outgoing.push(raw);
        match self.outgoing.len() {
            BURST.. => self.flush(),
            _ => (0, 0),
        }
    }

    /// Sends the written frames. Returns how many were sent, and how many were dropped for lack of room.
    pub fn flush(&mut self) -> (usize, usize) {
        let (mut sent, mut tries) = (0, 0);
        while sent < self.outgoing.len() && tries < SEND_TRIES {
            let rest = &self.outgoing[sent..];
            // SAFETY: the frames are ours, with lengths within their buffers; those that are sent are the
            // driver's from then on.
            let taken = unsafe {
                (self.port.table.transmit)(self.handle, rest.as_ptr(), rest.len() as u32)
            } as usize;
            sent += taken.min(rest.len());
            tries = if taken == 0 { tries + 1 } else { 0 };
            if taken == 0 {
                std::hint::spin_loop();
            }
        }
        let failed = self.outgoing.len() - sent;
        for raw in self.outgoing.drain(..).skip(sent) {
            // SAFETY: the driver has not taken the buffer, and nothing else uses it any more.
            unsafe { (self.port.table.release)(raw.buffer) };
        }
        (sent, failed)
    }

    fn take_buffers(&mut self) -> bool {
        let mut raw = [EMPTY; BURST];
        // SAFETY: there is room for as many.
        let count =
            unsafe { (self.port.table.allocate)(self.handle, raw.as_mut_ptr(), BURST as u32) };
        self.buffers.extend(raw.iter().take(count as usize));
        count > 0
    }
}

impl Drop for EthernetQueue {
    fn drop(&mut self) {
        for raw in self.buffers.drain(..).chain(self.outgoing.drain(..)) {
            // SAFETY: the buffers are ours, and nothing else uses them any more.
            unsafe { (self.port.table.release)(raw.buffer) };
        }
    }
}

const EMPTY: RawFrame =
    RawFrame { buffer: ptr::null_mut(), data: ptr::null_mut(), len: 0, flags: 0, l2_len: 0 };
