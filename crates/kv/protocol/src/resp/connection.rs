//! Commands with which a client checks, sets up or ends its connection.

use super::batch::integer;
use super::clients::set_name;
use super::command::{Call, CommandResult};
use super::number::parse_i64;
use super::reply::{ErrorReply, SYNTAX};
use crate::REDIS_VERSION;

const WRONG_PASSWORD: ErrorReply =
    ErrorReply::new("WRONGPASS invalid username-password pair or user is disabled.");
/// User of clients that name none.
const DEFAULT_USER: &[u8] = b"default";

pub(super) fn ping(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    match &arguments[1..] {
        [] => call.reply().simple("PONG"),
        [message] => call.reply().bulk(message),
        _ => return Err(ErrorReply::wrong_arity("ping")),
    }
    Ok(())
}

pub(super) fn echo(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    call.reply().bulk(arguments[1]);
    Ok(())
}

pub(super) fn quit(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    call.session.close();
    call.ok()
}

pub(super) fn reset(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    call.session.reset();
    let id = call.session.id();
    call.server.set_client_name(id, b"");
    call.reply().simple("RESET");
    Ok(())
}

pub(super) fn select(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    match integer(arguments[1])? {
        0 => call.ok(),
        database if i32::try_from(database).is_ok() => {
            Err(ErrorReply::new("ERR DB index is out of range"))
        }
        _ => Err(ErrorReply::new(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        )),
    }
}

pub(super) fn auth(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let (user, password) = match &arguments[1..] {
        [_] if !call.server.has_password() => {
            return Err(ErrorReply::new(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?",
            ));
        }
        [password] => (DEFAULT_USER, *password),
        [user, password] => (*user, *password),
        _ => return Err(SYNTAX),
    };
    authenticate(call, user, password)?;
    call.ok()
}

fn authenticate(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> CommandResult {
    if !call.server.authenticate(user, password) {
        return Err(WRONG_PASSWORD);
    }
    call.session.is_authenticated = true;
    Ok(())
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub(super) fn hello(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let version = match arguments.get(1) {
        None => None,
        Some(text) => match parse_i64(text) {
            Some(version @ 2..=3) => Some(version),
            Some(_) => return Err(ErrorReply::new("NOPROTO unsupported protocol version")),
            None => {
                return Err(ErrorReply::new(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        },
    };
    let mut name = None;
    let mut options = arguments.get(2..).unwrap_or_default();
    while let [option, rest @ ..] = options {
        options = match rest {
            [user, password, rest @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                authenticate(call, user, password)?;
                rest
            }
            [text, rest @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(*text);
                rest
            }
            _ => {
                let mut text = b"ERR Syntax error in HELLO option '".to_vec();
                text.extend_from_slice(option);
                text.push(b'\'');
                return Err(ErrorReply::from_bytes(text));
            }
        };
    }
    if !call.session.is_authenticated {
        return Err(ErrorReply::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO AUTH <user> <pass> option can be used to authenticate the client and select the \
             RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        set_name(call, name)?;
    }
    if let Some(version) = version {
        call.session.is_resp3 = version == 3;
    }
    write_hello(call);
    Ok(())
}

fn write_hello(call: &mut Call<'_>) {
    let id = call.session.id();
    let version = if call.session.is_resp3 { 3 } else { 2 };
    let mode: &[u8] = if call.server.cluster().is_some() { b"cluster" } else { b"standalone" };
    let mut reply = call.reply();
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(version);
    reply.bulk(b"id");
    reply.count(id);
    reply.bulk(b"mode");
    reply.bulk(mode);
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}
