//! Executes datagrams, and answers them by datagrams, for every kind of source.

use super::StorageBackend;
use super::client::Clients;
use super::context::Context;
use super::state::WorkerContext;
use crate::KeyHasher;
use crate::protocol::datagram::{AnswerDatagrams, DatagramEngine};
use crate::stages::Stage;
use crate::udp::Sent;

/// Parts of a worker that are needed to serve datagrams.
pub(super) struct Serving<'t> {
    pub now_ms: u64,
    pub state: &'t mut WorkerContext,
    pub clients: &'t mut Clients,
    pub backing: &'t mut dyn StorageBackend,
    pub hasher: &'t KeyHasher,
}

/// Function that sends concatenated datagrams; each has the number of its receiver, and its end.
pub(super) type Reply<'r> = &'r mut dyn FnMut(&[u8], &[(u32, usize)]) -> Sent;

/// Datagrams that were received, and the function that sends the replies.
pub(super) struct ReceivedPackets<'r> {
    pub packets: &'r [&'r [u8]],
    /// Number of the sender of each packet.
    pub senders: &'r [u32],
    /// Function that sends replies.
    pub reply: Reply<'r>,
}

/// Makes replies and sends them.
#[derive(Default)]
pub(super) struct Replies {
    answers: AnswerDatagrams,
    /// Number of the receiver of each answer, and the end of its bytes.
    ends: Vec<(u32, usize)>,
}

impl Replies {
    /// Sets whether the following packets arrive at a socket or port that steers them by partition,
    /// and the longest datagram in bytes that can be sent from there.
    pub(super) fn set_transport(&mut self, is_steered: bool, datagram_max_bytes: usize) {
        self.answers.set_steered(is_steered);
        self.answers.set_longest(datagram_max_bytes);
    }

    /// Executes packets, and answers those whose changes are kept.
    pub(super) fn answer(
        &mut self,
        engine: &mut DatagramEngine,
        mut received: ReceivedPackets<'_>,
        serving: &mut Serving<'_>,
    ) {
        let before = engine.counts();
        let mut done = 0;
        while done < received.packets.len() {
            self.answers.clear();
            let mut context = Context {
                now_ms: serving.now_ms,
                state: &mut *serving.state,
                clients: &mut *serving.clients,
                backing: &mut *serving.backing,
            };
            let rest = &received.packets[done..];
            let executed = engine.process(rest, &mut self.answers, serving.hasher, &mut context);
            let kept = serving.backing.before_replies();
            serving.state.stages.end(Stage::Persist);
            match kept {
                Ok(()) => self.send(&mut received, done, serving),
                // Clients must get no confirmation of writes that may be lost.
                Err(_) => {
                    let unsent = self.answers.ends().len() as u64;
                    serving.state.counters.datagrams.unsent += unsent;
                    engine.doubt();
                }
            }
            serving.state.stages.end(Stage::Respond);
            done += executed;
        }
        let counters = &mut serving.state.counters.datagrams;
        let after = engine.counts();
        counters.invalid += after.invalid - before.invalid;
        counters.repeated += after.repeated - before.repeated;
    }

    /// Sends the answers to the packets from number `first` on.
    fn send(
        &mut self,
        received: &mut ReceivedPackets<'_>,
        first: usize,
        serving: &mut Serving<'_>,
    ) {
        let to = |(packet, end): &(u32, usize)| (received.senders[first + *packet as usize], *end);
        self.ends.clear();
        self.ends.extend(self.answers.ends().iter().map(to));
        let sent = (received.reply)(self.answers.bytes(), &self.ends);
        serving.state.counters.datagrams.add_sent(sent);
    }
}
