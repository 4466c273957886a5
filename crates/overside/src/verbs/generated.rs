//! `overside completions` and `overside manual`, generated from the definitions of the verbs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, ValueEnum, ValueHint};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use super::everything;
use crate::{exit, print};
use overside_command::{complain, messages::shown, refusal::with_round_brackets};

/// Print completions for a shell
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  overside completions bash >~/.local/share/bash-completion/completions/overside
  overside completions zsh >~/.zfunc/_overside      with fpath+=~/.zfunc before compinit
  overside completions fish >~/.config/fish/completions/overside.fish")]
pub(crate) struct CompletionsArguments {
    #[arg(value_name = "SHELL")]
    shell: CompletionShell,
}

#[derive(Clone, Copy, ValueEnum)]
enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

/// Write manual pages, one for each verb
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  overside manual ~/.local/share/man/man1
  man overside-compress")]
pub(crate) struct ManualArguments {
    /// Directory for the pages; created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Returns the whole command line for completions and manual pages.
fn whole() -> Command {
    let mut command = everything();
    hint(&mut command);
    // Gives verbs their full names.
    command.build();
    command
}

/// Marks values that are files, so that shells complete them, and shows defaults as the help does.
fn hint(command: &mut Command) {
    let taken = std::mem::take(command);
    *command = taken.mut_args(|arg| {
        let help = arg.get_help().map(ToString::to_string);
        let arg = match help {
            Some(help) => arg.help(with_round_brackets(&help)),
            None => arg,
        };
        let name = arg.get_value_names().and_then(|names| names.first());
        match name.map(|name| name.as_str()) {
            Some("FILE" | "PATH" | "OUT" | "BOX") => arg.value_hint(ValueHint::FilePath),
            Some("DIR" | "RUN" | "A" | "B") => arg.value_hint(ValueHint::DirPath),
            _ => arg,
        }
    });
    for verb in command.get_subcommands_mut() {
        hint(verb);
    }
}

pub(super) fn completions(arguments: &CompletionsArguments) -> ExitCode {
    let shell = match arguments.shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Zsh => Shell::Zsh,
        CompletionShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut whole(), "overside", &mut script);
    print(&String::from_utf8_lossy(&script))
}

pub(super) fn manual(arguments: &ManualArguments) -> ExitCode {
    let directory = &arguments.directory;
    let written = fs::create_dir_all(directory).and_then(|()| {
        let command = whole();
        page(directory, &command, "overside")
    });
    match written {
        Ok(pages) => print(&format!("{pages} pages in {}\n", shown(directory))),
        Err(error) => {
            complain!("overside manual: {}: {error}", shown(directory));
            ExitCode::from(exit::INCOMPLETE)
        }
    }
}

/// Writes the page of a verb and the pages of its subcommands. Returns their number.
fn page(directory: &Path, command: &Command, name: &str) -> io::Result<u64> {
    let title: &'static str = name.to_owned().leak();
    let page = command.clone().display_name(title).bin_name(name.replace('-', " "));
    let mut text = Vec::new();
    Man::new(page).title(title).render(&mut text)?;
    let text = with_round_brackets(&String::from_utf8_lossy(&text));
    fs::write(directory.join(format!("{name}.1")), text)?;
    let mut pages = 1;
    for verb in command.get_subcommands() {
        if verb.get_name() != "help" {
            pages += self::page(directory, verb, &format!("{name}-{}", verb.get_name()))?;
        }
    }
    Ok(pages)
}
