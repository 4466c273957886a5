//! memcached's protocol over UDP, as memcached documents it (doc/protocol.txt, "UDP protocol").
//!
//! Each datagram begins with a frame header of four numbers of 16 bits in network order: request id,
//! sequence number, number of datagrams in the message, and 0. A request is one datagram. A reply is as
//! many as it takes, each with the request's id. There is no password and nothing is remembered, so that
//! a client that sends a request again may have it executed twice.

use super::MemcachedEngine;
use crate::KeyHasher;
use crate::protocol::datagram::AnswerDatagrams;
use crate::protocol::{
    OUTPUT_PAUSE_BYTES, PacketCounts, PacketEngine, Ready, ServerContext, Session,
};

const HEADER_BYTES: usize = 8;
/// Longest datagram of a reply, as memcached's.
const DATAGRAM_BYTES: usize = 1400;
/// Requests that are executed together.
const GROUP: usize = 64;
/// Longest reply.
const REPLY_MAX_BYTES: usize = OUTPUT_PAUSE_BYTES;
const TOO_LONG: &[u8] = b"SERVER_ERROR the reply is too long for UDP\r\n";

/// Executes commands that come in datagrams.
#[derive(Default)]
pub struct MemcachedDatagramEngine {
    engine: MemcachedEngine,
    invalid: u64,
}

/// A datagram that is a request.
struct Question<'p> {
    packet: u32,
    id: [u8; 2],
    commands: &'p [u8],
}

impl PacketEngine for MemcachedDatagramEngine {
    /// It remembers nothing that could be repeated.
    fn counts(&self) -> PacketCounts {
        PacketCounts {
            commands: self.engine.commands(),
            invalid: self.invalid,
            repeated: 0,
        }
    }

    fn process(
        &mut self,
        packets: &[&[u8]],
        answers: &mut AnswerDatagrams,
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
    ) -> usize {
        let done = packets.len().min(GROUP);
        let questions: Vec<_> = (0..).zip(&packets[..done]).filter_map(question).collect();
        self.invalid += (done - questions.len()) as u64;
        // A reply needs no state of its client.
        let new = || (Session::new(0, true), Vec::new());
        let mut clients: Vec<(Session, Vec<u8>)> = questions.iter().map(|_| new()).collect();
        let mut ready: Vec<_> = clients
            .iter_mut()
            .zip(&questions)
            .map(|((session, output), question)| Ready::new(session, question.commands, output))
            .collect();
        self.engine.process(&mut ready, hasher, server);
        let is_whole = |one: &Ready<'_>| !one.has_more && one.output.len() <= REPLY_MAX_BYTES;
        let is_whole: Vec<bool> = ready.iter().map(is_whole).collect();
        drop(ready);
        for ((question, (_, output)), is_whole) in questions.iter().zip(&clients).zip(is_whole) {
            reply(question, if is_whole { output } else { TOO_LONG }, answers);
        }
        done
    }
}

fn question<'p>((packet, bytes): (u32, &&'p [u8])) -> Option<Question<'p>> {
    let (header, commands) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let [id @ .., 0, 0, 0, 1, _, _] = *header else {
        return None;
    };
    Some(Question {
        packet,
        id,
        commands,
    })
}

fn reply(question: &Question<'_>, text: &[u8], answers: &mut AnswerDatagrams) {
    let parts = text.chunks(DATAGRAM_BYTES - HEADER_BYTES);
    // At most REPLY_MAX_BYTES.
    let count = parts.len() as u16;
    for (number, part) in (0_u16..).zip(parts) {
        answers.push(question.packet, |out| {
            out.extend_from_slice(&question.id);
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(part);
        });
    }
}
