//! Which datagrams are executed: those of this machine where only it can send some, and those with a right seal
//! elsewhere.

use super::datagrams::DatagramService;
use super::packets::Endpoint;
use super::state::State;
use crate::protocol::datagram::{AnswerDatagrams, Epochs, SEAL_BYTES, SealKey, Sender, is_sealed};

/// What seals of a server are made of.
pub struct Seals {
    /// From its password, if it has one.
    key: Option<SealKey>,
    epochs: Epochs,
}

/// What becomes of a datagram.
pub enum Admitted<'p> {
    /// It is executed as it is.
    Plain(&'p [u8]),
    /// What is in its envelope is executed.
    Sealed(&'p [u8]),
    /// Its sender is told the epoch.
    Hello,
    /// It is dropped.
    Refused,
}

/// Who may ask at a port, at a time.
#[derive(Clone, Copy)]
pub struct Admission<'s> {
    key: Option<&'s SealKey>,
    epochs: Epochs,
    port: u16,
    is_local: bool,
    now_ms: u64,
}

impl Seals {
    pub fn new(state: &State) -> Self {
        let shared = &state.shared;
        // Random, and the same for all workers.
        let start = shared.run_id.get(..8);
        let start = start.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let password = state.settings.password.as_ref();
        Self {
            key: password.map(|password| SealKey::new(&password.digest())),
            epochs: Epochs::new(start.unwrap_or_default(), shared.started_ms),
        }
    }

    pub fn admission(&self, endpoint: Endpoint, now_ms: u64) -> Admission<'_> {
        // memcached's datagrams have no seals.
        let key = (self.key.as_ref()).filter(|_| endpoint.service == DatagramService::Own);
        Admission {
            key,
            epochs: self.epochs,
            port: endpoint.port,
            is_local: endpoint.is_local,
            now_ms,
        }
    }
}

impl Admission<'_> {
    /// What it may add to an answer in bytes.
    pub fn overhead_bytes(&self) -> usize {
        self.key.map_or(0, |_| SEAL_BYTES)
    }

    /// `is_local`: the datagram comes from this machine.
    pub fn admit<'p>(&self, bytes: &'p [u8], is_local: bool) -> Admitted<'p> {
        let Some(key) = self.key.filter(|_| is_sealed(bytes)) else {
            return match is_local && self.is_local {
                true => Admitted::Plain(bytes),
                false => Admitted::Refused,
            };
        };
        match key.open(Sender::Client, self.port, bytes) {
            None => Admitted::Refused,
            Some(sealed) if sealed.datagram.is_empty() => Admitted::Hello,
            Some(sealed) if !self.epochs.is_recent(sealed.epoch, self.now_ms) => Admitted::Hello,
            Some(sealed) => Admitted::Sealed(sealed.datagram),
        }
    }

    /// Appends what tells a client the epoch.
    pub fn write_hello(&self, out: &mut Vec<u8>) {
        self.seal(b"", out);
    }

    /// Copies answers, in envelopes where their packets had some. Of each, the packet and where it ends.
    pub fn seal_answers(
        &self,
        answers: &AnswerDatagrams,
        is_sealed: impl Fn(usize) -> bool,
        out: &mut Vec<u8>,
        ends: &mut Vec<(u32, usize)>,
    ) {
        out.clear();
        ends.clear();
        for (packet, answer) in answers.iter() {
            match is_sealed(packet) {
                true => self.seal(answer, out),
                false => out.extend_from_slice(answer),
            }
            ends.push((packet as u32, out.len()));
        }
    }

    fn seal(&self, datagram: &[u8], out: &mut Vec<u8>) {
        if let Some(key) = self.key {
            let epoch = self.epochs.at(self.now_ms);
            key.seal(Sender::Server, self.port, epoch, datagram, out);
        }
    }
}
