//! Moving bytes between a host and a DPU, or between what stands for them: reads, writes and
//! messages, verified where they arrive.
//!
//! One loop (`pass`) drives a [`lane::Lane`]: a queue pair of any link, or a context of a device
//! that copies. The clock starts before the first doorbell and stops when the last operation was
//! reaped. Payloads say which operation they belong to, and are looked at before and after the
//! clock, at the side that the operation's name says.

mod copying;
mod crew;
mod lane;
mod one_sided;
mod pass;
mod path;
mod payload;
mod shape;
mod taking;
#[cfg(test)]
mod tests;
mod two_sided;

pub(crate) use path::LINKS;
pub(crate) use taking::{take, take_through};
pub(crate) use two_sided::ANSWER_BYTES;
