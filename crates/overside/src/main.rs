//! The command `overside`. Native verbs start in milliseconds; the others are handed over to the
//! Python environment that the command is installed in.

/// Tells the user something, on stderr.
macro_rules! complain {
    ($($text:tt)*) => { $crate::messages::complain(format_args!($($text)*)) };
}

/// Adds a line to a text.
macro_rules! line {
    ($text:expr, $($line:tt)*) => {{
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = writeln!($text, $($line)*);
    }};
}

mod agent;
mod agents;
mod aliases;
mod colors;
mod columns;
mod compress;
mod decompress;
mod devices;
mod files;
mod flow;
mod kv;
mod logging;
mod matching;
mod messages;
mod options;
mod python;
mod system;
mod verbs;
mod verification;
mod walk;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use overside_measure::{END_WITH_PARENT, node};
use rustix::process::{Signal, set_parent_process_death_signal};

/// Exit codes that docs/exit-codes.md lists.
mod exit {
    pub const INTERNAL: u8 = 1;
    pub const USAGE: u8 = 2;
    pub const ABSENT: u8 = 3;
    pub const INCOMPLETE: u8 = 5;
    pub const FAILED: u8 = 100;
    pub const UNVERIFIED: u8 = 101;
}

fn main() -> ExitCode {
    // A panic's own code means that a result failed its verification.
    std::panic::catch_unwind(run).unwrap_or(ExitCode::from(exit::INTERNAL))
}

fn run() -> ExitCode {
    if std::env::var_os(END_WITH_PARENT).is_some() {
        // Where the system cannot, the program ends when it is done.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let arguments = aliases::with_verb(&program, arguments.collect());
    let words: Vec<&str> = (arguments.iter())
        .map(|word| word.to_str().unwrap_or_default())
        .collect();
    match words[..] {
        [verb, ..] if verbs::is_python(verb) => python::hand_over(verb, &arguments),
        ["help", verb, ..] if verbs::is_python(verb) => {
            let mut asked = arguments[1..].to_vec();
            asked.push("--help".into());
            python::hand_over(verb, &asked)
        }
        // What an agent starts; nobody types it.
        [node::WORKER_VERB] => match node::serve_tests() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain!("overside {}: {error}", node::WORKER_VERB);
                ExitCode::from(exit::INTERNAL)
            }
        },
        _ => {
            let code = match verbs::parse(&arguments) {
                Ok(verb) => verb.run(),
                Err(error) => refuse(words.first().copied(), &error),
            };
            if code != ExitCode::SUCCESS && words.contains(&"--json") {
                tell_programs();
            }
            code
        }
    }
}

/// An error is an object too where the answer is to be one.
fn tell_programs() {
    if let Some(error) = messages::last_error() {
        // A stdout that is closed or full may be what went wrong.
        let _ = writeln!(std::io::stdout(), "{error}");
    }
}

/// Prints the help that was asked for, or what is wrong with the command line.
fn refuse(first: Option<&str>, error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return print(&with_round_brackets(&text));
    }
    let verb = first.filter(|word| verbs::is_native(word));
    let program = verb.map_or("overside".into(), |verb| format!("overside {verb}"));
    match text.strip_prefix("error: ") {
        Some(message) => complain!("{program}: {}", message.trim_end()),
        None => complain!("{}", text.trim_end()),
    }
    ExitCode::from(match verb {
        Some("compress" | "decompress") => files::ERROR,
        Some("match") => matching::ERROR,
        _ => exit::USAGE,
    })
}

/// Defaults as all verbs show them. clap, which has brackets of its own, cannot be told.
fn with_round_brackets(text: &str) -> String {
    let mut parts = text.split("[default:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (value, rest) = part.split_once(']').unwrap_or((part, ""));
        format!("{text}(default:{value}){rest}")
    })
}

/// Writes a program's output. That its reader has gone is no error.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            complain!("overside: cannot write to stdout: {error}");
            ExitCode::from(exit::INTERNAL)
        }
        _ => ExitCode::SUCCESS,
    }
}
