//! System calls that the standard library does not offer. A signal that ends the process removes an
//! unfinished file. The process can end as by a broken pipe. Closing a file reports errors. A
//! service returns freed memory to the system, and finishes its work before it ends.

// Signal handlers, and the closing of a descriptor.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

/// Signals that end the process and can be caught, so that it can remove its unfinished file first.
const TERMINATING: [c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGXCPU];

/// The path of the unfinished file, if there is one; owned by an [`TempFileGuard`].
static TEMP_FILE: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

/// Removes the unfinished file from now on when a signal ends the process. A signal that was
/// ignored at the start stays ignored, as `nohup` requires.
pub fn install_signal_cleanup() {
    fail_writes_beyond_limits();
    // SAFETY: `action` is a valid sigaction, made of zeroes as C programs make it; the handler
    // calls only what is safe in a handler.
    unsafe {
        for signal in TERMINATING {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut before);
            if before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = remove_and_terminate as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            for other in TERMINATING {
                libc::sigaddset(&mut action.sa_mask, other);
            }
            libc::sigaction(signal, &action, null_mut());
        }
    }
}

/// Makes a file that grows beyond the limit of the process an error of `write` instead of a signal.
pub fn fail_writes_beyond_limits() {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Removes the unfinished file and ends the process by the received signal.
///
/// It only does so on the first thread. Files are created and finished there, so the handler never interrupts
/// another thread that does so.
extern "C" fn remove_and_terminate(signal: c_int) {
    // SAFETY: each of these calls is safe in a signal handler (signal-safety(7); tgkill is a bare
    // system call). The path is a C string that lives until the first thread, which is this one,
    // takes it out of `TEMP_FILE`. `errno` is as it was when the handler returns to other code.
    unsafe {
        let first = libc::getpid();
        if libc::gettid() != first {
            let errno = *libc::__errno_location();
            libc::syscall(libc::SYS_tgkill, first, first, signal);
            *libc::__errno_location() = errno;
            return;
        }
        let path = TEMP_FILE.load(Ordering::Acquire);
        if !path.is_null() {
            libc::unlink(path);
        }
        // Comes when this handler returns, since it is blocked until then.
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Signals that end a service.
const SHUTDOWN: [c_int; 2] = [libc::SIGTERM, libc::SIGINT];

/// Makes signals that end the process wait for [`wait_for_shutdown`]. Call it before any thread is
/// started: threads inherit the setting.
pub fn block_shutdown_signals() {
    mask(libc::SIG_BLOCK, &set_of(&SHUTDOWN));
}

/// Waits for a signal that ends the process. A second signal ends it at once.
pub fn wait_for_shutdown() {
    let mut signal = 0;
    let shutdown = set_of(&SHUTDOWN);
    // SAFETY: the set is initialised, and both are there until the call returns.
    unsafe { libc::sigwait(&shutdown, &mut signal) };
    mask(libc::SIG_UNBLOCK, &shutdown);
}

/// Guard during whose lifetime signals that end the process wait. Signals are handled on the first
/// thread only; make and drop it there.
pub struct SignalsHeld(libc::sigset_t);

/// Makes signals wait while a file gets a name or loses one and [`TempFileGuard`] does not know it
/// yet.
pub fn hold_signals() -> SignalsHeld {
    SignalsHeld(mask(libc::SIG_BLOCK, &set_of(&TERMINATING)))
}

impl Drop for SignalsHeld {
    fn drop(&mut self) {
        mask(libc::SIG_SETMASK, &self.0);
    }
}

/// Changes the signals that wait on this thread. Which did before.
fn mask(how: c_int, set: &libc::sigset_t) -> libc::sigset_t {
    let mut before = set_of(&[]);
    // SAFETY: both sets are initialised and there until the call returns.
    unsafe { libc::pthread_sigmask(how, set, &mut before) };
    before
}

fn set_of(signals: &[c_int]) -> libc::sigset_t {
    // SAFETY: all zeroes are a set of signals; it is emptied before it is used, and the signals
    // that are added are ones that there are.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for &signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// Returns large pieces of memory to the system as soon as they are free, for a process that lives long: by
/// default the C library keeps more and more of them. Call it before any thread is started.
pub fn return_freed_memory() {
    const LARGE: c_int = 512 << 10;
    // SAFETY: no other thread allocates yet.
    #[cfg(target_env = "gnu")]
    unsafe {
        // Said at all, neither grows by itself any more.
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
    }
}

/// Reuses freed memory instead of returning it to the system, for a process whose buffers come and
/// go. By default that depends on their location, and new pages each time can cost more than the
/// work in them. Beyond `kept_bytes` at the end of a heap memory is returned. There are at most `heaps_max` heaps, as many as
/// the C library wants if that is 0. Call it before any thread is started.
pub fn keep_freed_memory(kept_bytes: i32, heaps_max: i32) {
    /// The most that the C library takes.
    const BLOCK: c_int = 32 << 20;
    // SAFETY: no other thread allocates yet.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, BLOCK);
        libc::mallopt(libc::M_TRIM_THRESHOLD, kept_bytes);
        libc::mallopt(libc::M_ARENA_MAX, heaps_max);
    }
}

/// Gives freed memory back to the system once each `interval`, for a process that lives for long and keeps freed memory in
/// between. Call it after signals are blocked: its thread takes none.
pub fn return_freed_memory_every(interval: Duration) {
    let trim = move || {
        loop {
            std::thread::sleep(interval);
            // SAFETY: it changes free memory only, under the C library's own locks.
            #[cfg(target_env = "gnu")]
            unsafe {
                libc::malloc_trim(0);
            }
        }
    };
    // Without the thread the process keeps more memory, and works.
    let _ = std::thread::Builder::new().name("trim".into()).spawn(trim);
}

/// Makes the program end when the thread that starts it ends, in any way.
pub fn end_with_this_thread(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;

    let ask = || {
        // SAFETY: a system call that changes nothing but the process that makes it.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        Ok(())
    };
    // SAFETY: between fork and exec it makes that system call, which allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) };
}

/// Ends the process as a write to a pipe without a reader ends others.
pub fn end_by_broken_pipe() -> ! {
    // SAFETY: both calls take a signal that there is; no handler is installed.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::raise(libc::SIGPIPE);
    }
    // Only if the signal is blocked; what shells make of it.
    std::process::exit(128 + libc::SIGPIPE)
}

/// A file that a signal removes as long as this exists. There is one at a time.
pub struct TempFileGuard(*mut c_char);

impl TempFileGuard {
    /// Registers the file for removal. Call it while signals are held, as soon as the file is created.
    ///
    /// # Errors
    /// The path contains a zero byte.
    pub fn new(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?.into_raw();
        let before = TEMP_FILE.swap(path, Ordering::AcqRel);
        debug_assert!(before.is_null(), "one file at a time");
        Ok(Self(path))
    }
}

impl Drop for TempFileGuard {
    fn drop(&mut self) {
        TEMP_FILE.store(null_mut(), Ordering::Release);
        // SAFETY: made by `CString::into_raw` in `new`, and no pointer to it is left: a handler
        // that loaded it before the store ran on this thread and is over, or ended the process.
        drop(unsafe { CString::from_raw(self.0) });
    }
}

/// Closes a file and returns the error, which a drop would lose: some file systems find only now
/// that there was no room.
///
/// # Errors
/// Those of close(2).
pub fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is the file's own, given up by it, and used no more.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // The descriptor is gone all the same.
            error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            error => Err(error),
        },
    }
}
