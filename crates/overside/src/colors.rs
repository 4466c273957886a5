//! Decision whether output is colored.

use std::env;
use std::io::IsTerminal;

use clap::ValueEnum;

/// Values of `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Returns `true` if text written to `output` should be colored. By default it is if `output` is a
/// terminal with colors and the user has not set `NO_COLOR` (<https://no-color.org>).
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
