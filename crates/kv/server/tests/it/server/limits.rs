//! Clients cannot take more than they may.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use overside_kv::server::{Addresses, Limits, Password, Settings};
use rustix::net::sockopt::set_socket_linger;

use super::running::{Running, addresses, big_reply, local, settings, until};

fn limited(limits: Limits) -> Settings {
    Settings {
        addresses: Addresses { metrics: Some(local()), ..addresses() },
        limits,
        ..settings()
    }
}

#[test]
fn thousands_of_idle_connections_hold_almost_no_memory() {
    const CLIENTS: usize = 2000;
    let running = Running::start(limited(Limits::default()));
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| running.connect()).collect();
    for client in &mut clients {
        client.say(b"PING\r\n");
    }
    for client in &mut clients {
        client.hear(b"+PONG\r\n");
    }
    assert_eq!(running.metric("overside_kv_connections "), CLIENTS as f64);
    let bytes = running.metric("overside_kv_connections_memory_bytes");
    assert!(bytes < CLIENTS as f64 * 1024.0, "{bytes}");
    // Half a command each is kept, and no whole buffer.
    for client in &mut clients {
        client.say(b"PI");
    }
    let received = CLIENTS as f64 * 8.0;
    until("received", || running.metric("overside_kv_received_bytes_total") == received);
    let bytes = running.metric("overside_kv_connections_memory_bytes");
    assert!(bytes < CLIENTS as f64 * 1024.0, "{bytes}");
    for client in &mut clients {
        client.ask("NG", "+PONG\r\n");
    }
    drop(clients);
    until("closed", || running.metric("overside_kv_connections ") == 0.0);
    assert_eq!(running.metric("overside_kv_connections_memory_bytes"), 0.0);
}

#[test]
fn peers_that_reset_in_the_middle_of_a_command_leave_nothing_behind() {
    const PEERS: usize = 1000;
    const AT_A_TIME: usize = 100;
    let half = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$100\r\nabc";
    let running = Running::start(limited(Limits::default()));
    let mut witness = running.connect();
    witness.store_big();
    for _ in 0..PEERS / AT_A_TIME {
        let mut peers: Vec<_> = (0..AT_A_TIME).map(|_| running.connect()).collect();
        for (number, peer) in peers.iter_mut().enumerate() {
            // Every other one leaves a long reply unread too.
            let whole: &[u8] = match number % 2 {
                0 => b"PING\r\n",
                _ => b"PING\r\nGET big\r\n",
            };
            peer.say(&[whole, half].concat());
            peer.hear(b"+PONG\r\n");
            // Then closing it resets the connection (socket(7), SO_LINGER).
            set_socket_linger(&peer.0, Some(Duration::ZERO)).unwrap();
        }
    }
    until("closed", || running.metric("overside_kv_connections ") == 1.0);
    let accepted = running.metric("overside_kv_connections_total ");
    assert_eq!(accepted, 1.0 + PEERS as f64);
    witness.ask("EXISTS key", ":0\r\n");
    drop(witness);
    until("closed", || running.metric("overside_kv_connections ") == 0.0);
    assert_eq!(running.metric("overside_kv_connections_memory_bytes"), 0.0);
}

#[test]
fn who_never_reads_holds_bounded_memory_and_others_are_served() {
    let running = Running::start(limited(Limits::default()));
    let mut greedy = running.connect();
    (greedy.0).set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    greedy.store_big();
    let commands = b"GET big\r\n".repeat(10_000);
    // Until nothing of it is taken any more.
    let error = loop {
        if let Err(error) = greedy.0.write_all(&commands) {
            break error;
        }
    };
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
    running.connect().ask("PING", "+PONG\r\n");
    let bytes = running.metric("overside_kv_connections_memory_bytes");
    // The replies of one batch, which is some hundred commands.
    assert!(bytes < f64::from(64 << 20), "{bytes}");
    // It gets everything once it reads.
    greedy.hear(&big_reply().repeat(100));
}

#[test]
fn who_takes_nothing_for_long_is_closed() {
    let running =
        Running::start(limited(Limits { stall: Duration::from_millis(100), ..Limits::default() }));
    let mut greedy = running.connect();
    greedy.store_big();
    let error = loop {
        if let Err(error) = greedy.0.write_all(&b"GET big\r\n".repeat(10_000)) {
            break error;
        }
    };
    assert!(matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
    let closed = "overside_kv_connections_closed_total{reason=\"stalled\"}";
    assert_eq!(running.metric(closed), 1.0);
}

#[test]
fn who_holds_most_is_closed_when_all_hold_too_much() {
    let running = Running::start(limited(Limits { memory_bytes: 256 << 10, ..Limits::default() }));
    let mut small = running.connect();
    small.say(b"PI");
    let mut large = running.connect();
    // A value that is announced, and of which much comes.
    large.say(b"*2\r\n$4\r\nPING\r\n$1000000\r\n");
    let _ = large.0.write_all(&[b'a'; 900_000]);
    assert_eq!(large.rest(), b"");
    small.ask("NG", "+PONG\r\n");
    let closed = "overside_kv_connections_closed_total{reason=\"memory\"}";
    assert_eq!(running.metric(closed), 1.0);
}

#[test]
fn one_client_too_many_is_told_so() {
    let running = Running::start(limited(Limits { clients: 3, ..Limits::default() }));
    let mut clients: Vec<_> = (0..3).map(|_| running.connect()).collect();
    for client in &mut clients {
        client.ask("PING", "+PONG\r\n");
    }
    let mut fourth = running.connect();
    assert_eq!(fourth.rest(), b"-ERR max number of clients reached\r\n");
    assert_eq!(running.metric("overside_kv_connections_rejected_total"), 1.0);
    clients.pop();
    until("room", || running.metric("overside_kv_connections ") == 2.0);
    running.connect().ask("PING", "+PONG\r\n");
}

#[test]
fn who_says_nothing_for_too_long_is_closed_if_so_wanted() {
    let running =
        Running::start(limited(Limits { idle: Duration::from_millis(200), ..Limits::default() }));
    // On a busy machine a client may be too late with what it says.
    until("one is served, and then closed", || {
        let (mut client, mut heard) = (running.connect().0, String::new());
        let asked = client.write_all(b"PING\r\n");
        asked.and(client.read_to_string(&mut heard)).is_ok() && heard == "+PONG\r\n"
    });
}

fn with_password(limits: Limits) -> Settings {
    Settings { password: Some(Password::new(b"secret")), ..limited(limits) }
}

#[test]
fn who_does_not_authenticate_in_time_is_closed() {
    let running = Running::start(with_password(Limits {
        authentication: Duration::from_millis(100),
        ..Limits::default()
    }));
    assert_eq!(running.connect().rest(), b"");
    let closed = "overside_kv_connections_closed_total{reason=\"unauthenticated\"}";
    assert_eq!(running.metric(closed), 1.0);
}

#[test]
fn the_oldest_that_has_not_authenticated_makes_room() {
    let running = Running::start(with_password(Limits { unauthenticated: 2, ..Limits::default() }));
    let mut clients: Vec<_> = (0..3).map(|_| running.connect()).collect();
    assert_eq!(clients[0].rest(), b"");
    assert_eq!(running.metric("overside_kv_connections "), 2.0);
}

#[test]
fn who_does_not_know_the_password_gets_nothing() {
    let running = Running::start(with_password(Limits::default()));
    let mut client = running.connect();
    client.say(b"GET a\r\n");
    client.hear(b"-NOAUTH ");
    let mut client = running.connect();
    client.say(b"AUTH guess\r\n");
    client.hear(b"-WRONGPASS ");
    let mut right = running.connect();
    right.ask("AUTH secret", "+OK\r\n");
    right.ask("SET a b", "+OK\r\n");
    assert_eq!(running.metric("overside_kv_wrong_passwords_total"), 1.0);
    // A long command is for those who are known.
    let mut client = running.connect();
    let _ = client.0.write_all(&[b'a'; 100_000]);
    assert!(client.rest().len() < 1000);
}

#[test]
fn who_guessed_wrong_waits_and_may_try_again() {
    let running = Running::start(with_password(Limits::default()));
    let mut client = running.connect();
    client.say(b"AUTH guess\r\n");
    while client.hear_byte() != b'\n' {}
    client.ask("AUTH secret", "+OK\r\n");
}

#[test]
fn pages_in_a_browser_can_send_no_commands() {
    let running = Running::start(limited(Limits::default()));
    for start in ["POST / HTTP/1.1\r\n", "GET /\r\nHost: here\r\n"] {
        let mut page = running.connect();
        page.say(format!("{start}SET page was-here\r\n").as_bytes());
        let _ = page.rest();
    }
    running.connect().ask("EXISTS page", ":0\r\n");
}
