//! memcached's text protocol and its meta commands, as documented by memcached 1.6 (doc/protocol.txt).
//!
//! A command becomes requests, and a [`ReplyFormat`] that makes the reply from their answers. A
//! command that is not only requests (`flush_all`, `stats`, keys in Base64) is executed by itself.

mod answers;
mod direct;
mod line;
mod meta;
mod text;

use answers::Writer;
use line::Parsed;
use meta::MetaForm;

use super::batch::{self, Pending, Stop};
use super::executor::{Executor, Syntax, is_paused};
use super::{Ready, ServerContext, Session};
use overside_kv_store::{Answer, KeyHasher, Operation, Request};

/// Number of bytes of the longest key, as in memcached.
const KEY_MAX_BYTES: usize = 250;

const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// Engine that parses commands, executes them, and writes replies, like
/// [`CommunicationEngine`](super::CommunicationEngine) for RESP.
pub type MemcachedEngine = Executor<Memcached>;

/// Syntax of memcached.
pub struct Memcached;

/// Format of a reply: how it is built from answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReplyFormat<'a> {
    /// Fixed text; the command has no requests.
    Literal(&'static [u8]),
    /// Keys and values of the keys that exist.
    Values {
        with_version: bool,
    },
    Stored {
        is_quiet: bool,
    },
    Appended {
        is_quiet: bool,
    },
    Deleted {
        is_quiet: bool,
    },
    Counted {
        is_quiet: bool,
    },
    Touched {
        is_quiet: bool,
    },
    Meta(MetaForm<'a>),
}

type Batch<'a> = batch::Batch<'a, ReplyFormat<'a>>;

impl<'a> Batch<'a> {
    /// Adds a request.
    #[inline]
    fn request(&mut self, key: &'a [u8], operation: Operation<'a>) {
        self.requests.push(Request { key, hash: self.hasher.hash(key), operation });
    }
}

impl Syntax for Memcached {
    type ReplyFormat<'a> = ReplyFormat<'a>;
    type Writer = Writer;

    fn collect<'b, 'c: 'b>(
        ready: &mut Ready<'c>,
        connection: u32,
        batch: &mut Batch<'b>,
        words: &mut Vec<&'b [u8]>,
    ) -> Stop {
        // Skips the rest of a refused value.
        let skipped = (ready.session.discard_bytes).min(ready.input.len() - ready.consumed);
        ready.session.discard_bytes -= skipped;
        ready.consumed += skipped;
        ready.session.progress.missing_bytes = 0;
        let mut at = ready.consumed;
        while batch.has_room() {
            match line::parse(&ready.input[at..], words) {
                Parsed::Incomplete { missing_bytes } => {
                    ready.session.progress.missing_bytes = missing_bytes;
                    return Stop::Idle;
                }
                Parsed::TooLong | Parsed::Binary | Parsed::Refused { .. } => return Stop::Direct,
                Parsed::Command { len, line, data } => {
                    let first = batch.requests.len();
                    let Some(form) = text::add(line, words, data, batch) else {
                        return Stop::Direct;
                    };
                    at += len;
                    batch.command((connection, at), first, form);
                }
            }
        }
        Stop::Full
    }

    fn execute_direct<'b, 'c: 'b>(
        ready: &mut Ready<'c>,
        words: &mut Vec<&'b [u8]>,
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
    ) -> u64 {
        if is_paused(ready) {
            return 0;
        }
        match line::parse(&ready.input[ready.consumed..], words) {
            Parsed::Command { len, line, data } => {
                ready.consumed += len;
                direct::execute(ready, (line, words), data, hasher, server);
                return 1;
            }
            Parsed::Refused { len, data_len, error } => {
                ready.consumed += len;
                ready.session.discard_bytes = data_len;
                direct::refuse(ready, words, error, hasher, server);
            }
            Parsed::Binary => direct::refuse_binary(ready),
            Parsed::TooLong => {
                let error = b"CLIENT_ERROR line too long\r\n";
                ready.output.extend_from_slice(error);
                ready.session.close();
            }
            Parsed::Incomplete { .. } => {}
        }
        0
    }

    fn writer(_: &dyn ServerContext, now_ms: u64) -> Writer {
        Writer { now_ms, answers: 0 }
    }

    #[inline]
    fn write(
        writer: &mut Writer,
        command: &Pending<ReplyFormat<'_>>,
        request: &Request<'_>,
        answer: &Answer<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        writer.write(command, request.key, answer, out)
    }

    #[inline]
    fn write_without_answer(form: &ReplyFormat<'_>, out: &mut Vec<u8>) {
        if let ReplyFormat::Literal(text) = form {
            out.extend_from_slice(text);
        }
    }

    fn rewind(_: &mut Session) {}
}
