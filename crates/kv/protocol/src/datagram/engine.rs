//! Executes the requests of datagrams.

use super::answers::Open;
use super::replay_window::{DuplicateCheck, ReplayWindow};
use super::{ANSWER, AnswerDatagrams, BUSY, Header, HeaderError, REPEATED, REQUESTS_MAX, repeated};
use crate::batch::{Batch, Pending, recycle};
use crate::stages::Stage;
use crate::{OUTPUT_PAUSE_BYTES, ServerContext, timing};
use overside_kv_store::codec::{decode_into, encode_answer};
use overside_kv_store::{Answer, KeyHasher, Request};

/// Engine that parses datagrams, executes their requests, and writes the answers.
#[derive(Default)]
pub struct DatagramEngine {
    history: ReplayWindow,
    counts: DatagramCounts,
    // Reused memory; empty between calls.
    requests: Vec<Request<'static>>,
    pending: Vec<Pending<Header>>,
}

/// Counts of a datagram engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Number of executed requests.
    pub commands: u64,
    /// Number of malformed datagrams, which were dropped.
    pub invalid: u64,
    /// Number of datagrams whose writes had been executed before.
    pub repeated: u64,
}

impl DatagramEngine {
    /// Returns the counts since the engine was created.
    #[must_use]
    pub fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// Records that the effects of earlier requests may be lost. Copies of those datagrams are not answered.
    pub fn doubt(&mut self) {
        self.history.doubt();
    }

    /// Executes packets from the first one on and adds the answers. Returns the number of packets
    /// done, at least one. If the answers become long, that is less than all: the caller sends the
    /// answers and calls again for the other packets.
    pub fn process(
        &mut self,
        packets: &[&[u8]],
        answers: &mut AnswerDatagrams,
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
    ) -> usize {
        answers.set_partitions(server.datagram_parts());
        let mut batch = Batch::new(hasher, server.now_ms());
        batch.requests = recycle(std::mem::take(&mut self.requests));
        batch.pending = std::mem::take(&mut self.pending);
        let mut next = 0;
        while next < packets.len() && answers.len() <= OUTPUT_PAUSE_BYTES {
            while next < packets.len() && batch.has_room() {
                self.add(next, packets[next], &mut batch, answers, server);
                next += 1;
            }
            timing::end(server, Stage::Parse);
            self.counts.commands += batch.requests.len() as u64;
            execute(&batch, answers, server);
            timing::end_execution(server);
            batch.requests.clear();
            batch.pending.clear();
        }
        self.requests = recycle(batch.requests);
        self.pending = batch.pending;
        next
    }

    /// Adds the requests of a packet to the batch, unless none is to be executed there.
    #[inline]
    fn add<'p>(
        &mut self,
        number: usize,
        packet: &'p [u8],
        batch: &mut Batch<'p, Header>,
        answers: &mut AnswerDatagrams,
        server: &mut dyn ServerContext,
    ) {
        let first = batch.requests.len();
        let header = match read(packet, batch) {
            Ok(header) => header,
            Err(error) => {
                batch.requests.truncate(first);
                self.counts.invalid += 1;
                if let Malformed::Header(HeaderError::Version(_)) = error {
                    refuse_version(number, packet, answers);
                }
                return;
            }
        };
        let requests = &batch.requests[first..];
        let marker = match requests.iter().any(|r| r.operation.is_write()) {
            false => None,
            true => match (self.history).record(header.client, header.sequence, batch.now_ms) {
                DuplicateCheck::New => None,
                DuplicateCheck::Repeated => Some(REPEATED),
                DuplicateCheck::TableFull => Some(BUSY),
                // The writes may be lost, so the client must get no answer that confirms them.
                DuplicateCheck::Uncertain => {
                    self.counts.repeated += 1;
                    return batch.requests.truncate(first);
                }
            },
        };
        let Some(marker) = marker else {
            return batch.command((number as u32, 0), first, header);
        };
        self.counts.repeated += u64::from(marker == REPEATED);
        let mut open = answers.open(&header, number as u32);
        let now_ms = batch.now_ms;
        self.counts.commands += repeated::answer(requests, marker, now_ms, server, |record| {
            answers.add(&mut open, |out| out.extend_from_slice(record));
        });
        answers.close(&open);
        batch.requests.truncate(first);
    }
}

enum Malformed {
    Header(HeaderError),
    Records,
}

/// Reads a whole packet.
#[inline]
fn read<'p>(packet: &'p [u8], batch: &mut Batch<'p, Header>) -> Result<Header, Malformed> {
    let (header, mut rest) = Header::read(packet).map_err(Malformed::Header)?;
    let count = usize::from(header.count);
    if header.flags != 0 || count == 0 || count > REQUESTS_MAX {
        return Err(Malformed::Records);
    }
    // Each element takes at least one byte, so no list is longer than the packet.
    let mut elements_max = packet.len();
    for _ in 0..count {
        let requests = &mut batch.requests;
        decode_into(&mut rest, batch.hasher, &mut elements_max, requests)
            .map_err(|_| Malformed::Records)?;
    }
    Ok(header)
}

/// Sends a client the version of this server, in a datagram without answers that is not longer than
/// its request.
fn refuse_version(number: usize, packet: &[u8], answers: &mut AnswerDatagrams) {
    let is_answer = packet[3] & ANSWER != 0;
    if !is_answer {
        let open = answers.open(&Header::default(), number as u32);
        answers.close(&open);
    }
}

fn execute(
    batch: &Batch<'_, Header>,
    answers: &mut AnswerDatagrams,
    server: &mut dyn ServerContext,
) {
    let mut pending = batch.pending.iter();
    // Answer datagram of the current packet, and the number of answers that it still waits for.
    let (mut open, mut left) = (Open::default(), 0);
    let mut write = |_, answer: Answer<'_>| {
        if left == 0 {
            let next = pending.next().expect("an answer has a request");
            open = answers.open(&next.form, next.connection);
            left = next.requests;
        }
        answers.add(&mut open, |out| encode_answer(&answer, out));
        left -= 1;
        if left == 0 {
            answers.close(&open);
        }
    };
    if !batch.requests.is_empty() {
        timing::execute(&batch.requests, batch.now_ms, server, &mut write);
    }
}
