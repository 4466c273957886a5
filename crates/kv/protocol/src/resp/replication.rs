//! Commands of replication.

use super::command::{Call, CommandResult};
use super::number::parse_i64;
use super::reply::{ErrorReply, NOT_AN_INTEGER, SYNTAX};
use crate::replication::{Role, STREAM_VERSION, SyncRequest};
use crate::session::ReplicaWait;
use overside_base::random_hex;

const IMPOSSIBLE: ErrorReply = ErrorReply::new(
    "ERR this server has no copies and is none: that takes --design cpu-only and --semantics store",
);

/// Error of Redis.
const WAIT_ON_REPLICA: ErrorReply = ErrorReply::new(
    "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica \
     is configured to be writable (which is not the default) writes to replicas are just local and are \
     not propagated.",
);
fn refused(text: &str) -> ErrorReply {
    ErrorReply::from_bytes(format!("ERR {text}").into_bytes())
}

/// `REPLICAOF NO ONE`, `REPLICAOF host port`
pub(super) fn replicaof(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let replication = call.server.replication().ok_or(IMPOSSIBLE)?;
    let [_, host, port] = arguments else {
        return Err(SYNTAX);
    };
    let done = if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        // Checked first, so that either all partitions start the same history or none does.
        (replication.check_promotion())
            .and_then(|()| random_hex().map_err(|error| error.to_string()))
            .and_then(|id| replication.promote(&id))
    } else {
        let host = std::str::from_utf8(host).map_err(|_| ErrorReply::new("ERR Invalid host"))?;
        let port = parse_i64(port).and_then(|port| u16::try_from(port).ok());
        let port = port.filter(|port| *port > 0);
        replication.follow(host, port.ok_or(ErrorReply::new("ERR Invalid master port"))?)
    };
    done.map_err(|text| refused(&text))?;
    call.ok()
}

pub(super) fn role(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let role = call.server.replication().map(|replication| {
        replication.refresh();
        replication.report().role().clone()
    });
    let role = role.unwrap_or_else(Role::alone);
    let mut reply = call.reply();
    match role {
        Role::Primary { offset, replicas } => {
            reply.array(3);
            reply.bulk(b"master");
            reply.count(offset);
            reply.array(replicas.len());
            for replica in replicas {
                reply.array(3);
                reply.bulk(replica.host.as_bytes());
                reply.bulk(replica.port.to_string().as_bytes());
                reply.bulk(replica.offset.to_string().as_bytes());
            }
        }
        Role::Replica { host, port, state, offset } => {
            reply.array(5);
            reply.bulk(b"slave");
            reply.bulk(host.as_bytes());
            reply.integer(i64::from(port));
            reply.bulk(state.name().as_bytes());
            reply.count(offset);
        }
    }
    Ok(())
}

/// `OVERSIDE.SYNC version id offset port partition partitions replica`: the connection belongs to
/// the stream from here on.
pub(super) fn sync(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    fn number<N: TryFrom<i64>>(arguments: &[&[u8]], at: usize) -> Result<N, ErrorReply> {
        let argument = arguments.get(at).and_then(|argument| parse_i64(argument));
        let number = argument.and_then(|number| N::try_from(number).ok());
        number.ok_or(SYNTAX)
    }
    if number::<u64>(arguments, 1)? != STREAM_VERSION {
        return Err(refused(&format!("this server has version {STREAM_VERSION} of the stream")));
    }
    let id = |at: usize| match arguments.get(at) {
        Some(id) => Ok(String::from_utf8_lossy(&id[..id.len().min(64)]).into_owned()),
        None => Err(SYNTAX),
    };
    let request = SyncRequest {
        id: id(2)?,
        offset: number(arguments, 3)?,
        port: number(arguments, 4)?,
        partition: number(arguments, 5)?,
        partitions: number(arguments, 6)?,
        replica: id(7)?,
    };
    let replication = call.server.replication().ok_or(IMPOSSIBLE)?;
    (replication.check(&request)).map_err(|text| refused(&text))?;
    call.session.sync_request = Some(Box::new(request));
    // The following bytes are not of this protocol.
    call.session.close();
    Ok(())
}

/// `WAIT numreplicas timeout`: the reply follows when `numreplicas` replicas have everything
/// executed so far, or after the timeout in milliseconds; 0 waits without a timeout.
pub(super) fn wait(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let replicas = parse_i64(arguments[1]).ok_or(NOT_AN_INTEGER)?;
    let timeout = parse_i64(arguments[2]);
    let timeout =
        timeout.ok_or(ErrorReply::new("ERR timeout is not an integer or out of range"))?;
    let timeout_ms =
        u64::try_from(timeout).map_err(|_| ErrorReply::new("ERR timeout is negative"))?;
    let replication = call.server.replication().ok_or(IMPOSSIBLE)?;
    if replication.is_replica() {
        return Err(WAIT_ON_REPLICA);
    }
    let replicas = usize::try_from(replicas).unwrap_or_default();
    let ends = replication.history_ends();
    let have = replication.acknowledgments(&ends, replicas);
    if have >= replicas {
        call.reply().count(have as u64);
        return Ok(());
    }
    let end_ms = match timeout_ms {
        0 => u64::MAX,
        _ => call.now_ms.saturating_add(timeout_ms),
    };
    call.session.replica_wait = Some(ReplicaWait { ends, replicas, end_ms, have });
    Ok(())
}

/// Ends a wait at once, as within a transaction.
pub(super) fn end_wait_now(call: &mut Call<'_>) {
    let have = call.session.replica_wait().map(|wait| wait.have);
    call.session.end_wait(have, call.out);
}
