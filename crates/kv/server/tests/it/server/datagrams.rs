//! The server over UDP.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use overside_kv::client::datagram::{DatagramClient, ExchangeOptions};
use overside_kv::ethernet::PortSettings;
use overside_kv::protocol::datagram::{Header, Reply, RequestDatagram, replies};
use overside_kv::server::{
    Addresses, Memory, Password, Protection, Server, ServerError, Settings, Steering,
    StorageBackend, UnauthenticatedAccess,
};
use overside_kv::store::{MEMORY_MIN_BYTES, StoreOptions};
use overside_kv::{Answer, KeyHasher, Request, Store};

use crate::requests::{get, set};

use super::running::{PATIENCE, Running, addresses, local, settings, until};

fn running(workers: usize) -> Running {
    let settings = Settings {
        addresses: Addresses { datagram: vec![local()], metrics: Some(local()), ..addresses() },
        workers,
        ..settings()
    };
    Running::start_with(settings, store)
}

pub(super) fn store(hasher: &KeyHasher, now_ms: u64) -> Box<dyn StorageBackend + Send> {
    let options = StoreOptions::new(MEMORY_MIN_BYTES, hasher);
    Box::new(Memory::new(Store::new(options).unwrap(), now_ms))
}

fn socket(running: &Running) -> UdpSocket {
    let socket = UdpSocket::bind(local()).unwrap();
    socket.connect(running.settings.addresses.datagram[0]).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Requests of a client; the datagram, and that of their answers, may be so long.
pub(super) fn packet(client: u64, sequence: u64, limit: u16, requests: &[Request<'_>]) -> Vec<u8> {
    let mut datagram = RequestDatagram::default();
    datagram.begin(&Header { client, sequence, limit, ..Header::default() });
    assert!(requests.iter().all(|one| datagram.push(one, limit.into())));
    datagram.bytes().to_vec()
}

fn datagram(sequence: u64, requests: &[Request<'_>]) -> Vec<u8> {
    packet(5, sequence, 60_000, requests)
}

/// Client, sequence number and values of a datagram of answers.
pub(super) fn values(answer: &[u8]) -> (u64, u64, Vec<Option<Vec<u8>>>) {
    let (header, records) = Header::read(answer).unwrap();
    let value = |reply| match reply {
        Ok(Reply::Answer(Answer::Value(value))) => Some(value.data.to_vec()),
        Ok(_) => None,
        Err(error) => panic!("{error}"),
    };
    let values = replies(header.count, records).map(value).collect();
    (header.client, header.sequence, values)
}

/// Sends the requests once and returns the values of their answers.
fn ask(socket: &UdpSocket, sequence: u64, requests: &[Request<'_>]) -> Vec<Option<Vec<u8>>> {
    socket.send(&datagram(sequence, requests)).unwrap();
    let mut buffer = vec![0; 65_536];
    let len = socket.recv(&mut buffer).unwrap();
    let (client, answered, values) = values(&buffer[..len]);
    assert_eq!((answered, client), (sequence, 5));
    values
}

#[test]
fn datagrams_and_connections_have_the_same_keys() {
    let running = running(1);
    let (socket, mut redis) = (socket(&running), running.connect());
    redis.ask("SET a 1", "+OK\r\n");
    let values = ask(&socket, 1, &[set(b"b", b"2"), get(b"a")]);
    assert_eq!(values, [None, Some(b"1".to_vec())]);
    redis.ask("GET b", "$1\r\n2\r\n");
    let long = vec![b'v'; 50_000];
    ask(&socket, 2, &[set(b"long", &long)]);
    assert_eq!(ask(&socket, 3, &[get(b"long")]), [Some(long)]);
    assert_eq!(running.metric("overside_kv_datagrams_received_total "), 3.0);
    assert_eq!(running.metric("overside_kv_datagrams_sent_total "), 3.0);
    assert_eq!(running.metric("overside_kv_commands_total "), 6.0);
}

#[test]
fn every_partition_is_reached_from_every_socket() {
    let running = running(3);
    let clients: Vec<_> = (0..12).map(|_| socket(&running)).collect();
    for (number, client) in (1..).zip(&clients) {
        let keys: Vec<String> = (0..50).map(|key| format!("{number}:{key}")).collect();
        let sets: Vec<_> = keys.iter().map(|key| set(key.as_bytes(), b"value")).collect();
        ask(client, number, &sets);
        let get = |key: &'_ String| ask(client, 99, &[get(key.as_bytes())]);
        assert!(keys.iter().all(|key| get(key) == [Some(b"value".to_vec())]));
    }
    running.connect().ask("DBSIZE", ":600\r\n");
}

#[test]
fn garbage_is_counted_and_others_are_served() {
    let running = running(1);
    let (noise, client) = (socket(&running), socket(&running));
    let good = datagram(1, &[set(b"a", b"b")]);
    for len in 0..good.len() {
        noise.send(&good[..len]).unwrap();
        noise.send(&vec![len as u8; 20 * len + 1]).unwrap();
    }
    assert_eq!(ask(&client, 2, &[get(b"a")]), [None]);
    until("counted", || running.metric("overside_kv_datagrams_invalid_total ") > good.len() as f64);
    noise.set_nonblocking(true).unwrap();
    assert!(noise.recv(&mut [0; 100]).is_err(), "nothing is answered");
}

#[test]
fn a_flood_is_dropped_by_the_kernel_and_counted() {
    let settings = Settings {
        addresses: Addresses { datagram: vec![local()], metrics: Some(local()), ..addresses() },
        rx_queue: 8,
        ..settings()
    };
    let running = Running::start_with(settings, store);
    let (flood, client) = (socket(&running), socket(&running));
    let many = datagram(1, &vec![get(b"a"); 256]);
    until("dropped", || {
        for _ in 0..2000 {
            // Its own buffer may be full.
            let _ = flood.send(&many);
        }
        running.metric("overside_kv_datagrams_dropped_total ") > 0.0
    });
    client.set_read_timeout(Some(PATIENCE / 100)).unwrap();
    let question = datagram(7, &[get(b"a")]);
    until("answered", || {
        let _ = client.send(&question);
        client.recv(&mut [0; 1000]).is_ok()
    });
    let mut redis = running.connect();
    redis.say(b"INFO datagrams\r\n");
    let mut text = String::new();
    while !text.contains("datagrams_queue_bytes") {
        text.push(char::from(redis.hear_byte()));
    }
    assert!(text.contains("rx_queue_descriptors:8\r\n"), "{text}");
}

#[test]
fn an_address_is_taken_by_one_server() {
    let running = running(2);
    let other = Settings {
        addresses: Addresses {
            datagram: running.settings.addresses.datagram.clone(),
            ..addresses()
        },
        workers: 2,
        ..Settings::default()
    };
    let error = Server::bind(other).unwrap_err();
    assert!(error.to_string().contains("cannot listen"), "{error}");
}

#[test]
fn a_password_admits_no_datagrams_of_other_machines() {
    for ip in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(192, 0, 2, 1)] {
        let open = Settings {
            addresses: Addresses { datagram: vec![local(), (ip, 0).into()], ..addresses() },
            password: Some(Password::new(b"of the store")),
            ..Settings::default()
        };
        let error = Server::bind(open).unwrap_err();
        let ServerError::UnauthenticatedAccess(UnauthenticatedAccess::Datagram(address)) = error
        else {
            panic!("{error}");
        };
        assert_eq!(address.ip(), ip);
    }
}

#[test]
fn a_port_of_dpdk_serves_those_who_are_trusted() {
    let address = Ipv4Addr::new(10, 0, 0, 2);
    let with = |datagram: SocketAddr, trusts_port| {
        let addresses = Addresses {
            datagram: vec![datagram],
            port: Some(PortSettings { device: "net_memif0".into(), address }),
            ..Addresses::default()
        };
        addresses.check(Protection { has_password: true, trusts_port, ..Protection::default() })
    };
    let at_port = SocketAddr::from((address, 6379));
    assert_eq!(with(at_port, true), Ok(()));
    assert_eq!(with(local(), true), Ok(()));
    let untrusted = UnauthenticatedAccess::Port("net_memif0".into());
    assert_eq!(with(at_port, false), Err(untrusted));
    let elsewhere = SocketAddr::from(([10, 0, 0, 3], 6379));
    assert_eq!(with(elsewhere, true), Err(UnauthenticatedAccess::Datagram(elsewhere)));
}

#[test]
fn datagrams_from_another_address_are_dropped_and_counted() {
    // The address that this machine has on a network, if it is on one. Nothing is sent there.
    let outside = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let address = (outside.connect((Ipv4Addr::new(192, 0, 2, 1), 9)))
        .and_then(|()| outside.local_addr())
        .map(|address| address.ip());
    let Ok(ip) = address else {
        return eprintln!("skipped: this machine is on no network");
    };
    let running = running(1);
    let client = UdpSocket::bind((ip, 0)).unwrap();
    client.connect(running.settings.addresses.datagram[0]).unwrap();
    let question = datagram(1, &[set(b"a", b"b")]);
    client.send(&question).unwrap();
    until("refused", || running.metric("overside_kv_datagrams_refused_total ") == 1.0);
    let local = socket(&running);
    assert_eq!(ask(&local, 1, &[get(b"a")]), [None]);
}

#[test]
fn a_server_ends_whatever_clients_send() {
    let mut running = running(1);
    let client = socket(&running);
    let question = datagram(1, &[get(b"a")]);
    assert_eq!(ask(&client, 1, &[get(b"a")]), [None]);
    running.stop();
    client.send(&question).unwrap();
    assert!(running.wait());
}

#[test]
fn the_client_library_has_its_requests_executed() {
    for workers in [1, 3] {
        let running = running(workers);
        let address = running.settings.addresses.datagram[0];
        let mut client = DatagramClient::connect(address, ExchangeOptions::default()).unwrap();
        let keys: Vec<String> = (0..5000).map(|key| format!("key:{key}")).collect();
        let sets: Vec<_> = keys.iter().map(|key| set(key.as_bytes(), key.as_bytes())).collect();
        let mut stored = 0;
        let mut count = |_, reply: Option<Reply<'_>>| {
            let is_stored =
                matches!(reply, Some(Reply::Answer(Answer::Stored { .. }) | Reply::Repeated));
            stored += usize::from(is_stored);
        };
        client.execute(&sets, &mut count).unwrap();
        assert_eq!(stored, 5000);
        let gets = keys.iter().map(|key| get(key.as_bytes()));
        let gets: Vec<_> = gets.collect();
        let mut found = vec![None; 5000];
        let mut take = |index: usize, reply: Option<Reply<'_>>| {
            if let Some(Reply::Answer(Answer::Value(value))) = reply {
                found[index] = Some(value.data.to_vec());
            }
        };
        client.execute(&gets, &mut take).unwrap();
        let expected = keys.iter().map(|key| Some(key.as_bytes().to_vec()));
        assert!(found.into_iter().eq(expected));
        assert!(client.figures().sent >= 100);
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error_or_no_answer() {
    let nobody = UdpSocket::bind(local()).unwrap();
    let address = nobody.local_addr().unwrap();
    let options = ExchangeOptions { tries: 0, ..ExchangeOptions::default() };
    let mut client = DatagramClient::connect(address, options).unwrap();
    let gets = [get(b"a")];
    let mut replies = Vec::new();
    let mut take = |index, reply: Option<Reply<'_>>| replies.push((index, reply.is_none()));
    client.execute(&gets, &mut take).unwrap();
    assert_eq!(replies, [(0, true)]);
    let long = vec![0; 70_000];
    let error = client.execute(&[set(b"a", &long)], &mut |_, _| {});
    assert!(error.unwrap_err().to_string().contains("longer than a datagram"));
    drop(nobody);
    let refused = client.execute(&gets, &mut |_, _| {});
    assert!(refused.is_err());
}

#[test]
fn requests_arrive_at_the_worker_that_has_their_keys() {
    for (asked, steering) in [(Steering::None, "bpf"), (Steering::Ports, "ports")] {
        let settings = Settings {
            addresses: Addresses { datagram: vec![local()], metrics: Some(local()), ..addresses() },
            workers: 4,
            steering: asked,
            ..settings()
        };
        let running = Running::start_with(settings, store);
        let address = running.settings.addresses.datagram[0];
        let mut client = DatagramClient::connect(address, ExchangeOptions::default()).unwrap();
        let keys: Vec<String> = (0..4000).map(|key| format!("key:{key}")).collect();
        let sets = keys.iter().map(|key| set(key.as_bytes(), key.as_bytes()));
        let gets = keys.iter().map(|key| get(key.as_bytes()));
        let mut answered = 0;
        for requests in [sets.collect::<Vec<_>>(), gets.collect()] {
            let mut count = |_, reply: Option<Reply<'_>>| answered += usize::from(reply.is_some());
            client.execute(&requests, &mut count).unwrap();
        }
        assert_eq!(answered, 8000);
        let own = running.metric("overside_kv_requests_at_owner_total ");
        let forwarded = running.metric("overside_kv_requests_forwarded_total ");
        assert!(own + forwarded >= 8000.0);
        assert!(own / (own + forwarded) >= 0.99, "{steering}: {own} and {forwarded}");
        let mut redis = running.connect();
        redis.say(b"INFO overside\r\n");
        let mut text = String::new();
        while !text.contains("requests_forwarded") {
            text.push(char::from(redis.hear_byte()));
        }
        assert!(text.contains(&format!("steering:{steering}\r\n")), "{text}");
    }
}
