//! The command `overside`. Native verbs start in milliseconds. The others run in the Python
//! environment that the command is installed in.

mod agent;
mod agents;
mod aliases;
mod colors;
mod compress;
mod decompress;
mod devices;
mod files;
mod matching;
mod verbs;
mod verification;
mod walk;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use overside_base::END_WITH_PARENT;
use overside_command::refusal::Refusal;
use overside_command::{complain, exit, messages, print};
use rustix::process::{Signal, set_parent_process_death_signal};

fn main() -> ExitCode {
    // The default exit code of a panic would mean that a result failed its verification.
    std::panic::catch_unwind(run).unwrap_or(ExitCode::from(exit::INTERNAL))
}

fn run() -> ExitCode {
    if std::env::var_os(END_WITH_PARENT).is_some() {
        // If the system does not support this, the program ends when it is done.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let arguments = aliases::with_verb(&program, arguments.collect());
    let words: Vec<&str> =
        (arguments.iter()).map(|word| word.to_str().unwrap_or_default()).collect();
    match words[..] {
        // Agents start this verb; it is not for users.
        #[cfg(feature = "measure")]
        [agent::measure::WORKER_VERB] => agent::measure::serve_tests(),
        _ => {
            let (code, known) = match words[..] {
                [verb, ..] | ["help", verb, ..] if verbs::is_left_out(verb) => {
                    (without(verb), Some(exit::ABSENT))
                }
                _ => match verbs::parse(&arguments) {
                    Ok(verb) => (verb.run(), None),
                    Err(error) => {
                        let code = refuse(words.first().copied(), &error, &arguments);
                        (ExitCode::from(code), Some(code))
                    }
                },
            };
            let is_for_programs = |word: &&str| ["--json", "--json-lines"].contains(word);
            if code != ExitCode::SUCCESS && words.iter().any(is_for_programs) {
                tell_programs(known);
            }
            code
        }
    }
}

/// Prints an error as a JSON object, with its exit code if that is known here, because the command
/// was called with `--json`.
fn tell_programs(code: Option<u8>) {
    if let Some(mut error) = messages::last_error() {
        if let Some(code) = code {
            error["exit_code"] = code.into();
        }
        // Errors are ignored: stdout may be closed or full.
        let _ = writeln!(std::io::stdout(), "{error}");
    }
}

/// Reports that a verb is not part of this build.
fn without(verb: &str) -> ExitCode {
    complain!(
        "overside {verb}: not in this overside, which was built without the feature `{verb}`; take the complete one: \
         cargo build --release -p overside"
    );
    ExitCode::from(exit::ABSENT)
}

/// Prints the requested help or the error of the command line. Returns the exit code.
fn refuse(first: Option<&str>, error: &clap::Error, words: &[OsString]) -> u8 {
    let verb = first.filter(|word| verbs::is_known(word));
    match Refusal::of(error, verb, words) {
        Refusal::Help(text) => {
            return if print(&text) == ExitCode::SUCCESS { 0 } else { exit::INTERNAL };
        }
        Refusal::Incomplete(text) => complain!("{}", text.trim_end()),
        Refusal::Wrong { message, remedy } => {
            let program = verb.map_or("overside".into(), |verb| format!("overside {verb}"));
            complain!("{program}: {message}\n  {remedy}");
        }
    }
    match verb {
        Some("compress" | "decompress") => files::ERROR,
        Some("match") => matching::ERROR,
        _ => exit::USAGE,
    }
}
