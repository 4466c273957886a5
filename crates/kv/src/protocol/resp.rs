//! RESP2 and RESP3, the protocols of Redis.

mod parser;

use parser::Parsed;

use super::{OUTPUT_PAUSE_BYTES, Ready, ServerContext};
use crate::KeyHasher;

/// Parses commands, has them executed, and writes replies. One a core; its memory is used again for
/// every batch.
#[derive(Debug, Default)]
pub struct CommunicationEngine {
    commands: u64,
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
        _hasher: &KeyHasher,
        _server: &mut dyn ServerContext,
    ) {
        for connection in ready {
            self.process_connection(connection);
        }
    }

    fn process_connection(&mut self, connection: &mut Ready<'_>) {
        let mut arguments = Vec::new();
        while !connection.session.is_closing() && connection.output.len() < OUTPUT_PAUSE_BYTES {
            let rest = &connection.input[connection.consumed..];
            match parser::parse(rest, &mut arguments) {
                Parsed::Command { len } => {
                    connection.consumed += len;
                    self.commands += 1;
                    execute(connection, &arguments);
                }
                Parsed::Nothing { len } => connection.consumed += len,
                Parsed::Incomplete { missing_bytes } => {
                    connection.session.set_missing_bytes(missing_bytes);
                    return;
                }
                Parsed::Violation(text) => {
                    let error = format!("-ERR Protocol error: {text}\r\n");
                    connection.output.extend_from_slice(error.as_bytes());
                    connection.session.close();
                }
            }
        }
    }
}

fn execute(connection: &mut Ready<'_>, arguments: &[&[u8]]) {
    let name = arguments[0];
    let reply: &[u8] = if name.eq_ignore_ascii_case(b"PING") {
        b"+PONG\r\n"
    } else if name.eq_ignore_ascii_case(b"QUIT") {
        connection.session.close();
        b"+OK\r\n"
    } else {
        b"-ERR unknown command\r\n"
    };
    connection.output.extend_from_slice(reply);
}
