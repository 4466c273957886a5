//! Partition and hash slot of a key. Clients compute them as well, to send requests to the core or the server
//! that has their keys. The slot decides the server of a cluster, the partition the core within a server.

/// Number of hash slots of Redis Cluster.
pub const SLOTS: u16 = 1 << 14;

/// CRC-16/XMODEM of each byte: polynomial 0x1021, no reflection.
const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Returns the hash slot of a key, less than [`SLOTS`]: the CRC-16/XMODEM of its [`tag`], as the specification of
/// Redis Cluster has it.
#[inline]
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    let crc = tag(key)
        .iter()
        .fold(0_u16, |crc, byte| crc << 8 ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)]);
    crc % SLOTS
}

/// Returns the partition of `count` that has a key: `crc32(part) * count >> 32`, where CRC-32 is that of
/// IEEE 802.3 (Python's `zlib.crc32`), and `part` is the key or its [`tag`].
///
/// # Panics
/// If `count` is 0.
#[inline]
#[must_use]
pub fn partition_of(key: &[u8], count: usize) -> usize {
    assert!(count > 0, "there is a partition");
    let hash = u64::from(crc32fast::hash(tag(key)));
    // Less than `count`.
    ((hash * count as u64) >> 32) as usize
}

/// Returns the part of a key that decides its partition: the part between its first `{` and the
/// next `}` if that is not empty, otherwise the whole key. Keys with the same tag are in the same
/// partition, as in Redis Cluster.
#[inline]
#[must_use]
pub fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'{', key) else {
        return key;
    };
    let rest = &key[open + 1..];
    match memchr::memchr(b'}', rest) {
        Some(len) if len > 0 => &rest[..len],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::{partition_of, slot_of, tag};

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // The specification: the CRC of "123456789" is 0x31c3.
        for (key, slot) in [
            (&b"123456789"[..], 0x31c3),
            (b"", 0),
            (b"foo", 12182),
            (b"{foo}.bar", 12182),
            (b"a", 15495),
        ] {
            assert_eq!(slot_of(key), slot);
        }
    }

    #[test]
    fn other_languages_compute_the_same() {
        // Python: zlib.crc32(b"123456789") == 0xcbf43926
        let crc = 0xcbf4_3926_u64;
        for count in [1, 2, 3, 7, 64] {
            let expected = ((crc * count as u64) >> 32) as usize;
            assert_eq!(partition_of(b"123456789", count), expected);
        }
        assert_eq!(partition_of(b"123456789", 1 << 16), 0xcbf4);
    }

    #[test]
    fn keys_are_spread() {
        let mut counts = [0; 5];
        for key in 0..5000 {
            counts[partition_of(format!("key:{key}").as_bytes(), 5)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn tags_are_those_of_redis_cluster() {
        for (key, expected) in [
            (&b"{user1000}.following"[..], &b"user1000"[..]),
            (b"foo{}{bar}", b"foo{}{bar}"),
            (b"foo{{bar}}zap", b"{bar"),
            (b"foo{bar}{zap}", b"bar"),
            (b"foo{bar", b"foo{bar"),
            (b"}{", b"}{"),
            (b"", b""),
        ] {
            assert_eq!(tag(key), expected);
        }
        assert_eq!(partition_of(b"{a}1", 97), partition_of(b"a", 97));
    }
}
