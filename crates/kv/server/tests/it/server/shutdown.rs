//! Tests of how a server ends.

use std::io::Write;
use std::time::Duration;

use overside_kv::server::Settings;

use super::running::{Client, Running, settings};

#[test]
fn what_was_received_is_answered_before_it_ends() {
    let mut running = Running::start(settings());
    let mut clients: Vec<_> = (0..50).map(|_| running.connect()).collect();
    for client in &mut clients {
        client.ask("PING", "+PONG\r\n");
        client.say(&b"PING\r\n".repeat(4000));
        client.say(b"PI");
    }
    clients.iter().for_each(Client::is_delivered);
    running.stop();
    for client in &mut clients {
        assert_eq!(client.rest(), b"+PONG\r\n".repeat(4000));
    }
    assert!(running.wait());
}

#[test]
fn who_never_reads_does_not_keep_it_from_ending() {
    let mut running = Running::start(Settings { drain: Duration::from_millis(200), ..settings() });
    let mut greedy = running.connect();
    (greedy.0).set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    greedy.store_big();
    while greedy.0.write_all(&b"GET big\r\n".repeat(10_000)).is_ok() {}
    running.stop();
    assert!(!running.wait());
}

#[test]
fn a_client_can_end_it() {
    let mut running = Running::start(settings());
    let (mut one, mut other) = (running.connect(), running.connect());
    other.ask("PING", "+PONG\r\n");
    one.say(b"SHUTDOWN NOSAVE\r\n");
    assert_eq!(one.rest(), b"");
    assert_eq!(other.rest(), b"");
    assert!(running.wait());
}
