//! Datagrams that were sent and not answered whole, by sequence number.

use std::collections::VecDeque;

use overside_kv_protocol::datagram::RequestDatagram;

/// A datagram, and whose requests are in it.
#[derive(Debug, Default)]
pub(super) struct SentDatagram {
    pub datagram: RequestDatagram,
    /// Token of each request, and whether the request waits for its reply.
    pub tokens: Vec<(u64, bool)>,
    /// Number of requests that wait for their reply.
    pub missing: usize,
    /// All of its requests may be executed twice.
    pub is_repeatable: bool,
    pub partition: u16,
    pub sent_ns: u64,
    /// Number of times that it was sent again.
    pub tries: u32,
}

impl SentDatagram {
    /// Resets it to a new one, but keeps its memory.
    pub(super) fn clear(&mut self) {
        self.tokens.clear();
        *self = Self {
            datagram: std::mem::take(&mut self.datagram),
            tokens: std::mem::take(&mut self.tokens),
            is_repeatable: true,
            ..Self::default()
        };
    }
}

/// Datagrams in flight, by sequence number.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Datagrams from the oldest on.
    questions: VecDeque<Option<SentDatagram>>,
    /// Sequence number of the first.
    first: u64,
    count: usize,
}

impl Flight {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Sequence numbers from the oldest to the newest.
    pub(super) fn span(&self) -> usize {
        self.questions.len()
    }

    /// The sequence number of the next one.
    pub(super) fn next_sequence(&self) -> u64 {
        self.first + self.questions.len() as u64
    }

    pub(super) fn push(&mut self, question: SentDatagram) {
        self.questions.push_back(Some(question));
        self.count += 1;
    }

    pub(super) fn get(&mut self, sequence: u64) -> Option<&mut SentDatagram> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.questions.get_mut(at)?.as_mut()
    }

    pub(super) fn remove(&mut self, sequence: u64) -> Option<SentDatagram> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        let question = self.questions.get_mut(at)?.take();
        self.count -= usize::from(question.is_some());
        while let Some(None) = self.questions.front() {
            self.questions.pop_front();
            self.first += 1;
        }
        question
    }

    /// Yields the datagrams with their sequence numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &SentDatagram)> {
        let all = (self.first..).zip(&self.questions);
        all.filter_map(|(sequence, question)| Some((sequence, question.as_ref()?)))
    }
}
