//! Datagrams of a worker, wherever they come from: admits them, has executed what they ask, and has the answers
//! sent.

use super::admission::{Admitted, Seals};
use super::datagrams::DatagramService;
use super::replies::{ReceivedPackets, Replies, Reply, Serving};
use super::state::State;
use crate::protocol::datagram::DatagramEngine;
use crate::protocol::{MemcachedDatagramEngine, PacketEngine};
use crate::stages::Stage;

/// Where datagrams have come to.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    pub service: DatagramService,
    /// Datagrams arrive here by the partition in their header.
    pub is_steered: bool,
    /// Its UDP port.
    pub port: u16,
    /// Only programs that may use the store without a password can send some here.
    pub is_local: bool,
    /// Longest datagram that can be sent from here.
    pub datagram_max_bytes: usize,
}

/// A datagram that has come.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'b> {
    pub bytes: &'b [u8],
    /// The number of who has sent it, for the reply.
    pub sender: u32,
    /// Who has sent it may use the store without a password where that is possible.
    pub is_local: bool,
}

/// What serves the datagrams of a worker.
pub struct PacketServer {
    engine: DatagramEngine,
    memcached: MemcachedDatagramEngine,
    replies: Replies,
    seals: Seals,
    /// Hellos, and where each ends.
    hellos: (Vec<u8>, Vec<(u32, usize)>),
}

impl PacketServer {
    pub fn new(state: &State) -> Self {
        Self {
            engine: DatagramEngine::default(),
            memcached: MemcachedDatagramEngine::default(),
            replies: Replies::default(),
            seals: Seals::new(state),
            hellos: Default::default(),
        }
    }

    /// Requests executed.
    pub fn commands(&self) -> u64 {
        self.engine.counts().commands + self.memcached.counts().commands
    }

    /// Executes what was received, and answers by `reply`.
    pub fn serve<'b>(
        &mut self,
        endpoint: Endpoint,
        incoming: impl Iterator<Item = Incoming<'b>>,
        reply: Reply<'_>,
        serving: &mut Serving<'_>,
    ) {
        let counters = &mut serving.state.counters.datagrams;
        let mut packets = Vec::new();
        // Of each packet, who has sent it, and whether its answers are sealed.
        let (mut senders, mut is_sealed) = (Vec::new(), Vec::new());
        let admission = self.seals.admission(endpoint, serving.now_ms);
        let (hellos, hello_ends) = &mut self.hellos;
        hellos.clear();
        hello_ends.clear();
        for one in incoming {
            counters.received += 1;
            counters.received_bytes += one.bytes.len() as u64;
            let (packet, has_seal) = match admission.admit(one.bytes, one.is_local) {
                Admitted::Plain(packet) => (packet, false),
                Admitted::Sealed(packet) => (packet, true),
                Admitted::Hello => {
                    admission.write_hello(hellos);
                    hello_ends.push((one.sender, hellos.len()));
                    continue;
                }
                Admitted::Refused => {
                    counters.refused += 1;
                    continue;
                }
            };
            packets.push(packet);
            senders.push(one.sender);
            is_sealed.push(has_seal);
        }
        if !hello_ends.is_empty() {
            counters.add_sent(reply(hellos, hello_ends));
        }
        serving.state.stages.end(Stage::Receive);
        let has_sealed = is_sealed.contains(&true);
        let longest = endpoint.datagram_max_bytes;
        let longest = longest.saturating_sub(admission.overhead_bytes());
        let received = ReceivedPackets {
            packets: &packets,
            senders: &senders,
            reply,
            seals: has_sealed.then_some((admission, is_sealed.as_slice())),
        };
        (self.replies).set_transport(endpoint.is_steered, longest);
        match endpoint.service {
            DatagramService::Own => {
                (self.replies).answer(&mut self.engine, received, serving);
            }
            DatagramService::Memcached => {
                (self.replies).answer(&mut self.memcached, received, serving);
            }
        }
    }
}
