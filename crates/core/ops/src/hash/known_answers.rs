//! Known-answer tests: each library of a hash has to compute the published digests.
//! A process that measures a hash runs them once before it accepts a digest.
//!
//! * SHA-256: NIST, *Examples with Intermediate Values*, of FIPS 180-4. MD5: RFC 1321, A.5.
//! * CRC-32: the check value of CRC-32/ISO-HDLC in the *Catalogue of parametrised CRC algorithms*.
//! * FNV-1a: draft-eastlake-fnv, appendix C.
//! * XXH32, XXH64, XXH3: xxHash's `cli/xsum_sanity_check.c`, on the buffer that it fills.
//! * CityHash 1.1: `src/city-test.cc`: of the data that it fills, `n` bytes from `n * n` on.
//! * MurmurHash and SpookyHash V2: the verification values in SMHasher's `main.cpp` and SMHasher3's
//!   `hashes/spookyhash.cpp`, the first four bytes of a hash of 256 hashes, of 0 to 255 bytes by as many seeds.

use super::{murmur, spooky};
use crate::family::WrongAnswer;
use crate::{Config, Error, HashAlgorithm, Kernel, Operation, prepare, variants};

/// Hash function with a seed that returns little-endian bytes.
type Seeded = fn(&[u8], u32) -> Vec<u8>;

/// Yields the inputs and published digests of a hash.
fn published(algorithm: HashAlgorithm) -> impl Iterator<Item = (Vec<u8>, &'static str)> {
    let rows = include_str!("known_answers.txt").lines();
    rows.filter_map(move |row| {
        let (input, digest) =
            row.strip_prefix(algorithm.name())?.strip_prefix(' ')?.split_once(' ')?;
        let (kind, input) = input.split_once(':')?;
        let input = match kind {
            "text" => input.as_bytes().to_vec(),
            "xxhash" => xxhash_buffer(input.parse().ok()?),
            _ => city_row(input.parse().ok()?),
        };
        Some((input, digest))
    })
}

/// Returns SMHasher's verification value, and the hash function with a seed.
fn verification_value(algorithm: HashAlgorithm) -> Option<(u32, Seeded)> {
    use HashAlgorithm as A;
    fn spooky_by(bytes: &[u8], seed: u32, digest_bytes: usize) -> Vec<u8> {
        let seed = u64::from(seed);
        spooky::spooky_128(bytes, [seed, seed]).to_le_bytes()[..digest_bytes].to_vec()
    }
    Some(match algorithm {
        A::Murmur2Short => {
            (0x2786_4c1e, |bytes, seed| murmur::murmur2_32(bytes, seed).to_le_bytes().into())
        }
        A::Murmur2 => {
            (0x1f0d_3804, |bytes, seed| murmur::murmur2_64(bytes, seed.into()).to_le_bytes().into())
        }
        A::Murmur3Short => {
            (0xb0f5_7ee3, |bytes, seed| murmur::murmur3_32(bytes, seed).to_le_bytes().into())
        }
        A::Murmur3 => (0x6384_ba69, |bytes, seed| {
            murmur::murmur3_128(bytes, seed.into()).to_le_bytes().into()
        }),
        A::Spooky32 => (0xa48b_e265, |bytes, seed| spooky_by(bytes, seed, 4)),
        A::Spooky64 => (0x972c_4bdc, |bytes, seed| spooky_by(bytes, seed, 8)),
        A::Spooky128 => (0x893c_fcbe, |bytes, seed| spooky_by(bytes, seed, 16)),
        _ => return None,
    })
}

/// Checks that every library of the hash computes the published digests.
///
/// # Errors
/// [`WrongAnswer`] for the first library that does not.
pub(super) fn check(operation: Operation) -> Result<(), WrongAnswer> {
    let Operation::Hash(algorithm) = operation else {
        return Ok(());
    };
    for variant in variants(operation) {
        let digest = |bytes: &[u8]| match run(operation, variant.name, bytes) {
            Ok(digest) => digest,
            // An error is reported in place of the digest.
            Err(error) => error.to_string(),
        };
        let compare = |found: String, expected: String| match found == expected {
            true => Ok(()),
            false => Err(WrongAnswer { operation, variant: variant.name, found, expected }),
        };
        for (input, expected) in published(algorithm) {
            compare(digest(&input), expected.into())?;
        }
        if let Some((expected, seeded)) = verification_value(algorithm) {
            // The last of the hashes has seed 0, the seed of the variant.
            let whole = digest(&hashes_of_prefixes(seeded));
            let found = whole[whole.len().saturating_sub(8)..].to_owned();
            compare(found, format!("{expected:08x}"))?;
        }
    }
    Ok(())
}

fn run(operation: Operation, variant: &str, bytes: &[u8]) -> Result<String, Error> {
    let config = Config { variant: variant.into(), ..Config::new(operation) };
    let mut kernel: Box<dyn Kernel> = prepare(&config)?.kernel()?;
    let mut digest = [0; 64];
    let written = kernel.run(&[bytes], &mut digest)?.written;
    let digits = digest[..written].iter().map(|byte| format!("{byte:02x}"));
    Ok(digits.collect())
}

/// Computes SMHasher's `VerificationTest` except its last step.
fn hashes_of_prefixes(seeded: Seeded) -> Vec<u8> {
    let key: Vec<u8> = (0..=u8::MAX).collect();
    (0..256).flat_map(|len| seeded(&key[..len], 256 - len as u32)).collect()
}

fn xxhash_buffer(len: usize) -> Vec<u8> {
    let mut state = 2_654_435_761_u64;
    let next = || {
        let byte = (state >> 56) as u8;
        state = state.wrapping_mul(11_400_714_785_074_694_797);
        byte
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn city_row(row: usize) -> Vec<u8> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_has_published_answers_and_every_library_gives_them() {
        let rows = include_str!("known_answers.txt").lines();
        let mut unread = rows.filter(|row| !row.starts_with('#')).count();
        for algorithm in HashAlgorithm::ALL {
            let vectors = published(algorithm).count();
            unread -= vectors;
            assert!(vectors > 0 || verification_value(algorithm).is_some());
            check(Operation::Hash(algorithm)).unwrap();
        }
        assert_eq!(unread, 0, "every row is of a hash");
    }
}
