//! A server with several workers, and clients of it.

use std::io::{Read, Write};
use std::net::TcpStream;

use overside_kv::partition_of;
use overside_kv::server::{Addresses, Limits, Settings};

use crate::server::running::{Client, Running, addresses, local, settings, until};

/// Number of connections with which each worker surely has some: the system divides them by their ports.
const CLIENTS: usize = 32;

fn server(workers: usize) -> Running {
    Running::start(Settings {
        workers,
        addresses: Addresses { metrics: Some(local()), ..addresses() },
        ..settings()
    })
}

fn reply(client: &mut Client<TcpStream>, command: &str) -> String {
    client.say(format!("{command}\r\n").as_bytes());
    let mut text = Vec::new();
    loop {
        text.push(client.hear_byte());
        if !text.ends_with(b"\r\n") {
            continue;
        }
        let head = String::from_utf8(text.clone()).unwrap();
        let Some(len) = head.strip_prefix('$').and_then(|len| len.trim().parse().ok()) else {
            return head.trim().to_owned();
        };
        let mut body = vec![0; len];
        client.0.read_exact(&mut body).unwrap();
        client.hear(b"\r\n");
        return String::from_utf8(body).unwrap();
    }
}

#[test]
fn every_client_sees_all_keys() {
    let server = server(3);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask(&format!("SET key:{number} {number}"), "+OK\r\n");
    }
    let gets: String = (0..CLIENTS).map(|key| format!("GET key:{key}\r\n")).collect();
    let values = |key: usize| {
        let value = key.to_string();
        format!("${}\r\n{value}\r\n", value.len())
    };
    let expected: String = (0..CLIENTS).map(values).collect();
    for client in &mut clients {
        client.say(gets.as_bytes());
        client.hear(expected.as_bytes());
        client.ask("DBSIZE", &format!(":{CLIENTS}\r\n"));
        client.ask("EXISTS key:0 key:1 key:2 none", ":3\r\n");
    }
    let info = reply(&mut clients[0], "INFO");
    let field = |name: &str| -> u64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {info}")).parse().unwrap()
    };
    assert_eq!(field("connected_clients:"), CLIENTS as u64);
    assert_eq!(field("partitions:"), 3);
    let (own, forwarded) = (field("requests_at_owner:"), field("requests_forwarded:"));
    assert_eq!(own + forwarded, (CLIENTS + CLIENTS * (CLIENTS + 4)) as u64);
    assert!(own > 0 && forwarded > own, "{own}, {forwarded}");
    assert_eq!(server.metric("overside_kv_items "), CLIENTS as f64);
    assert_eq!(server.metric("overside_kv_connections "), CLIENTS as f64);
    let metric = |name: &str| server.metric(&format!("overside_kv_requests_{name}_total ")) as u64;
    assert_eq!((metric("at_owner"), metric("forwarded")), (own, forwarded));
    clients[0].ask("FLUSHALL", "+OK\r\n");
    clients[1].ask("DBSIZE", ":0\r\n");
}

/// Keys of two partitions.
fn two_partitions() -> [String; 2] {
    [0, 1].map(|partition| {
        let mut keys = (0..).map(|key| format!("k{key}"));
        keys.find(|key| partition_of(key.as_bytes(), 2) == partition).unwrap()
    })
}

#[test]
fn transactions_need_keys_that_are_together() {
    let server = server(2);
    let [a, b] = two_partitions();
    for _ in 0..8 {
        let mut client = server.connect();
        let cross = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
        client.ask(&format!("MSET {a} 1 {b} 2"), "+OK\r\n");
        client.ask(&format!("MGET {a} {b}"), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
        client.ask(&format!("MSETNX {a} 1 {b} 2"), cross);
        client.ask(&format!("WATCH {a} {b}"), cross);
        client.ask(&format!("WATCH {a}"), "+OK\r\n");
        client.ask(&format!("WATCH {b}"), cross);
        client.ask("UNWATCH", "+OK\r\n");
        client.ask("MULTI", "+OK\r\n");
        client.ask(&format!("INCR {a}"), "+QUEUED\r\n");
        client.ask(&format!("INCR {b}"), "+QUEUED\r\n");
        client.ask("EXEC", cross);
        client.ask("EXEC", "-ERR EXEC without MULTI\r\n");
        client.ask(&format!("MGET {a} {b}"), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
        for tag in [&a, &b] {
            client.ask(&format!("WATCH {{{tag}}}n"), "+OK\r\n");
            client.ask("MULTI", "+OK\r\n");
            client.ask(&format!("SET {{{tag}}}n 1"), "+QUEUED\r\n");
            client.ask(&format!("INCR {{{tag}}}m"), "+QUEUED\r\n");
            client.ask(&format!("DEL {{{tag}}}n {{{tag}}}m"), "+QUEUED\r\n");
            client.ask("EXEC", "*3\r\n+OK\r\n:1\r\n:2\r\n");
        }
    }
}

#[test]
fn clients_of_all_workers_are_listed_closed_and_limited() {
    let server = Running::start(Settings {
        workers: 2,
        limits: Limits { clients: CLIENTS, ..Limits::default() },
        ..settings()
    });
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    let ids: Vec<_> = (clients.iter_mut().map(|client| reply(client, "CLIENT ID"))).collect();
    for (client, id) in clients.iter_mut().zip(&ids) {
        client.ask(&format!("CLIENT SETNAME n{}", &id[1..]), "+OK\r\n");
    }
    let list = reply(&mut clients[0], "CLIENT LIST");
    assert_eq!(list.lines().count(), CLIENTS);
    for id in &ids {
        let id = &id[1..];
        let line = list.lines().find(|line| line.starts_with(&format!("id={id} ")));
        assert!(line.unwrap().contains(&format!(" name=n{id} ")), "{list}");
    }
    let mut one_more = server.connect();
    one_more.hear(b"-ERR max number of clients reached\r\n");
    for id in &ids[1..] {
        clients[0].ask(&format!("CLIENT KILL ID {}", &id[1..]), ":1\r\n");
    }
    for client in &mut clients[1..] {
        assert_eq!(client.rest(), b"");
    }
    until("all others are gone", || reply(&mut clients[0], "CLIENT LIST").lines().count() == 1);
}

#[test]
fn who_holds_most_is_closed_whoever_serves_it() {
    let server = Running::start(Settings {
        workers: 2,
        limits: Limits { memory_bytes: 4 << 20, ..Limits::default() },
        ..settings()
    });
    let mut small: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    let mut large: Vec<_> = (0..6).map(|_| server.connect()).collect();
    for client in &mut large {
        // Part of a long value: kept until the rest comes. It may be closed while it sends.
        let head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2000000\r\n";
        let _ = client.0.write_all(&[&head[..], &[b'v'; 1_500_000]].concat());
    }
    until("so much is freed that it is allowed", || {
        let info = reply(&mut small[0], "INFO clients memory stats");
        let held = info.lines().find_map(|line| line.strip_prefix("mem_clients_normal:"));
        let evicted = info.lines().find_map(|line| line.strip_prefix("evicted_clients:"));
        held.unwrap().parse::<usize>().unwrap() <= 4 << 20 && evicted != Some("0")
    });
    for client in &mut small {
        client.ask("PING", "+PONG\r\n");
    }
}

#[test]
fn a_client_of_any_worker_ends_all_of_them() {
    for _ in 0..4 {
        let mut server = server(3);
        let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| client.ask("PING", "+PONG\r\n"));
        clients[0].say(b"SHUTDOWN\r\n");
        for client in &mut clients {
            assert_eq!(client.rest(), b"");
        }
        assert!(server.wait());
    }
}

#[test]
fn a_second_server_finds_the_address_taken() {
    let server = server(2);
    for workers in [1, 2] {
        let taken = overside_kv::server::Server::bind(Settings {
            workers,
            addresses: Addresses { tcp: vec![server.address()], ..addresses() },
            ..settings()
        });
        assert!(taken.unwrap_err().to_string().contains("in use"));
    }
}

/// Workers that have no more replies to send to their own clients still serve the workers that
/// have.
#[test]
fn what_was_received_is_answered_before_all_workers_end() {
    const EACH: usize = 2000;
    let mut server = server(3);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask("PING", "+PONG\r\n");
        // Keys of all partitions; some clients have much to do, others little.
        let count = if number % 4 == 0 { EACH } else { 1 };
        let sets = (0..count).map(|key| format!("SET {number}:{} v\r\n", key % 50));
        client.say(sets.collect::<String>().as_bytes());
    }
    clients.iter().for_each(Client::is_delivered);
    server.stop();
    for (number, client) in clients.iter_mut().enumerate() {
        let count = if number % 4 == 0 { EACH } else { 1 };
        assert_eq!(client.rest(), b"+OK\r\n".repeat(count));
    }
    assert!(server.wait());
}
