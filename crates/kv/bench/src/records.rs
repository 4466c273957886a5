//! Keys and values, made from a record's number.

use serde::{Deserialize, Serialize};

use overside_kv_store::{KEY_MAX_BYTES, VALUE_MAX_BYTES};

/// Records of equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    /// Number of records before any are inserted.
    pub count: u64,
    /// Length of a key: hexadecimal digits, so that every protocol can carry it.
    pub key_bytes: usize,
    /// Length of a value.
    pub value_bytes: usize,
}

/// Bytes of a value that identify its record.
const TAG_BYTES: usize = 8;

impl Records {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.count == 0 {
            return Err("there must be a record".into());
        }
        if self.key_bytes == 0 || self.key_bytes > KEY_MAX_BYTES {
            return Err(format!("a key has 1 to {KEY_MAX_BYTES} bytes"));
        }
        if self.value_bytes > VALUE_MAX_BYTES {
            return Err(format!("a value has at most {VALUE_MAX_BYTES} bytes"));
        }
        match self.bits() < 64 && self.count.saturating_mul(2) > 1 << self.bits() {
            true => Err(format!(
                "keys of {} bytes are too short for {} records and as many inserts",
                self.key_bytes, self.count
            )),
            false => Ok(()),
        }
    }

    /// Returns the number of bits of the number that a key is made of.
    fn bits(&self) -> u32 {
        (4 * self.key_bytes as u32).min(64)
    }

    /// Appends the key of a record. Neighbors have keys far apart.
    pub fn key(&self, record: u64, out: &mut Vec<u8>) {
        let digits = self.bits() / 4;
        out.resize(out.len() + self.key_bytes - digits as usize, b'k');
        let mut number = permute(record, self.bits());
        let end = out.len() + digits as usize;
        out.resize(end, 0);
        for digit in (1..=digits as usize).map(|back| end - back) {
            out[digit] = b"0123456789abcdef"[(number & 15) as usize];
            number >>= 4;
        }
    }

    /// Appends a value of a record; `nonce` makes it another than the one before.
    pub fn value(&self, record: u64, nonce: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&tag(record)[..TAG_BYTES.min(self.value_bytes)]);
        let fill = nonce.to_le_bytes();
        while out.len() - begin < self.value_bytes {
            let rest = self.value_bytes - (out.len() - begin);
            out.extend_from_slice(&fill[..rest.min(8)]);
        }
    }

    /// Returns `true` if `value` can be a value of this record.
    #[must_use]
    pub fn is_value(&self, record: u64, value: &[u8]) -> bool {
        let len = TAG_BYTES.min(self.value_bytes);
        value.len() == self.value_bytes && value[..len] == tag(record)[..len]
    }
}

/// Text of a record's number, so that people can read it.
fn tag(record: u64) -> [u8; TAG_BYTES] {
    let number = permute(record, 32);
    std::array::from_fn(|at| b"0123456789abcdef"[(number >> (28 - 4 * at) & 15) as usize])
}

/// A permutation of the numbers of `bits` bits, from 4 to 64.
fn permute(number: u64, bits: u32) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let shift = bits / 2;
    let mut x = number & mask;
    // Odd factors and shifts to the right can be undone.
    x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
    x ^= x >> shift;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9) & mask;
    x ^ x >> shift
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Records;

    #[test]
    fn records_have_keys_of_their_own_and_know_their_values() {
        for key_bytes in [3, 8, 16, 20] {
            let records = Records { count: 1000, key_bytes, value_bytes: 19 };
            records.check().unwrap();
            let mut keys = HashSet::new();
            for record in 0..2000 {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                records.key(record, &mut key);
                records.value(record, 7, &mut value);
                assert_eq!((key.len(), value.len()), (key_bytes, 19));
                assert!(keys.insert(key));
                assert!(records.is_value(record, &value));
                assert!(!records.is_value(record + 1, &value));
                assert!(!records.is_value(record, &value[1..]));
            }
        }
        let short = Records { count: 1000, key_bytes: 2, value_bytes: 0 };
        assert!(short.check().is_err());
    }
}
