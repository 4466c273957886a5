//! Record of the executed datagrams with writes, so that none is executed twice.
//!
//! The server remembers the last [`WINDOW`] sequence numbers of each client. A client that is
//! silent for [`FORGET_MS`] is forgotten: copies do not stay in a network that long (TCP's
//! TIME-WAIT is of the same order). If [`CLIENTS_MAX`] clients are remembered, others cannot write.

use std::collections::HashMap;

use ahash::RandomState;

/// Number of sequence numbers, back from the greatest, that are distinguished. Older ones count as executed.
pub const WINDOW: u64 = 1024;
/// Maximum number of clients that each worker remembers.
pub const CLIENTS_MAX: usize = 4096;
/// Time without datagrams after which a client is forgotten.
const FORGET_MS: u64 = 60_000;
/// Time between two searches for clients to forget.
const SWEEP_MS: u64 = 1_000;

const WORDS: usize = WINDOW as usize / 64;

/// Answer of the replay window about a datagram with writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DuplicateCheck {
    New,
    Repeated,
    /// The datagram was executed, but its writes may be lost.
    Uncertain,
    /// The client is unknown, and the table of clients is full.
    TableFull,
}

#[derive(Default)]
pub(super) struct ReplayWindow {
    clients: HashMap<u64, Client, RandomState>,
    next_sweep_ms: u64,
}

struct Client {
    greatest: u64,
    /// Bit of each sequence number, at its remainder.
    executed: [u64; WORDS],
    /// Greatest sequence number whose writes may be lost, together with all writes before it; 0 for none.
    doubtful_to: u64,
    seen_ms: u64,
}

impl ReplayWindow {
    /// Checks whether a datagram was executed before. A new one counts as executed from now on.
    pub(super) fn record(&mut self, client: u64, sequence: u64, now_ms: u64) -> DuplicateCheck {
        if let Some(client) = self.clients.get_mut(&client) {
            client.seen_ms = now_ms;
            return client.record(sequence);
        }
        if self.clients.len() >= CLIENTS_MAX {
            self.forget(now_ms);
        }
        if self.clients.len() >= CLIENTS_MAX {
            return DuplicateCheck::TableFull;
        }
        let mut new =
            Client { greatest: sequence, executed: [0; WORDS], doubtful_to: 0, seen_ms: now_ms };
        new.record(sequence);
        self.clients.insert(client, new);
        DuplicateCheck::New
    }

    /// Records that earlier writes may be lost.
    pub(super) fn doubt(&mut self) {
        for client in self.clients.values_mut() {
            client.doubtful_to = client.greatest;
        }
    }

    fn forget(&mut self, now_ms: u64) {
        if now_ms >= self.next_sweep_ms {
            self.next_sweep_ms = now_ms + SWEEP_MS;
            (self.clients).retain(|_, client| now_ms.saturating_sub(client.seen_ms) < FORGET_MS);
        }
    }
}

impl Client {
    fn record(&mut self, sequence: u64) -> DuplicateCheck {
        if sequence > self.greatest {
            self.advance(sequence);
        } else if self.greatest - sequence >= WINDOW {
            return self.repeated(sequence);
        }
        let (word, bit) = place(sequence);
        let is_repeated = self.executed[word] & bit != 0;
        self.executed[word] |= bit;
        match is_repeated {
            true => self.repeated(sequence),
            false => DuplicateCheck::New,
        }
    }

    fn repeated(&self, sequence: u64) -> DuplicateCheck {
        match self.doubtful_to > 0 && sequence <= self.doubtful_to {
            true => DuplicateCheck::Uncertain,
            false => DuplicateCheck::Repeated,
        }
    }

    /// Forgets sequence numbers that leave the window.
    fn advance(&mut self, greatest: u64) {
        if greatest - self.greatest >= WINDOW {
            self.executed = [0; WORDS];
        } else {
            for sequence in self.greatest + 1..=greatest {
                let (word, bit) = place(sequence);
                self.executed[word] &= !bit;
            }
        }
        self.greatest = greatest;
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let at = sequence % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use overside_base::Random;

    use super::{CLIENTS_MAX, DuplicateCheck, FORGET_MS, ReplayWindow, WINDOW};

    #[test]
    fn it_says_the_same_as_a_set_of_all() {
        let mut random = Random::new(3);
        let (mut history, mut executed) = (ReplayWindow::default(), BTreeSet::new());
        let mut greatest = 5000;
        history.record(1, greatest, 0);
        executed.insert(greatest);
        for _ in 0..100_000 {
            let reach = if random.chance(0.001) { 3000 } else { 8 };
            let sequence = (greatest + random.below(reach)).saturating_sub(random.below(1200));
            let is_old = greatest.saturating_sub(sequence) >= WINDOW;
            let expected = match is_old || !executed.insert(sequence) {
                true => DuplicateCheck::Repeated,
                false => DuplicateCheck::New,
            };
            assert_eq!(history.record(1, sequence, 0), expected, "{sequence}");
            greatest = greatest.max(sequence);
        }
        let last = history.record(1, u64::MAX, 0);
        assert_eq!(last, DuplicateCheck::New);
        assert_eq!(history.record(1, 0, 0), DuplicateCheck::Repeated);
    }

    #[test]
    fn what_may_be_lost_is_not_said_to_have_been_executed() {
        let mut history = ReplayWindow::default();
        for sequence in [5, 7, 2000] {
            assert_eq!(history.record(1, sequence, 0), DuplicateCheck::New);
        }
        history.doubt();
        // One within the window, one before it.
        assert_eq!(history.record(1, 2000, 0), DuplicateCheck::Uncertain);
        assert_eq!(history.record(1, 5, 0), DuplicateCheck::Uncertain);
        // A datagram that had not arrived is executed, and it counts as persistent.
        for sequence in [1999, 2001] {
            assert_eq!(history.record(1, sequence, 0), DuplicateCheck::New);
        }
        assert_eq!(history.record(1, 2001, 0), DuplicateCheck::Repeated);
    }

    #[test]
    fn silent_clients_are_forgotten_and_others_wait() {
        let mut history = ReplayWindow::default();
        for client in 0..CLIENTS_MAX as u64 {
            assert_eq!(history.record(client, 1, client), DuplicateCheck::New);
        }
        let newcomer = CLIENTS_MAX as u64;
        assert_eq!(history.record(newcomer, 1, 5000), DuplicateCheck::TableFull);
        let later_ms = FORGET_MS + 10;
        assert_eq!(history.record(newcomer, 1, later_ms), DuplicateCheck::New);
        assert_eq!(history.record(4000, 1, later_ms), DuplicateCheck::Repeated);
        assert_eq!(history.record(0, 1, later_ms), DuplicateCheck::New);
    }
}
