//! Answers: written by the server, read by clients.

use super::header::{ANSWER, HEADER_BYTES, STEERED};
use super::{ANSWER_LIMIT_MIN_BYTES, BUSY, DATAGRAM_MAX_BYTES, Header, REPEATED, TOO_LONG};
use overside_kv_store::Answer;
use overside_kv_store::codec::{DecodeError, decode_answer};

/// Reply to a request: the answer, or the reason for having none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reply<'a> {
    /// The request was executed.
    Answer(Answer<'a>),
    /// The request was executed, but the answer does not fit into a datagram.
    TooLong,
    /// The request was not executed: too many clients write.
    Busy,
    /// The request is a write whose datagram was executed before; its answer is no longer known. If
    /// the datagram is too old, it may not have been executed.
    Repeated,
}

/// Returns the replies of an answer datagram whose header has been read.
///
/// # Errors
/// In place of the first reply that cannot be read; none follow.
pub fn replies<'a>(
    count: u16,
    records: &'a [u8],
) -> impl Iterator<Item = Result<Reply<'a>, DecodeError>> {
    let mut rest = records;
    let mut left = count;
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let reply = reply(&mut rest);
        if reply.is_err() {
            left = 0;
        }
        Some(reply)
    })
}

#[inline]
fn reply<'a>(rest: &mut &'a [u8]) -> Result<Reply<'a>, DecodeError> {
    let marked = match rest.first() {
        Some(&TOO_LONG) => Reply::TooLong,
        Some(&BUSY) => Reply::Busy,
        Some(&REPEATED) => Reply::Repeated,
        _ => return decode_answer(rest).map(Reply::Answer),
    };
    *rest = &rest[1..];
    Ok(marked)
}

/// Answer datagrams in one buffer.
#[derive(Debug)]
pub struct AnswerDatagrams {
    bytes: Vec<u8>,
    /// For each datagram: the index of the packet that it answers, and its end in `bytes`.
    ends: Vec<(u32, usize)>,
    /// `true` if the network delivers datagrams to the worker of their partition.
    is_steered: bool,
    /// Number of the server's partitions, which the headers contain.
    partitions: u16,
    /// Maximum length of a datagram in bytes.
    longest: usize,
}

impl Default for AnswerDatagrams {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            ends: Vec::new(),
            is_steered: false,
            partitions: 0,
            longest: DATAGRAM_MAX_BYTES,
        }
    }
}

/// Answer datagram that is being written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    header: Header,
    packet: u32,
    limit: usize,
    /// Offset in bytes at which the datagram begins.
    begin: usize,
}

impl AnswerDatagrams {
    /// Sets whether datagrams to the port arrive at the worker of the partition in their header.
    pub fn set_steered(&mut self, is_steered: bool) {
        self.is_steered = is_steered;
    }

    /// Sets the maximum length in bytes of datagrams on this transport, in addition to the limits
    /// of clients. At least [`ANSWER_LIMIT_MIN_BYTES`].
    pub fn set_longest(&mut self, bytes: usize) {
        self.longest = bytes.clamp(ANSWER_LIMIT_MIN_BYTES, DATAGRAM_MAX_BYTES);
    }

    pub(super) fn set_partitions(&mut self, partitions: usize) {
        self.partitions = u16::try_from(partitions).unwrap_or(u16::MAX);
    }

    /// Removes all datagrams.
    pub fn clear(&mut self) {
        // Limit of the kept capacity: one long batch must not hold its memory forever.
        const KEPT_BYTES: usize = 2 << 20;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.ends.clear();
    }

    /// Returns the number of bytes of all datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns `true` if there are no datagrams.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the bytes of all datagrams.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns, for each datagram, the index of the packet that it answers and its end in
    /// [`AnswerDatagrams::bytes`].
    #[must_use]
    pub fn ends(&self) -> &[(u32, usize)] {
        &self.ends
    }

    /// Yields each datagram with the index of the packet that it answers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut begin = 0;
        self.ends.iter().map(move |(packet, end)| {
            let datagram = &self.bytes[begin..*end];
            begin = *end;
            (*packet as usize, datagram)
        })
    }

    /// Starts a datagram that answers a packet.
    #[inline]
    pub(super) fn open(&mut self, header: &Header, packet: u32) -> Open {
        let limit = usize::from(header.limit);
        let open = Open {
            header: Header {
                flags: ANSWER | if self.is_steered { STEERED } else { 0 },
                partition: self.partitions,
                count: 0,
                limit: 0,
                ..*header
            },
            packet,
            limit: limit.clamp(ANSWER_LIMIT_MIN_BYTES, self.longest),
            begin: self.bytes.len(),
        };
        open.header.write(&mut self.bytes);
        open
    }

    /// Adds an answer, which `write` appends.
    #[inline]
    pub(super) fn add(&mut self, open: &mut Open, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        write(&mut self.bytes);
        open.header.count += 1;
        if self.bytes.len() - open.begin > open.limit {
            self.overflow(open, at);
        }
    }

    /// Moves the answer at `at`, which no longer fits, to a new datagram if it fits there.
    #[cold]
    fn overflow(&mut self, open: &mut Open, at: usize) {
        let mut record = self.bytes.split_off(at);
        if HEADER_BYTES + record.len() > open.limit {
            record = vec![TOO_LONG];
        }
        if at + record.len() - open.begin > open.limit {
            open.header.count -= 1;
            self.close(open);
            open.header.limit += open.header.count;
            open.header.count = 1;
            open.begin = self.bytes.len();
            open.header.write(&mut self.bytes);
        }
        self.bytes.extend_from_slice(&record);
    }

    /// Completes a datagram.
    #[inline]
    pub(super) fn close(&mut self, open: &Open) {
        let Open { header, begin, .. } = open;
        self.bytes[begin + 6..begin + 8].copy_from_slice(&header.count.to_le_bytes());
        self.ends.push((open.packet, self.bytes.len()));
    }
}
