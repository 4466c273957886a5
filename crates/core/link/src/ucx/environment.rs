//! The variables that UCX reads when it is loaded.

// Exchanges the list of the process's environment variables.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::ptr;

/// Variables that keep UCX from changing the program that loads it. Without them it would catch the
/// signals of crashes, catch SIGHUP, and patch the functions that return memory to the system.
const HELD_OFF: [(&CStr, &CStr); 4] = [
    (c"UCX_ERROR_SIGNALS", c"UCX_ERROR_SIGNALS="),
    (c"UCX_DEBUG_SIGNO", c"UCX_DEBUG_SIGNO=0"),
    (c"UCX_MEM_EVENTS", c"UCX_MEM_EVENTS=n"),
    (c"UCX_WARN_UNUSED_ENV_VARS", c"UCX_WARN_UNUSED_ENV_VARS=n"),
];

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Calls `load` with these variables set, except those that are already set.
///
/// Setting variables while other threads run is unsafe, because it may free memory that they are reading. So
/// a second list temporarily replaces the first: both stay valid, and a reader gets one of the two. The
/// second one is never freed.
pub(crate) fn held_off<R>(load: impl FnOnce() -> R) -> R {
    let missing = HELD_OFF.iter().filter(|(name, _)| {
        // Not UTF-8 cannot be.
        name.to_str().is_ok_and(|name| std::env::var_os(name).is_none())
    });
    let mut list: Vec<*mut c_char> =
        missing.map(|(_, setting)| CString::from(*setting).into_raw()).collect();
    // SAFETY: the list is read as the C library reads it; no part of it is freed.
    let before = unsafe { environ };
    if !before.is_null() {
        // SAFETY: the list ends with a null pointer.
        unsafe {
            let mut next = before;
            while !(*next).is_null() {
                list.push(*next);
                next = next.add(1);
            }
        }
    }
    list.push(ptr::null_mut());
    let instead = list.leak().as_mut_ptr();
    // SAFETY: one pointer takes the place of another; both lists stay.
    unsafe { environ = instead };
    let result = load();
    // SAFETY: as above. A change by another thread, if there was one, stays.
    unsafe {
        if environ == instead {
            environ = before;
        }
    }
    result
}
