//! Verbs that the Python package answers.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::exit;

/// Names another interpreter than the one beside this command.
const INTERPRETER_ENV: &str = "OVERSIDE_PYTHON";

/// Becomes the Python that answers; returns only if there is none.
pub fn hand_over(verb: &str, arguments: &[OsString]) -> ExitCode {
    let Some(interpreter) = interpreter() else {
        let here = directory().map_or_else(|| "it".into(), |path| path.display().to_string());
        return absent(verb, &format!("there is no python in {here}"));
    };
    // An error is all that `exec` can return.
    let error = Command::new(&interpreter)
        .args(["-P", "-m", "overside"])
        .args(arguments)
        .exec();
    absent(
        verb,
        &format!("{} cannot be started: {error}", interpreter.display()),
    )
}

fn absent(verb: &str, why: &str) -> ExitCode {
    complain!(
        "overside {verb}: this verb needs Python, and {why}\n  \
         `make setup` or `pip install .` puts both into one environment; \
         or name a python that has overside in {INTERPRETER_ENV}"
    );
    ExitCode::from(exit::ABSENT)
}

fn interpreter() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(INTERPRETER_ENV).filter(|name| !name.is_empty()) {
        return Some(named.into());
    }
    let directory = directory()?;
    ["python", "python3"]
        .map(|name| directory.join(name))
        .into_iter()
        .find(|path| path.is_file())
}

/// Where this command is, links followed.
fn directory() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_path_buf())
}
