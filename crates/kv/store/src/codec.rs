//! Requests and answers as bytes: one encoding for the log, snapshots, replicas, datagrams and links.
//!
//! ```text
//!   operation (1) | key length (varint) | key | operands
//! ```
//!
//! Lengths, counts and times are LEB128 varints (DWARF 5, section 7.6), signed numbers zigzag ones.
//! Versions are 8 bytes and scores IEEE 754 doubles, both in little endian. A string is its length
//! and its bytes. Hashes of keys are not part of it: the decoder computes them with its own seed.
//! The decoder checks every length against the bytes that are left and against its limit.

mod answer;
mod bytes;
mod request;
mod tables;

pub use answer::{decode_answer, encode_answer};
pub(crate) use request::encode_operation;
pub use request::{decode, decode_into, encode};

/// Appends a number.
pub fn put_varint(number: u64, out: &mut Vec<u8>) {
    bytes::Writer(out).varint(&number);
}

/// Takes a number off.
pub fn take_varint(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    let mut from = bytes::Reader::new(bytes);
    let number = from.varint()?;
    *bytes = from.rest;
    Ok(number)
}

/// Takes a string of at most `max` bytes off.
pub fn take_string<'a>(bytes: &mut &'a [u8], max: usize) -> Result<&'a [u8], DecodeError> {
    let mut from = bytes::Reader::new(bytes);
    let string = from.string(max)?;
    *bytes = from.rest;
    Ok(string)
}

/// Error in bytes that should be an encoded request or answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end too early.
    #[error("the message is cut off")]
    Truncated,
    /// No operation has this number.
    #[error("operation {0} is unknown")]
    UnknownOperation(u8),
    /// An operand has a value that it cannot have.
    #[error("the request has an invalid operand")]
    InvalidOperand,
    /// A key or value is longer than allowed.
    #[error("the request has a key or value that is too long")]
    TooLong,
}
