//! The documented commands are those that there are.

use crate::resp_client::{Bench, Client};

/// Name, arity, first key, last key and step of every command and subcommand.
fn commands() -> Vec<(String, i64, [i64; 3])> {
    let (mut bench, mut client) = (Bench::new(), Client::new(1));
    let reply = String::from_utf8(bench.send(&mut client, b"COMMAND\r\n")).unwrap();
    let lines: Vec<_> = reply.lines().collect();
    let number = |line: &str| line[1..].parse().unwrap();
    let mut commands = Vec::new();
    for at in (0..lines.len()).filter(|at| lines[*at] == "*10") {
        let flags = number(lines[at + 4]) as usize;
        let keys = [5, 6, 7].map(|place| number(lines[at + flags + place]));
        commands.push((lines[at + 2].to_owned(), number(lines[at + 3]), keys));
    }
    commands
}

/// What the document says of arguments and keys.
fn described(name: &str, arity: i64, keys: [i64; 3]) -> String {
    let words = 1 + name.matches('|').count() as i64;
    let arguments = match arity {
        ..0 => format!("{} or more", -arity - words),
        _ => (arity - words).to_string(),
    };
    let keys = match keys {
        [0, 0, 0] => "",
        [_, -1, 1] => "all",
        [_, -1, 2] => "every other one",
        _ => "first",
    };
    format!(
        "| `{}` | {arguments} | {keys} |",
        name.replace('|', " ").to_uppercase()
    )
}

#[test]
fn every_command_is_documented_and_no_other() {
    let text = include_str!("../../../../docs/kv-commands.md");
    let commands = commands();
    assert!(commands.len() > 90);
    for (name, arity, keys) in &commands {
        let row = described(name, *arity, *keys);
        assert!(text.contains(&row), "docs/kv-commands.md lacks {row}");
    }
    let rows = text.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, commands.len());
}
