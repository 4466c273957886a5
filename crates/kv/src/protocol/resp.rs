//! RESP2 and RESP3, the protocols of Redis 7.0.

mod answers;
mod batch;
mod call;
mod clients;
mod command;
mod commands;
mod connection;
mod counters;
mod expiry;
mod glob;
mod hashes;
mod introspection;
mod keys;
mod keyspace;
mod number;
mod parser;
mod reply;
mod server;
mod sorted_sets;
mod strings;
mod transactions;
mod words;

use answers::ReplyWriter;
use batch::{Batch, Pending, recycle, recycle_slices};
use call::Call;
use command::Action;
pub(super) use parser::Progress;
use parser::{Limits, Parsed};
use reply::ErrorReply;
pub(super) use transactions::{CommandQueue, WatchedKeys};

use super::{OUTPUT_MAX_BYTES, OUTPUT_PAUSE_BYTES, Ready, ServerContext, timing};
use crate::stages::Stage;
use crate::{Answer, KeyHasher, Request};

/// Requests above which no further command is added to a batch.
const BATCH_REQUESTS: usize = 256;

/// Parses commands, has them executed, and writes replies. One a core; its memory is used again for
/// every batch.
#[derive(Debug, Default)]
pub struct CommunicationEngine {
    commands: u64,
    /// Bytes of a reply, as the last call of the engine had them.
    reply_bytes: usize,
    /// Connections that may have more commands.
    active: Vec<u32>,
    /// Those whose next command is executed by itself.
    direct: Vec<u32>,
    // Memory that is used again; empty in between.
    requests: Vec<Request<'static>>,
    pending: Vec<Pending>,
    arguments: Vec<&'static [u8]>,
}

/// Why no further command of a connection was added to a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// It has none, or may have none.
    Idle,
    /// The next one is executed by itself.
    Direct,
    /// The batch is full.
    Full,
}

impl CommunicationEngine {
    /// An engine without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

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
        let mut arguments = recycle_slices(std::mem::take(&mut self.arguments));
        let mut batch = Batch::new(hasher, server.now_ms());
        batch.requests = recycle(std::mem::take(&mut self.requests));
        batch.pending = std::mem::take(&mut self.pending);
        self.active.clear();
        self.active.extend(0..ready.len() as u32);
        while !self.active.is_empty() {
            self.collect(ready, &mut batch, &mut arguments);
            timing::end(server, Stage::Parse);
            self.execute(ready, &batch, server);
            timing::end_execution(server);
            batch.requests.clear();
            batch.pending.clear();
            if !self.direct.is_empty() {
                for connection in std::mem::take(&mut self.direct) {
                    let connection = &mut ready[connection as usize];
                    self.execute_direct(connection, hasher, server, batch.now_ms, &mut arguments);
                }
                timing::end(server, Stage::Process);
            }
            batch.now_ms = server.now_ms();
        }
        self.requests = recycle(batch.requests);
        self.pending = batch.pending;
        self.arguments = recycle_slices(arguments);
    }

    /// Adds commands of the active connections to the batch.
    fn collect<'b, 'c: 'b>(
        &mut self,
        ready: &mut [Ready<'c>],
        batch: &mut Batch<'b>,
        arguments: &mut Vec<&'b [u8]>,
    ) {
        let mut kept = 0;
        for at in 0..self.active.len() {
            let index = self.active[at];
            match collect_from(&mut ready[index as usize], index, batch, arguments) {
                Stop::Idle => continue,
                Stop::Direct => self.direct.push(index),
                Stop::Full => {
                    // Those that had no turn are first in the next batch.
                    self.active.drain(kept..at);
                    self.active.rotate_left(kept);
                    return;
                }
            }
            self.active[kept] = index;
            kept += 1;
        }
        self.active.truncate(kept);
    }

    /// Executes the batch and writes the replies. Gives up after a part if the replies are long: what
    /// has not been executed has not been consumed either.
    fn execute(
        &mut self,
        ready: &mut [Ready<'_>],
        batch: &Batch<'_>,
        server: &mut dyn ServerContext,
    ) {
        let mut writer = ReplyWriter::new(server.read_only_reason(), batch.now_ms);
        let mut requests = batch.requests.as_slice();
        let mut pending = batch.pending.as_slice();
        let mut total = 0;
        while !pending.is_empty() && total < OUTPUT_PAUSE_BYTES {
            let max = (OUTPUT_PAUSE_BYTES / (self.reply_bytes + 1)).clamp(1, BATCH_REQUESTS);
            let (commands, count) = front(pending, max);
            let part = &requests[..count];
            let (mut current, mut written) = (0, 0);
            // Where the requests of the current command begin, and its reply.
            let (mut first, mut start) = (0, None);
            let mut is_stopped = false;
            let mut write = |index: usize, answer: Answer<'_>| {
                if is_stopped {
                    return;
                }
                let command: &Pending = &pending[current];
                let connection = &mut ready[command.connection as usize];
                let output = &mut *connection.output;
                let before = output.len();
                let reply_start = *start.get_or_insert_with(|| {
                    first = index;
                    before
                });
                let is_whole = writer.write(command, &answer, output);
                // Where an error replaces the beginning of a reply, it is shorter.
                written += output.len().saturating_sub(before);
                let reply_bytes = output.len() - reply_start;
                if written > OUTPUT_MAX_BYTES && reply_bytes <= OUTPUT_MAX_BYTES {
                    // What only reads can be executed again later.
                    is_stopped = !part[first..].iter().any(|r| r.operation.is_write());
                    if is_stopped {
                        output.truncate(reply_start);
                        return;
                    }
                }
                let is_too_long = reply_bytes > OUTPUT_MAX_BYTES
                    || (written > OUTPUT_MAX_BYTES && output.len() > OUTPUT_PAUSE_BYTES);
                if is_too_long || connection.session.is_closing() {
                    written = written.saturating_sub(reply_bytes);
                    output.truncate(reply_start);
                    connection.session.close();
                }
                if is_whole {
                    connection.consumed = command.end;
                    current += 1;
                    start = None;
                }
            };
            timing::execute(part, batch.now_ms, server, &mut write);
            self.reply_bytes = written / count;
            total += written;
            let done = if is_stopped { current } else { commands };
            self.commands += done as u64;
            requests = &requests[count..];
            pending = &pending[done..];
        }
        self.give_up(ready, pending);
    }

    /// Has commands that were not executed parsed again.
    fn give_up(&mut self, ready: &mut [Ready<'_>], pending: &[Pending]) {
        for command in pending {
            ready[command.connection as usize].session.progress = Progress::default();
            if !self.active.contains(&command.connection) {
                self.active.push(command.connection);
            }
        }
    }

    /// Executes the command at the front of a connection's input, and those after it that are
    /// executed by themselves too.
    fn execute_direct<'b, 'c: 'b>(
        &mut self,
        ready: &mut Ready<'c>,
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
        now_ms: u64,
        arguments: &mut Vec<&'b [u8]>,
    ) {
        let mut is_first = true;
        while !is_paused(ready) {
            let input = &ready.input[ready.consumed..];
            let session = &mut *ready.session;
            let limits = Limits::new(session.is_authenticated);
            let parsed = parser::parse(input, &mut session.progress, limits, arguments);
            let mut call = Call {
                session,
                out: ready.output,
                server,
                hasher,
                now_ms,
            };
            match parsed {
                Parsed::Incomplete => return,
                Parsed::Nothing { len } => ready.consumed += len,
                Parsed::Command { len } => {
                    if !is_first && call.session.executes_at_once() && has_requests(arguments) {
                        return;
                    }
                    ready.consumed += len;
                    self.commands += 1;
                    call.run(arguments);
                }
                Parsed::Quoted { len, arguments } => {
                    ready.consumed += len;
                    self.commands += 1;
                    let arguments: Vec<_> = arguments.iter().map(Vec::as_slice).collect();
                    call.run(&arguments);
                }
                Parsed::Violation(text) => {
                    let text = format!("ERR Protocol error: {text}").into_bytes();
                    call.reply().error(&ErrorReply::from_bytes(text));
                    call.session.close();
                }
            }
            is_first = false;
        }
    }
}

/// Whether nothing of a connection is executed before its output has been sent.
fn is_paused(ready: &Ready<'_>) -> bool {
    ready.session.is_closing() || ready.output.len() > OUTPUT_PAUSE_BYTES
}

fn has_requests(arguments: &[&[u8]]) -> bool {
    let command = command::find(arguments[0]);
    command.is_some_and(|command| matches!(command.action, Action::Requests(_)))
}

/// How many commands, and how many requests of theirs, are at most so many requests; one at least.
fn front(pending: &[Pending], max: usize) -> (usize, usize) {
    let mut count = 0;
    for (commands, command) in pending.iter().enumerate() {
        let with_it = count + command.requests as usize;
        if with_it > max && commands > 0 {
            return (commands, count);
        }
        count = with_it;
    }
    (pending.len(), count)
}

/// Adds commands of a connection to the batch.
fn collect_from<'b, 'c: 'b>(
    ready: &mut Ready<'c>,
    index: u32,
    batch: &mut Batch<'b>,
    arguments: &mut Vec<&'b [u8]>,
) -> Stop {
    if is_paused(ready) {
        return Stop::Idle;
    }
    let session = &mut *ready.session;
    let limits = Limits::new(session.is_authenticated);
    let mut at = ready.consumed;
    while batch.requests.len() < BATCH_REQUESTS {
        match parser::parse(&ready.input[at..], &mut session.progress, limits, arguments) {
            Parsed::Incomplete => return Stop::Idle,
            Parsed::Command { len } => {
                let end = at + len;
                if !session.executes_at_once()
                    || !add_command(batch, arguments, (index, end), session.is_resp3)
                {
                    return Stop::Direct;
                }
                at = end;
            }
            Parsed::Quoted { .. } | Parsed::Nothing { .. } | Parsed::Violation(_) => {
                return Stop::Direct;
            }
        }
    }
    Stop::Full
}

/// Adds a command to the batch if it is made of requests and can be executed.
#[inline]
fn add_command<'c>(
    batch: &mut Batch<'c>,
    arguments: &[&'c [u8]],
    place: (u32, usize),
    is_resp3: bool,
) -> bool {
    let Some(command) = command::find(arguments[0]) else {
        return false;
    };
    let Action::Requests(handler) = command.action else {
        return false;
    };
    command.accepts(arguments.len()) && batch.command(handler, arguments, place, is_resp3).is_ok()
}
