//! Protocols whose requests and replies are datagrams.

use super::ServerContext;
use super::datagram::AnswerDatagrams;
use crate::KeyHasher;

/// Parses datagrams, has their requests executed, and writes the answers.
pub trait PacketEngine {
    /// Executes packets from the first one on, and adds the answers; how many it has done with, at least one. Where
    /// that is not all of them the caller sends the answers and calls again for the others.
    fn process(
        &mut self,
        packets: &[&[u8]],
        answers: &mut AnswerDatagrams,
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
    ) -> usize;

    /// What was executed until now could not be kept: whoever asks again is not answered.
    fn doubt(&mut self) {}

    /// What it has counted since it was made.
    fn counts(&self) -> PacketCounts;
}

/// What an engine for datagrams has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// Requests executed.
    pub commands: u64,
    /// Datagrams that were dropped because they are malformed.
    pub invalid: u64,
    /// Datagrams whose writes had been executed before.
    pub repeated: u64,
}
