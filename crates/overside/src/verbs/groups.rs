//! Groups of verbs by purpose, as `overside --help` shows them.

use clap::Command;
use overside_command::line;

/// Groups of verbs. Each verb is in one group; the most used ones are first.
pub(super) const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Measure",
        &[
            "run",
            "plan",
            "validate",
            "list",
            "studies",
            "runs",
            "report",
            "compare",
            "calibrate",
            "fleet",
            "audit",
        ],
    ),
    ("Decide", &["advise", "simulate", "facts"]),
    ("Move data", &["compress", "decompress", "match", "flow", "kv"]),
    ("Devices and agents", &["devices", "agent", "agents", "profile"]),
    ("Maintain", &["doctor", "data", "plugin", "clean", "completions", "manual", "help"]),
];

const WIDTH: usize = 13;
/// Minimum number of columns for texts beside names.
const TEXT_MIN: usize = 20;

/// Returns the template of the command's help.
pub(super) fn template(command: &Command) -> String {
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        line!(text, "\n{title}:");
        for name in names {
            let about = match (*name, command.find_subcommand(name)) {
                // clap adds this verb itself.
                ("help", _) => "Print help of a verb".into(),
                (_, Some(verb)) => verb.get_about().map(ToString::to_string).unwrap_or_default(),
                // The verb is not built in.
                (_, None) => continue,
            };
            let mut lines = wrapped(&about, columns().saturating_sub(WIDTH + 2)).into_iter();
            line!(text, "  {name:<WIDTH$}{}", lines.next().unwrap_or_default());
            for rest in lines {
                line!(text, "  {:WIDTH$}{rest}", "");
            }
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}

/// Returns the terminal's width or the value of `COLUMNS`; unlimited without a terminal.
fn columns() -> usize {
    let told = std::env::var("COLUMNS").ok();
    told.and_then(|columns| columns.parse().ok())
        .or_else(|| {
            let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
            (size.ws_col > 0).then_some(size.ws_col.into())
        })
        .unwrap_or(usize::MAX)
}

/// Wraps words into lines of at most `width` columns.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(TEXT_MIN);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn texts_are_wrapped_between_words() {
        let text = "Find lines, or rows of a column, that match patterns";
        let lines = wrapped(text, 25);
        assert_eq!(lines, ["Find lines, or rows of a", "column, that match", "patterns"]);
        assert_eq!(wrapped(text, usize::MAX), [text]);
        assert_eq!(wrapped(text, 0)[0], "Find lines, or rows");
    }
}
