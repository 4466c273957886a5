//! The command `overside`. Its own verbs answer in milliseconds; the others are handed over to the
//! Python environment that it lives in.

/// Says something on stderr. That nobody reads it changes nothing; `eprintln!` would panic.
macro_rules! complain {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod agent;
mod agents;
mod compress;
mod decompress;
mod devices;
mod files;
mod matching;
mod options;
mod python;
mod system;
mod verbs;

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// Exit codes that docs/exit-codes.md lists.
mod exit {
    pub const INTERNAL: u8 = 1;
    pub const USAGE: u8 = 2;
    pub const ABSENT: u8 = 3;
    pub const INCOMPLETE: u8 = 5;
}

fn main() -> ExitCode {
    // A panic's own code means that a result failed its verification.
    std::panic::catch_unwind(answer).unwrap_or(ExitCode::from(exit::INTERNAL))
}

fn answer() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some(first) = arguments.first() else {
        complain!("{}", verbs::help().trim_end());
        return ExitCode::from(exit::USAGE);
    };
    match first.to_str() {
        Some("--version" | "-V") => print(&format!("overside {}\n", env!("CARGO_PKG_VERSION"))),
        Some("--help" | "-h" | "help") => print(&verbs::help()),
        Some("agent") => agent::main(&arguments[1..]),
        Some("agents") => agents::main(&arguments[1..]),
        Some("compress") => compress::main(&arguments[1..]),
        Some("decompress") => decompress::main(&arguments[1..]),
        Some("devices") => devices::main(&arguments[1..]),
        Some("match") => matching::main(&arguments[1..]),
        Some(verb) if verbs::is_python(verb) => python::hand_over(verb, &arguments),
        _ => unknown(&first.to_string_lossy()),
    }
}

fn unknown(word: &str) -> ExitCode {
    let kind = if word.starts_with('-') {
        "option"
    } else {
        "verb"
    };
    let names: Vec<String> = verbs::names().map(str::to_string).collect();
    match overside_backends::closest(word, &names) {
        Some(name) => {
            complain!("overside: no {kind} is called {word:?}; did you mean {name:?}?");
        }
        None => complain!("overside: no {kind} is called {word:?}; `overside --help` lists all"),
    }
    ExitCode::from(exit::USAGE)
}

/// Writes a program's output. That its reader has gone is no error.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain!("overside: stdout cannot be written: {error}");
            ExitCode::from(exit::INTERNAL)
        }
        _ => ExitCode::SUCCESS,
    }
}
