//! Whether text is colored.

use std::env;
use std::io::IsTerminal;

use clap::ValueEnum;

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    Auto,
    Always,
    Never,
}

/// Whether what is written to `output` is colored: unasked only on a terminal that has colors, and
/// if nobody has set `NO_COLOR` (<https://no-color.org>).
pub fn are_wanted(choice: ColorChoice, output: &impl IsTerminal) -> bool {
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
