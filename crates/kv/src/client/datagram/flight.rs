//! Datagrams that were sent and not answered whole, by sequence number.

use std::collections::VecDeque;

use crate::protocol::datagram::RequestDatagram;

/// A datagram, and whose requests are in it.
#[derive(Debug, Default)]
pub struct Question {
    pub datagram: RequestDatagram,
    /// Of its requests, and whether each waits for its reply.
    pub tokens: Vec<(u64, bool)>,
    /// How many do.
    pub missing: usize,
    /// All of its requests may be executed twice.
    pub is_repeatable: bool,
    pub partition: u16,
    pub sent_ns: u64,
    /// How often it was sent again.
    pub tries: u32,
}

impl Question {
    /// As new; its memory is used again.
    pub fn clear(&mut self) {
        self.tokens.clear();
        *self = Self {
            datagram: std::mem::take(&mut self.datagram),
            tokens: std::mem::take(&mut self.tokens),
            is_repeatable: true,
            ..Self::default()
        };
    }
}

/// Those in flight.
#[derive(Debug, Default)]
pub struct Flight {
    /// From the oldest on.
    questions: VecDeque<Option<Question>>,
    /// Sequence number of the first.
    first: u64,
    count: usize,
}

impl Flight {
    pub fn len(&self) -> usize {
        self.count
    }

    /// Sequence numbers from the oldest to the newest.
    pub fn span(&self) -> usize {
        self.questions.len()
    }

    /// The sequence number of the next one.
    pub fn next_sequence(&self) -> u64 {
        self.first + self.questions.len() as u64
    }

    pub fn push(&mut self, question: Question) {
        self.questions.push_back(Some(question));
        self.count += 1;
    }

    pub fn get(&mut self, sequence: u64) -> Option<&mut Question> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        self.questions.get_mut(at)?.as_mut()
    }

    pub fn remove(&mut self, sequence: u64) -> Option<Question> {
        let at = usize::try_from(sequence.checked_sub(self.first)?).ok()?;
        let question = self.questions.get_mut(at)?.take();
        self.count -= usize::from(question.is_some());
        while let Some(None) = self.questions.front() {
            self.questions.pop_front();
            self.first += 1;
        }
        question
    }

    /// With their sequence numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Question)> {
        let all = (self.first..).zip(&self.questions);
        all.filter_map(|(sequence, question)| Some((sequence, question.as_ref()?)))
    }
}
