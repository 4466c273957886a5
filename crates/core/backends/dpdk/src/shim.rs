//! The C side: its table of functions, and how it is loaded.
//!
//! Mirrors `shim/shim.h`. The table points to the shim, or to a test's own functions.

// Calls through the table, and loading it.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use crate::DpdkError;
use crate::ethernet::table::EthernetTable;

/// The shim's sources, and the products of this build.
pub static SHIM: overside_shim::Shim =
    // SAFETY: initialisers of the shim and of DPDK's libraries run, which register drivers and log
    // types and touch nothing else.
    unsafe { overside_shim::Shim::new(include!(concat!(env!("OUT_DIR"), "/shim.rs"))) };

/// The version of the interface.
pub const ABI: u32 = 2;

/// A class of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// rte_compressdev.
    Compress = 1,
    /// rte_dmadev.
    Copy = 2,
    /// rte_regexdev.
    Match = 3,
}

/// Transformation that a compressdev performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Transform {
    /// Compression to raw DEFLATE.
    DeflateCompress = 1,
    /// Decompression of raw DEFLATE.
    DeflateDecompress = 2,
    /// Compression to an LZ4 block.
    Lz4Compress = 3,
    /// Decompression of an LZ4 block.
    Lz4Decompress = 4,
}

/// A job is done.
pub const DONE: u32 = 0;
/// The job's destination is too short.
pub const NO_SPACE: u32 = 1;
/// The job failed because of its data or because of the device: drivers do not report which.
pub const ERROR: u32 = 2;
/// The driver does not take jobs of this form.
pub const INVALID: u32 = 3;
/// A match that hit one of the engine's limits.
pub const INCOMPLETE: u32 = 4;

/// One transform may be in several jobs in flight.
pub const SHARED_TRANSFORM: u32 = 1;
/// The driver supports chains of segments.
pub const CHAINED: u32 = 2;
/// A device that DPDK has.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct RawDevice {
    pub kind: u32,
    pub id: i32,
    pub socket: i32,
    pub hardware: u32,
    pub name: [c_char; 64],
    pub driver: [c_char; 64],
}

/// Limits and flags of a device, as its driver reports them.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct RawLimits {
    pub queues: u32,
    pub descriptors: u32,
    pub source_bytes: u32,
    pub matches: u32,
    pub flags: u32,
}

/// Settings that a device is configured with, in the layout that the shim takes.
#[repr(C)]
#[allow(missing_docs)]
pub struct RawSetup {
    pub queues: u32,
    pub descriptors: u32,
    pub transforms: u32,
    pub matches: u32,
    pub rules_len: u32,
    pub rules: *const c_char,
}

/// A part of a source.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct RawSegment {
    pub start: *const u8,
    pub len: u64,
}

/// A job on its way in.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct RawJob {
    pub token: u64,
    pub slot: *mut c_void,
    pub transform: *mut c_void,
    pub segments: *const RawSegment,
    pub destination: *mut u8,
    pub segment_count: u32,
    pub destination_len: u32,
}

/// A job on its way out.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs)]
pub struct RawResult {
    pub token: u64,
    pub detail: u64,
    pub status: u32,
    pub produced: u32,
    pub consumed: u32,
    pub match_count: u32,
    pub matches: *const u64,
}

/// The functions.
#[repr(C)]
#[allow(missing_docs)]
pub struct Table {
    pub abi: u32,
    pub version: unsafe extern "C" fn() -> *const c_char,
    pub start: unsafe extern "C" fn(i32, *mut *mut c_char, *const c_char) -> i32,
    pub messages: unsafe extern "C" fn(*mut c_char, usize),
    pub thread_enter: unsafe extern "C" fn() -> i32,
    pub thread_leave: unsafe extern "C" fn(),
    pub create: unsafe extern "C" fn(*const c_char) -> i32,
    pub devices: unsafe extern "C" fn(*mut RawDevice, u32) -> u32,
    pub limits: unsafe extern "C" fn(u32, i32, *mut RawLimits) -> i32,
    pub configure: unsafe extern "C" fn(u32, i32, *const RawSetup) -> i32,
    pub allocate: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    pub release: unsafe extern "C" fn(*mut c_void),
    pub map: unsafe extern "C" fn(*mut c_void, usize) -> i32,
    pub unmap: unsafe extern "C" fn(*mut c_void, usize) -> i32,
    pub known: unsafe extern "C" fn(*const c_void, usize) -> i32,
    pub transform: unsafe extern "C" fn(i32, u32, i32, *mut *mut c_void) -> i32,
    pub transform_free: unsafe extern "C" fn(i32, *mut c_void),
    pub slots: unsafe extern "C" fn(u32, u32, u32, u32, *mut *mut c_void, *mut *mut c_void) -> i32,
    pub slots_free: unsafe extern "C" fn(u32, *mut c_void),
    pub enqueue: unsafe extern "C" fn(u32, i32, u16, *const RawJob, u32) -> i32,
    pub dequeue: unsafe extern "C" fn(u32, i32, u16, *mut RawResult, u32) -> i32,
    pub ethernet: Option<&'static EthernetTable>,
}

/// A device that DPDK has, in Rust's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundDevice {
    pub(crate) kind: Kind,
    pub(crate) id: i32,
    pub(crate) hardware: bool,
    pub(crate) name: String,
    pub(crate) driver: String,
}

/// Maximum number of devices that are probed.
const MAX_DEVICES: usize = 256;

/// The table, and the calls that need no more than it.
///
/// Every call is sound because tables come from `load`, which checks their version, or from a
/// test, which promises in [`crate::Environment::with_table`] to keep what `shim.h` says.
#[derive(Clone, Copy)]
pub(crate) struct Shim(pub(crate) &'static Table);

impl Shim {
    /// This machine's shim, loaded into the process for good.
    pub(crate) fn load() -> Result<Self, DpdkError> {
        Self::of(SHIM.open()?)
    }

    /// A shim out of a shared library.
    pub(crate) fn load_from(path: &std::path::Path) -> Result<Self, DpdkError> {
        // SAFETY: as for `SHIM`.
        Self::of(
            unsafe { overside_shim::open_file(path) }.map_err(|reason| SHIM.unloadable(reason))?,
        )
    }

    fn of(library: &'static libloading::Library) -> Result<Self, DpdkError> {
        // SAFETY: the symbol is the table that `shim.h` declares; its first field says which.
        let table = unsafe { library.get::<*const Table>(b"overside_dpdk\0") }
            .map_err(|error| SHIM.unloadable(error.to_string()))?;
        // SAFETY: a `Symbol<*const T>` dereferences to the symbol's address; the table is constant
        // and stays, because the library is never closed.
        let table: &'static Table = unsafe { &**table };
        match table.abi {
            ABI => Ok(Self(table)),
            other => {
                Err(SHIM.unloadable(format!("the shim has interface {other}, not {ABI}")).into())
            }
        }
    }

    /// DPDK's version.
    pub(crate) fn version(self) -> String {
        // SAFETY: the function returns a NUL-terminated constant.
        let text = unsafe { CStr::from_ptr((self.0.version)()) };
        text.to_string_lossy().into_owned()
    }

    pub(crate) fn start(
        self,
        arguments: &[CString],
        directory: Option<&CString>,
    ) -> Result<(), DpdkError> {
        let mut pointers: Vec<*mut c_char> =
            arguments.iter().map(|one| one.as_ptr().cast_mut()).collect();
        pointers.push(ptr::null_mut());
        let directory = directory.map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: `arguments` outlives the call, and DPDK permutes the pointers but does not write
        // through them.
        let result =
            unsafe { (self.0.start)(arguments.len() as c_int, pointers.as_mut_ptr(), directory) };
        self.check(result).map_err(DpdkError::Start)
    }

    /// Turns a negative errno into DPDK's log message about it, or the system's.
    pub(crate) fn check(self, result: i32) -> Result<(), String> {
        if result >= 0 {
            return Ok(());
        }
        let said = self.messages();
        let system = std::io::Error::from_raw_os_error(-result).to_string();
        Err(match said.is_empty() {
            true => system,
            false => format!("{system}; DPDK says: {said}"),
        })
    }

    /// Returns DPDK's log messages since the last call, joined into one line.
    pub(crate) fn messages(self) -> String {
        let mut buffer = [0; 1024];
        // SAFETY: at most the buffer's length is written, ending with a NUL.
        let text = unsafe {
            (self.0.messages)(buffer.as_mut_ptr(), buffer.len());
            CStr::from_ptr(buffer.as_ptr())
        };
        let text = text.to_string_lossy();
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.join("; ")
    }

    /// Registers the calling thread with DPDK. Returns `true` if the thread has to unregister later.
    pub(crate) fn thread_enter(self) -> bool {
        // SAFETY: may be called by any thread once DPDK runs.
        unsafe { (self.0.thread_enter)() == 0 }
    }

    pub(crate) fn thread_leave(self) {
        // SAFETY: called by a thread that has entered.
        unsafe { (self.0.thread_leave)() }
    }

    pub(crate) fn create(self, name: &str) -> Result<(), String> {
        let Ok(name) = CString::new(name) else {
            return Err("a name has no NUL".into());
        };
        // SAFETY: the name is NUL-terminated and outlives the call.
        self.check(unsafe { (self.0.create)(name.as_ptr()) })
    }

    pub(crate) fn devices(self) -> Vec<FoundDevice> {
        let none =
            RawDevice { kind: 0, id: 0, socket: 0, hardware: 0, name: [0; 64], driver: [0; 64] };
        let mut all = vec![none; MAX_DEVICES];
        // SAFETY: at most as many are written as there is room for.
        let count = unsafe { (self.0.devices)(all.as_mut_ptr(), MAX_DEVICES as u32) } as usize;
        let found = |device: &RawDevice| {
            Some(FoundDevice {
                kind: match device.kind {
                    1 => Kind::Compress,
                    2 => Kind::Copy,
                    3 => Kind::Match,
                    _ => return None,
                },
                id: device.id,
                hardware: device.hardware != 0,
                name: text(&device.name),
                driver: text(&device.driver),
            })
        };
        all[..count.min(MAX_DEVICES)].iter().filter_map(found).collect()
    }

    pub(crate) fn limits(self, kind: Kind, id: i32) -> Result<RawLimits, String> {
        let mut limits = RawLimits::default();
        // SAFETY: the structure is the one of `shim.h`.
        let result = unsafe { (self.0.limits)(kind as u32, id, &mut limits) };
        self.check(result).map(|()| limits)
    }

    pub(crate) fn configure(self, kind: Kind, id: i32, setup: &Setup<'_>) -> Result<(), String> {
        let raw = RawSetup {
            queues: setup.queues,
            descriptors: setup.descriptors,
            transforms: setup.transforms,
            matches: setup.matches,
            rules_len: setup.rules.len() as u32,
            rules: match setup.rules.is_empty() {
                true => ptr::null(),
                false => setup.rules.as_ptr().cast(),
            },
        };
        // SAFETY: everything that `raw` points to outlives the call.
        self.check(unsafe { (self.0.configure)(kind as u32, id, &raw) })
    }
}

/// Settings that a device is configured with. `rules` are the compiled rules of a regexdev.
pub(crate) struct Setup<'a> {
    pub(crate) queues: u32,
    pub(crate) descriptors: u32,
    pub(crate) transforms: u32,
    pub(crate) matches: u32,
    pub(crate) rules: &'a [u8],
}

pub(crate) fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> =
        field.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
