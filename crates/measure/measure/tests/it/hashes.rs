//! Every library of every hash, against other people's implementations: at every length.

use anyhash::Hasher;
use anyhash::fnv::{Fnv1a32, Fnv1a64, Fnv1a128};
use anyhash::spooky::Spooky;
use overside_ops::{Config, HashAlgorithm, Operation, prepare, variants};

/// The digest as a kernel writes it.
fn digest(algorithm: HashAlgorithm, bytes: &[u8]) -> Vec<u8> {
    use HashAlgorithm as A;
    match algorithm {
        A::Xxh3 => number(twox_hash::XxHash3_64::oneshot(bytes).to_be_bytes()),
        A::Xxh3Long => number(twox_hash::XxHash3_128::oneshot(bytes).to_be_bytes()),
        A::Xxh32 => number(twox_hash::XxHash32::oneshot(0, bytes).to_be_bytes()),
        A::Xxh64 => number(twox_hash::XxHash64::oneshot(0, bytes).to_be_bytes()),
        A::Crc32 => number(crc32(bytes).to_be_bytes()),
        A::Sha256 => number(hmac_sha256::Hash::hash(bytes)),
        A::City32 => number(cityhasher::hash::<u32>(bytes).to_be_bytes()),
        A::City64 => number(cityhasher::hash::<u64>(bytes).to_be_bytes()),
        // It has the first word as the high half.
        A::City128 => number(cityhash_rs::cityhash_110_128(bytes).rotate_left(64).to_be_bytes()),
        A::Murmur2Short => number(murmur2::murmur2(bytes, 0).to_be_bytes()),
        A::Murmur2 => number(murmur2::murmur64a(bytes, 0).to_be_bytes()),
        A::Murmur3Short => {
            number(murmur3::murmur3_32(&mut &*bytes, 0).map_or([0; 4], u32::to_be_bytes))
        }
        A::Murmur3 => {
            number(murmur3::murmur3_x64_128(&mut &*bytes, 0).map_or([0; 16], u128::to_be_bytes))
        }
        A::Spooky32 => number(hashed::<u32>(Spooky::new(), bytes).to_be_bytes()),
        A::Spooky64 => number(hashed::<u64>(Spooky::new(), bytes).to_be_bytes()),
        A::Spooky128 => number(hashed::<u128>(Spooky::new(), bytes).to_be_bytes()),
        A::Fnv32 => number(hashed::<u32>(Fnv1a32::new(), bytes).to_be_bytes()),
        A::Fnv64 => number(hashed::<u64>(Fnv1a64::new(), bytes).to_be_bytes()),
        A::Fnv128 => number(hashed::<u128>(Fnv1a128::new(), bytes).to_be_bytes()),
        A::Md5 => number(md5::compute(bytes).0),
    }
}

fn number<const N: usize>(digest: [u8; N]) -> Vec<u8> {
    digest.to_vec()
}

fn hashed<T>(mut hasher: impl Hasher<T>, bytes: &[u8]) -> T {
    // In blocks of SpookyHash's own size: slices that are no whole number of words make it panic.
    bytes.chunks(96).for_each(|block| hasher.write(block));
    hasher.finish()
}

/// CRC-32 as in RFC 1952, section 8: one table, a byte at a time, nothing clever to go wrong.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut n = 0;
        while n < 256 {
            let mut remainder = n as u32;
            let mut bit = 0;
            while bit < 8 {
                let carry = remainder & 1;
                remainder = (remainder >> 1) ^ (carry * 0xEDB8_8320);
                bit += 1;
            }
            table[n] = remainder;
            n += 1;
        }
        table
    };
    !bytes
        .iter()
        .fold(!0, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize] ^ (crc >> 8))
}

#[test]
fn the_catalogued_check_value_comes_out() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
}

#[test]
fn every_library_agrees_at_every_length() {
    let bytes: Vec<u8> =
        (0..700_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for algorithm in HashAlgorithm::ALL {
        for variant in variants(Operation::Hash(algorithm)) {
            let config =
                Config { variant: variant.name.into(), ..Config::new(Operation::Hash(algorithm)) };
            let mut kernel = prepare(&config).unwrap().kernel().unwrap();
            let mut out = vec![0; algorithm.digest_len()];
            for len in (0..400).chain([511, 512, 513, 700]) {
                kernel.run(&[&bytes[..len]], &mut out).unwrap();
                let expected = digest(algorithm, &bytes[..len]);
                assert_eq!(out, expected, "{algorithm:?} of {len} bytes by {}", variant.name);
            }
        }
    }
}
