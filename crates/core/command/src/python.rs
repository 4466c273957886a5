//! Verbs that the Python package answers.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::exit;
use crate::messages::shown;

/// Names another interpreter than the one beside this command.
const INTERPRETER_ENV: &str = "OVERSIDE_PYTHON";

/// Replaces this process by the Python that answers its command line; returns only if there is none.
pub fn hand_over() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let why = match command("overside") {
        // An error is all that `exec` can return.
        Ok(mut python) => {
            let error = python.args(&arguments).exec();
            cannot_start(&python, &error)
        }
        Err(why) => why,
    };
    let verb = arguments.first().map(shown).unwrap_or_default();
    complain!("overside {verb}: {why}");
    ExitCode::from(exit::ABSENT)
}

/// Returns the command that starts a Python module of the package.
///
/// # Errors
/// Python is missing; the message has the reason and the remedy.
pub fn command(module: &str) -> Result<Command, String> {
    let absent = || {
        let here = directory().map_or_else(|| "it".into(), |path| path.display().to_string());
        needs_python(&format!("there is no python in {here}"))
    };
    let mut command = Command::new(interpreter().ok_or_else(absent)?);
    command.args(["-P", "-m", module]);
    Ok(command)
}

/// Message with the reason why Python could not be started, and the remedy.
pub fn cannot_start(python: &Command, error: &std::io::Error) -> String {
    let interpreter = python.get_program().to_string_lossy();
    needs_python(&format!("{interpreter} cannot be started: {error}"))
}

fn needs_python(why: &str) -> String {
    format!(
        "this verb needs Python, and {why}\n  \
         `make setup` or `pip install .` puts both into one environment; \
         or name a python that has overside in {INTERPRETER_ENV}"
    )
}

fn interpreter() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(INTERPRETER_ENV).filter(|name| !name.is_empty()) {
        return Some(named.into());
    }
    let directory = directory()?;
    ["python", "python3"].map(|name| directory.join(name)).into_iter().find(|path| path.is_file())
}

/// Directory of this command's executable, with symbolic links resolved.
fn directory() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_path_buf())
}
