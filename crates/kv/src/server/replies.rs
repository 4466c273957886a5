//! Has datagrams executed, and answers them by datagrams: however they have come.

use super::Backing;
use super::admission::Admission;
use super::client::Clients;
use super::context::Context;
use super::state::State;
use crate::KeyHasher;
use crate::protocol::PacketEngine;
use crate::protocol::datagram::AnswerDatagrams;
use crate::stages::Stage;
use crate::udp::Sent;

/// What is needed to serve.
pub struct Serving<'t> {
    pub now_ms: u64,
    pub state: &'t mut State,
    pub clients: &'t mut Clients,
    pub backing: &'t mut dyn Backing,
    pub hasher: &'t KeyHasher,
}

/// Sends datagrams, which are one behind the other: the number of whom each is for, and where it ends.
pub type Reply<'r> = &'r mut dyn FnMut(&[u8], &[(u32, usize)]) -> Sent;

/// What was received, and where replies go.
pub struct ReceivedPackets<'r> {
    pub packets: &'r [&'r [u8]],
    /// Of each packet, the number of who has sent it.
    pub senders: &'r [u32],
    /// By which replies leave.
    pub reply: Reply<'r>,
    /// How replies are sealed, and which packets want that; `None`: none does.
    pub seals: Option<(Admission<'r>, &'r [bool])>,
}

/// Makes replies and sends them.
#[derive(Default)]
pub struct Replies {
    answers: AnswerDatagrams,
    /// Of the answers: whom each is for, and where it ends.
    ends: Vec<(u32, usize)>,
    /// Answers with their seals, and where each ends.
    sealed: (Vec<u8>, Vec<(u32, usize)>),
}

impl Replies {
    /// Whether what is answered from now on came by a port that steers, and how long datagrams may be there.
    pub fn set_transport(&mut self, is_steered: bool, datagram_max_bytes: usize) {
        self.answers.set_steered(is_steered);
        self.answers.set_longest(datagram_max_bytes);
    }

    /// Executes packets, and answers those whose changes are kept.
    pub fn answer(
        &mut self,
        engine: &mut impl PacketEngine,
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
                // Nobody is told that something was kept.
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
        let (mut bytes, mut ends) = (self.answers.bytes(), self.answers.ends());
        if let Some((admission, is_sealed)) = received.seals {
            let (sealed, sealed_ends) = &mut self.sealed;
            let wants_seal = |packet: usize| is_sealed[first + packet];
            admission.seal_answers(&self.answers, wants_seal, sealed, sealed_ends);
            (bytes, ends) = (sealed, sealed_ends);
        }
        let to = |(packet, end): &(u32, usize)| (received.senders[first + *packet as usize], *end);
        self.ends.clear();
        self.ends.extend(ends.iter().map(to));
        let sent = (received.reply)(bytes, &self.ends);
        serving.state.counters.datagrams.add_sent(sent);
    }
}
