//! Parts that the verbs of the command `overside` share. The verbs themselves stand with their products:
//! `overside-kv-cli`, `overside-flow-cli`, and the crate of the command.

/// Tells the user something, on stderr.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => { $crate::messages::complain(format_args!($($text)*)) };
}

/// Adds a line to a text.
#[macro_export]
macro_rules! line {
    ($text:expr, $($line:tt)*) => {{
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = writeln!($text, $($line)*);
    }};
}

pub mod columns;
pub mod exit;
pub mod logging;
pub mod messages;
pub mod options;
pub mod python;
pub mod refusal;
pub mod system;

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Writes a result: as JSON in a line for programs, or as text for people.
pub fn print_result<J: Display>(
    is_json: bool,
    json: impl FnOnce() -> J,
    text: impl FnOnce() -> String,
) -> ExitCode {
    match is_json {
        true => print(&format!("{}\n", json())),
        false => print(&text()),
    }
}

/// Writes a program's output. A closed pipe is no error.
pub fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain!("overside: cannot write to stdout: {error}");
            ExitCode::from(exit::INTERNAL)
        }
        _ => ExitCode::SUCCESS,
    }
}
