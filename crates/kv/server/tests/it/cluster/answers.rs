//! Answers of a server for its slots, and for others.

use std::sync::Arc;

use overside_kv::protocol::cluster::{ClusterNode, ClusterView, SlotAccess, SlotState};

use crate::resp_client::{Bench, Client};

/// `b` and `c` are in slots 3300 and 7365, `a` and `foo` in 15495 and 12182.
const SLOT_OF_B: u16 = 3300;

fn node(name: &str, host: &str, port: u16) -> ClusterNode {
    ClusterNode {
        id: name.repeat(40),
        name: name.into(),
        host: host.into(),
        ports: [port, 0],
        is_registered: true,
    }
}

/// Slots below 8192 are here and others at `b`; that of the key `b` as in `special`.
fn view(special: SlotState) -> Option<Arc<ClusterView>> {
    let nodes = vec![node("a", "10.0.0.1", 7000), node("b", "::1", 7001)];
    let state = |slot| match slot {
        SLOT_OF_B => special,
        ..8192 => SlotState { owner: Some(0), target: None, access: SlotAccess::Here },
        16383 => SlotState::default(),
        _ => SlotState { owner: Some(1), target: None, access: SlotAccess::Elsewhere },
    };
    Some(Arc::new(ClusterView::new(7, nodes, 0, state)))
}

fn state(owner: u16, target: Option<u16>, access: SlotAccess) -> SlotState {
    SlotState { owner: Some(owner), target, access }
}

fn bench(special: SlotState) -> (Bench, Client) {
    let mut bench = Bench::new();
    bench.server.cluster = view(special);
    (bench, Client::new(1))
}

#[test]
fn commands_are_executed_where_their_slot_is() {
    let (mut bench, mut client) = bench(state(0, None, SlotAccess::Here));
    bench.talks(
        &mut client,
        r#"
        SET b 1 -> +OK
        SET a 1 -> -MOVED 15495 ::1:7001
        GET foo -> -MOVED 12182 ::1:7001
        DEL b c -> -CROSSSLOT Keys in request don't hash to the same slot
        DEL a b -> -CROSSSLOT Keys in request don't hash to the same slot
        MSET {b}1 x {b}2 y -> +OK
        MGET {b}1 {b}2 -> *2 $1 x $1 y
        EXISTS {a}1 {a}2 -> -MOVED 15495 ::1:7001
        CLUSTER KEYSLOT {foo}bar -> :12182
        CLUSTER COUNTKEYSINSLOT 3300 -> :3
        CLUSTER COUNTKEYSINSLOT 16384 -> -ERR Invalid slot
        CLUSTER GETKEYSINSLOT 3300 -1 -> -ERR Invalid slot or number of keys
        CLUSTER MYID -> $40 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
        READONLY -> +OK
        READWRITE -> +OK
        MULTI -> +OK
        GET a -> -MOVED 15495 ::1:7001
        EXEC -> -EXECABORT Transaction discarded because of previous errors.
        MULTI -> +OK
        SET b 2 -> +QUEUED
        SET c 2 -> +QUEUED
        EXEC -> -CROSSSLOT Keys in request don't hash to the same slot
        SINTERCARD 2 {b}1 a LIMIT 1 -> -CROSSSLOT Keys in request don't hash to the same slot
        SINTERCARD 1 a b -> -MOVED 15495 ::1:7001
        WATCH b c -> -CROSSSLOT Keys in request don't hash to the same slot
        GET b -> $1 1
        DBSIZE -> :3
        "#,
    );
    // In the order in which they came.
    let replies = bench.talk(&mut client, "GET b\r\nGET a\r\nSET c 3\r\nDEL b c\r\nGET c");
    assert_eq!(
        replies,
        "$1 1 -MOVED 15495 ::1:7001 +OK -CROSSSLOT Keys in request don't hash to the same slot $1 3"
    );
    // No key of this text: 16383 has no owner.
    let nobodys = (0..)
        .map(|n: u32| n.to_string())
        .find(|key| overside_kv::partition::slot_of(key.as_bytes()) == 16383);
    let reply = bench.talk(&mut client, &format!("GET {}", nobodys.unwrap()));
    assert_eq!(reply, "-CLUSTERDOWN Hash slot not served");
}

#[test]
fn servers_and_slots_are_listed() {
    let (mut bench, mut client) = bench(state(0, Some(1), SlotAccess::Here));
    let (a, b) = ("a".repeat(40), "b".repeat(40));
    let nodes = bench.talk(&mut client, "CLUSTER NODES");
    let expected = format!(
        "{a} 10.0.0.1:7000@0 myself,master - 0 0 7 connected 0-8191 [3300->-{b}]\n\
         {b} ::1:7001@0 master - 0 0 7 connected 8192-16382"
    );
    assert!(nodes.ends_with(&expected), "{nodes}");
    assert_eq!(
        bench.talk(&mut client, "CLUSTER SLOTS"),
        format!(
            "*2 *3 :0 :8191 *4 $8 10.0.0.1 :7000 $40 {a} *0 *3 :8192 :16382 *4 $3 ::1 :7001 $40 {b} *0"
        )
    );
    let shards = bench.talk(&mut client, "CLUSTER SHARDS");
    assert!(
        shards.starts_with("*2 *4 $5 slots *2 :0 :8191 $5 nodes *1 *14 $2 id $40 a"),
        "{shards}"
    );
    let info = bench.talk(&mut client, "CLUSTER INFO");
    for line in [
        "cluster_state:fail",
        "cluster_slots_ok:16383",
        "cluster_size:2",
        "cluster_current_epoch:7",
    ] {
        assert!(info.contains(line), "{info}");
    }
    let hello = bench.talk(&mut client, "HELLO");
    assert!(hello.contains("$4 mode $7 cluster"), "{hello}");
}

#[test]
fn a_slot_that_moves_here_is_for_those_who_were_sent() {
    let (mut bench, mut client) = bench(state(1, Some(0), SlotAccess::Importing));
    bench.talks(
        &mut client,
        r#"
        GET b -> -MOVED 3300 ::1:7001
        ASKING -> +OK
        SET b 1 -> +OK
        GET b -> -MOVED 3300 ::1:7001
        ASKING -> +OK
        GET c -> $-1
        GET b -> -MOVED 3300 ::1:7001
        ASKING -> +OK
        MULTI -> +OK
        INCR b -> +QUEUED
        INCR b -> +QUEUED
        EXEC -> *2 :2 :3
        GET b -> -MOVED 3300 ::1:7001
        FLUSHALL -> -TRYAGAIN A slot is moving: try again
        "#,
    );
    bench.server.cluster = view(state(1, None, SlotAccess::Left));
    bench.talks(
        &mut client,
        r#"
        GET b -> -ASK 3300 ::1:7001
        DEL {b}1 {b}2 -> -ASK 3300 ::1:7001
        "#,
    );
}

#[test]
fn commands_wait_for_a_slot_that_is_handed_over() {
    let (mut bench, mut client) = bench(state(0, None, SlotAccess::Here));
    assert_eq!(bench.talk(&mut client, "SET b 1\r\nMULTI\r\nINCR b"), "+OK +OK +QUEUED");
    bench.server.cluster = view(state(0, Some(1), SlotAccess::Held));
    let mut other = Client::new(2);
    for (line, waits) in [
        ("GET c", false),
        ("GET b\r\nGET c", true),
        ("FLUSHALL", true),
        ("PING", false),
        ("GET {b}x", true),
    ] {
        let mut client = Client::new(3);
        let reply = bench.talk(&mut client, line);
        assert_eq!((reply.is_empty(), client.session.is_held()), (waits, waits), "{line}: {reply}");
        if line.starts_with("GET b") {
            other = client;
        }
    }
    // Queuing does not wait, and executing does.
    assert_eq!(bench.talk(&mut client, "INCR b"), "+QUEUED");
    assert_eq!(bench.talk(&mut client, "EXEC"), "");
    // Nothing is executed out of order.
    assert_eq!(bench.talk(&mut other, "SET c 5"), "");
    bench.server.cluster = view(state(0, None, SlotAccess::Here));
    for (one, expected) in [(&mut client, "*2 :2 :3"), (&mut other, "$1 3 $-1 +OK")] {
        one.session.retry_held();
        assert_eq!(bench.talk(one, ""), expected);
    }
    // It does not wait for ever.
    bench.server.cluster = view(state(0, Some(1), SlotAccess::Held));
    assert_eq!(bench.talk(&mut client, "GET b"), "");
    bench.server.now_ms += 4_999;
    client.session.retry_held();
    assert_eq!(bench.talk(&mut client, ""), "");
    bench.server.now_ms += 1;
    client.session.retry_held();
    assert_eq!(bench.talk(&mut client, ""), "-TRYAGAIN A slot is moving: try again");
}

#[test]
fn a_server_that_moves_slots_is_not_sent_on() {
    let (mut bench, mut client) = bench(state(0, None, SlotAccess::Here));
    assert_eq!(bench.talk(&mut client, "SET b 1 PXAT 1800000000000"), "+OK");
    for (special, counts) in [
        (state(0, Some(1), SlotAccess::Held), ":0 :0"),
        (state(1, Some(0), SlotAccess::Importing), ":0 :1"),
        (state(0, None, SlotAccess::Here), ":1 :0"),
    ] {
        bench.server.cluster = view(special);
        let mut mover = Client::new(2);
        let listed = bench.talk(&mut mover, "OVERSIDE.SLOTS 3300 3300 0 10");
        assert!(listed.starts_with(&format!("*4 $1 0 {counts} *4 $1 b :")), "{listed}");
        assert!(listed.ends_with(":1800000000000 :1"), "{listed}");
        assert_eq!(bench.talk(&mut mover, "GET b"), "$1 1");
        assert_eq!(bench.talk(&mut mover, "DEL a"), ":0");
    }
    for (line, error) in [
        ("OVERSIDE.SLOTS 0 16384 0 1", "-ERR Invalid slot"),
        ("OVERSIDE.SLOTS 0 1 x 1", "-ERR invalid cursor"),
    ] {
        assert_eq!(bench.talk(&mut client, line), error);
    }
    bench.server.cluster = None;
    let reply = bench.talk(&mut client, "OVERSIDE.SLOTS 0 1 0 1");
    assert_eq!(reply, "-ERR This instance has cluster support disabled");
}
