//! Numbers and strings as bytes.

use super::DecodeError;
use crate::VALUE_MAX_BYTES;

/// Appends.
pub(super) struct Writer<'o>(pub &'o mut Vec<u8>);

impl Writer<'_> {
    #[inline]
    pub(super) fn varint(&mut self, value: &u64) {
        match *value < 0x80 {
            true => self.0.push(*value as u8),
            false => self.long_varint(*value),
        }
    }

    fn long_varint(&mut self, mut value: u64) {
        let (mut bytes, mut len) = ([0; 10], 0);
        while value >= 0x80 {
            bytes[len] = value as u8 | 0x80;
            value >>= 7;
            len += 1;
        }
        bytes[len] = value as u8;
        // To append all of them and take some back is faster than to append a number that is not known before.
        let end = self.0.len() + len + 1;
        self.0.extend_from_slice(&bytes);
        self.0.truncate(end);
    }

    #[inline]
    pub(super) fn count(&mut self, count: usize) {
        self.varint(&(count as u64));
    }

    #[inline]
    pub(super) fn flags(&mut self, flags: &u32) {
        self.varint(&u64::from(*flags));
    }

    /// Appends a version as 8 bytes: versions begin with the time of the start, so a varint would save nothing.
    #[inline]
    pub(super) fn version(&mut self, version: &u64) {
        self.0.extend_from_slice(&version.to_le_bytes());
    }

    pub(super) fn signed(&mut self, value: &i64) {
        self.varint(&((value.wrapping_shl(1) ^ (value >> 63)) as u64));
    }

    #[inline]
    pub(super) fn value(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn values(&mut self, values: &[&[u8]]) {
        self.count(values.len());
        values.iter().for_each(|value| self.value(value));
    }

    /// Names and values in turn.
    pub(super) fn pairs(&mut self, pairs: &[[&[u8]; 2]]) {
        self.values(pairs.as_flattened());
    }

    pub(super) fn score(&mut self, score: &f64) {
        self.0.extend_from_slice(&score.to_le_bytes());
    }

    /// Appends at most eight bools as a byte, the first in the lowest bit.
    pub(super) fn bools(&mut self, bools: &[bool]) {
        let bits = bools.iter().enumerate();
        self.0.push(bits.fold(0, |byte, (bit, is)| byte | u8::from(*is) << bit));
    }
}

/// Reads encoded values; every length lies within the remaining bytes.
pub(super) struct Reader<'a> {
    pub rest: &'a [u8],
    /// Maximum number of elements of lists, which take more memory than bytes.
    pub elements_max: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest, elements_max: usize::MAX }
    }

    pub(super) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&byte, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::InvalidOperand)
    }

    pub(super) fn signed(&mut self) -> Result<i64, DecodeError> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn string(&mut self, max: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.varint()?;
        if len > max as u64 {
            return Err(DecodeError::TooLong);
        }
        let split = self.rest.split_at_checked(len as usize);
        let (string, rest) = split.ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(string)
    }

    /// A count of things that take `size` bytes each at least.
    pub(super) fn count(&mut self, size: usize) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        if count > (self.rest.len() / size) as u64 {
            return Err(DecodeError::Truncated);
        }
        let left = self.elements_max.checked_sub(count as usize);
        self.elements_max = left.ok_or(DecodeError::TooLong)?;
        Ok(count as usize)
    }

    pub(super) fn value(&mut self) -> Result<&'a [u8], DecodeError> {
        self.string(VALUE_MAX_BYTES)
    }

    pub(super) fn values(&mut self) -> Result<Box<[&'a [u8]]>, DecodeError> {
        let count = self.count(1)?;
        (0..count).map(|_| self.value()).collect()
    }

    pub(super) fn pairs(&mut self) -> Result<Box<[[&'a [u8]; 2]]>, DecodeError> {
        let count = self.count(1)?;
        if count % 2 != 0 {
            return Err(DecodeError::InvalidOperand);
        }
        (0..count / 2).map(|_| Ok([self.value()?, self.value()?])).collect()
    }

    pub(super) fn flags(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.varint()?).map_err(|_| DecodeError::InvalidOperand)
    }

    fn eight(&mut self) -> Result<[u8; 8], DecodeError> {
        let split = self.rest.split_first_chunk();
        let (bytes, rest) = split.ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    pub(super) fn version(&mut self) -> Result<u64, DecodeError> {
        self.eight().map(u64::from_le_bytes)
    }

    pub(super) fn score(&mut self) -> Result<f64, DecodeError> {
        let score = f64::from_le_bytes(self.eight()?);
        match score.is_nan() {
            true => Err(DecodeError::InvalidOperand),
            false => Ok(score),
        }
    }

    pub(super) fn bools<const N: usize>(&mut self) -> Result<[bool; N], DecodeError> {
        let byte = self.byte()?;
        match u32::from(byte) >> N {
            0 => Ok(std::array::from_fn(|bit| byte >> bit & 1 == 1)),
            _ => Err(DecodeError::InvalidOperand),
        }
    }
}
