//! Server of a cluster that has a key, by consistent hashing (Karger et al., STOC 1997).
//!
//! All arithmetic is on 32-bit unsigned numbers.
//!
//! 1. A server has 256 points on a ring of 2³² places. Points 8 i to 8 i + 7 are the eight big-endian
//!    numbers of `SHA-256(name + "-" + i)`, where `i` from 0 to 31 is decimal.
//! 2. A key's place is `mix(CRC-32(part))`, where `part` is the key or its [`tag`], as for
//!    [`partition_of`](overside_kv_store::partition_of). `mix` is the finalizer of MurmurHash3: partitions are cut by the
//!    upper bits of the CRC-32, and the keys of a server must not be those of few partitions.
//! 3. The key belongs to the server of the first point at its place or behind it, or else of the first point
//!    of the ring. Of equal points that of the lesser name counts, byte by byte.
//!
//! `tests/kv-ring.json` has examples.

use sha2::{Digest, Sha256};

use overside_kv_store::partition::tag;

/// Digests of a server's name, and points of each.
const DIGESTS: u32 = 32;
const POINTS: usize = 8;

/// The servers of a cluster on their ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    members: Vec<String>,
    /// Points and the numbers of their members, in order.
    points: Vec<(u32, u32)>,
}

impl Ring {
    /// The ring of these servers. A name that is repeated counts once.
    #[must_use]
    pub fn new<'m>(members: impl IntoIterator<Item = &'m str>) -> Self {
        let mut members: Vec<String> = members.into_iter().map(Into::into).collect();
        members.sort_unstable();
        members.dedup();
        // Members are in order, so that equal points are as well.
        let mut points: Vec<(u32, u32)> = (0..)
            .zip(&members)
            .flat_map(|(number, name)| points(name).map(move |point| (point, number)))
            .collect();
        points.sort_unstable();
        Self { members, points }
    }

    /// Names, in order.
    #[must_use]
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// The server that has a key; `None`: there are no servers.
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> Option<&str> {
        let place = place(key);
        let next = self.points.partition_point(|(point, _)| *point < place);
        let (_, number) = self.points.get(next).or(self.points.first())?;
        Some(&self.members[*number as usize])
    }
}

/// Returns the position of a key on the ring.
#[must_use]
pub fn place(key: &[u8]) -> u32 {
    mix(crc32fast::hash(tag(key)))
}

fn points(name: &str) -> impl Iterator<Item = u32> {
    (0..DIGESTS).flat_map(move |number| {
        let digest = Sha256::digest(format!("{name}-{number}"));
        let (words, _) = digest.as_chunks();
        let words: [u32; POINTS] = std::array::from_fn(|at| u32::from_be_bytes(words[at]));
        words
    })
}

/// `fmix32` of MurmurHash3: one to one, and every bit depends on every bit.
fn mix(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::{Ring, place};
    use overside_kv_store::partition_of;

    #[derive(Deserialize)]
    struct Golden {
        places: Vec<(String, u32)>,
        rings: Vec<GoldenRing>,
    }

    #[derive(Deserialize)]
    struct GoldenRing {
        members: Vec<String>,
        owners: Vec<(String, String)>,
    }

    #[test]
    fn keys_belong_where_other_languages_find_them() {
        let text = include_str!("../../../../tests/kv-ring.json");
        let golden: Golden = serde_json::from_str(text).unwrap();
        assert!(golden.places.len() > 10 && golden.rings.len() > 2);
        for (key, expected) in golden.places {
            assert_eq!(place(&BASE64.decode(&key).unwrap()), expected, "{key}");
        }
        for ring in golden.rings {
            let found = Ring::new(ring.members.iter().map(String::as_str));
            for (key, owner) in ring.owners {
                let key = BASE64.decode(&key).unwrap();
                assert_eq!(found.owner(&key), Some(&*owner), "{key:?}");
            }
        }
    }

    #[test]
    fn places_are_those_of_the_definition() {
        // CRC-32 of "123456789" is 0xcbf43926.
        assert_eq!(super::mix(0), 0);
        assert_eq!(super::mix(1), 0x514e_28b7);
        assert_eq!(place(b"123456789"), super::mix(0xcbf4_3926));
        assert_eq!(place(b"{123456789}.x"), place(b"123456789"));
        assert_eq!(Ring::default().owner(b"x"), None);
        assert_eq!(Ring::new(["b", "a", "b"]).members(), ["a", "b"]);
    }

    /// Returns the number of keys that each server has, of `keys` keys.
    fn shares(ring: &Ring, keys: u32) -> BTreeMap<&str, u32> {
        let mut shares = BTreeMap::new();
        for number in 0..keys {
            let owner = ring.owner(format!("user{number}").as_bytes()).unwrap();
            *shares.entry(owner).or_default() += 1;
        }
        shares
    }

    #[test]
    fn servers_and_their_partitions_have_equal_shares() {
        const KEYS: u32 = 100_000;
        for count in [2, 3, 8, 32] {
            let names: Vec<_> = (0..count).map(|n| format!("10.0.0.{n}:6379")).collect();
            let ring = Ring::new(names.iter().map(String::as_str));
            let shares = shares(&ring, KEYS);
            assert_eq!(shares.len(), count);
            for (name, share) in shares {
                let part = f64::from(share) * count as f64 / f64::from(KEYS);
                assert!((0.75..1.25).contains(&part), "{count} servers, {name}: {part}");
            }
        }
        let ring = Ring::new(["a", "b", "c", "d"]);
        let mut partitions = [0; 16];
        let keys = (0..KEYS).map(|number| format!("user{number}"));
        for key in keys.filter(|key| ring.owner(key.as_bytes()) == Some("a")) {
            partitions[partition_of(key.as_bytes(), 16)] += 1;
        }
        let mean = partitions.iter().sum::<u32>() / 16;
        assert!(partitions.iter().all(|n| (mean * 8 / 10..mean * 12 / 10).contains(n)));
    }

    proptest! {
        #[test]
        fn a_server_takes_keys_to_itself_and_leaves_its_own_to_others(
            names in prop::collection::btree_set("[a-z0-9.:-]{1,12}", 2..20),
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 200),
        ) {
            let all = Ring::new(names.iter().map(String::as_str));
            let one = names.first().unwrap();
            let others = Ring::new(names.iter().skip(1).map(String::as_str));
            for key in &keys {
                let (with, without) = (all.owner(key).unwrap(), others.owner(key).unwrap());
                prop_assert!(with == without || with == one, "{key:?}: {with}, {without}");
            }
        }

        #[test]
        fn a_server_moves_its_share(
            names in prop::collection::btree_set("[a-z]{3,12}", 2..20),
        ) {
            let all = Ring::new(names.iter().map(String::as_str));
            let others = Ring::new(names.iter().skip(1).map(String::as_str));
            let keys = (0..2000).map(|number| format!("key:{number}"));
            let moved = keys.filter(|key| all.owner(key.as_bytes()) != others.owner(key.as_bytes()));
            let part = moved.count() as f64 * names.len() as f64 / 2000.0;
            prop_assert!((0.4..1.6).contains(&part), "{} servers: {part}", names.len());
        }
    }
}
