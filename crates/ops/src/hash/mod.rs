//! Hashes and checksums. The digest is written to the destination.

mod calls;
mod cityhash;
mod crc32fast;
mod fnv;
mod function;
mod known_answers;
mod md5;
mod murmur;
mod sha2;
mod spooky;
mod xxhash;
mod zlib;

pub use calls::{Calls, Inputs, low};
use function::HashLibrary;
pub use known_answers::{WrongDigest, check_known_answers};

use crate::HashAlgorithm;
use crate::variant::Entry;

/// The registry of libraries that hash, of those with the same algorithm the one that `auto`
/// takes first.
const LIBRARIES: &[&HashLibrary] = &[
    &xxhash::SIMD,
    &xxhash::SCALAR,
    &crc32fast::LIBRARY,
    &zlib::LIBRARY,
    &sha2::LIBRARY,
    &md5::LIBRARY,
    &cityhash::LIBRARY,
    &murmur::LIBRARY,
    &spooky::LIBRARY,
    &fnv::LIBRARY,
];

/// The version of what is our own.
fn own_version() -> String {
    env!("CARGO_PKG_VERSION").into()
}

/// Those that compute `algorithm`.
pub(crate) fn hashers(algorithm: HashAlgorithm) -> Vec<Entry> {
    function::all(algorithm)
        .map(|(library, function)| Entry {
            variant: library.library.variant(),
            prepare: Box::new(move |_, _, _| {
                let kernel = function.kernel;
                Ok(Box::new(move || Ok(kernel(algorithm))))
            }),
        })
        .collect()
}
