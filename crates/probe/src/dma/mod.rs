//! Moving bytes between two sides: reads, writes and messages, verified where they arrive.
//!
//! A test has an [`Initiator`] that starts operations and a [`Peer`] at the other end of a link;
//! either can be a part of this program or on an agent ([`remote`]). Both are told the same
//! [`Command`]s, by [`conduct`]. One loop drives a [`Lane`]: a queue pair of any link, or whatever
//! else moves bytes. The clock starts before the first doorbell and stops when the last operation
//! was reaped. Payloads say which operation they belong to, and are looked at before and after the
//! clock, at the side that the operation's name says.

mod answering;
mod command;
mod conduct;
mod crew;
mod failure;
mod initiator;
mod lane;
mod link;
mod one_sided;
mod pass;
mod payload;
mod peer;
mod plan;
pub mod remote;
mod two_sided;

pub use command::{Answer, Command, Party, Ran, Until};
pub use conduct::{Taken, Times, conduct};
pub use failure::{Failure, Kind, misplaced};
pub use initiator::Initiator;
pub use lane::{Done, Lane};
pub use link::{CopyEngine, Link, Reach, dial};
pub use pass::{Gone, Patience};
pub use peer::Peer;
pub use plan::{DEPTH_MAX, Filling, Operation, Plan, SIZE_MAX};
