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

pub use calls::Calls;
use function::HashLibrary;
pub use function::{Inputs, low};

use crate::family::{Family, Lengths, Memory, Parameter, Verification};
use crate::variant::Entry;
use crate::{HashAlgorithm, Operation};

/// Registry entry of hashing.
pub(crate) static HASH: Family = Family {
    verb: "hash",
    description: "hash buffers; each digest is compared with another implementation's",
    title: "Hash with {algorithm}",
    parameter: Some(Parameter { name: "algorithm", doc: "the hash or checksum", default: "xxh3" }),
    operations: || HashAlgorithm::ALL.map(Operation::Hash).into(),
    lengths: Lengths::Answers,
    verification: Verification::Reference,
    has_levels: false,
    has_patterns: false,
    data: "corpus",
    references: &[],
    engine: None,
    result_bytes_max: |operation, _, _| match operation {
        Operation::Hash(algorithm) => algorithm.digest_len() as u64,
        _ => 0,
    },
    entries: |operation| match operation {
        Operation::Hash(algorithm) => hashers(algorithm),
        _ => Vec::new(),
    },
    memory: |_, _, _| Memory::default(),
    known_answers: known_answers::check,
};

/// Registry of the libraries that hash. Of those with the same algorithm, `auto` takes the first.
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

/// Version of the implementations in this crate.
fn own_version() -> String {
    env!("CARGO_PKG_VERSION").into()
}

/// Returns the libraries that compute `algorithm`.
fn hashers(algorithm: HashAlgorithm) -> Vec<Entry> {
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
