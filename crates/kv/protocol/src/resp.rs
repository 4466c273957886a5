//! RESP2 and RESP3, the protocols of Redis 7.0.

mod answers;
mod batch;
mod clients;
mod cluster;
mod command;
mod commands;
mod connection;
mod expiry;
mod glob;
mod hashes;
mod introspection;
mod keys;
mod keyspace;
mod members;
mod number;
mod parser;
mod replication;
mod reply;
mod server;
mod sets;
mod sorted_sets;
mod strings;
mod transaction_state;
mod transactions;
mod words;

use answers::ReplyWriter;
use batch::{Batch, ReplyFormat};
use command::{Action, Call};
use commands::TABLE;
pub use commands::documented_commands;
pub(super) use parser::Progress;
use parser::{Limits, Parsed};
use reply::ErrorReply;
pub(super) use reply::reply_to_wait;
pub(super) use transaction_state::{CommandQueue, WatchedKeys};

use super::batch::{Pending, Stop};
use super::executor::{Executor, Syntax, is_paused};
use super::{Ready, ServerContext, Session};
use overside_kv_store::{Answer, KeyHasher, Request};

/// Engine that parses commands, executes them, and writes replies. Each core has one; every batch
/// reuses its memory.
pub type CommunicationEngine = Executor<Resp>;

/// Syntax of Redis.
pub struct Resp;

impl Syntax for Resp {
    type ReplyFormat<'a> = ReplyFormat;
    type Writer = ReplyWriter;

    fn collect<'b, 'c: 'b>(
        ready: &mut Ready<'c>,
        connection: u32,
        batch: &mut Batch<'b>,
        arguments: &mut Vec<&'b [u8]>,
    ) -> Stop {
        let session = &mut *ready.session;
        let limits = Limits::new(session.is_authenticated);
        let mut at = ready.consumed;
        while batch.has_room() {
            match parser::parse(&ready.input[at..], &mut session.progress, limits, arguments) {
                Parsed::Incomplete => return Stop::Idle,
                Parsed::Command { len } => {
                    let end = at + len;
                    if !session.executes_at_once()
                        || !add_command(batch, arguments, (connection, end), session.is_resp3)
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

    fn execute_direct<'b, 'c: 'b>(
        ready: &mut Ready<'c>,
        arguments: &mut Vec<&'b [u8]>,
        hasher: &KeyHasher,
        server: &mut dyn ServerContext,
    ) -> u64 {
        let now_ms = server.now_ms();
        let mut commands = 0;
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
                is_in_exec: false,
                table: &TABLE,
            };
            match parsed {
                Parsed::Incomplete => break,
                Parsed::Nothing { len } => ready.consumed += len,
                Parsed::Command { len } => {
                    if !is_first && call.session.executes_at_once() && has_requests(arguments) {
                        break;
                    }
                    if call.must_wait(arguments) {
                        // It is parsed again.
                        call.session.progress = Progress::default();
                        break;
                    }
                    ready.consumed += len;
                    commands += 1;
                    call.run(arguments);
                }
                Parsed::Quoted { len, arguments } => {
                    let arguments: Vec<_> = arguments.iter().map(Vec::as_slice).collect();
                    if call.must_wait(&arguments) {
                        call.session.progress = Progress::default();
                        break;
                    }
                    ready.consumed += len;
                    commands += 1;
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
        commands
    }

    fn writer(server: &dyn ServerContext, now_ms: u64) -> ReplyWriter {
        ReplyWriter::new(server.read_only_reason(), now_ms)
    }

    #[inline]
    fn write(
        writer: &mut ReplyWriter,
        command: &Pending<ReplyFormat>,
        _: &Request<'_>,
        answer: &Answer<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        writer.write(command, answer, out)
    }

    /// Does nothing: every command in a batch has requests.
    fn write_without_answer(_: &ReplyFormat, _: &mut Vec<u8>) {}

    fn rewind(session: &mut Session) {
        session.progress = Progress::default();
    }
}

fn has_requests(arguments: &[&[u8]]) -> bool {
    let command = TABLE.find(arguments[0]);
    command.is_some_and(|command| matches!(command.action, Action::Requests(_)))
}

/// Adds a command to the batch if it consists of requests and can be executed.
#[inline]
fn add_command<'c>(
    batch: &mut Batch<'c>,
    arguments: &[&'c [u8]],
    place: (u32, usize),
    is_resp3: bool,
) -> bool {
    let Some(command) = TABLE.find(arguments[0]) else {
        return false;
    };
    let Action::Requests(handler) = command.action else {
        return false;
    };
    command.accepts(arguments.len()) && batch.add(handler, arguments, place, is_resp3).is_ok()
}
