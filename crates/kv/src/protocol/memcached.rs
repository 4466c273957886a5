//! memcached's text protocol and its meta commands, as memcached 1.6 documents them
//! (doc/protocol.txt).
//!
//! A command becomes [`Pending`] parts, each with at most one request: `get a b` is two values and an
//! `END`. Parts of all connections share a batch; each answer is written at once. What is more than
//! requests (`flush_all`, `stats`, keys in Base64) ends the batch and is executed after it.

mod answers;
mod direct;
mod line;
mod meta;
mod text;

use std::borrow::Cow;

use answers::Writer;
use line::Parsed;
use meta::MetaForm;

use super::{OUTPUT_MAX_BYTES, OUTPUT_PAUSE_BYTES, Ready, ServerContext, timing};
use crate::stages::Stage;
use crate::{Answer, KeyHasher, Operation, Request};

/// Parts above which no further command is added to a batch.
const BATCH: usize = 256;
/// Longest key, as in memcached.
const KEY_MAX_BYTES: usize = 250;

const BAD_FORMAT: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// Parses commands, has them executed, and writes replies, as
/// [`CommunicationEngine`](super::CommunicationEngine) does for RESP.
#[derive(Debug, Default)]
pub struct MemcachedEngine {
    commands: u64,
    /// Bytes of an answer, as the last call of the engine had them.
    answer_bytes: usize,
}

/// A part of a reply, and where its command ends if it is the last.
#[derive(Debug)]
struct Pending<'a> {
    connection: usize,
    end: Option<usize>,
    has_request: bool,
    form: Form<'a>,
}

/// How a part is made of an answer.
#[derive(Debug)]
enum Form<'a> {
    /// Of none: it is this.
    Literal(Cow<'static, [u8]>),
    Value {
        key: &'a [u8],
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
    Meta(Box<MetaForm<'a>>),
}

/// Requests of many commands, and what their replies are made of.
struct Batch<'a> {
    hasher: &'a KeyHasher,
    now_ms: u64,
    connection: usize,
    requests: Vec<Request<'a>>,
    pending: Vec<Pending<'a>>,
}

impl<'a> Batch<'a> {
    fn new(hasher: &'a KeyHasher, now_ms: u64) -> Self {
        Self {
            hasher,
            now_ms,
            connection: 0,
            requests: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// Adds a request and what is written of its answer.
    fn request(&mut self, key: &'a [u8], operation: Operation<'a>, form: Form<'a>) {
        self.requests.push(Request {
            key,
            hash: self.hasher.hash(key),
            operation,
        });
        self.part(form, true);
    }

    /// Adds what is written whatever is answered.
    fn literal(&mut self, text: impl Into<Cow<'static, [u8]>>) {
        self.part(Form::Literal(text.into()), false);
    }

    fn part(&mut self, form: Form<'a>, has_request: bool) {
        self.pending.push(Pending {
            connection: self.connection,
            end: None,
            has_request,
            form,
        });
    }
}

/// Why no further command of a connection was added.
#[derive(PartialEq, Eq)]
enum Stop {
    Idle,
    Direct,
    Full,
}

impl MemcachedEngine {
    /// Commands executed since it was made.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Executes every whole command of the connections, as far as their outputs have room.
    pub fn process(
        &mut self,
        ready: &mut [Ready<'_>],
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
    ) {
        let mut active: Vec<usize> = (0..ready.len()).collect();
        while !active.is_empty() {
            let mut batch = Batch::new(hasher, server.now_ms());
            let mut direct = Vec::new();
            let mut is_full = false;
            active.retain(|&connection| {
                if is_full {
                    return true;
                }
                batch.connection = connection;
                let stop = collect(&mut ready[connection], &mut batch);
                is_full = stop == Stop::Full;
                if stop == Stop::Direct {
                    direct.push(connection);
                }
                stop != Stop::Idle
            });
            timing::end(server, Stage::Parse);
            for connection in self.execute(ready, &batch, server) {
                if !active.contains(&connection) {
                    active.push(connection);
                }
                direct.retain(|other| *other != connection);
            }
            drop(batch);
            timing::end_execution(server);
            if !direct.is_empty() {
                for connection in direct {
                    self.execute_direct(&mut ready[connection], hasher, server);
                }
                timing::end(server, Stage::Process);
            }
        }
    }

    /// Executes a batch; says which connections have commands that were not, because replies are long.
    fn execute(
        &mut self,
        ready: &mut [Ready<'_>],
        batch: &Batch<'_>,
        server: &mut dyn ServerContext,
    ) -> Vec<usize> {
        let writer = Writer {
            now_ms: batch.now_ms,
        };
        let (mut requests, mut pending) = (&batch.requests[..], &batch.pending[..]);
        let mut total = 0;
        while !pending.is_empty() && total < OUTPUT_PAUSE_BYTES {
            let most = (OUTPUT_PAUSE_BYTES / (self.answer_bytes + 1)).clamp(1, BATCH);
            let (parts, count) = front(pending, most);
            let mut written = 0;
            let mut next = 0;
            let mut write = |part: &Pending<'_>, answer: Option<&Answer<'_>>| {
                let connection = &mut ready[part.connection];
                if connection.session.is_closing() {
                    return;
                }
                let before = connection.output.len();
                writer.write(&part.form, answer, connection.output);
                written += connection.output.len() - before;
                if connection.output.len() - before > OUTPUT_MAX_BYTES
                    || connection.output.len() > 2 * OUTPUT_MAX_BYTES
                {
                    connection.output.truncate(before);
                    connection.session.close();
                }
                if let Some(end) = part.end {
                    connection.consumed = end;
                    self.commands += 1;
                }
            };
            let literals = |next: &mut usize, write: &mut dyn FnMut(&Pending<'_>)| {
                while *next < parts && !pending[*next].has_request {
                    write(&pending[*next]);
                    *next += 1;
                }
            };
            literals(&mut next, &mut |part| write(part, None));
            if count > 0 {
                timing::execute(
                    &requests[..count],
                    batch.now_ms,
                    server,
                    &mut |_, answer| {
                        write(&pending[next], Some(&answer));
                        next += 1;
                        literals(&mut next, &mut |part| write(part, None));
                    },
                );
            }
            self.answer_bytes = written / parts;
            total += written;
            requests = &requests[count..];
            pending = &pending[parts..];
        }
        let mut left: Vec<usize> = pending.iter().map(|part| part.connection).collect();
        left.sort_unstable();
        left.dedup();
        left
    }

    /// Executes, or refuses, the command at the front of a connection's input by itself.
    fn execute_direct(
        &mut self,
        ready: &mut Ready<'_>,
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
    ) {
        if is_paused(ready) {
            return;
        }
        match line::parse(&ready.input[ready.consumed..]) {
            Parsed::Command { len, line, data } => {
                ready.consumed += len;
                self.commands += 1;
                direct::execute(ready, &line, data, hasher, server);
            }
            Parsed::Refused {
                len,
                data_len,
                error,
            } => {
                ready.consumed += len;
                ready.session.discard_bytes = data_len;
                ready.output.extend_from_slice(error);
            }
            Parsed::TooLong => {
                ready
                    .output
                    .extend_from_slice(b"CLIENT_ERROR line too long\r\n");
                ready.session.close();
            }
            Parsed::Incomplete { .. } => {}
        }
    }
}

/// Whether nothing of a connection is executed before its output has been sent.
fn is_paused(ready: &Ready<'_>) -> bool {
    ready.session.is_closing() || ready.output.len() > OUTPUT_PAUSE_BYTES
}

/// How many parts of whole commands, and requests of theirs, are at most so many requests; one command
/// at least.
fn front(pending: &[Pending<'_>], most: usize) -> (usize, usize) {
    let (mut count, mut whole) = (0, (0, 0));
    for (index, part) in pending.iter().enumerate() {
        count += usize::from(part.has_request);
        if count > most && whole.0 > 0 {
            return whole;
        }
        if part.end.is_some() {
            whole = (index + 1, count);
        }
    }
    whole
}

/// Adds commands of a connection to the batch.
fn collect<'b, 'c: 'b>(ready: &mut Ready<'c>, batch: &mut Batch<'b>) -> Stop {
    // What is left of a value that was refused.
    let skipped = (ready.session.discard_bytes).min(ready.input.len() - ready.consumed);
    ready.session.discard_bytes -= skipped;
    ready.consumed += skipped;
    ready.session.progress.missing_bytes = 0;
    let mut at = ready.consumed;
    while batch.requests.len() < BATCH && batch.pending.len() < 2 * BATCH {
        if is_paused(ready) {
            return Stop::Idle;
        }
        match line::parse(&ready.input[at..]) {
            Parsed::Incomplete { missing_bytes } => {
                ready.session.progress.missing_bytes = missing_bytes;
                return Stop::Idle;
            }
            Parsed::TooLong | Parsed::Refused { .. } => return Stop::Direct,
            Parsed::Command { len, line, data } => {
                if !text::add(&line, data, batch) {
                    return Stop::Direct;
                }
                at += len;
                end_command(batch, at);
            }
        }
    }
    Stop::Full
}

/// The last part ends its command; a command has one at least.
fn end_command(batch: &mut Batch<'_>, end: usize) {
    if let Some(last) = batch.pending.last_mut() {
        last.end = Some(end);
    }
}
