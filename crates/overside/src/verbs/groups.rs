//! What `overside --help` shows: the verbs by what they are for.

use clap::Command;

/// Each verb stands in one group. What is used most is first.
pub const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Measure",
        &[
            "run",
            "plan",
            "validate",
            "list",
            "runs",
            "report",
            "compare",
            "calibrate",
            "fleet",
            "audit",
        ],
    ),
    ("Decide", &["advise", "simulate", "facts"]),
    (
        "Move data",
        &["compress", "decompress", "match", "flow", "kv"],
    ),
    (
        "Devices and agents",
        &["devices", "agent", "agents", "profile"],
    ),
    (
        "Maintain",
        &[
            "doctor",
            "data",
            "plugin",
            "clean",
            "completions",
            "manual",
            "help",
        ],
    ),
];

const WIDTH: usize = 13;

/// The template of the command's help.
pub fn template(command: &Command) -> String {
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        line!(text, "\n{title}:");
        for name in names {
            let about = match *name {
                // clap adds this one by itself.
                "help" => "Print help of a verb".into(),
                name => (command.find_subcommand(name))
                    .and_then(Command::get_about)
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            };
            line!(text, "  {name:<WIDTH$}{about}");
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}
