//! The command `COMMAND`, which describes commands.

use super::command::{Call, Command, CommandResult, CommandTable, flags};
use super::reply::RespWriter;

pub(super) fn all(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let commands = call.table.commands();
    let mut reply = call.reply();
    reply.array(commands.len());
    for command in commands {
        describe(command, None, &mut reply);
    }
    Ok(())
}

pub(super) fn count(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let count = call.table.commands().len();
    call.reply().integer(count as i64);
    Ok(())
}

pub(super) fn list(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let commands = call.table.commands();
    let mut reply = call.reply();
    reply.array(commands.len());
    for command in commands {
        reply.bulk(command.name.as_bytes());
    }
    Ok(())
}

/// `COMMAND INFO [name ...]`
pub(super) fn info(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let names = &arguments[2..];
    if names.is_empty() {
        return all(call, arguments);
    }
    let table = call.table;
    let mut reply = call.reply();
    reply.array(names.len());
    for name in names {
        match find_with_subcommand(table, name) {
            Some((command, parent)) => describe(command, parent, &mut reply),
            None => reply.null_array(),
        }
    }
    Ok(())
}

/// Returns a command, or a subcommand and its command, for a name like `client|id`.
fn find_with_subcommand(
    table: &'static CommandTable,
    name: &[u8],
) -> Option<(&'static Command, Option<&'static Command>)> {
    match name.iter().position(|b| *b == b'|') {
        None => Some((table.find(name)?, None)),
        Some(at) => {
            let command = table.find(&name[..at])?;
            Some((command.subcommand(&name[at + 1..])?, Some(command)))
        }
    }
}

/// Writes name, arity, flags, first key, last key, step, categories, tips, key specifications and
/// subcommands. There are no categories: they belong to access control lists.
fn describe(command: &Command, parent: Option<&Command>, reply: &mut RespWriter<'_>) {
    reply.array(10);
    match parent {
        Some(parent) => reply.bulk(format!("{}|{}", parent.name, command.name).as_bytes()),
        None => reply.bulk(command.name.as_bytes()),
    }
    reply.integer(i64::from(command.arity));
    let names = flags::NAMES.iter().filter(|(flag, _)| command.has(*flag));
    reply.set(names.clone().count());
    names.for_each(|(_, name)| reply.simple(name));
    for place in command.keys {
        reply.integer(i64::from(place));
    }
    reply.set(0);
    reply.set(0);
    reply.set(0);
    reply.array(command.subcommands().len());
    for subcommand in command.subcommands() {
        describe(subcommand, Some(command), reply);
    }
}

/// `COMMAND DOCS [name ...]`: the group of each command, which redis-cli shows.
pub(super) fn docs(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let names = &arguments[2..];
    let commands: Vec<&Command> = match names {
        [] => call.table.commands().iter().collect(),
        names => names.iter().filter_map(|name| call.table.find(name)).collect(),
    };
    let mut reply = call.reply();
    reply.map(commands.len());
    for command in commands {
        reply.bulk(command.name.as_bytes());
        reply.map(1);
        reply.bulk(b"group");
        reply.bulk(command.group.as_bytes());
    }
    Ok(())
}
