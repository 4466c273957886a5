//! Makes the reply to a command from the answers to its requests, one answer at a time.

use super::batch::{Pending, ReplyKind};
use super::reply::{ErrorReply, NOT_A_FLOAT, NOT_AN_INTEGER, RespWriter};
use crate::ReadOnlyReason;
use overside_kv_store::{Answer, Element, List, Metadata, Refusal, ValueKind};

/// Writer of replies, with its progress in the reply to the current command.
#[derive(Debug)]
pub(crate) struct ReplyWriter {
    /// Number of answers that have been written.
    answers: u32,
    /// Number to reply with, from the answers so far.
    sum: i64,
    /// Offset in the output at which the reply begins.
    start: usize,
    /// `true` if the reply is already an error.
    has_failed: bool,
    read_only: ReadOnlyReason,
    now_ms: u64,
}

impl ReplyWriter {
    pub(super) fn new(read_only: ReadOnlyReason, now_ms: u64) -> Self {
        Self { answers: 0, sum: 0, start: 0, has_failed: false, read_only, now_ms }
    }

    /// Writes the next answer to a command. Returns `true` if its reply is complete.
    #[inline]
    pub(super) fn write(
        &mut self,
        command: &Pending,
        answer: &Answer<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut reply = RespWriter { out, is_resp3: command.form.is_resp3 };
        match (command.form.shape, answer) {
            (ReplyKind::Value | ReplyKind::HashValue, Answer::Value(value)) => {
                reply.bulk(value.data)
            }
            (ReplyKind::Stored, Answer::Stored { .. }) => reply.ok(),
            (ReplyKind::Number | ReplyKind::HashNumber, Answer::Number(number)) => {
                reply.integer(*number)
            }
            (ReplyKind::Values | ReplyKind::Found | ReplyKind::Ok | ReplyKind::AllStored, _) => {
                return self.write_part(command, answer, &mut reply);
            }
            (_, Answer::Refused(refusal)) => {
                reply.error(&self.refusal(*refusal, command.form.shape))
            }
            (ReplyKind::Len { kind }, Answer::Metadata(metadata)) if metadata.kind != kind => {
                reply.error(&self.refusal(Refusal::WrongKind, command.form.shape));
            }
            (shape, answer) => write_whole(shape, answer, &mut reply, self.now_ms),
        }
        true
    }

    fn write_part(
        &mut self,
        command: &Pending,
        answer: &Answer<'_>,
        reply: &mut RespWriter<'_>,
    ) -> bool {
        if self.answers == 0 {
            self.sum = 0;
            self.has_failed = false;
            self.start = reply.out.len();
            if command.form.shape == ReplyKind::Values {
                reply.array(command.requests as usize);
            }
        }
        self.answers += 1;
        let is_last = self.answers == command.requests;
        if is_last {
            self.answers = 0;
        }
        match (command.form.shape, answer) {
            _ if self.has_failed => return is_last,
            (ReplyKind::Values, Answer::Value(value)) => reply.bulk(value.data),
            (ReplyKind::Values, Answer::Missing | Answer::Refused(Refusal::WrongKind)) => {
                reply.null()
            }
            (_, Answer::Refused(refusal)) => {
                self.has_failed = true;
                reply.out.truncate(self.start);
                reply.error(&self.refusal(*refusal, command.form.shape));
                return is_last;
            }
            (_, Answer::Done | Answer::Metadata(_)) => self.sum += 1,
            _ => {}
        }
        if is_last {
            match command.form.shape {
                ReplyKind::Found => reply.integer(self.sum),
                ReplyKind::Ok => reply.ok(),
                ReplyKind::AllStored => reply.integer(1),
                _ => {}
            }
        }
        is_last
    }

    #[cold]
    pub(super) fn refusal(&self, refusal: Refusal, shape: ReplyKind) -> ErrorReply {
        match refusal {
            Refusal::WrongKind => {
                ErrorReply::new("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Refusal::NotAnInteger if shape == ReplyKind::HashNumber => {
                ErrorReply::new("ERR hash value is not an integer")
            }
            Refusal::NotAnInteger => NOT_AN_INTEGER,
            Refusal::Overflow => ErrorReply::new("ERR increment or decrement would overflow"),
            Refusal::NotAFloat if shape == ReplyKind::HashValue => {
                ErrorReply::new("ERR hash value is not a float")
            }
            Refusal::NotAFloat => NOT_A_FLOAT,
            Refusal::NotFinite if shape == ReplyKind::Score => {
                ErrorReply::new("ERR resulting score is not a number (NaN)")
            }
            Refusal::NotFinite => ErrorReply::new("ERR increment would produce NaN or Infinity"),
            Refusal::TooLarge if shape.is_list() => {
                ErrorReply::new("ERR reply is longer than 512 MiB: ask for fewer elements")
            }
            Refusal::TooLarge => {
                ErrorReply::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
            }
            Refusal::OutOfMemory => {
                ErrorReply::new("OOM command not allowed when used memory > 'maxmemory'.")
            }
            Refusal::ReadOnly => read_only(self.read_only),
            Refusal::Loading => LOADING,
            Refusal::Unreachable => ErrorReply::new(
                "ERR the store cannot be reached; whether the command was executed is unknown",
            ),
        }
    }
}

/// Redis's kind of error, which clients recognize.
pub(super) const LOADING: ErrorReply =
    ErrorReply::new("LOADING The replica has no complete copy of its primary yet");

pub(super) fn read_only(reason: ReadOnlyReason) -> ErrorReply {
    match reason {
        ReadOnlyReason::Replica => {
            ErrorReply::new("READONLY You can't write against a read only replica.")
        }
        ReadOnlyReason::PersistenceFailed => ErrorReply::new(
            "MISCONF The server cannot write to its disk, so it takes no writes. See its log.",
        ),
    }
}

/// Writes a reply that consists of one answer.
fn write_whole(shape: ReplyKind, answer: &Answer<'_>, reply: &mut RespWriter<'_>, now_ms: u64) {
    match (shape, answer) {
        (ReplyKind::ValueOrEmpty, Answer::Value(value)) => reply.bulk(value.data),
        (ReplyKind::ValueOrEmpty, _) => reply.bulk(b""),
        (ReplyKind::IsDone, Answer::Stored { .. } | Answer::Done) => reply.integer(1),
        (ReplyKind::IsDone, _) => reply.integer(0),
        (ReplyKind::Kind, Answer::Metadata(metadata)) => reply.simple(kind_name(metadata.kind)),
        (ReplyKind::Kind, _) => reply.simple("none"),
        (ReplyKind::TimeToLive { .. } | ReplyKind::ExpiresAt { .. }, answer) => {
            reply.integer(time(shape, answer, now_ms));
        }
        (ReplyKind::Memory, Answer::Metadata(metadata)) => reply.count(metadata.memory_bytes),
        (ReplyKind::Len { .. }, Answer::Metadata(metadata)) => reply.count(metadata.len),
        (ReplyKind::Len { .. }, _) => reply.integer(0),
        (ReplyKind::NumberOrNull, Answer::Number(number)) => reply.integer(*number),
        (ReplyKind::FirstLength, Answer::List(list)) => match list.iter().next() {
            Some(Element::Bytes(bytes)) => reply.count(bytes.len() as u64),
            _ => reply.integer(0),
        },
        (ReplyKind::First, Answer::List(list)) => match list.iter().next() {
            Some(element) => write_element(element, reply),
            None => reply.null(),
        },
        (ReplyKind::HasFirst, answer) => {
            let first = match answer {
                Answer::List(list) => list.iter().next().unwrap_or(Element::Nil),
                _ => Element::Nil,
            };
            reply.integer(i64::from(first != Element::Nil));
        }
        (
            ReplyKind::List { .. }
            | ReplyKind::Map
            | ReplyKind::Half { .. }
            | ReplyKind::Scored
            | ReplyKind::AreThere
            | ReplyKind::Set,
            answer,
        ) => {
            let list = match answer {
                Answer::List(list) => *list,
                _ => List::default(),
            };
            write_list(shape, list, reply);
        }
        (ReplyKind::Score, Answer::Score(score)) => reply.double(*score),
        (ReplyKind::Number, _) => reply.integer(0),
        _ => reply.null(),
    }
}

fn write_list(shape: ReplyKind, list: List<'_>, reply: &mut RespWriter<'_>) {
    match shape {
        ReplyKind::Map => {
            reply.map(list.len() / 2);
            list.iter().for_each(|element| write_element(element, reply));
        }
        ReplyKind::Half { values } => {
            reply.array(list.len() / 2);
            let elements = list.iter().skip(usize::from(values)).step_by(2);
            elements.for_each(|element| write_element(element, reply));
        }
        ReplyKind::Scored if reply.is_resp3 => {
            reply.array(list.len() / 2);
            for (at, element) in list.iter().enumerate() {
                if at % 2 == 0 {
                    reply.array(2);
                }
                write_element(element, reply);
            }
        }
        ReplyKind::AreThere => {
            reply.array(list.len());
            let are_there = list.iter().map(|element| element != Element::Nil);
            are_there.for_each(|is_there| reply.integer(i64::from(is_there)));
        }
        ReplyKind::Set => {
            reply.set(list.len());
            list.iter().for_each(|element| write_element(element, reply));
        }
        ReplyKind::List { len } if list.is_empty() => {
            reply.array(len as usize);
            (0..len).for_each(|_| reply.null());
        }
        _ => {
            reply.array(list.len());
            list.iter().for_each(|element| write_element(element, reply));
        }
    }
}

fn write_element(element: Element<'_>, reply: &mut RespWriter<'_>) {
    match element {
        Element::Nil => reply.null(),
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Score(score) => reply.double(score),
    }
}

/// Returns Redis's name of a kind of value.
pub(super) fn kind_name(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::String => "string",
        ValueKind::Hash => "hash",
        ValueKind::SortedSet => "zset",
        ValueKind::Set => "set",
    }
}

fn time(shape: ReplyKind, answer: &Answer<'_>, now_ms: u64) -> i64 {
    const MISSING: i64 = -2;
    const NEVER: i64 = -1;
    let Answer::Metadata(Metadata { expires_at_ms, .. }) = answer else {
        return MISSING;
    };
    let Some(at_ms) = expires_at_ms else {
        return NEVER;
    };
    let (ms, in_seconds) = match shape {
        ReplyKind::ExpiresAt { in_seconds } => (*at_ms, in_seconds),
        ReplyKind::TimeToLive { in_seconds } => (at_ms.saturating_sub(now_ms), in_seconds),
        _ => return NEVER,
    };
    let time = if in_seconds { ms.saturating_add(500) / 1000 } else { ms };
    i64::try_from(time).unwrap_or(i64::MAX)
}
