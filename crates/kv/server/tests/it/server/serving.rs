//! Tests of serving clients: pipelines, addresses to listen at, metrics, lists of clients.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use overside_kv::server::{Addresses, Server, ServerError, Settings};

use super::running::{Client, PATIENCE, Running, addresses, local, settings};

#[test]
fn pipelines_of_several_clients_are_answered_in_order() {
    let running = Running::start(settings());
    let mut clients: Vec<_> = (0..8).map(|_| running.connect()).collect();
    for client in &mut clients {
        client.say(&b"PING\r\n".repeat(5000));
    }
    for client in &mut clients {
        client.hear(&b"+PONG\r\n".repeat(5000));
    }
}

#[test]
fn a_command_may_come_in_pieces() {
    let running = Running::start(settings());
    let (mut slow, mut other) = (running.connect(), running.connect());
    for byte in b"*1\r\n$4\r\nPING\r\n" {
        slow.say(&[*byte]);
        other.ask("PING", "+PONG\r\n");
    }
    slow.hear(b"+PONG\r\n");
}

#[test]
fn after_quit_the_connection_is_closed() {
    let running = Running::start(settings());
    let mut client = running.connect();
    client.say(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.rest(), b"+PONG\r\n+OK\r\n");
    let mut client = running.connect();
    client.say(b"*x\r\n");
    assert!(client.rest().starts_with(b"-ERR Protocol error"));
}

#[test]
fn a_client_that_sends_no_more_gets_what_it_asked_for() {
    let running = Running::start(settings());
    let mut client = running.connect();
    client.say(&b"PING\r\n".repeat(1000));
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.rest(), b"+PONG\r\n".repeat(1000));
}

#[test]
fn it_listens_at_several_addresses_and_at_a_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    // What a dead server left.
    drop(UnixListener::bind(&path).unwrap());
    let mut all = vec![local(), local()];
    // There are machines without IPv6.
    all.extend(TcpListener::bind(six).map(|_| six));
    let mut running = Running::start(Settings {
        addresses: Addresses { tcp: all, unix: Some(path.clone()), ..addresses() },
        ..settings()
    });
    for address in &running.settings.addresses.tcp {
        let stream = std::net::TcpStream::connect(address).unwrap();
        Client::new(stream).ask("PING", "+PONG\r\n");
    }
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Client(stream).ask("PING", "+PONG\r\n");
    let taken = Server::bind(Settings {
        addresses: Addresses { unix: Some(path.clone()), ..addresses() },
        ..Settings::default()
    });
    assert!(matches!(taken, Err(ServerError::ListenUnix { .. })));
    running.stop();
    assert!(running.wait());
    assert!(!path.exists());
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let running = Running::start(settings());
    let taken = Server::bind(Settings {
        addresses: Addresses { tcp: vec![running.address()], ..addresses() },
        ..Settings::default()
    });
    let error = taken.unwrap_err();
    assert!(error.to_string().contains(&running.address().to_string()));
}

#[test]
fn a_server_that_polls_serves_as_well() {
    let running = Running::start(Settings { busy_poll: true, ..settings() });
    running.connect().ask("PING", "+PONG\r\n");
}

#[test]
fn metrics_are_in_prometheus_format() {
    let running = Running::start(Settings {
        addresses: Addresses { metrics: Some(local()), ..addresses() },
        ..settings()
    });
    let mut client = running.connect();
    client.ask("PING", "+PONG\r\n");
    client.ask("PING", "+PONG\r\n");
    let text = running.metrics("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())));
    let mut described = "";
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.split(' ');
            assert!(matches!(words.next(), Some("HELP" | "TYPE")), "{line}");
            described = words.next().unwrap();
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(series.starts_with(described), "{line} after {described}");
        value.parse::<f64>().unwrap();
    }
    assert_eq!(running.metric("overside_kv_commands_total"), 2.0);
    assert_eq!(running.metric("overside_kv_connections"), 1.0);
    assert_eq!(running.metric("overside_kv_received_bytes_total"), 12.0);
    assert_eq!(running.metric("overside_kv_sent_bytes_total"), 14.0);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".into(), "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n".into(), "405"),
        ("\r\n\r\n".into(), "405"),
        ("a".repeat(8 << 10), "431"),
    ] {
        let text = running.metrics(&request);
        assert_eq!(text.split(' ').nth(1), Some(status), "{text}");
    }
    let text = running.metrics("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(text.ends_with("\r\n\r\n"));
}

#[test]
fn clients_are_listed_and_one_closes_another() {
    let running = Running::start(settings());
    let (mut one, mut other) = (running.connect(), running.connect());
    one.ask("CLIENT SETNAME first", "+OK\r\n");
    other.ask("PING", "+PONG\r\n");
    one.say(b"CLIENT LIST\r\nECHO end\r\n");
    let mut list = Vec::new();
    while !list.ends_with(b"$3\r\nend\r\n") {
        list.push(one.hear_byte());
    }
    let list = String::from_utf8(list).unwrap();
    let address = other.0.local_addr().unwrap().to_string();
    assert!(list.contains("name=first") && list.contains(&address), "{list}");
    one.say(format!("CLIENT KILL ADDR {address}\r\n").as_bytes());
    one.hear(b":1\r\n");
    assert_eq!(other.rest(), b"");
    one.ask("PING", "+PONG\r\n");
}

#[test]
fn information_and_parameters_are_those_that_clients_ask_for() {
    let running = Running::start(settings());
    let mut client = running.connect();
    client.ask("CONFIG GET databases", "*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n");
    client.ask("CONFIG GET bind", "*2\r\n$4\r\nbind\r\n$9\r\n127.0.0.1\r\n");
    client.ask("SET key value", "+OK\r\n");
    client.ask("GET key", "$5\r\nvalue\r\n");
    client.say(b"INFO\r\nECHO end\r\n");
    let mut info = Vec::new();
    while !info.ends_with(b"$3\r\nend\r\n") {
        info.push(client.hear_byte());
    }
    let info = String::from_utf8(info).unwrap();
    for line in [
        "# Server",
        "redis_mode:standalone",
        "# Clients",
        "connected_clients:1",
        "# Memory",
        "maxmemory_policy:noeviction",
        "# Persistence",
        "aof_enabled:0",
        "# Stats",
        "keyspace_hits:1",
        "# Replication",
        "role:master",
        "# CPU",
        "# Overside",
        "design:cpu-only",
    ] {
        assert!(info.contains(&format!("{line}\r\n")), "{line} in {info}");
    }
}

#[test]
fn replies_that_leave_early_take_no_more_writes() {
    let sends = |sends_early| {
        let running = Running::start(Settings {
            addresses: Addresses { metrics: Some(local()), ..addresses() },
            sends_early,
            ..settings()
        });
        let mut client = running.connect();
        client.ask("SET key value", "+OK\r\n");
        for _ in 0..20 {
            // More than a batch, which arrives at once.
            client.say(&b"GET key\r\n".repeat(1000));
            client.hear(&b"$5\r\nvalue\r\n".repeat(1000));
        }
        running.metric("overside_kv_sends_total ")
    };
    // Each batch is about a quarter of them.
    let (early, late) = (sends(true), sends(false));
    assert!(early < 40.0 && late < 40.0, "{early} writes early, {late} late");
}
