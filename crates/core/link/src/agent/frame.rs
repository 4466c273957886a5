//! Frames: length, kind, and the fixed fields of the frames of a job.

use super::{
    MAX_BUFFER_BYTES, MAX_CONTROL_BYTES, MAX_DEPTH, MAX_PROBE_BYTES, MAX_TEXT_BYTES, Violation,
};
use crate::codec::Message;
use overside_device::Stages;

/// Length of the header of every frame: the body's length in 4 bytes, the kind in 1, and 3 zeroes.
pub(super) const HEADER: usize = 8;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Frame {
    /// A request of the host's, a reply of the agent's.
    Control = 1,
    /// A job: its fields, then its source. From the host.
    Job = 2,
    /// Answer to a job: its fields, then the result or the text of an error. From the agent.
    Answer = 3,
    /// CPU time that the context took so far. From the agent.
    Usage = 4,
    /// Ping from the host, answered by a pong with the same number.
    Ping = 5,
    /// Answer to a ping.
    Pong = 6,
    /// Request of a probe from the host, or its answer from the agent.
    Probe = 7,
}

impl Frame {
    fn name(self) -> &'static str {
        match self {
            Self::Control => "message",
            Self::Job => "job",
            Self::Answer => "answer",
            Self::Usage => "report of CPU time",
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::Probe => "message of a probe",
        }
    }

    /// The shortest and the longest body in bytes.
    fn range(self) -> (usize, usize) {
        match self {
            Self::Control => (2, MAX_CONTROL_BYTES),
            Self::Job => (JobHead::BYTES, JobHead::BYTES + MAX_BUFFER_BYTES),
            Self::Answer => (AnswerHead::BYTES, AnswerHead::BYTES + MAX_BUFFER_BYTES),
            Self::Usage => (Usage::BYTES, Usage::BYTES),
            Self::Ping | Self::Pong => (8, 8),
            Self::Probe => (1, MAX_PROBE_BYTES),
        }
    }

    /// Begins a frame of this kind.
    pub(super) fn header(self, body: usize) -> [u8; HEADER] {
        debug_assert!((self.range().0..=self.range().1).contains(&body));
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&(body as u32).to_le_bytes());
        bytes[4] = self as u8;
        bytes
    }

    /// Reads a header: kind and length of the body.
    pub(super) fn parse(bytes: [u8; HEADER]) -> Result<(Self, usize), Violation> {
        let [a, b, c, d, kind, reserved @ ..] = bytes;
        let frame = match kind {
            1 => Self::Control,
            2 => Self::Job,
            3 => Self::Answer,
            4 => Self::Usage,
            5 => Self::Ping,
            6 => Self::Pong,
            7 => Self::Probe,
            other => return Err(Violation::Kind(other)),
        };
        if reserved != [0; 3] {
            return Err(Violation::Reserved);
        }
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        let (min, max) = frame.range();
        if !(min..=max).contains(&len) {
            return Err(Violation::Length {
                frame: frame.name(),
                len: len as u64,
                min: min as u64,
                max: max as u64,
            });
        }
        Ok((frame, len))
    }
}

/// A frame with a [`Request`](super::Request) or a [`Reply`](super::Reply).
pub fn control(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode();
    [&Frame::Control.header(bytes.len())[..], &bytes].concat()
}

/// Makes a frame with a request of a probe or its answer.
///
/// # Panics
/// If the message is empty, or longer than [`MAX_PROBE_BYTES`].
pub fn probe(message: &[u8]) -> Vec<u8> {
    assert!(
        (1..=MAX_PROBE_BYTES).contains(&message.len()),
        "a message of a probe has {} bytes",
        message.len()
    );
    [&Frame::Probe.header(message.len())[..], message].concat()
}

/// A ping or a pong.
pub(super) fn numbered(frame: Frame, number: u64) -> [u8; HEADER + 8] {
    let mut bytes = [0; HEADER + 8];
    bytes[..HEADER].copy_from_slice(&frame.header(8));
    bytes[HEADER..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Fields that precede a job's source in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobHead {
    /// The host's number for it, below the context's depth and of no other job in flight.
    pub slot: u32,
    /// Length of its destination in bytes.
    pub capacity: usize,
}

impl JobHead {
    pub(super) const BYTES: usize = 16;

    /// Header and fields of a job with that much source.
    pub(super) fn encode(self, source: usize) -> [u8; HEADER + Self::BYTES] {
        let mut bytes = [0; HEADER + Self::BYTES];
        bytes[..HEADER].copy_from_slice(&Frame::Job.header(Self::BYTES + source));
        bytes[HEADER..HEADER + 4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[HEADER + 8..].copy_from_slice(&(self.capacity as u64).to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, Violation> {
        if bytes[4..8] != [0; 4] {
            return Err(Violation::Reserved);
        }
        Ok(Self {
            slot: slot(bytes)?,
            capacity: at_most("a destination", word(bytes, 8), MAX_BUFFER_BYTES)?,
        })
    }
}

/// Outcome of a job, which decides on the fields after those of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// The result follows.
    Done = 0,
    /// The result would not be smaller. Nothing follows.
    Incompressible = 1,
    /// The result does not fit. Nothing follows.
    OutputTooSmall = 2,
    /// The source is invalid; a text that describes the problem follows.
    Corrupt = 3,
    /// The job failed for another reason, which follows as text.
    Failed = 4,
}

/// Fields that precede a job's result in its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// The number that the host gave the job.
    pub slot: u32,
    /// Outcome of the job.
    pub status: Status,
    /// Count or offset that a matching job found; `None` if the job has no such value.
    pub value: Option<u64>,
    /// The device's stages, without the transfer.
    pub stages: Stages,
    /// Time from the arrival of the job's last byte to the departure of its answer's first byte, in
    /// nanoseconds.
    pub held_ns: u64,
}

const HAS_VALUE: u8 = 1;
const HAS_QUEUEING: u8 = 2;
const HAS_ENGINE: u8 = 4;
const LATE: u8 = 8;

impl AnswerHead {
    pub(super) const BYTES: usize = 48;

    /// Header and fields of an answer with that much behind it.
    pub(super) fn encode(self, body: usize) -> [u8; HEADER + Self::BYTES] {
        let mut bytes = [0; HEADER + Self::BYTES];
        bytes[..HEADER].copy_from_slice(&Frame::Answer.header(Self::BYTES + body));
        let fields = &mut bytes[HEADER..];
        fields[..4].copy_from_slice(&self.slot.to_le_bytes());
        fields[4] = self.status as u8;
        let stages = &self.stages;
        // A start is part of the wait for another machine's engine.
        let waiting_ns = match (stages.queueing_ns, stages.start_ns) {
            (Some(queueing), Some(start)) => Some(queueing.saturating_add(start)),
            (queueing, start) => queueing.or(start),
        };
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        fields[5] = flag(self.value.is_some(), HAS_VALUE)
            | flag(waiting_ns.is_some(), HAS_QUEUEING)
            | flag(stages.engine_ns.is_some(), HAS_ENGINE)
            | flag(stages.late, LATE);
        let optional = [self.value, waiting_ns, stages.engine_ns];
        let words = optional.map(Option::unwrap_or_default);
        let others = [self.held_ns, stages.overdue_ns];
        for (index, word) in words.into_iter().chain(others).enumerate() {
            fields[8 + 8 * index..16 + 8 * index].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::BYTES], body: usize) -> Result<Self, Violation> {
        let status = match bytes[4] {
            0 => Status::Done,
            1 => Status::Incompressible,
            2 => Status::OutputTooSmall,
            3 => Status::Corrupt,
            4 => Status::Failed,
            other => return Err(field("an answer's status", u64::from(other), 4)),
        };
        let flags = bytes[5];
        if flags > 15 || bytes[6..8] != [0; 2] {
            return Err(Violation::Reserved);
        }
        let max = match status {
            Status::Done => MAX_BUFFER_BYTES,
            Status::Incompressible | Status::OutputTooSmall => 0,
            Status::Corrupt | Status::Failed => MAX_TEXT_BYTES,
        };
        at_most("what follows an answer", body as u64, max)?;
        let optional = |flag: u8, at: usize| match (flags & flag != 0, word(bytes, at)) {
            (true, word) => Ok(Some(word)),
            (false, 0) => Ok(None),
            (false, _) => Err(Violation::Reserved),
        };
        Ok(Self {
            slot: slot(bytes)?,
            status,
            value: optional(HAS_VALUE, 8)?,
            stages: Stages {
                queueing_ns: optional(HAS_QUEUEING, 16)?,
                start_ns: None,
                transfer_ns: None,
                engine_ns: optional(HAS_ENGINE, 24)?,
                late: flags & LATE != 0,
                overdue_ns: word(bytes, 40),
            },
            held_ns: word(bytes, 32),
        })
    }
}

/// CPU time that a context took on the agent's side since it was opened, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time spent by the agent's own cores.
    pub dpu_ns: u64,
    /// CPU time spent by software that emulates a device there.
    pub emulator_ns: u64,
}

impl Usage {
    pub(super) const BYTES: usize = 16;

    pub(super) fn encode(self) -> [u8; HEADER + Self::BYTES] {
        let mut bytes = [0; HEADER + Self::BYTES];
        bytes[..HEADER].copy_from_slice(&Frame::Usage.header(Self::BYTES));
        bytes[HEADER..HEADER + 8].copy_from_slice(&self.dpu_ns.to_le_bytes());
        bytes[HEADER + 8..].copy_from_slice(&self.emulator_ns.to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        Self { dpu_ns: word(bytes, 0), emulator_ns: word(bytes, 8) }
    }
}

/// The number at `at`.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The number of a job, which comes first.
fn slot(bytes: &[u8]) -> Result<u32, Violation> {
    let slot = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    at_most("a job's number", u64::from(slot), MAX_DEPTH - 1).map(|slot| slot as u32)
}

fn at_most(what: &'static str, value: u64, max: usize) -> Result<usize, Violation> {
    match usize::try_from(value) {
        Ok(value) if value <= max => Ok(value),
        _ => Err(field(what, value, max as u64)),
    }
}

fn field(field: &'static str, value: u64, max: u64) -> Violation {
    Violation::Field { field, value, max }
}
