//! The documented commands are those that there are.

use overside_kv::protocol::documented_commands;

#[test]
fn every_command_is_documented_and_no_other() {
    let text = include_str!("../../../../../docs/kv/kv-commands.md");
    let rows = text.split_inclusive('\n');
    let rows: String = rows.filter(|line| line.starts_with("| `")).collect();
    let expected = documented_commands();
    assert!(expected.lines().count() > 90);
    assert!(rows == expected, "the rows of docs/kv/kv-commands.md have to be:\n{expected}");
}
