//! RE2, through the C functions in `re2.cc`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

use super::engine::{Engine, EngineLibrary, GroupEngine, GroupsBy, Program, step_by_step};
use super::pattern::{Compiled, MAX_PROGRAM_BYTES};
use crate::Error;
use crate::variant::Library;

/// Value that `overside_re2_find` returns if it cannot allocate memory.
const OUT_OF_MEMORY: c_int = -1;

unsafe extern "C" {
    fn overside_re2_new(
        pattern: *const c_char,
        len: usize,
        max_bytes: i64,
        error: *mut c_char,
        error_len: usize,
    ) -> *mut c_void;
    fn overside_re2_delete(re: *mut c_void);
    fn overside_re2_find(
        re: *const c_void,
        text: *const c_char,
        len: usize,
        from: usize,
        places: *mut usize,
        groups: usize,
    ) -> c_int;
}

pub(super) const ENGINE: EngineLibrary = EngineLibrary {
    library: Library {
        name: "re2",
        label: "RE2",
        title: "RE2",
        version: || env!("OVERSIDE_VERSION_RE2").into(),
        simd: false,
    },
    is_supported: || true,
    suits: |_| true,
    because: "it takes any pattern",
    compile: |patterns| {
        let pattern = Re2::compile(patterns)?;
        Ok(Program::new(move || Ok(Box::new(pattern.recompile()?))))
    },
    groups: GroupsBy::Itself(|grouped| {
        let pattern = Re2::new(&grouped.expression).map_err(|reason| grouped.refused(reason))?;
        Ok(Box::new(move || Ok(Box::new(pattern.recompile()?))))
    }),
};

/// A compiled pattern. RE2 locks its cache of states at each search, so each thread gets its own.
struct Re2 {
    re: NonNull<c_void>,
    expression: String,
}

// SAFETY: an RE2 object may be used from any thread, and from several at once (re2.h).
unsafe impl Send for Re2 {}
// SAFETY: as above.
unsafe impl Sync for Re2 {}

impl Re2 {
    fn compile(patterns: &[Compiled]) -> Result<Self, Error> {
        Compiled::all(patterns, Self::new)
    }

    /// Compiles the same program for another thread.
    fn recompile(&self) -> Result<Self, Error> {
        Self::new(&self.expression).map_err(|reason| Error::Library { library: "RE2", reason })
    }

    fn new(expression: &str) -> Result<Self, String> {
        let text = format!("(?m:{expression})");
        let mut reason = [0 as c_char; 200];
        // SAFETY: pointers and lengths are those of a string and of an array that the function
        // writes a NUL-terminated string to if it returns null.
        let re = unsafe {
            overside_re2_new(
                text.as_ptr().cast(),
                text.len(),
                MAX_PROGRAM_BYTES as i64,
                reason.as_mut_ptr(),
                reason.len(),
            )
        };
        match NonNull::new(re) {
            Some(re) => Ok(Self { re, expression: expression.into() }),
            None => {
                // SAFETY: the array was all zeros, and the function writes a NUL-terminated string.
                let reason = unsafe { CStr::from_ptr(reason.as_ptr()) };
                Err(reason.to_string_lossy().into_owned())
            }
        }
    }

    /// Finds the leftmost match from `from` on. Writes the offsets at which the match and its
    /// groups begin and end, as many as fit into `places`. Returns `true` if there is a match.
    fn find(&self, text: &[u8], from: usize, places: &mut [usize]) -> Result<bool, Error> {
        // SAFETY: the object is valid; pointers and lengths are those of slices, two places a group,
        // and RE2 finds nothing where `from` lies beyond the text.
        let found = unsafe {
            overside_re2_find(
                self.re.as_ptr(),
                text.as_ptr().cast(),
                text.len(),
                from,
                places.as_mut_ptr(),
                places.len() / 2,
            )
        };
        match found {
            OUT_OF_MEMORY => Err(Error::Library { library: "RE2", reason: "out of memory".into() }),
            found => Ok(found == 1),
        }
    }

    /// Returns the end of the leftmost match from `from` on.
    fn end(&self, buffer: &[u8], from: usize) -> Result<Option<usize>, Error> {
        let mut places = [0; 2];
        let found = self.find(buffer, from, &mut places)?;
        Ok(found.then_some(places[1]))
    }
}

impl GroupEngine for Re2 {
    fn find(&mut self, text: &[u8], from: usize, places: &mut [usize]) -> Result<bool, Error> {
        Self::find(self, text, from, places)
    }
}

impl Drop for Re2 {
    fn drop(&mut self) {
        // SAFETY: the object was made by `overside_re2_new` and is deleted only here.
        unsafe { overside_re2_delete(self.re.as_ptr()) }
    }
}

impl Engine for Re2 {
    fn first(&mut self, buffer: &[u8]) -> Result<Option<usize>, Error> {
        self.end(buffer, 0)
    }

    fn each(&mut self, buffer: &[u8], found: &mut dyn FnMut(usize) -> usize) -> Result<(), Error> {
        let mut failure = Ok(());
        step_by_step(buffer, found, |from| {
            self.end(buffer, from).unwrap_or_else(|error| {
                failure = Err(error);
                None
            })
        });
        failure
    }
}
