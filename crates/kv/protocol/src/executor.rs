//! Executes the commands of connections in batches, for every text protocol.

use super::batch::{Batch, Pending, Stop, recycle};
use super::{OUTPUT_MAX_BYTES, OUTPUT_PAUSE_BYTES, Ready, ServerContext, Session, timing};
use crate::stages::Stage;
use overside_kv_store::{Answer, KeyHasher, Request};

/// Protocol of clients: makes requests from commands, and replies from answers.
pub(super) trait Syntax {
    /// Format of a reply: how it is built from the answers to a command's requests.
    type ReplyFormat<'a>;
    /// Writer of the replies of a batch.
    type Writer;

    /// Adds commands of a connection to the batch. `words` is memory for the arguments of a command.
    fn collect<'b, 'c: 'b>(
        ready: &mut Ready<'c>,
        connection: u32,
        batch: &mut Batch<'b, Self::ReplyFormat<'b>>,
        words: &mut Vec<&'b [u8]>,
    ) -> Stop;

    /// Executes the command at the front of a connection's input by itself, and possibly further
    /// ones. Returns their number.
    fn execute_direct<'b, 'c: 'b>(
        ready: &mut Ready<'c>,
        words: &mut Vec<&'b [u8]>,
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
    ) -> u64;

    /// Starts a batch.
    fn writer(server: &dyn ServerContext, now_ms: u64) -> Self::Writer;

    /// Writes the next answer to a command. Returns `true` if its reply is complete.
    fn write(
        writer: &mut Self::Writer,
        command: &Pending<Self::ReplyFormat<'_>>,
        request: &Request<'_>,
        answer: &Answer<'_>,
        out: &mut Vec<u8>,
    ) -> bool;

    /// Writes the reply to a command without requests.
    fn write_without_answer(form: &Self::ReplyFormat<'_>, out: &mut Vec<u8>);

    /// Handles that a command was parsed but not executed: it will be parsed again.
    fn rewind(session: &mut Session);
}

/// State of execution, with memory that every batch reuses.
#[expect(private_bounds, reason = "the syntaxes are those of this crate")]
pub struct Executor<S: Syntax> {
    commands: u64,
    /// Number of bytes of a reply in the last call of the engine.
    reply_bytes: usize,
    /// Connections that may have more commands.
    active: Vec<u32>,
    /// Connections whose next command is executed by itself.
    direct: Vec<u32>,
    // Reused memory; empty between calls.
    requests: Vec<Request<'static>>,
    pending: Vec<Pending<S::ReplyFormat<'static>>>,
    words: Vec<&'static [u8]>,
}

impl<S: Syntax> Default for Executor<S> {
    fn default() -> Self {
        Self {
            commands: 0,
            reply_bytes: 0,
            active: Vec::new(),
            direct: Vec::new(),
            requests: Vec::new(),
            pending: Vec::new(),
            words: Vec::new(),
        }
    }
}

#[expect(private_bounds, reason = "the syntaxes are those of this crate")]
impl<S: Syntax> Executor<S> {
    /// Returns the number of commands executed since the start.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Executes every complete command of the connections, until an output or all outputs together are full.
    pub fn process(
        &mut self,
        ready: &mut [Ready<'_>],
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
    ) {
        let mut words = recycle(std::mem::take(&mut self.words));
        let mut batch = Batch::new(hasher, server.now_ms());
        batch.cluster = server.cluster().cloned();
        batch.requests = recycle(std::mem::take(&mut self.requests));
        batch.pending = recycle(std::mem::take(&mut self.pending));
        if !server.sends_early() {
            batch.most = server.engine().batch_requests();
        }
        self.active.clear();
        self.active.extend(0..ready.len() as u32);
        let room = server.output_room_bytes();
        let mut written = 0;
        while !self.active.is_empty() && written < room {
            self.collect(ready, &mut batch, &mut words);
            timing::end(server, Stage::Parse);
            written += self.execute(ready, &batch, room - written, server);
            timing::end_execution(server);
            batch.requests.clear();
            batch.pending.clear();
            if !self.direct.is_empty() {
                for index in std::mem::take(&mut self.direct) {
                    if written < room {
                        let connection = &mut ready[index as usize];
                        let before = connection.output.len();
                        self.commands += S::execute_direct(connection, &mut words, hasher, server);
                        written += connection.output.len().saturating_sub(before);
                    }
                }
                timing::end(server, Stage::Process);
            }
            batch.now_ms = server.now_ms();
            if server.sends_early() {
                break;
            }
        }
        for index in &self.active {
            ready[*index as usize].has_more = true;
        }
        self.requests = recycle(batch.requests);
        self.pending = recycle(batch.pending);
        self.words = recycle(words);
    }

    /// Adds commands of the active connections to the batch.
    fn collect<'b, 'c: 'b>(
        &mut self,
        ready: &mut [Ready<'c>],
        batch: &mut Batch<'b, S::ReplyFormat<'b>>,
        words: &mut Vec<&'b [u8]>,
    ) {
        let mut kept = 0;
        for at in 0..self.active.len() {
            let index = self.active[at];
            let connection = &mut ready[index as usize];
            let stop = match is_paused(connection) {
                true => Stop::Idle,
                false => S::collect(connection, index, batch, words),
            };
            match stop {
                Stop::Idle => continue,
                Stop::Direct => self.direct.push(index),
                Stop::Full => {
                    // Connections without a turn are first in the next batch.
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

    /// Executes the batch and writes the replies. Returns their bytes. Stops early if the replies
    /// are long: commands that were not executed are not consumed either.
    fn execute<'b>(
        &mut self,
        ready: &mut [Ready<'_>],
        batch: &Batch<'b, S::ReplyFormat<'b>>,
        room: usize,
        server: &mut dyn ServerContext,
    ) -> usize {
        let mut requests = batch.requests.as_slice();
        let mut pending = batch.pending.as_slice();
        let mut total = 0;
        while !pending.is_empty() && total < OUTPUT_PAUSE_BYTES {
            let max = (OUTPUT_PAUSE_BYTES / (self.reply_bytes + 1)).clamp(1, batch.most);
            let (commands, count) = front(pending, max);
            let mut replies = Replies::<S> {
                writer: S::writer(server, batch.now_ms),
                ready,
                pending: &pending[..commands],
                requests: &requests[..count],
                current: 0,
                first: 0,
                start: None,
                written: 0,
                room: room.saturating_sub(total),
                is_stopped: false,
            };
            replies.write_without_answers();
            if count > 0 {
                let mut write = |index, answer: Answer<'_>| replies.write(index, &answer);
                timing::execute(&requests[..count], batch.now_ms, server, &mut write);
            }
            let done = replies.current;
            self.reply_bytes = replies.written / commands;
            total += replies.written;
            self.commands += done as u64;
            requests = &requests[count..];
            pending = &pending[done..];
            if done < commands {
                break;
            }
        }
        self.give_up(ready, pending);
        total
    }

    /// Marks commands that were not executed to be parsed again.
    fn give_up(&mut self, ready: &mut [Ready<'_>], pending: &[Pending<S::ReplyFormat<'_>>]) {
        for command in pending {
            S::rewind(ready[command.connection as usize].session);
            if !self.active.contains(&command.connection) {
                self.active.push(command.connection);
            }
            self.direct.retain(|other| *other != command.connection);
        }
    }
}

/// Replies of a part of a batch, as far as they are written.
struct Replies<'r, 'c, 'b, S: Syntax> {
    writer: S::Writer,
    ready: &'r mut [Ready<'c>],
    pending: &'r [Pending<S::ReplyFormat<'b>>],
    requests: &'r [Request<'b>],
    /// Index of the command whose reply is next.
    current: usize,
    /// Index of that command's first request. `start` is the offset of its reply in the output,
    /// once that has begun.
    first: usize,
    start: Option<usize>,
    written: usize,
    /// Number of bytes of replies that may be written before the remaining commands have to wait.
    room: usize,
    is_stopped: bool,
}

impl<S: Syntax> Replies<'_, '_, '_, S> {
    #[inline]
    fn write(&mut self, index: usize, answer: &Answer<'_>) {
        if self.is_stopped {
            return;
        }
        let command = &self.pending[self.current];
        let connection = &mut self.ready[command.connection as usize];
        let output = &mut *connection.output;
        let before = output.len();
        let reply_start = match self.start {
            Some(start) => start,
            None => {
                // Commands that only read can be executed again later.
                let rest = &self.requests[index..];
                if self.written > self.room && !rest.iter().any(|r| r.operation.is_write()) {
                    self.is_stopped = true;
                    return;
                }
                self.first = index;
                self.start = Some(before);
                before
            }
        };
        let request = &self.requests[index];
        let is_whole = S::write(&mut self.writer, command, request, answer, output);
        // An error that replaces the beginning of a reply is shorter than it.
        self.written += output.len().saturating_sub(before);
        let reply_bytes = output.len().saturating_sub(reply_start);
        let is_too_long = reply_bytes > OUTPUT_MAX_BYTES
            || (self.written > OUTPUT_MAX_BYTES && output.len() > OUTPUT_PAUSE_BYTES);
        if is_too_long || connection.session.is_closing() {
            self.written = self.written.saturating_sub(reply_bytes);
            output.truncate(reply_start);
            connection.session.close();
        }
        if is_whole {
            connection.consumed = command.end;
            self.current += 1;
            self.start = None;
            self.write_without_answers();
        }
    }

    /// Writes the replies to the next commands as long as these have no requests.
    #[inline]
    fn write_without_answers(&mut self) {
        while let Some(command) = self.pending.get(self.current)
            && command.requests == 0
        {
            let connection = &mut self.ready[command.connection as usize];
            if !connection.session.is_closing() {
                let before = connection.output.len();
                S::write_without_answer(&command.form, connection.output);
                self.written += connection.output.len() - before;
            }
            connection.consumed = command.end;
            self.current += 1;
        }
    }
}

/// Returns `true` if no command of the connection may be executed until its output has been sent or
/// its wait has ended.
pub(super) fn is_paused(ready: &Ready<'_>) -> bool {
    ready.session.is_closing()
        || ready.session.replica_wait().is_some()
        || ready.session.is_held()
        || ready.output.len() > OUTPUT_PAUSE_BYTES
}

/// Returns the number of commands at the front that have at most `max` requests together, and the
/// number of these requests. The first command is always included.
fn front<F>(pending: &[Pending<F>], max: usize) -> (usize, usize) {
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
