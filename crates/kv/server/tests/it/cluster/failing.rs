//! Servers that answer under another server's name or address.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use overside_kv::client::ClusterError;
use overside_kv::directory::Registration;

use super::{Member, connect, create, fixed, random};
use crate::directory::{endpoint, location, register, wait_until};
use crate::peers;

/// A server that sends its name, reads one request and then closes; returns a counter of requests read.
fn closing(name: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while !line.starts_with("overside") {
                line.clear();
                stream.read_line(&mut line).unwrap();
            }
            let info = format!("# Overside\r\nserver_name:{name}\r\n");
            let reply = format!("${}\r\n{info}\r\n", info.len());
            stream.get_mut().write_all(reply.as_bytes()).unwrap();
            if stream.read_line(&mut line).is_ok_and(|len| len > 0) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    (port, count)
}

fn registered_at(etcd: &peers::Etcd, name: &str, port: u16) -> Registration {
    let location = location(etcd);
    let entry = endpoint(name, &random(), "redis", port);
    let (registration, status) = register(&location, &[entry]);
    wait_until(|| status.registered() == 1);
    registration
}

#[test]
fn writes_are_sent_once_and_reads_twice() {
    let Some(etcd) = peers::etcd() else { return };
    let location = location(&etcd);
    create(&location, &fixed(&["a"]));
    let (port, requests) = closing("a");
    let _registration = registered_at(&etcd, "a", port);
    let mut cluster = connect(&location);
    for (times, write) in [(2, false), (1, true)] {
        let before = requests.load(Ordering::Relaxed);
        let error = match write {
            true => cluster.set(b"x", b"1", None).unwrap_err(),
            false => cluster.get(b"x").unwrap_err(),
        };
        let ClusterError::Unreachable { servers } = &error else {
            panic!("{error}");
        };
        assert_eq!(servers[0].may_be_executed, write, "{error}");
        assert_eq!(requests.load(Ordering::Relaxed) - before, times);
    }
}

#[test]
fn another_server_at_the_address_is_not_asked() {
    let Some(etcd) = peers::etcd() else { return };
    let location = location(&etcd);
    create(&location, &fixed(&["a"]));
    let b = Member::start(&location, "b", false);
    let port = b.server.address().port();
    let first = registered_at(&etcd, "a", port);
    let mut cluster = connect(&location);
    for error in [cluster.set(b"x", b"1", None).unwrap_err(), cluster.get(b"x").unwrap_err()] {
        assert!(error.to_string().contains("another server is at"), "{error}");
    }
    assert_eq!(b.keys(), 0);
    // Two servers of one name, which neither of them has noticed.
    let twin = endpoint("a", "twin", "redis", 9);
    let plain = overside_kv::directory::Etcd::new(location.clone());
    assert_eq!(plain.create(&twin.key(&location), &twin.value()), Ok(true));
    wait_until(|| {
        let error = cluster.get(b"x").unwrap_err().to_string();
        error.contains("two servers are registered by this name")
    });
    drop(first);
}

#[test]
fn a_password_is_needed_where_there_is_one() {
    use overside_kv::client::{Cluster, ClusterOptions};
    use overside_kv::server::{Password, Settings};

    let Some(etcd) = peers::etcd() else { return };
    let location = location(&etcd);
    create(&location, &fixed(&["a"]));
    let server = crate::server::running::Running::start(Settings {
        name: Some("a".into()),
        password: Some(Password::new(b"secret")),
        ..crate::server::running::settings()
    });
    let _registration = registered_at(&etcd, "a", server.address().port());
    for (password, says) in [(None, "NOAUTH"), (Some("wrong"), "WRONGPASS"), (Some("secret"), "")] {
        let options = ClusterOptions {
            password: password.map(|text| text.as_bytes().to_vec()),
            ..ClusterOptions::default()
        };
        let mut cluster = Cluster::connect(location.clone(), options).unwrap();
        match cluster.get(b"x") {
            Ok(value) => assert!(says.is_empty() && value.is_none()),
            Err(error) => assert!(error.to_string().contains(says), "{error}"),
        }
        assert_eq!(cluster.get(b"x").is_ok(), says.is_empty());
    }
}
