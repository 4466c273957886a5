//! Commands on the cluster that the server belongs to: `CLUSTER`, `ASKING`, `READONLY` and `READWRITE`.

use std::fmt::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::batch::integer;
use super::command::{Call, CommandResult};
use super::keyspace::cursor;
use super::reply::{ErrorReply, RespWriter};
use crate::cluster::{ClusterNode, ClusterView, SlotAccess};
use overside_kv_store::partition::{SLOTS, slot_of};
use overside_kv_store::{Metadata, ScanPosition};

const DISABLED: ErrorReply = ErrorReply::new("ERR This instance has cluster support disabled");
const INVALID_SLOT: ErrorReply = ErrorReply::new("ERR Invalid slot");
/// Keys that a search looks at between two calls of the engine, and the most that a client may want.
const SCAN_COUNT: usize = 4096;

fn view(call: &Call<'_>) -> Result<Arc<ClusterView>, ErrorReply> {
    call.server.cluster().cloned().ok_or(DISABLED)
}

pub(super) fn asking(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    view(call)?;
    call.session.is_asking = true;
    call.ok()
}

/// `READONLY` and `READWRITE`: the servers of a cluster are primaries.
pub(super) fn readonly(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    view(call)?;
    call.ok()
}

pub(super) fn my_id(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let view = view(call)?;
    call.reply().bulk(view.nodes()[view.own()].id.as_bytes());
    Ok(())
}

pub(super) fn key_slot(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    view(call)?;
    call.reply().integer(i64::from(slot_of(arguments[2])));
    Ok(())
}

pub(super) fn info(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let view = view(call)?;
    let states = || (0..SLOTS).map(|slot| view.slot(slot));
    let assigned = states().filter(|state| state.owner.is_some()).count();
    let is_there = |owner: Option<u16>| owner.is_some_and(|owner| view.node(owner).is_registered);
    let served = states().filter(|state| is_there(state.owner)).count();
    let owners = (0..view.nodes().len()).filter(|node| !view.ranges(*node).is_empty()).count();
    let state = if served == usize::from(SLOTS) { "ok" } else { "fail" };
    let mut text = String::new();
    for (name, value) in [
        ("cluster_slots_assigned", assigned as u64),
        ("cluster_slots_ok", served as u64),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", (assigned - served) as u64),
        ("cluster_known_nodes", view.nodes().len() as u64),
        ("cluster_size", owners as u64),
        ("cluster_current_epoch", view.version()),
        ("cluster_my_epoch", view.version()),
        ("cluster_stats_messages_sent", 0),
        ("cluster_stats_messages_received", 0),
    ] {
        // Writing to a string does not fail.
        let _ = write!(text, "{name}:{value}\r\n");
    }
    call.reply().verbatim(&format!("cluster_state:{state}\r\n{text}"));
    Ok(())
}

/// `CLUSTER NODES`: a line for each server. There is no port for gossip: etcd is the consensus.
pub(super) fn nodes(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let view = view(call)?;
    let mut text = String::new();
    for (number, node) in view.nodes().iter().enumerate() {
        let is_own = number == view.own();
        let flags = match (is_own, node.is_registered) {
            (true, _) => "myself,master",
            (false, true) => "master",
            (false, false) => "master,fail",
        };
        let link = if is_own || node.is_registered { "connected" } else { "disconnected" };
        let (id, host, version) = (&node.id, &node.host, view.version());
        let port = call.port_of(node);
        // Writing to a string does not fail.
        let _ = write!(text, "{id} {host}:{port}@0 {flags} - 0 0 {version} {link}");
        for range in view.ranges(number) {
            let _ = match range.start() == range.end() {
                true => write!(text, " {}", range.start()),
                false => write!(text, " {}-{}", range.start(), range.end()),
            };
        }
        // As in Redis, only a server's own slots that move.
        for slot in (0..SLOTS).filter(|_| is_own) {
            let state = view.slot(slot);
            if let (Some(owner), Some(target)) = (state.owner, state.target) {
                let _ = match () {
                    () if usize::from(owner) == number => {
                        write!(text, " [{slot}->-{}]", view.node(target).id)
                    }
                    () if usize::from(target) == number => {
                        write!(text, " [{slot}-<-{}]", view.node(owner).id)
                    }
                    () => Ok(()),
                };
            }
        }
        text.push('\n');
    }
    call.reply().verbatim(&text);
    Ok(())
}

/// `CLUSTER SLOTS`: each range with host, port and id of its owner.
pub(super) fn slots(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let view = view(call)?;
    let mut all: Vec<(RangeInclusive<u16>, &ClusterNode)> = Vec::new();
    for (number, node) in view.nodes().iter().enumerate() {
        // Clients take one without an address for the server that they ask.
        let ranges = if call.port_of(node) > 0 { view.ranges(number) } else { Vec::new() };
        all.extend(ranges.into_iter().map(|range| (range, node)));
    }
    all.sort_by_key(|(range, _)| *range.start());
    let ports: Vec<u16> = all.iter().map(|(_, node)| call.port_of(node)).collect();
    let mut reply = call.reply();
    reply.array(all.len());
    for ((range, node), port) in all.iter().zip(ports) {
        reply.array(3);
        reply.integer(i64::from(*range.start()));
        reply.integer(i64::from(*range.end()));
        reply.array(4);
        reply.bulk(node.host.as_bytes());
        reply.integer(i64::from(port));
        reply.bulk(node.id.as_bytes());
        reply.array(0);
    }
    Ok(())
}

/// `CLUSTER SHARDS`: each server with its ranges.
pub(super) fn shards(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let view = view(call)?;
    let mut reply = call.reply();
    reply.array(view.nodes().len());
    for (number, node) in view.nodes().iter().enumerate() {
        let ranges = view.ranges(number);
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(ranges.len() * 2);
        for range in ranges {
            reply.integer(i64::from(*range.start()));
            reply.integer(i64::from(*range.end()));
        }
        reply.bulk(b"nodes");
        reply.array(1);
        describe(node, &mut reply);
    }
    Ok(())
}

fn describe(node: &ClusterNode, reply: &mut RespWriter<'_>) {
    let ports: Vec<(&[u8], u16)> = [&b"port"[..], b"tls-port"]
        .into_iter()
        .zip(node.ports)
        .filter(|(_, port)| *port > 0)
        .collect();
    reply.map(ports.len() + 6);
    reply.bulk(b"id");
    reply.bulk(node.id.as_bytes());
    for (name, port) in ports {
        reply.bulk(name);
        reply.integer(i64::from(port));
    }
    let health: &[u8] = if node.is_registered { b"online" } else { b"failed" };
    for (name, text) in [
        (&b"ip"[..], node.host.as_bytes()),
        (b"endpoint", node.host.as_bytes()),
        (b"role", b"master"),
        (b"health", health),
    ] {
        reply.bulk(name);
        reply.bulk(text);
    }
    reply.bulk(b"replication-offset");
    reply.integer(0);
}

pub(super) fn count_keys_in_slot(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    view(call)?;
    let slot = slot_number(integer(arguments[2])?).ok_or(INVALID_SLOT)?;
    let mut count = 0;
    search(call, slot, &mut |_| {
        count += 1;
        true
    })?;
    call.reply().count(count);
    Ok(())
}

pub(super) fn get_keys_in_slot(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    view(call)?;
    let slot = slot_number(integer(arguments[2])?);
    let most = usize::try_from(integer(arguments[3])?).ok();
    let (Some(slot), Some(most)) = (slot, most) else {
        return Err(ErrorReply::new("ERR Invalid slot or number of keys"));
    };
    let mut keys: Vec<Vec<u8>> = Vec::new();
    search(call, slot, &mut |key| {
        if keys.len() < most {
            keys.push(key.to_vec());
        }
        keys.len() < most
    })?;
    let mut reply = call.reply();
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
    Ok(())
}

fn slot_number(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOTS)
}

/// Passes on the keys of a slot until there are no more, or `key` returns `false`.
fn search(call: &mut Call<'_>, slot: u16, key: &mut dyn FnMut(&[u8]) -> bool) -> CommandResult {
    let mut position = ScanPosition::default();
    let mut goes_on = true;
    while goes_on {
        let mut next = |found: &[u8], _: Metadata| {
            if goes_on && slot_of(found) == slot {
                goes_on = key(found);
            }
        };
        let scanned = call.server.engine().scan(position, SCAN_COUNT, call.now_ms, &mut next);
        position = scanned.map_err(|refusal| call.refusal(refusal))?;
        goes_on &= position != ScanPosition::default();
    }
    Ok(())
}

/// `OVERSIDE.SLOTS first last cursor count`: the next cursor; the numbers of these slots that all workers of this server
/// execute, and that move here; then, for each key of the slots that was found, key, version, expiry in
/// milliseconds since 1970 (0: never) and length. From then on the connection is one of a server that moves slots.
pub(super) fn scan_slots(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let view = view(call)?;
    let slot = |argument: &[u8]| slot_number(integer(argument)?).ok_or(INVALID_SLOT);
    let slots = slot(arguments[1])?..=slot(arguments[2])?;
    let position = cursor(arguments[3])?;
    let count = usize::try_from(integer(arguments[4])?).unwrap_or(0).clamp(1, SCAN_COUNT);
    call.session.is_mover = true;
    let is_settled = call.server.is_cluster_settled();
    let states = |access| {
        let states = slots.clone().filter(|slot| view.slot(*slot).access == access);
        if is_settled { states.count() as i64 } else { 0 }
    };
    let (here, importing) = (states(SlotAccess::Here), states(SlotAccess::Importing));
    let (mut elements, mut found) = (0, Vec::new());
    let scanned = call.server.engine().scan(
        ScanPosition(position),
        count,
        call.now_ms,
        &mut |key, metadata| {
            if slots.contains(&slot_of(key)) {
                // RESP2 and RESP3 have the same strings and numbers.
                let mut reply = RespWriter { out: &mut found, is_resp3: false };
                reply.bulk(key);
                reply.count(metadata.version);
                reply.count(metadata.expires_at_ms.unwrap_or_default());
                reply.count(metadata.len);
                elements += 4;
            }
        },
    );
    let next = scanned.map_err(|refusal| call.refusal(refusal))?;
    let mut reply = call.reply();
    reply.array(4);
    reply.bulk(next.0.to_string().as_bytes());
    reply.integer(here);
    reply.integer(importing);
    reply.array(elements);
    reply.out.extend_from_slice(&found);
    Ok(())
}
