//! The rings that the kernel and one thread share (io_uring(7)), and the buffers that it fills.
//!
//! 1. [`Ring::poll`] and [`Ring::receive`] write requests into the submission queue; [`Ring::wait`] hands them
//!    over and takes what has completed.
//! 2. A receive names no memory. When bytes are there the kernel takes one of the provided buffers
//!    (io_uring_register_buf_ring(3)), and the completion says which: an idle connection holds none.
//! 3. [`Ring::send_all`] sends to many sockets by one system call, none of which waits.
//!
//! Completions appear in calls of this thread only (`IORING_SETUP_DEFER_TASKRUN`), so that bytes that
//! were received are known as soon as the call returns.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

/// Bytes of a provided buffer.
pub const BUFFER_BYTES: usize = 16 << 10;
/// Provided buffers, a power of two.
const BUFFERS: u16 = 256;
/// The group of buffers.
const GROUP: u16 = 0;
/// Requests that are handed over at a time, and completions that find room.
const SUBMISSIONS: u32 = 512;
const COMPLETIONS: u32 = 4096;
/// A receive waits for bytes instead of trying first, and completes again and again (linux/io_uring.h,
/// `IORING_RECVSEND_POLL_FIRST`, `IORING_RECV_MULTISHOT`).
const POLL_FIRST: u16 = 1;
const MULTISHOT: u16 = 2;
/// What sends and cancellations have in place of a number: these, and all above.
const SEND: u64 = 1 << 62;
const CANCELLATION: u64 = 1 << 63;
/// Tries to end what is under way before memory is left to the kernel.
const CLOSE_TRIES: usize = 100;
const PAGE_BYTES: usize = 4096;
/// What a ring takes: the buffers, and the queues' entries of 64, 16 and 16 bytes.
pub const MEMORY_BYTES: usize = BUFFERS as usize * (BUFFER_BYTES + size_of::<BufRingEntry>())
    + SUBMISSIONS as usize * 64
    + COMPLETIONS as usize * 16;

/// A buffer that the kernel has filled; it is to be [given back](Ring::give_back).
#[derive(Debug)]
pub struct Chunk {
    buffer: u16,
    len: usize,
}

/// What a request has come to.
#[derive(Debug)]
pub struct Completion {
    /// The number that it was given.
    pub id: u64,
    /// What the system call would have returned, errors as negative numbers.
    pub result: i32,
    /// What a receive has received.
    pub chunk: Option<Chunk>,
    /// More has come than the buffer took.
    pub has_more: bool,
    /// The request has ended.
    pub is_last: bool,
}

/// An io_uring of this thread.
pub struct Ring {
    uring: IoUring,
    buffers: Buffers,
    completions: Vec<Completion>,
    /// Requests without a completion.
    in_flight: usize,
    /// Sends of [`Self::send_all`] without one, and the results of the others.
    sending: usize,
    results: Vec<i32>,
    /// The kernel refused a call that cannot fail, and is not asked again.
    is_broken: bool,
}

impl Ring {
    /// A ring that this thread alone uses.
    ///
    /// # Errors
    /// That of the system.
    pub fn new() -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        let mut ring = Self {
            uring,
            buffers: Buffers::new(),
            completions: Vec::new(),
            in_flight: 0,
            sending: 0,
            results: Vec::new(),
            is_broken: false,
        };
        let entries = ring.buffers.entries.as_ptr() as u64;
        // SAFETY: the entries are aligned to a page, there are so many, and they live until `drop` has ended
        // every request and this registration.
        unsafe {
            (ring.uring.submitter()).register_buf_ring_with_flags(entries, BUFFERS, GROUP, 0)?;
        }
        for buffer in 0..BUFFERS {
            ring.give_back(Chunk { buffer, len: 0 });
        }
        Ok(ring)
    }

    /// Completes once a socket has one of these `events` (poll(2)).
    ///
    /// # Errors
    /// That of the system.
    pub fn poll(&mut self, socket: i32, events: u32, id: u64) -> io::Result<()> {
        let request = opcode::PollAdd::new(Fd(socket), events).build();
        // SAFETY: it names no memory.
        unsafe { self.push(request.user_data(id)) }
    }

    /// Completes with a buffer's worth of bytes of a socket whenever some are there, or once with at most `len`.
    ///
    /// # Errors
    /// That of the system.
    pub fn receive(&mut self, socket: i32, len: Option<usize>, id: u64) -> io::Result<()> {
        let (len, repeats) = match len {
            Some(len) => (len as u32, 0),
            None => (0, MULTISHOT),
        };
        let request = opcode::Recv::new(Fd(socket), std::ptr::null_mut(), len)
            .ioprio(POLL_FIRST | repeats)
            .buf_group(GROUP)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        // SAFETY: the kernel writes into provided buffers alone, which live as long as the ring and are read
        // only between their completion and `give_back`.
        unsafe { self.push(request.user_data(id)) }
    }

    /// Has a request end, which completes either way.
    ///
    /// # Errors
    /// That of the system.
    pub fn cancel(&mut self, id: u64) -> io::Result<()> {
        let request = opcode::AsyncCancel::new(id).build();
        // SAFETY: it names no memory.
        unsafe { self.push(request.user_data(CANCELLATION)) }
    }

    /// Sends to each socket what it takes of these bytes. Of each, in order, how many it has taken or its error.
    ///
    /// # Errors
    /// That of the system. Nothing more can be asked of this ring.
    pub fn send_all(&mut self, sends: &[(BorrowedFd<'_>, &[u8])]) -> io::Result<&[i32]> {
        self.results.clear();
        self.results.resize(sends.len(), 0);
        for (number, (socket, bytes)) in sends.iter().enumerate() {
            let len = bytes.len().min(i32::MAX as usize) as u32;
            let request = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), len)
                .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
                .build();
            // SAFETY: this function returns when every send has completed, or after the ring was marked as
            // broken: then what has not been handed over never is. A send that must not wait ends in the
            // call that hands it over.
            let pushed = unsafe { self.push(request.user_data(SEND | number as u64)) };
            self.sending += usize::from(pushed.is_ok());
            pushed.or_else(|error| self.fail(error))?;
        }
        loop {
            let entered = self.enter(0, None);
            entered.or_else(|error| self.fail(error))?;
            self.take();
            if self.sending == 0 {
                return Ok(&self.results);
            }
        }
    }

    fn fail(&mut self, error: io::Error) -> io::Result<()> {
        self.is_broken = true;
        Err(error)
    }

    /// Hands over what was asked for, and waits for a completion, no longer than `timeout`; a signal ends the wait
    /// too. [`Self::completions`] has what has come.
    ///
    /// # Errors
    /// That of the system.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let is_waiting = !timeout.is_zero() && self.completions.is_empty();
        let submission = self.uring.submission();
        let has_work = !submission.is_empty() || submission.taskrun() || submission.cq_overflow();
        drop(submission);
        if is_waiting || has_work {
            self.enter(usize::from(is_waiting), is_waiting.then_some(timeout))?;
        }
        self.take();
        Ok(())
    }

    /// Takes what has completed.
    pub fn completions(&mut self, into: &mut Vec<Completion>) {
        into.append(&mut self.completions);
    }

    /// What a receive has received.
    pub fn bytes(&self, chunk: &Chunk) -> &[u8] {
        self.buffers.bytes(chunk)
    }

    /// Gives a buffer back to the kernel.
    pub fn give_back(&mut self, chunk: Chunk) {
        self.buffers.give_back(chunk);
    }

    /// # Safety
    /// Memory that the request names lives until it has completed.
    unsafe fn push(&mut self, request: squeue::Entry) -> io::Result<()> {
        if self.uring.submission().is_full() {
            self.enter(0, None)?;
            self.take();
        }
        // SAFETY: as the caller promises.
        let pushed = unsafe { self.uring.submission().push(&request) };
        self.in_flight += usize::from(pushed.is_ok());
        pushed.map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    /// Hands over what was asked for, and waits for so many completions.
    fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<()> {
        if self.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let submitter = self.uring.submitter();
        let entered = match timeout {
            None => submitter.submit_and_wait(want),
            Some(timeout) => {
                let time = Timespec::from(timeout);
                submitter.submit_with_args(want, &SubmitArgs::new().timespec(&time))
            }
        };
        match entered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) => Ok(()),
            // Time is over, a signal, completions wait to be taken, or memory is short for a moment.
            Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    /// Takes completions from the queue.
    fn take(&mut self) {
        for entry in self.uring.completion() {
            let (id, result, flags) = (entry.user_data(), entry.result(), entry.flags());
            let is_last = !cqueue::more(flags);
            self.in_flight -= usize::from(is_last);
            if id & CANCELLATION != 0 {
                continue;
            }
            if id & SEND != 0 {
                self.sending -= 1;
                self.results[(id & !SEND) as usize] = result;
                continue;
            }
            let chunk = cqueue::buffer_select(flags).map(|buffer| Chunk {
                buffer,
                len: result.max(0) as usize,
            });
            self.completions.push(Completion {
                id,
                result,
                chunk,
                has_more: cqueue::sock_nonempty(flags),
                is_last,
            });
        }
    }

    /// Ends all that is under way.
    fn close(&mut self) -> io::Result<()> {
        let request = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        // SAFETY: it names no memory.
        unsafe { self.push(request.user_data(CANCELLATION))? };
        for _ in 0..CLOSE_TRIES {
            if self.in_flight == 0 {
                return self.uring.submitter().unregister_buf_ring(GROUP);
            }
            self.enter(1, Some(Duration::from_millis(10)))?;
            self.take();
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.close().is_err() {
            // The kernel may still write there.
            self.buffers.is_lent = true;
        }
    }
}

/// Memory that the kernel takes buffers from: a ring of entries, which say where they are, and the buffers.
struct Buffers {
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    tail: u16,
    /// Left to the kernel.
    is_lent: bool,
}

impl Buffers {
    const ENTRIES: Layout = match Layout::array::<BufRingEntry>(BUFFERS as usize) {
        Ok(layout) => match layout.align_to(PAGE_BYTES) {
            Ok(layout) => layout,
            Err(_) => panic!("a page"),
        },
        Err(_) => panic!("a page"),
    };
    const BYTES: Layout = match Layout::from_size_align(BUFFERS as usize * BUFFER_BYTES, PAGE_BYTES)
    {
        Ok(layout) => layout,
        Err(_) => panic!("some pages"),
    };

    fn new() -> Self {
        let alloc = |layout| {
            // SAFETY: the layouts are not empty.
            let memory = unsafe { alloc_zeroed(layout) };
            NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
        };
        Self {
            entries: alloc(Self::ENTRIES).cast(),
            bytes: alloc(Self::BYTES),
            tail: 0,
            is_lent: false,
        }
    }

    /// Where a buffer begins.
    fn buffer(&self, number: u16) -> NonNull<u8> {
        assert!(number < BUFFERS, "a buffer that was provided");
        // SAFETY: it lies within the buffers.
        unsafe { self.bytes.add(usize::from(number) * BUFFER_BYTES) }
    }

    fn bytes(&self, chunk: &Chunk) -> &[u8] {
        let len = chunk.len.min(BUFFER_BYTES);
        // SAFETY: the kernel has filled this buffer and does not have it until it is given back, which takes
        // the only chunk that names it. All of it was zeroed at first.
        unsafe { std::slice::from_raw_parts(self.buffer(chunk.buffer).as_ptr(), len) }
    }

    fn give_back(&mut self, chunk: Chunk) {
        let address = self.buffer(chunk.buffer).as_ptr() as u64;
        let place = usize::from(self.tail & (BUFFERS - 1));
        // SAFETY: there are so many entries. The kernel reads none at or behind the tail, where this one
        // is: no more buffers are out than there are entries. The tail lies in the part of the first entry
        // that no entry uses, and both sides access it atomically.
        unsafe {
            let entry = self.entries.add(place).as_mut();
            entry.set_addr(address);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(chunk.buffer);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        // SAFETY: they were allocated with these layouts, and the kernel has ended all that used them.
        unsafe {
            dealloc(self.entries.as_ptr().cast(), Self::ENTRIES);
            dealloc(self.bytes.as_ptr(), Self::BYTES);
        }
    }
}
