//! The C side: its table of functions, and how it is loaded.
//!
//! Mirrors `shim/ucx.h`.

// Calls through the table, and loading it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use overside_shim::Unavailable;

use crate::verbs::ConnectError;

/// The shim's sources, and the products of this build.
pub(super) static SHIM: overside_shim::Shim =
    // SAFETY: initialisers of the shim and of UCX's libraries run, which read variables, measure the
    // clock and register transports; what they would do to the process is held off.
    unsafe { overside_shim::Shim::new(include!(concat!(env!("OUT_DIR"), "/shim.rs"))) };

/// The version of the interface.
const ABI: u32 = 1;

/// Grants the peer more credit.
pub(crate) const CREDIT: u32 = 1;
/// Greets the peer, which sets the connection up.
const HELLO: u32 = 3;
/// Announces the end of messages to the peer.
pub(crate) const BYE: u32 = 2;

/// Finished operation.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct FinishedOperation {
    pub(crate) len: u64,
    pub(crate) slot: u32,
    pub(crate) status: i32,
}

/// An operation.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Operation {
    pub(crate) local: *mut u8,
    pub(crate) memory: *mut c_void,
    pub(crate) key: *mut c_void,
    pub(crate) remote: u64,
    pub(crate) len: u64,
    pub(crate) slot: u32,
}

/// Notices that the peer has sent since the last look.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct News {
    pub(crate) credits: u32,
    hello: u32,
    pub(crate) bye: u32,
    pub(crate) bye_count: u32,
    pub(crate) lost: i32,
}

type Opaque = *mut c_void;

#[repr(C)]
struct Table {
    abi: u32,
    version: unsafe extern "C" fn(*mut u32, *mut u32, *mut u32),
    status: unsafe extern "C" fn(i32) -> *const c_char,
    messages: unsafe extern "C" fn(*mut c_char, usize),
    open: unsafe extern "C" fn(*const c_char, *const c_char, *mut Opaque) -> i32,
    close: unsafe extern "C" fn(Opaque),
    map: unsafe extern "C" fn(Opaque, *mut u8, usize, *mut Opaque) -> i32,
    unmap: unsafe extern "C" fn(Opaque, Opaque),
    pack: unsafe extern "C" fn(Opaque, Opaque, *mut u8, usize) -> i32,
    worker: unsafe extern "C" fn(Opaque, u32, u64, *mut Opaque) -> i32,
    address: unsafe extern "C" fn(Opaque, *mut u8, usize) -> i32,
    connect: unsafe extern "C" fn(Opaque, *const u8, u64) -> i32,
    describe: unsafe extern "C" fn(Opaque, *mut c_char, usize) -> i32,
    descriptor: unsafe extern "C" fn(Opaque) -> i32,
    arm: unsafe extern "C" fn(Opaque) -> i32,
    progress: unsafe extern "C" fn(Opaque) -> u32,
    done: unsafe extern "C" fn(Opaque, *mut FinishedOperation, u32) -> u32,
    news: unsafe extern "C" fn(Opaque, *mut News),
    key: unsafe extern "C" fn(Opaque, *const u8, *mut Opaque) -> i32,
    key_free: unsafe extern "C" fn(Opaque),
    put: unsafe extern "C" fn(Opaque, *const Operation),
    get: unsafe extern "C" fn(Opaque, *const Operation),
    send: unsafe extern "C" fn(Opaque, *const Operation),
    receive: unsafe extern "C" fn(Opaque, *const Operation),
    probe: unsafe extern "C" fn(Opaque, *mut u64) -> i32,
    flush: unsafe extern "C" fn(Opaque, u32),
    tell: unsafe extern "C" fn(Opaque, u32, u32) -> i32,
    told: unsafe extern "C" fn(Opaque) -> u32,
    disconnect: unsafe extern "C" fn(Opaque),
    disconnected: unsafe extern "C" fn(Opaque) -> u32,
    worker_close: unsafe extern "C" fn(Opaque),
}

/// UCX, loaded into the process for good.
#[derive(Clone, Copy)]
pub(crate) struct Shim(&'static Table);

/// Handle of a UCX context.
pub(crate) type RawContext = NonNull<c_void>;

impl Shim {
    /// Loads it once.
    pub(crate) fn get() -> Result<Self, ConnectError> {
        static LOADED: OnceLock<Result<Shim, Unavailable>> = OnceLock::new();
        let loaded = LOADED.get_or_init(|| super::environment::held_off(Self::load));
        loaded.clone().map_err(|reason| ConnectError::Unavailable {
            transport: super::NAME,
            reason: reason.to_string(),
        })
    }

    fn load() -> Result<Self, Unavailable> {
        let library = SHIM.open()?;
        // SAFETY: the symbol is the table that `ucx.h` declares; its first field says which.
        let table = unsafe { library.get::<*const Table>(b"overside_ucx\0") }
            .map_err(|error| SHIM.unloadable(error.to_string()))?;
        // SAFETY: a `Symbol<*const T>` dereferences to the symbol's address; the table is constant
        // and stays, because the library is never closed.
        let table: &'static Table = unsafe { &**table };
        match table.abi {
            ABI => Ok(Self(table)),
            other => Err(SHIM.unloadable(format!("the shim has interface {other}, not {ABI}"))),
        }
    }

    /// The version of UCX that is in this process.
    pub(crate) fn version(self) -> String {
        let (mut major, mut minor, mut release) = (0, 0, 0);
        // SAFETY: three integers are written.
        unsafe { (self.0.version)(&mut major, &mut minor, &mut release) };
        format!("{major}.{minor}.{release}")
    }

    /// A status in words.
    pub(crate) fn status(self, status: i32) -> String {
        // SAFETY: the function returns a NUL-terminated constant for any number.
        let text = unsafe { CStr::from_ptr((self.0.status)(status)) };
        text.to_string_lossy().into_owned()
    }

    /// A negative status in words, with UCX's message about it.
    pub(crate) fn check(self, status: i32) -> Result<u32, String> {
        if let Ok(result) = u32::try_from(status) {
            return Ok(result);
        }
        let mut buffer: [c_char; 1024] = [0; 1024];
        // SAFETY: at most the buffer's length is written, ending with a NUL.
        let said = unsafe {
            (self.0.messages)(buffer.as_mut_ptr(), buffer.len());
            CStr::from_ptr(buffer.as_ptr())
        };
        let said = said.to_string_lossy();
        let lines: Vec<&str> = said.lines().map(str::trim).collect();
        let status = self.status(status);
        Err(match lines.is_empty() {
            true => status,
            false => format!("{status}; UCX says: {}", lines.join("; ")),
        })
    }

    /// A context with these transports and network devices.
    pub(crate) fn open(
        self,
        transports: Option<&CStr>,
        devices: Option<&CStr>,
    ) -> Result<RawContext, String> {
        let pointer = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
        let mut context = ptr::null_mut();
        // SAFETY: the texts are NUL-terminated and outlive the call.
        let status = unsafe { (self.0.open)(pointer(transports), pointer(devices), &mut context) };
        self.check(status)?;
        NonNull::new(context).ok_or_else(|| "no context".into())
    }

    /// # Safety
    /// The context is open, and nothing of it is used afterwards.
    pub(crate) unsafe fn close(self, context: RawContext) {
        // SAFETY: the caller's.
        unsafe { (self.0.close)(context.as_ptr()) };
    }

    /// Registers memory.
    ///
    /// # Safety
    /// The context is open, and the memory is there until [`Shim::unmap`].
    pub(crate) unsafe fn map(
        self,
        context: RawContext,
        start: *mut u8,
        len: usize,
    ) -> Result<NonNull<c_void>, String> {
        let mut memory = ptr::null_mut();
        // SAFETY: the caller's.
        let status = unsafe { (self.0.map)(context.as_ptr(), start, len, &mut memory) };
        self.check(status)?;
        NonNull::new(memory).ok_or_else(|| "no registration".into())
    }

    /// # Safety
    /// Both come from `open` and `map`, and nothing uses the registration any more.
    pub(crate) unsafe fn unmap(self, context: RawContext, memory: NonNull<c_void>) {
        // SAFETY: the caller's.
        unsafe { (self.0.unmap)(context.as_ptr(), memory.as_ptr()) };
    }

    /// The key of registered memory, for a peer.
    ///
    /// # Safety
    /// As [`Shim::unmap`], before it.
    pub(crate) unsafe fn pack(
        self,
        context: RawContext,
        memory: NonNull<c_void>,
    ) -> Result<Vec<u8>, String> {
        let mut out = vec![0; crate::verbs::Token::MAX_BYTES / 2];
        // SAFETY: the caller's, and at most `out`'s length is written.
        let status = unsafe {
            (self.0.pack)(context.as_ptr(), memory.as_ptr(), out.as_mut_ptr(), out.len())
        };
        out.truncate(self.check(status)? as usize);
        Ok(out)
    }

    /// A worker.
    ///
    /// # Safety
    /// The context is open, and stays so until the worker is closed.
    pub(crate) unsafe fn worker(
        self,
        context: RawContext,
        slots: u32,
        receive_tag: u64,
    ) -> Result<RawWorker, String> {
        let mut worker = ptr::null_mut();
        // SAFETY: the caller's.
        let status = unsafe { (self.0.worker)(context.as_ptr(), slots, receive_tag, &mut worker) };
        self.check(status)?;
        let worker = NonNull::new(worker).ok_or("no worker")?;
        Ok(RawWorker { shim: self, worker })
    }
}

/// A worker. Every call is sound because this is the only handle to it, and because its owner keeps
/// the context open. One thread at a time: it is not `Sync`, and UCX is configured for that.
pub(crate) struct RawWorker {
    pub(crate) shim: Shim,
    worker: NonNull<c_void>,
}

// SAFETY: the worker was made for being used by several threads, one at a time.
unsafe impl Send for RawWorker {}

/// A key of the peer's memory, unpacked; belongs to the worker that it came from.
#[derive(Clone, Copy)]
pub(crate) struct RawKey(pub(crate) NonNull<c_void>);

// SAFETY: it is used together with its worker only.
unsafe impl Send for RawKey {}

impl RawWorker {
    fn table(&self) -> &'static Table {
        self.shim.0
    }

    pub(crate) fn address(&self) -> Result<Vec<u8>, String> {
        let mut out = vec![0; super::control::frame::MAX_ADDRESS_BYTES];
        // SAFETY: at most `out`'s length is written.
        let status =
            unsafe { (self.table().address)(self.worker.as_ptr(), out.as_mut_ptr(), out.len()) };
        out.truncate(self.shim.check(status)? as usize);
        Ok(out)
    }

    /// Connects it to a peer's address.
    ///
    /// UCX does not check an address: it must come from a trusted peer.
    pub(crate) fn connect(&mut self, address: &[u8], send_tag: u64) -> Result<(), String> {
        // UCX does not check the length of an address. A truncated one is padded with zeros.
        let mut padded = address.to_vec();
        padded.resize(address.len() + super::control::frame::MAX_ADDRESS_BYTES, 0);
        // SAFETY: the address outlives the call, with room behind it.
        let status =
            unsafe { (self.table().connect)(self.worker.as_ptr(), padded.as_ptr(), send_tag) };
        self.shim.check(status).map(drop)
    }

    /// Begins to set the connection up, which UCX otherwise does with the first piece of work, and
    /// ends badly if it never comes to that. Goes on with [`Greeting::progress`].
    pub(crate) fn greet(&mut self) -> Result<Greeting, String> {
        self.tell(HELLO, 0)?;
        // SAFETY: no slot is in use.
        unsafe { self.flush(0) };
        Ok(Greeting::default())
    }

    /// Returns UCX's description of the connection.
    pub(crate) fn describe(&self) -> String {
        let mut out = vec![0u8; 4096];
        // SAFETY: at most `out`'s length is written.
        let len = unsafe {
            (self.table().describe)(self.worker.as_ptr(), out.as_mut_ptr().cast(), out.len())
        };
        out.truncate(usize::try_from(len).unwrap_or(0));
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The descriptor of its events; it is the worker's own.
    pub(crate) fn descriptor(&self) -> Result<i32, String> {
        // SAFETY: see the type.
        let status = unsafe { (self.table().descriptor)(self.worker.as_ptr()) };
        self.shim.check(status).map(|descriptor| descriptor as i32)
    }

    /// Prepares the descriptor for waiting. Returns `true` if it will become readable, `false` if
    /// there is something to do already.
    pub(crate) fn arm(&mut self) -> Result<bool, String> {
        // SAFETY: see the type.
        let status = unsafe { (self.table().arm)(self.worker.as_ptr()) };
        self.shim.check(status).map(|busy| busy == 0)
    }

    /// Makes UCX progress. Returns `true` if anything happened.
    pub(crate) fn progress(&mut self) -> bool {
        // SAFETY: see the type. The callbacks that it makes stay within the shim.
        unsafe { (self.table().progress)(self.worker.as_ptr()) > 0 }
    }

    /// Fetches finished operations. Returns their number.
    pub(crate) fn done(&mut self, out: &mut [FinishedOperation]) -> usize {
        // SAFETY: at most as many as there is room for are written.
        unsafe {
            (self.table().done)(self.worker.as_ptr(), out.as_mut_ptr(), out.len() as u32) as usize
        }
    }

    pub(crate) fn news(&mut self) -> News {
        let mut news = News::default();
        // SAFETY: one structure is written.
        unsafe { (self.table().news)(self.worker.as_ptr(), &mut news) };
        news
    }

    /// Unpacks a key of the peer. UCX trusts it.
    pub(crate) fn key(&mut self, packed: &[u8]) -> Result<RawKey, String> {
        let mut padded = packed.to_vec();
        padded.resize(packed.len() + crate::verbs::Token::MAX_BYTES, 0);
        let mut key = ptr::null_mut();
        // SAFETY: the key outlives the call, with room behind it.
        let status = unsafe { (self.table().key)(self.worker.as_ptr(), padded.as_ptr(), &mut key) };
        self.shim.check(status)?;
        NonNull::new(key).map(RawKey).ok_or_else(|| "no key".into())
    }

    /// # Safety
    /// No operation that names the key is under way, and none will be.
    pub(crate) unsafe fn key_free(&mut self, key: RawKey) {
        // SAFETY: the caller's.
        unsafe { (self.table().key_free)(key.0.as_ptr()) };
    }

    /// Begins an operation, which ends as one [`FinishedOperation`].
    ///
    /// # Safety
    /// The slot is free and one of the worker's; the memory that the operation names, local,
    /// registration and key, stays until it is done; and no other code reaches local memory that it
    /// writes.
    pub(crate) unsafe fn begin(&mut self, what: What, operation: &Operation) {
        let table = self.table();
        let begin = match what {
            What::Put => table.put,
            What::Get => table.get,
            What::Send => table.send,
            What::Receive => table.receive,
        };
        // SAFETY: the caller's.
        unsafe { begin(self.worker.as_ptr(), operation) };
    }

    /// Begins a flush, which ends as one [`FinishedOperation`] when all that was put before has arrived.
    ///
    /// # Safety
    /// The slot is free and one of the worker's.
    pub(crate) unsafe fn flush(&mut self, slot: u32) {
        // SAFETY: the caller's.
        unsafe { (self.table().flush)(self.worker.as_ptr(), slot) };
    }

    /// Returns the length of the first message that has arrived without waiting memory.
    pub(crate) fn probe(&mut self) -> Option<u64> {
        let mut len = 0;
        // SAFETY: one number is written.
        let found = unsafe { (self.table().probe)(self.worker.as_ptr(), &mut len) };
        (found == 1).then_some(len)
    }

    /// Tells the peer something; `false`: not now.
    pub(crate) fn tell(&mut self, what: u32, count: u32) -> Result<bool, String> {
        // SAFETY: see the type.
        let status = unsafe { (self.table().tell)(self.worker.as_ptr(), what, count) };
        self.shim.check(status).map(|later| later == 0)
    }

    /// Returns `true` if all control messages to the peer are on their way.
    pub(crate) fn has_told(&self) -> bool {
        // SAFETY: see the type.
        unsafe { (self.table().told)(self.worker.as_ptr()) == 1 }
    }

    /// Begins to disconnect, once nothing is under way.
    pub(crate) fn disconnect(&mut self) {
        // SAFETY: see the type.
        unsafe { (self.table().disconnect)(self.worker.as_ptr()) };
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        // SAFETY: see the type.
        unsafe { (self.table().disconnected)(self.worker.as_ptr()) == 1 }
    }

    /// Closes it.
    ///
    /// # Safety
    /// It has disconnected, or was never connected; its keys are freed.
    pub(crate) unsafe fn close(self) {
        // SAFETY: the caller's; the handle is gone.
        unsafe { (self.table().worker_close)(self.worker.as_ptr()) };
    }
}

/// State of a connection that is being set up.
#[derive(Default)]
pub(crate) struct Greeting {
    heard: bool,
    flushed: bool,
}

impl Greeting {
    /// Makes the setup progress. Returns `true` once the connection is established. The peer may need this
    /// end's progress after that.
    pub(crate) fn progress(&mut self, worker: &mut RawWorker) -> Result<bool, String> {
        worker.progress();
        let news = worker.news();
        worker.shim.check(news.lost)?;
        self.heard |= news.hello > 0;
        let mut done = [FinishedOperation::default()];
        if worker.done(&mut done) > 0 {
            worker.shim.check(done[0].status)?;
            self.flushed = true;
        }
        Ok(self.heard && self.flushed && worker.has_told())
    }
}

/// Kind of an operation that [`RawWorker::begin`] starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Put,
    Get,
    Send,
    Receive,
}

/// Text for C.
pub(crate) fn text(value: &str) -> Result<CString, String> {
    CString::new(value).map_err(|_| format!("{value:?} has a NUL"))
}
