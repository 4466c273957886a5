//! Execution of one command by itself.

use super::{Action, Command, CommandTable, flags};
use crate::resp::answers::{LOADING, ReplyWriter};
use crate::resp::batch::{Batch, BatchHandler, ReplyKind};
use crate::resp::reply::{ErrorReply, RespWriter};
use crate::{OUTPUT_MAX_BYTES, ServerContext, Session};
use overside_kv_store::{KeyHasher, Refusal, Transaction, partition_of};

/// State of the engine and the connection that a command executed by itself may use.
pub(in super::super) struct Call<'c> {
    pub(in super::super) session: &'c mut Session,
    pub(in super::super) out: &'c mut Vec<u8>,
    pub(in super::super) server: &'c mut dyn ServerContext,
    pub(in super::super) hasher: &'c KeyHasher,
    pub(in super::super) now_ms: u64,
    /// `true` if `EXEC` executes the command.
    pub(in super::super) is_in_exec: bool,
    /// Table of all commands.
    pub(in super::super) table: &'static CommandTable,
}

/// Returns `true` for a line of HTTP. A web page can make its browser connect to this machine; the
/// lines after this one may be commands.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:")
}

/// Ends a transaction whose `EXEC` is malformed.
fn abort(session: &mut Session, error: &ErrorReply) -> ErrorReply {
    session.forget_transaction();
    let reason = error.0.strip_prefix(b"ERR ").unwrap_or(&error.0);
    let text = b"EXECABORT Transaction discarded because of: ";
    ErrorReply::from_bytes([text, reason].concat())
}

impl Call<'_> {
    pub(in super::super) fn reply(&mut self) -> RespWriter<'_> {
        RespWriter { out: self.out, is_resp3: self.session.is_resp3 }
    }

    pub(in super::super) fn ok(&mut self) -> Result<(), ErrorReply> {
        self.reply().ok();
        Ok(())
    }

    /// Executes a command. Its reply may be an error.
    pub(in super::super) fn run(&mut self, arguments: &[&[u8]]) {
        if is_http(arguments[0]) {
            tracing::warn!(id = self.session.id(), "closed: it speaks HTTP");
            return self.session.close();
        }
        let start = self.out.len();
        let was_asking = self.session.is_asking;
        let result = self.try_run(arguments);
        // As in Redis, it lasts for one command, or for a transaction that begins with it.
        if was_asking && self.session.transaction.is_none() {
            self.session.is_asking = false;
        }
        if let Err(error) = result {
            self.out.truncate(start);
            self.reply().error(&error);
        }
        if self.out.len() > OUTPUT_MAX_BYTES {
            self.out.truncate(start);
            self.session.close();
        }
    }

    fn try_run(&mut self, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
        let command = match self.table.resolve(arguments) {
            Ok(command) => self.permit(command).map(|()| command),
            Err(error) => Err(error),
        };
        if let Ok(command) = command {
            self.check_slots(command, arguments)?;
        }
        match (command, self.session.transaction.as_mut()) {
            (Ok(command), None) => self.execute(command, arguments),
            (Ok(command), Some(_)) if command.has(flags::NOT_QUEUED) => {
                self.execute(command, arguments)
            }
            (Ok(_), Some(queue)) => {
                queue.push(arguments)?;
                self.reply().simple("QUEUED");
                Ok(())
            }
            (Err(error), _) if arguments[0].eq_ignore_ascii_case(b"EXEC") => {
                Err(abort(self.session, &error))
            }
            (Err(error), queue) => {
                queue.into_iter().for_each(|queue| queue.abort());
                Err(error)
            }
        }
    }

    fn permit(&self, command: &Command) -> Result<(), ErrorReply> {
        if !self.session.is_authenticated && !command.has(flags::NO_AUTH) {
            return Err(ErrorReply::new("NOAUTH Authentication required."));
        }
        if !command.has(flags::LOADING) && self.server.is_loading() {
            return Err(LOADING);
        }
        if self.session.transaction.is_some() && command.has(flags::NO_MULTI) {
            return Err(ErrorReply::new("ERR Command not allowed inside a transaction"));
        }
        Ok(())
    }

    /// Executes a command that is allowed now.
    pub(in super::super) fn execute(
        &mut self,
        command: &Command,
        arguments: &[&[u8]],
    ) -> Result<(), ErrorReply> {
        match command.action {
            Action::Direct(handler) | Action::SubcommandsOr(_, handler) => handler(self, arguments),
            Action::Requests(handler) => {
                let mut batch = Batch::new(self.hasher, self.now_ms);
                self.add(&mut batch, handler, arguments)?;
                self.execute_batch(batch);
                Ok(())
            }
            Action::Transaction(handler) => {
                let mut batch = Batch::new(self.hasher, self.now_ms);
                self.add(&mut batch, handler, arguments)?;
                // Over several partitions it becomes that many requests.
                match self.are_together(batch.requests.iter().map(|request| request.key)) {
                    true => _ = self.execute_transaction(batch, Vec::new()),
                    false => self.execute_batch(batch),
                }
                Ok(())
            }
            // The subcommand was resolved, and without one the command lacks an argument.
            Action::Subcommands(_) => Err(ErrorReply::wrong_arity(command.name)),
        }
    }

    /// Adds a command to a batch that only this client uses.
    pub(in super::super) fn add<'a>(
        &self,
        batch: &mut Batch<'a>,
        handler: BatchHandler,
        arguments: &[&'a [u8]],
    ) -> Result<(), ErrorReply> {
        batch.add(handler, arguments, (0, 0), self.session.is_resp3)
    }

    /// Returns `true` if all keys are in one partition.
    pub(in super::super) fn are_together<'k>(
        &mut self,
        mut keys: impl Iterator<Item = &'k [u8]>,
    ) -> bool {
        let count = self.server.engine().partitions();
        let Some(first) = keys.next().filter(|_| count > 1) else {
            return true;
        };
        let partition = partition_of(first, count);
        keys.all(|key| partition_of(key, count) == partition)
    }

    fn execute_batch(&mut self, batch: Batch<'_>) {
        let mut writer = ReplyWriter::new(self.server.read_only_reason(), self.now_ms);
        let (mut at, out) = (0, &mut *self.out);
        let mut write = |_, answer: overside_kv_store::Answer<'_>| {
            if out.len() <= OUTPUT_MAX_BYTES {
                at += usize::from(writer.write(&batch.pending[at], &answer, out));
            }
        };
        let engine = self.server.engine();
        engine.execute(&batch.requests, self.now_ms, &mut write);
    }

    /// Executes a batch as one transaction unless a watched key has changed. Returns `true` if it
    /// was executed; then its replies are written.
    pub(in super::super) fn execute_transaction(
        &mut self,
        batch: Batch<'_>,
        watched: Vec<(&[u8], u64, u64)>,
    ) -> bool {
        let Batch { requests, pending, .. } = batch;
        let mut writer = ReplyWriter::new(self.server.read_only_reason(), self.now_ms);
        let (mut at, out) = (0, &mut *self.out);
        let mut write = |_, answer: overside_kv_store::Answer<'_>| {
            if out.len() <= OUTPUT_MAX_BYTES {
                at += usize::from(writer.write(&pending[at], &answer, out));
            }
        };
        let transaction = Transaction { watched, requests };
        let engine = self.server.engine();
        engine.execute_transaction(&transaction, self.now_ms, &mut write)
    }

    /// Returns the error for the client when the store refuses an operation that is not a request.
    pub(in super::super) fn refusal(&self, refusal: Refusal) -> ErrorReply {
        let writer = ReplyWriter::new(self.server.read_only_reason(), self.now_ms);
        writer.refusal(refusal, ReplyKind::Ok)
    }
}
