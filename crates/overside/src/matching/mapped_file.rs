//! A file that is searched where the system has it in memory, without a copy.
//!
//! Another process may make the file shorter meanwhile, and a device may fail to read it. Either raises SIGBUS at the
//! first byte that is not there. The handler puts zeroes from there on, and the search ends with an error.

// Mapped memory, and a signal handler.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::mem::zeroed;
use std::ptr::{NonNull, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Shortest file in bytes that is mapped; mapping a shorter one takes longer than reading it.
const LEN_MIN: u64 = 1 << 20;

/// Address and length of the mapping that there is; a length of 0 if there is none.
static START: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
/// `true` if bytes of the mapping were not there.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// A mapped file. There is at most one at a time.
pub(super) struct MappedFile {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is only read, and belongs to this.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps a regular file as long as it is now. `None` if it is short, or cannot be mapped.
    pub(super) fn new(file: &File) -> Option<Self> {
        static HANDLER: Once = Once::new();
        let len = file.metadata().ok()?.len();
        let len = usize::try_from(len).ok().filter(|_| len >= LEN_MIN)?;
        HANDLER.call_once(install_handler);
        if LEN.load(Ordering::Acquire) > 0 {
            return None;
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the system chooses.
        let start = unsafe { mmap(null_mut(), len, ProtFlags::READ, flags, file, 0) }.ok()?;
        // SAFETY: the advice changes no contents. Without it the search is only slower.
        let _ = unsafe { madvise(start, len, Advice::Sequential) };
        IS_INCOMPLETE.store(false, Ordering::Release);
        START.store(start.addr(), Ordering::Release);
        LEN.store(len, Ordering::Release);
        let start = NonNull::new(start.cast())?;
        Some(Self { start, len })
    }

    /// Returns an error if bytes of the latest mapping were not there.
    pub(super) fn check() -> io::Result<()> {
        match IS_INCOMPLETE.load(Ordering::Acquire) {
            false => Ok(()),
            true => {
                let reason = "the file became shorter, or could not be read, while it was searched";
                Err(io::Error::new(ErrorKind::UnexpectedEof, reason))
            }
        }
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped for reading while this lives. What another process writes to the file meanwhile may be seen or
        // not, as by a search that reads it; the search stays within the slice whatever the bytes are.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        LEN.store(0, Ordering::Release);
        // SAFETY: mapped by `new`, and this is its only owner. It fails for wrong arguments only.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn install_handler() {
    // SAFETY: a valid sigaction; the handler makes only system calls and stores to atomics.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = put_zeroes as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, &action, null_mut());
    }
}

/// Handler of SIGBUS: zeroes in the place of what is not there, from the page of the access to the mapping's end. Any
/// other access ends the process, as it does without a handler.
extern "C" fn put_zeroes(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let (start, len) = (START.load(Ordering::Acquire), LEN.load(Ordering::Acquire));
    // SAFETY: the system gives the handler a valid `siginfo_t`, which has an address for SIGBUS. The range lies within the
    // mapping, whose bytes from the access on are not there. When the handler returns, the access is made again.
    unsafe {
        let address = (*info).si_addr() as usize;
        let page = address & !(libc::sysconf(libc::_SC_PAGESIZE) as usize - 1);
        let is_ours = address >= start && address - start < len;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let rest = if is_ours { start + len - page } else { 0 };
        if !is_ours
            || libc::mmap(page as *mut c_void, rest, libc::PROT_READ, flags, -1, 0)
                == libc::MAP_FAILED
        {
            libc::signal(signal, libc::SIG_DFL);
            return;
        }
    }
    IS_INCOMPLETE.store(true, Ordering::Release);
}
