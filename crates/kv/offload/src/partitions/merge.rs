//! Answers of several partitions, put into the order of their requests.

use crate::codec::{decode_answer, encode_answer};
use crate::{Answer, Refusal};

/// Memory that is kept between batches.
const KEPT_BYTES: usize = 1 << 20;

/// Answers of one partition that have not been handed over.
#[derive(Debug, Default)]
pub(super) struct WaitingAnswers {
    bytes: Vec<u8>,
    at: usize,
}

impl WaitingAnswers {
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Bytes of all that were put here since it was empty.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn put(&mut self, answer: &Answer<'_>) {
        encode_answer(answer, &mut self.bytes);
    }

    /// Passes on the first one.
    pub(super) fn take(&mut self, answer: &mut dyn FnMut(Answer<'_>)) {
        let mut rest = &self.bytes[self.at..];
        // They were written here, so they can be read.
        answer(decode_answer(&mut rest).unwrap_or(Answer::Refused(Refusal::Unreachable)));
        self.at = self.bytes.len() - rest.len();
        if rest.is_empty() {
            self.at = 0;
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WaitingAnswers;
    use crate::Answer;

    #[test]
    fn answers_come_out_in_the_order_in_which_they_were_put() {
        let mut answers = WaitingAnswers::default();
        let mut seen = Vec::new();
        for round in 0..3 {
            assert!(answers.is_empty());
            (0..5).for_each(|number| answers.put(&Answer::Number(round * 5 + number)));
            assert!(!answers.is_empty() && answers.len() >= 5);
            while !answers.is_empty() {
                answers.take(&mut |answer| match answer {
                    Answer::Number(number) => seen.push(number),
                    other => panic!("{other:?}"),
                });
            }
        }
        assert_eq!(seen, (0..15).collect::<Vec<_>>());
    }
}
