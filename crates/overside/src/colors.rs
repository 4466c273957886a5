//! Decision whether output is colored.

use std::env;
use std::io::IsTerminal;

use clap::ValueEnum;

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Returns `true` if text that is written to `output` is to be colored. By default only a terminal
/// that has colors gets them, unless the user has set `NO_COLOR` (<https://no-color.org>).
pub(crate) fn are_wanted(choice: ColorChoice, output: &impl IsTerminal) -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
            output.is_terminal() && !is_set("NO_COLOR") && !is_dumb
        }
    }
}
