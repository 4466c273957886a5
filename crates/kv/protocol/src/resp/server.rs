//! Commands on the server.

use std::fmt::Write;

use super::command::{Call, CommandResult};
use super::glob;
use super::reply::{ErrorReply, SYNTAX};

/// `INFO [section ...]`
pub(super) fn info(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let sections: Vec<_> = arguments[1..].iter().map(|s| s.to_ascii_lowercase()).collect();
    let wants_all = sections.is_empty()
        || (sections.iter()).any(|s| matches!(s.as_slice(), b"all" | b"everything" | b"default"));
    let is_wanted =
        |section: &str| wants_all || sections.contains(&section.to_ascii_lowercase().into_bytes());
    let engine = call.server.engine();
    engine.refresh();
    let statistics = engine.statistics();
    let mut text = String::new();
    let mut current = String::new();
    // Writing to a string does not fail.
    let mut field = |section: &str, name: &str, value: &dyn std::fmt::Display| {
        if !is_wanted(section) {
            return;
        }
        if section != current {
            let gap = if text.is_empty() { "" } else { "\r\n" };
            let _ = write!(text, "{gap}# {section}\r\n");
            current = section.to_owned();
        }
        let _ = write!(text, "{name}:{value}\r\n");
    };
    call.server.info(&statistics, &mut field);
    if statistics.items > 0 {
        let (keys, expires) = (statistics.items, statistics.items_with_expiry);
        let value = format_args!("keys={keys},expires={expires},avg_ttl=0");
        field("Keyspace", "db0", &value);
    }
    call.reply().verbatim(&text);
    Ok(())
}

/// `CONFIG GET pattern ...`
pub(super) fn config_get(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let patterns = &arguments[2..];
    for pattern in patterns {
        glob::pattern(pattern)?;
    }
    let mut found: Vec<(String, String)> = Vec::new();
    call.server.config(&mut |name, value| {
        if patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes(), true)) {
            found.push((name.to_owned(), value.to_owned()));
        }
    });
    let mut reply = call.reply();
    reply.map(found.len());
    for (name, value) in &found {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// `CONFIG SET`, always refused: parameters are set on the command line.
pub(super) fn config_set(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let name = arguments[2];
    let mut is_known = false;
    call.server.config(&mut |known, _| is_known |= known.as_bytes().eq_ignore_ascii_case(name));
    let repeated = String::from_utf8_lossy(name);
    let text = if !arguments.len().is_multiple_of(2) {
        return Err(SYNTAX);
    } else if is_known {
        format!(
            "ERR CONFIG SET failed (possibly related to argument '{repeated}') - can't set \
             immutable config"
        )
    } else {
        format!("ERR Unknown option or number of arguments for CONFIG SET - '{repeated}'")
    };
    Err(ErrorReply::from_bytes(text.into_bytes()))
}

pub(super) fn time(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let now_ms = call.now_ms;
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk((now_ms / 1000).to_string().as_bytes());
    reply.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    Ok(())
}

fn saved(result: Result<(), String>) -> CommandResult {
    result.map_err(|text| ErrorReply::from_bytes(format!("ERR {text}").into_bytes()))
}

/// Replies that work has started in the background. Within a transaction, Redis says that it is
/// only scheduled.
fn started(call: &mut Call<'_>, work: &str) -> CommandResult {
    let state = if call.is_in_exec { "scheduled" } else { "started" };
    call.reply().simple(&format!("{work} {state}"));
    Ok(())
}

pub(super) fn save(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    saved(call.server.save())?;
    call.ok()
}

pub(super) fn bgsave(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    match &arguments[1..] {
        [] => {}
        [word] if word.eq_ignore_ascii_case(b"SCHEDULE") => {}
        _ => return Err(SYNTAX),
    }
    saved(call.server.save_in_background())?;
    started(call, "Background saving")
}

pub(super) fn bgrewriteaof(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    saved(call.server.rewrite_log_in_background())?;
    started(call, "Background append only file rewriting")
}

pub(super) fn lastsave(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let time_s = call.server.last_save_s();
    call.reply().count(time_s);
    Ok(())
}

/// `SHUTDOWN`. It has no reply if it succeeds: the connection ends with the server.
pub(super) fn shutdown(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let mut save = None;
    for option in &arguments[1..] {
        save = match option.to_ascii_uppercase().as_slice() {
            b"SAVE" if save != Some(false) => Some(true),
            b"NOSAVE" if save != Some(true) => Some(false),
            // The server does not wait, so both have no effect.
            b"NOW" | b"FORCE" => save,
            _ => return Err(SYNTAX),
        };
    }
    saved(call.server.shutdown(save))?;
    call.session.close();
    Ok(())
}
