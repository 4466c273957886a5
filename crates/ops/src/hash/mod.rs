//! Hashes and checksums. The digest is written to the destination.

mod calls;
mod fnv;
mod murmur;
mod spooky;

use cityhash_sys::{city_hash_32, city_hash_64, city_hash_128};
use md5::Md5;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_128};
use xxhash_rust::xxh32::xxh32;
use xxhash_rust::xxh64::xxh64;

use crate::variant::{MAX_SEGMENTS, Maker, at_most_segments, written};
use crate::{Error, HashAlgorithm, Kernel, Output, Variant, deflate};

pub use calls::{Calls, Inputs, low};

/// The version of what is our own.
const OWN: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn hashers(algorithm: HashAlgorithm) -> Vec<Variant> {
    use HashAlgorithm as A;
    let variant = |name, library, version: &str, simd| Variant {
        name,
        library,
        version: version.into(),
        simd,
        levels: None,
    };
    let xxhash = |simd| {
        let version = env!("OVERSIDE_VERSION_XXHASH_RUST");
        vec![variant("xxhash", "xxhash-rust", version, simd)]
    };
    match algorithm {
        A::Xxh3 | A::Xxh3Long => xxhash(true),
        A::Xxh32 | A::Xxh64 => xxhash(false),
        A::Crc32 => vec![
            variant(
                "crc32fast",
                "crc32fast",
                env!("OVERSIDE_VERSION_CRC32FAST"),
                true,
            ),
            variant("zlib", "zlib", &deflate::zlib_version(), false),
        ],
        A::Sha256 => {
            let version = env!("OVERSIDE_VERSION_SHA2");
            vec![variant("sha2", "RustCrypto sha2", version, true)]
        }
        A::Md5 => {
            let version = env!("OVERSIDE_VERSION_MD_5");
            vec![variant("md5", "RustCrypto md-5", version, false)]
        }
        A::City32 | A::City64 | A::City128 => {
            vec![variant("cityhash", "Google CityHash", "1.1.1", false)]
        }
        A::Murmur2Short | A::Murmur2 | A::Murmur3Short | A::Murmur3 => {
            vec![variant("murmur", "overside", OWN, false)]
        }
        A::Spooky32 | A::Spooky64 | A::Spooky128 => {
            vec![variant("spooky", "overside", OWN, false)]
        }
        A::Fnv32 | A::Fnv64 | A::Fnv128 => vec![variant("fnv", "overside", OWN, false)],
    }
}

pub(crate) fn hasher(variant: &'static str, algorithm: HashAlgorithm) -> Maker {
    use HashAlgorithm as A;
    Box::new(move || {
        let whole = |digest: fn(&[u8], &mut [u8])| State::Whole {
            digest,
            joined: Vec::new(),
        };
        let state = match algorithm {
            A::Xxh3 => State::Xxh3(Box::default()),
            A::Xxh3Long => State::Xxh3Long(Box::default()),
            A::Crc32 if variant == "zlib" => State::ZlibCrc32,
            A::Crc32 => State::Crc32(crc32fast::Hasher::new()),
            A::Sha256 => State::Sha256(Sha256::new()),
            A::Md5 => State::Md5(Md5::new()),
            A::Xxh32 => whole(|bytes, to| to.copy_from_slice(&xxh32(bytes, 0).to_be_bytes())),
            A::Xxh64 => whole(|bytes, to| to.copy_from_slice(&xxh64(bytes, 0).to_be_bytes())),
            A::City32 => whole(|bytes, to| to.copy_from_slice(&city_hash_32(bytes).to_be_bytes())),
            A::City64 => whole(|bytes, to| to.copy_from_slice(&city_hash_64(bytes).to_be_bytes())),
            A::City128 => {
                whole(|bytes, to| to.copy_from_slice(&city_hash_128(bytes).to_be_bytes()))
            }
            A::Murmur2Short => {
                whole(|bytes, to| to.copy_from_slice(&murmur::murmur2_32(bytes).to_be_bytes()))
            }
            A::Murmur2 => {
                whole(|bytes, to| to.copy_from_slice(&murmur::murmur2_64(bytes).to_be_bytes()))
            }
            A::Murmur3Short => {
                whole(|bytes, to| to.copy_from_slice(&murmur::murmur3_32(bytes).to_be_bytes()))
            }
            A::Murmur3 => {
                whole(|bytes, to| to.copy_from_slice(&murmur::murmur3_128(bytes).to_be_bytes()))
            }
            // The shorter ones are the low bits of the longest.
            A::Spooky32 | A::Spooky64 | A::Spooky128 => whole(|bytes, to| {
                let digest = spooky::spooky_128(bytes).to_be_bytes();
                to.copy_from_slice(&digest[digest.len() - to.len()..]);
            }),
            A::Fnv32 => whole(|bytes, to| to.copy_from_slice(&fnv::fnv_32(bytes).to_be_bytes())),
            A::Fnv64 => whole(|bytes, to| to.copy_from_slice(&fnv::fnv_64(bytes).to_be_bytes())),
            A::Fnv128 => whole(|bytes, to| to.copy_from_slice(&fnv::fnv_128(bytes).to_be_bytes())),
        };
        Ok(Box::new(Hasher { algorithm, state }))
    })
}

enum State {
    Xxh3(Box<Xxh3Default>),
    Xxh3Long(Box<Xxh3Default>),
    Crc32(crc32fast::Hasher),
    ZlibCrc32,
    Sha256(Sha256),
    Md5(Md5),
    /// A function that takes all bytes at once.
    Whole {
        digest: fn(&[u8], &mut [u8]),
        /// Several segments in a row.
        joined: Vec<u8>,
    },
}

struct Hasher {
    algorithm: HashAlgorithm,
    state: State,
}

impl Kernel for Hasher {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        at_most_segments(source)?;
        let len = self.algorithm.digest_len();
        let capacity = destination.len();
        let digest = destination
            .get_mut(..len)
            .ok_or(Error::OutputTooSmall { capacity })?;
        match &mut self.state {
            State::Xxh3(state) => digest.copy_from_slice(&match source {
                [one] => xxh3_64(one).to_be_bytes(),
                several => updated(state, several).digest().to_be_bytes(),
            }),
            State::Xxh3Long(state) => digest.copy_from_slice(&match source {
                [one] => xxh3_128(one).to_be_bytes(),
                several => updated(state, several).digest128().to_be_bytes(),
            }),
            State::Crc32(state) => {
                state.reset();
                source.iter().for_each(|segment| state.update(segment));
                digest.copy_from_slice(&state.clone().finalize().to_be_bytes());
            }
            State::ZlibCrc32 => {
                let crc = source
                    .iter()
                    .fold(0, |crc, segment| deflate::zlib_crc32(crc, segment));
                digest.copy_from_slice(&crc.to_be_bytes());
            }
            State::Sha256(state) => {
                source.iter().for_each(|segment| state.update(segment));
                digest.copy_from_slice(&state.finalize_reset());
            }
            State::Md5(state) => {
                source.iter().for_each(|segment| state.update(segment));
                digest.copy_from_slice(&state.finalize_reset());
            }
            State::Whole {
                digest: function,
                joined,
            } => match source {
                [one] => function(one, digest),
                several => {
                    joined.clear();
                    several.iter().for_each(|one| joined.extend_from_slice(one));
                    function(joined, digest);
                }
            },
        }
        Ok(written(len))
    }

    fn max_segments(&self) -> usize {
        MAX_SEGMENTS
    }
}

fn updated<'a>(state: &'a mut Xxh3Default, source: &[&[u8]]) -> &'a Xxh3Default {
    state.reset();
    source.iter().for_each(|segment| state.update(segment));
    state
}
