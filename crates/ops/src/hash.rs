//! Hashes and checksums. The digest is written to the destination.

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use crate::variant::{MAX_SEGMENTS, Maker, at_most_segments, written};
use crate::{Error, HashAlgorithm, Kernel, Output, Variant, deflate};

pub(crate) fn hashers(algorithm: HashAlgorithm) -> Vec<Variant> {
    let variant = |name, library, version: &str, simd| Variant {
        name,
        library,
        version: version.into(),
        simd,
        levels: None,
    };
    match algorithm {
        HashAlgorithm::Xxh3 => {
            vec![variant(
                "xxhash",
                "xxhash-rust",
                env!("OVERSIDE_VERSION_XXHASH_RUST"),
                true,
            )]
        }
        HashAlgorithm::Crc32 => vec![
            variant(
                "crc32fast",
                "crc32fast",
                env!("OVERSIDE_VERSION_CRC32FAST"),
                true,
            ),
            variant("zlib", "zlib", &deflate::zlib_version(), false),
        ],
        HashAlgorithm::Sha256 => {
            vec![variant(
                "sha2",
                "RustCrypto sha2",
                env!("OVERSIDE_VERSION_SHA2"),
                true,
            )]
        }
    }
}

pub(crate) fn hasher(variant: &'static str, algorithm: HashAlgorithm) -> Maker {
    Box::new(move || {
        let state = match (algorithm, variant) {
            (HashAlgorithm::Xxh3, _) => State::Xxh3(Box::default()),
            (HashAlgorithm::Crc32, "zlib") => State::ZlibCrc32,
            (HashAlgorithm::Crc32, _) => State::Crc32(crc32fast::Hasher::new()),
            (HashAlgorithm::Sha256, _) => State::Sha256(Sha256::new()),
        };
        Ok(Box::new(Hasher { algorithm, state }))
    })
}

enum State {
    Xxh3(Box<Xxh3Default>),
    Crc32(crc32fast::Hasher),
    ZlibCrc32,
    Sha256(Sha256),
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
            State::Xxh3(state) => digest.copy_from_slice(&xxh3(state, source).to_be_bytes()),
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
        }
        Ok(written(len))
    }

    fn max_segments(&self) -> usize {
        MAX_SEGMENTS
    }
}

fn xxh3(state: &mut Xxh3Default, source: &[&[u8]]) -> u64 {
    match source {
        [] => xxh3_64(&[]),
        [one] => xxh3_64(one),
        several => {
            state.reset();
            several.iter().for_each(|segment| state.update(segment));
            state.digest()
        }
    }
}
