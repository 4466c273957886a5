//! Copying bytes: no other operation can be faster.
#![allow(unsafe_code)]

use crate::family::{Family, Lengths, Memory, Verification};
use crate::variant::{Entry, Library, MAX_SEGMENTS, at_most_segments, written};
use crate::{Error, Kernel, Operation, Output};

/// Registry entry of copying.
pub(crate) static COPY: Family = Family {
    verb: "copy",
    description: "copy buffers; each copy is compared with its original",
    title: "Copy",
    parameter: None,
    operations: || vec![Operation::Copy],
    lengths: Lengths::Grows(0),
    verification: Verification::Original,
    has_levels: false,
    has_patterns: false,
    data: "corpus",
    references: &[],
    engine: None,
    result_bytes_max: |_, _, bytes| bytes,
    entries: |_| {
        vec![Entry {
            variant: MEMCPY.variant(),
            prepare: Box::new(|_, _, _| Ok(Box::new(|| Ok(Box::new(Copier))))),
        }]
    },
    memory: |_, _, _| Memory::default(),
    known_answers: |_| Ok(()),
};

const MEMCPY: Library = Library {
    name: "memcpy",
    label: "memcpy",
    title: "the C library",
    version: c_library_version,
    simd: true,
};

struct Copier;

impl Kernel for Copier {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        at_most_segments(source)?;
        let capacity = destination.len();
        let mut rest = destination;
        let mut total = 0;
        for segment in source {
            if segment.len() > rest.len() {
                return Err(Error::OutputTooSmall { capacity });
            }
            let (part, behind) = rest.split_at_mut(segment.len());
            part.copy_from_slice(segment);
            total += segment.len();
            rest = behind;
        }
        Ok(written(total))
    }

    fn max_segments(&self) -> usize {
        MAX_SEGMENTS
    }
}

#[cfg(target_env = "gnu")]
fn c_library_version() -> String {
    // SAFETY: the function takes nothing and returns a NUL-terminated string that lives as long
    // as the program.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

#[cfg(not(target_env = "gnu"))]
fn c_library_version() -> String {
    "unknown".into()
}
