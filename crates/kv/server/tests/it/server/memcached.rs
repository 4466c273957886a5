//! Clients of memcached together with those of Redis.

use std::net::TcpStream;

use overside_kv::server::{Addresses, Limits, Password, Settings};

use super::running::{Client, Running, addresses, local, settings};

fn running(limits: Limits) -> Running {
    Running::start(Settings {
        addresses: Addresses { memcached: vec![local()], metrics: Some(local()), ..addresses() },
        limits,
        ..settings()
    })
}

fn connect(running: &Running) -> Client<TcpStream> {
    Client::new(TcpStream::connect(running.settings.addresses.memcached[0]).unwrap())
}

#[test]
fn both_protocols_have_the_same_keys() {
    let running = running(Limits::default());
    let (mut memcached, mut redis) = (connect(&running), running.connect());
    memcached.ask("set key 7 0 5\r\nvalue", "STORED\r\n");
    redis.ask("GET key", "$5\r\nvalue\r\n");
    redis.ask("SET other thing", "+OK\r\n");
    memcached.ask("get other", "VALUE other 0 5\r\nthing\r\nEND\r\n");
    memcached.ask("mg key f v", "VA 5 f7\r\nvalue\r\n");
    let connections = running.metric("overside_kv_connections ");
    assert_eq!(connections, 2.0);
    assert_eq!(running.metric("overside_kv_memcached_connections"), 1.0);
    redis.say(b"CLIENT LIST\r\n");
    let mut listed = String::new();
    while listed.matches("laddr=").count() < 2 {
        listed.push(char::from(redis.hear_byte()));
    }
    let address = format!("laddr={}", running.settings.addresses.memcached[0]);
    while !listed.ends_with("\r\n") {
        listed.push(char::from(redis.hear_byte()));
    }
    assert!(listed.contains(&address), "{listed}");
    assert_eq!(running.metric("overside_kv_commands_total"), 6.0);
}

#[test]
fn values_in_pieces_and_long_pipelines_are_answered() {
    let running = running(Limits::default());
    let value = vec![b'v'; 3 << 20];
    let mut clients: Vec<_> = (0..3).map(|_| connect(&running)).collect();
    let mut redis = running.connect();
    for client in &mut clients {
        client.say(b"set big 0 0 3145728\r\n");
    }
    for piece in value.chunks(1 << 20) {
        for client in &mut clients {
            client.say(piece);
        }
        redis.ask("PING", "+PONG\r\n");
    }
    for client in &mut clients {
        client.ask("", "STORED\r\n");
        client.say(&b"get none\r\nincr none 1\r\n".repeat(3000));
        client.say(b"get big\r\nget big\r\n");
    }
    for client in &mut clients {
        client.hear(&b"END\r\nNOT_FOUND\r\n".repeat(3000));
        for _ in 0..2 {
            client.hear(b"VALUE big 0 3145728\r\n");
            client.hear(&value);
            client.hear(b"\r\nEND\r\n");
        }
    }
}

#[test]
fn limits_hold_for_them_too() {
    let running = running(Limits { clients: 1, ..Limits::default() });
    let mut first = connect(&running);
    first.ask("mn", "MN\r\n");
    let refused = connect(&running).rest();
    assert_eq!(refused, b"ERROR Too many open connections\r\n");
    first.say(b"quit\r\n");
    assert_eq!(first.rest(), b"");
}

#[test]
fn pages_in_a_browser_can_send_no_commands() {
    let running = running(Limits::default());
    for start in ["POST / HTTP/1.1\r\n", "GET /\r\nHost: here\r\n"] {
        let mut page = connect(&running);
        page.say(format!("{start}set page 0 0 1\r\na\r\n").as_bytes());
        let _ = page.rest();
    }
    connect(&running).ask("get page", "END\r\n");
}

#[test]
fn a_password_is_for_the_other_protocol() {
    let running = Running::start(Settings {
        addresses: Addresses { memcached: vec![local()], ..addresses() },
        password: Some(Password::new(b"secret")),
        ..settings()
    });
    connect(&running).ask("mn", "MN\r\n");
    running.connect().ask("GET key", "-NOAUTH Authentication required.\r\n");
}
