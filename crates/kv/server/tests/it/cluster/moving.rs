//! Slots that move, with keys of every kind. Clients that use them meanwhile are in `tests/python/kv`.

use overside_kv::client::{Connection, Reply};
use overside_kv::directory::Etcd;
use overside_kv::partition::{SLOTS, slot_of};

use super::{Node, connect, is_quiet, mark, part, read, text};
use crate::directory::{location, wait_until};
use crate::peers;

const KEYS: usize = 300;

/// The reply to a command of words.
fn ask(connection: &mut Connection, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    connection.ask(&words).unwrap()
}

#[test]
fn slots_move_with_keys_of_every_kind() {
    let Some(server) = peers::etcd() else { return };
    let location = location(&server);
    let etcd = Etcd::new(location.clone());
    let a = Node::start(&location, "a", &part(0, 1)).unwrap();
    let b = Node::start(&location, "b", &[]).unwrap();
    [&a, &b].iter().for_each(|node| node.wait_until_ok());
    let [mut at_a, mut at_b] = [&a, &b].map(|node| connect(&node.address()));
    for number in 0..KEYS {
        for line in [
            format!("SET string:{number} {number} PXAT 4000000000000"),
            format!("HSET hash:{number} field {number} other x"),
            format!("PEXPIREAT hash:{number} 4000000000001"),
            format!("ZADD sorted:{number} 0.1 member {number} other"),
            format!("SADD set:{number} member {number}"),
        ] {
            let reply = ask(&mut at_a, &line);
            assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
        }
    }
    let large: String = (0..3000).map(|n| format!(" f{n} {n}")).collect();
    ask(&mut at_a, &format!("HSET large{large}"));
    // All but some stay there, after a way to the other server and back.
    let moved: Vec<u16> = (0..SLOTS).filter(|slot| slot % 5 == 0).take(100).collect();
    mark(&etcd, moved.iter().copied().chain([slot_of(b"large")]), Some("b"));
    wait_until(|| is_quiet(&etcd));
    mark(&etcd, moved[..30].iter().copied(), Some("a"));
    wait_until(|| is_quiet(&etcd));

    let mut counts = [0, 0];
    for number in 0..KEYS {
        for (key, line, expected) in [
            ("string", "GET", Reply::Bytes(number.to_string().into())),
            ("string", "PEXPIRETIME", Reply::Integer(4_000_000_000_000)),
            ("hash", "HLEN", Reply::Integer(2)),
            ("hash", "PEXPIRETIME", Reply::Integer(4_000_000_000_001)),
            ("sorted", "ZCARD", Reply::Integer(2)),
            ("set", "SCARD", Reply::Integer(2)),
        ] {
            let line = format!("{line} {key}:{number}");
            let is_at_b =
                moved[30..].contains(&slot_of(line.split_once(' ').unwrap().1.as_bytes()));
            counts[usize::from(is_at_b)] += 1;
            assert_eq!(ask(if is_at_b { &mut at_b } else { &mut at_a }, &line), expected, "{line}");
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(ask(&mut at_b, "HGET large f2999"), Reply::Bytes(b"2999".to_vec()));
    assert_eq!(ask(&mut at_b, "HLEN large"), Reply::Integer(3000));
    // Each key is at its owner and nowhere else.
    assert_eq!(a.keys() + b.keys(), 4 * KEYS as i64 + 1);
    let (table, _) = read(&etcd);
    for (slot, one) in table.iter() {
        let is_at_b = moved[30..].contains(&slot) || slot == slot_of(b"large");
        assert_eq!(&*one.owner == "b", is_at_b, "{slot}");
    }
}

#[test]
fn a_move_that_is_taken_back_changes_nothing() {
    let Some(server) = peers::etcd() else { return };
    let location = location(&server);
    let etcd = Etcd::new(location.clone());
    let a = Node::start(&location, "a", &part(0, 1)).unwrap();
    a.wait_until_ok();
    assert_eq!(a.ask("SET b 1"), Reply::Simple("OK".into()));
    // Nobody is there to take it.
    mark(&etcd, [slot_of(b"b")], Some("b"));
    wait_until(|| text(a.ask("INFO cluster")).contains("moving slots to b: it is not registered"));
    assert_eq!(text(a.ask("GET b")), "1");
    mark(&etcd, [slot_of(b"b")], None);
    let b = Node::start(&location, "b", &[]).unwrap();
    b.wait_until_ok();
    wait_until(|| text(a.ask("INFO cluster")).contains("cluster_error:\r\n"));
    assert_eq!((b.keys(), text(a.ask("GET b"))), (0, "1".into()));
    mark(&etcd, [slot_of(b"b")], Some("b"));
    wait_until(|| is_quiet(&etcd));
    assert_eq!((a.keys(), text(b.ask("GET b"))), (0, "1".into()));
    wait_until(|| text(a.ask("GET b")) == format!("MOVED 3300 {}", b.address()));
}
