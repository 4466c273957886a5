//! Moves bytes between two sides: reads, writes and messages, verified at their destination.
//!
//! A test has an [`Initiator`] that starts operations and a [`Peer`] at the other end of a link; either can
//! be a part of this program or on an agent ([`remote`]). Both get the same [`Command`]s, from [`run_test`].
//! The measuring loop ([`crate::closed_loop`]) drives a [`Lane`]: a queue pair of any link, or another means
//! of moving bytes. Payloads identify their operation, and are checked before and after the clock, at the
//! side that the operation's name implies.

mod command;
mod initiator;
mod lane;
mod link;
mod one_sided;
mod payload;
mod peer;
mod plan;
pub mod remote;
mod responder;
mod run_test;
mod two_sided;
mod workers;

pub use command::{Answer, Command, RunReport, TestSide};
pub use initiator::Initiator;
pub use lane::{FreeSlots, Lane};
pub use link::{CopyEngine, Link, LinkListener, Reach, dial};
pub use payload::PayloadPattern;
pub use peer::Peer;
pub use plan::{DEPTH_MAX, Operation, Plan, SIZE_MAX};
pub use run_test::{TestResult, Times, run_test};
