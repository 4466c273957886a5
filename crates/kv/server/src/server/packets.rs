//! Datagrams of a worker, from any source: executes their requests, and sends the answers.

use super::replies::{ReceivedPackets, Replies, Serving};
use crate::protocol::datagram::DatagramEngine;
use crate::stages::Stage;

/// Properties of a socket or port at which datagrams arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint {
    /// Datagrams arrive here by the partition in their header.
    pub is_steered: bool,
    /// Longest datagram that can be sent from here.
    pub datagram_max_bytes: usize,
}

/// Engine and replies for the datagrams of one worker.
#[derive(Default)]
pub(super) struct PacketServer {
    engine: DatagramEngine,
    replies: Replies,
}

impl PacketServer {
    /// Requests executed.
    pub(super) fn commands(&self) -> u64 {
        self.engine.counts().commands
    }

    /// Executes received datagrams, and answers.
    pub(super) fn serve(
        &mut self,
        endpoint: Endpoint,
        received: ReceivedPackets<'_>,
        serving: &mut Serving<'_>,
    ) {
        let counters = &mut serving.state.counters.datagrams;
        let bytes: usize = received.packets.iter().map(|packet| packet.len()).sum();
        counters.received += received.packets.len() as u64;
        counters.received_bytes += bytes as u64;
        serving.state.stages.end(Stage::Receive);
        (self.replies).set_transport(endpoint.is_steered, endpoint.datagram_max_bytes);
        self.replies.answer(&mut self.engine, received, serving);
    }
}
