//! Known-answer tests: whether each library of a hash gives the digests that were published for it.
//! A process that measures a hash runs them once before it believes any digest.
//!
//! * SHA-256: NIST, *Examples with Intermediate Values*, of FIPS 180-4. MD5: RFC 1321, A.5.
//! * CRC-32: the check value of CRC-32/ISO-HDLC in the *Catalogue of parametrised CRC algorithms*.
//! * FNV-1a: draft-eastlake-fnv, appendix C.
//! * XXH32, XXH64, XXH3: xxHash's `cli/xsum_sanity_check.c`, on the buffer that it fills.
//! * CityHash 1.1: `src/city-test.cc`: of the data that it fills, `n` bytes from `n * n` on.
//! * MurmurHash and SpookyHash V2: the verification values in SMHasher's `main.cpp` and SMHasher3's
//!   `hashes/spookyhash.cpp`, the first four bytes of a hash of 256 hashes, of 0 to 255 bytes by as
//!   many seeds.

use super::{murmur, spooky};
use crate::{Config, Error, HashAlgorithm, Kernel, Operation, prepare, variants};

/// A library that does not give a published digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variant} gives {found} where {expected} was published for {algorithm:?}")]
pub struct WrongDigest {
    /// The hash.
    pub algorithm: HashAlgorithm,
    /// The library, by its name in a box.
    pub variant: &'static str,
    /// What it gives, in hexadecimal digits; or why it gives nothing.
    pub found: String,
    /// What was published.
    pub expected: String,
}

/// What a published digest is of.
#[derive(Clone, Copy)]
enum Input {
    Text(&'static str),
    /// So many bytes of xxHash's buffer.
    Xxhash(usize),
    /// Row `n` of CityHash's test: `n` bytes from `n * n` on.
    City(usize),
}

type Vectors = &'static [(Input, &'static str)];
/// A hash by a seed, as little-endian bytes.
type Seeded = fn(&[u8], u32) -> Vec<u8>;

use Input::{City, Text, Xxhash};

const ALPHABET_PAIRS: &str = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

/// Digests as numbers, highest byte first.
fn published(algorithm: HashAlgorithm) -> Vectors {
    use HashAlgorithm as A;
    match algorithm {
        A::Sha256 => &[
            (
                Text("abc"),
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                Text(ALPHABET_PAIRS),
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ],
        A::Md5 => &[
            (Text(""), "d41d8cd98f00b204e9800998ecf8427e"),
            (Text("abc"), "900150983cd24fb0d6963f7d28e17f72"),
            (
                Text("abcdefghijklmnopqrstuvwxyz"),
                "c3fcd3d76192e4007dfb496cca67e13b",
            ),
        ],
        A::Crc32 => &[(Text("123456789"), "cbf43926")],
        A::Fnv32 => &[
            (Text(""), "811c9dc5"),
            (Text("a"), "e40c292c"),
            (Text("foobar"), "bf9cf968"),
        ],
        A::Fnv64 => &[
            (Text(""), "cbf29ce484222325"),
            (Text("a"), "af63dc4c8601ec8c"),
            (Text("foobar"), "85944171f73967e8"),
        ],
        A::Fnv128 => &[
            (Text(""), "6c62272e07bb014262b821756295c58d"),
            (Text("a"), "d228cb696f1a8caf78912b704e4a8964"),
            (Text("foobar"), "343e1662793c64bf6f0d3597ba446f18"),
        ],
        A::Xxh32 => &[
            (Xxhash(0), "02cc5d05"),
            (Xxhash(1), "cf65b03e"),
            (Xxhash(14), "1208e7e2"),
            (Xxhash(222), "5bd11dbd"),
        ],
        A::Xxh64 => &[
            (Xxhash(0), "ef46db3751d8e999"),
            (Xxhash(1), "e934a84adb052768"),
            (Xxhash(4), "9136a0dca57457ee"),
            (Xxhash(14), "8282dcc4994e35c8"),
            (Xxhash(222), "b641ae8cb691c174"),
        ],
        // One of each way that XXH3 takes by length.
        A::Xxh3 => &[
            (Xxhash(0), "2d06800538d394c2"),
            (Xxhash(1), "c44bdff4074eecdb"),
            (Xxhash(6), "27b56a84cd2d7325"),
            (Xxhash(12), "a713daf0dfbb77e7"),
            (Xxhash(24), "a3fe70bf9d3510eb"),
            (Xxhash(48), "397da259ecba1f11"),
            (Xxhash(80), "bcdefbbb2c47c90a"),
            (Xxhash(195), "cd94217ee362ec3a"),
            (Xxhash(403), "cdeb804d65c6dea4"),
            (Xxhash(512), "617e49599013cb6b"),
            (Xxhash(2048), "dd59e2c3a5f038e0"),
            (Xxhash(2240), "6e73a90539cf2948"),
            (Xxhash(2367), "cb37aeb9e5d361ed"),
        ],
        A::Xxh3Long => &[
            (Xxhash(0), "99aa06d3014798d86001c324468d497f"),
            (Xxhash(1), "a6cd5e9392000f6ac44bdff4074eecdb"),
            (Xxhash(6), "082afe0b8162d12a3e7039bdda43cfc6"),
            (Xxhash(12), "6e3efd8fc7802b18061a192713f69ad9"),
            (Xxhash(24), "0ce966e4678d37611e7044d28b1b901d"),
            (Xxhash(48), "a002ac4e5478227ef942219aed80f67b"),
            (Xxhash(81), "4952f58181ab00425e8bafb9f95fb803"),
            (Xxhash(222), "337e09641b948717f1aebd597cec6b3a"),
            (Xxhash(403), "1b6de21e332dd73dcdeb804d65c6dea4"),
            (Xxhash(512), "18d2d110dcc9bca1617e49599013cb6b"),
            (Xxhash(2048), "f736557fd47073a5dd59e2c3a5f038e0"),
            (Xxhash(2240), "ccb134fbfa7ce49d6e73a90539cf2948"),
            (Xxhash(2367), "e89c0f6ff369b427cb37aeb9e5d361ed"),
        ],
        A::City32 => &[
            (City(0), "dc56d17a"),
            (City(1), "99929334"),
            (City(4), "26f2b463"),
            (City(9), "3f5538ef"),
            (City(20), "7a48b105"),
            (City(33), "31d13d6d"),
            (City(64), "9c9cfe88"),
            (City(100), "9d90eaf5"),
            (City(190), "4e109454"),
        ],
        A::City64 => &[
            (City(0), "9ae16a3b2f90404f"),
            (City(1), "541150e87f415e96"),
            (City(4), "11df592596f41d88"),
            (City(9), "fb8d9c70660b910b"),
            (City(20), "4182832b52d63735"),
            (City(33), "c5dc19b876d37a80"),
            (City(64), "e88419922b87176f"),
            (City(100), "6369163565814de6"),
            (City(190), "461c82656a74fb57"),
        ],
        A::City128 => &[
            (City(0), "3cb540c392e51e293df09dfc64c09a2b"),
            (City(1), "2c138ff2596d42f6c3cdc41e1df33513"),
            (City(4), "666236631b9f253b4d09e42f09cc3495"),
            (City(9), "5e4aeb853f1b9aa798ec31113e5e35d2"),
            (City(20), "d9a7783d4edd80497ebc034235bc122f"),
            (City(33), "078a9103ff960d827870765b470b2c5d"),
            (City(64), "ec951ba8e51e3545d1d44fe99451ef72"),
            (City(100), "d5983cc93a9d126a7d3e82d5ba29a90d"),
            (City(190), "f12ed446bd0c053949fa3070bc7b06d0"),
        ],
        A::Murmur2Short | A::Murmur2 | A::Murmur3Short | A::Murmur3 => &[],
        A::Spooky32 | A::Spooky64 | A::Spooky128 => &[],
    }
}

/// SMHasher's verification value, and the hash by any seed.
fn verification_value(algorithm: HashAlgorithm) -> Option<(u32, Seeded)> {
    use HashAlgorithm as A;
    fn spooky_by(bytes: &[u8], seed: u32, digest_bytes: usize) -> Vec<u8> {
        let seed = u64::from(seed);
        spooky::spooky_128(bytes, [seed, seed]).to_le_bytes()[..digest_bytes].to_vec()
    }
    Some(match algorithm {
        A::Murmur2Short => (0x2786_4c1e, |bytes, seed| {
            murmur::murmur2_32(bytes, seed).to_le_bytes().into()
        }),
        A::Murmur2 => (0x1f0d_3804, |bytes, seed| {
            murmur::murmur2_64(bytes, seed.into()).to_le_bytes().into()
        }),
        A::Murmur3Short => (0xb0f5_7ee3, |bytes, seed| {
            murmur::murmur3_32(bytes, seed).to_le_bytes().into()
        }),
        A::Murmur3 => (0x6384_ba69, |bytes, seed| {
            murmur::murmur3_128(bytes, seed.into()).to_le_bytes().into()
        }),
        A::Spooky32 => (0xa48b_e265, |bytes, seed| spooky_by(bytes, seed, 4)),
        A::Spooky64 => (0x972c_4bdc, |bytes, seed| spooky_by(bytes, seed, 8)),
        A::Spooky128 => (0x893c_fcbe, |bytes, seed| spooky_by(bytes, seed, 16)),
        _ => return None,
    })
}

/// Whether every library of `algorithm` gives the published digests.
///
/// # Errors
/// [`WrongDigest`] for the first that does not.
pub fn check_known_answers(algorithm: HashAlgorithm) -> Result<(), WrongDigest> {
    let operation = Operation::Hash(algorithm);
    for variant in variants(operation) {
        let digest = |bytes: &[u8]| match run(operation, variant.name, bytes) {
            Ok(digest) => digest,
            // What is no digest is told in its place.
            Err(error) => error.to_string(),
        };
        let compare = |found: String, expected: String| match found == expected {
            true => Ok(()),
            false => Err(WrongDigest {
                algorithm,
                variant: variant.name,
                found,
                expected,
            }),
        };
        for (input, expected) in published(algorithm) {
            compare(digest(&input.bytes()), (*expected).into())?;
        }
        if let Some((expected, seeded)) = verification_value(algorithm) {
            // The last of the hashes is by seed 0: that is the variant itself.
            let whole = digest(&hashes_of_prefixes(seeded));
            let found = whole[whole.len().saturating_sub(8)..].to_owned();
            compare(found, format!("{expected:08x}"))?;
        }
    }
    Ok(())
}

fn run(operation: Operation, variant: &str, bytes: &[u8]) -> Result<String, Error> {
    let config = Config {
        variant: variant.into(),
        ..Config::new(operation)
    };
    let mut kernel: Box<dyn Kernel> = prepare(&config)?.kernel()?;
    let mut digest = [0; 64];
    let written = kernel.run(&[bytes], &mut digest)?.written;
    let digits = digest[..written].iter().map(|byte| format!("{byte:02x}"));
    Ok(digits.collect())
}

/// SMHasher's `VerificationTest`, up to its last step.
fn hashes_of_prefixes(seeded: Seeded) -> Vec<u8> {
    let key: Vec<u8> = (0..=u8::MAX).collect();
    (0..256)
        .flat_map(|len| seeded(&key[..len], 256 - len as u32))
        .collect()
}

impl Input {
    fn bytes(self) -> Vec<u8> {
        match self {
            Text(text) => text.as_bytes().to_vec(),
            Xxhash(len) => {
                let mut state = 2_654_435_761_u64;
                let next = || {
                    let byte = (state >> 56) as u8;
                    state = state.wrapping_mul(11_400_714_785_074_694_797);
                    byte
                };
                std::iter::repeat_with(next).take(len).collect()
            }
            City(row) => {
                const K0: u64 = 0xc3a5_c85c_97cb_3127;
                let (mut a, mut b) = (9_u64, 777_u64);
                let bytes = (0..(row * row + row) as u64).map(|place| {
                    a = a.wrapping_add(b);
                    b = b.wrapping_add(a);
                    a = (a ^ (a >> 41)).wrapping_mul(K0);
                    b = (b ^ (b >> 41)).wrapping_mul(K0).wrapping_add(place);
                    (b >> 37) as u8
                });
                bytes.skip(row * row).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_has_published_answers_and_every_library_gives_them() {
        for algorithm in HashAlgorithm::ALL {
            let vectors = published(algorithm).len();
            assert!(vectors > 0 || verification_value(algorithm).is_some());
            check_known_answers(algorithm).unwrap();
        }
    }
}
