//! Datagrams from other machines: sealed with the password.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use overside_kv::client::datagram::{ClientError, DatagramClient, ExchangeOptions};
use overside_kv::protocol::datagram::{Header, Reply, RequestDatagram, SealKey, Sender, replies};
use overside_kv::server::{Addresses, Exposed, Password, Server, ServerError, Settings, Steering};
use overside_kv::{Answer, Operation, Request};

use super::datagrams::{request, set, store};
use super::running::{PATIENCE, Running, addresses, local, settings};

const PASSWORD: &[u8] = b"of the store";

/// A server that other machines could reach.
fn open(workers: usize) -> Settings {
    Settings {
        addresses: Addresses {
            datagram: vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))],
            metrics: Some(local()),
            ..addresses()
        },
        password: Some(Password::new(PASSWORD)),
        workers,
        ..settings()
    }
}

fn running(workers: usize) -> Running {
    Running::start_with(open(workers), store)
}

fn address(running: &Running) -> SocketAddr {
    SocketAddr::from((
        Ipv4Addr::LOCALHOST,
        running.settings.addresses.datagram[0].port(),
    ))
}

fn value(client: &mut DatagramClient, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let requests = [request(key, Operation::Get)];
    let mut take = |_, reply: Option<Reply<'_>>| {
        if let Some(Reply::Answer(Answer::Value(value))) = reply {
            found = Some(value.data.to_vec());
        }
    };
    client.execute(&requests, &mut take).unwrap();
    found
}

/// A socket that seals by hand.
struct Raw {
    socket: UdpSocket,
    key: SealKey,
    port: u16,
}

impl Raw {
    fn connect(address: SocketAddr) -> Self {
        let socket = UdpSocket::bind(local()).unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self {
            socket,
            key: SealKey::new(&Password::new(PASSWORD).digest()),
            port: address.port(),
        }
    }

    fn seal(&self, epoch: u64, datagram: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        (self.key).seal(Sender::Client, self.port, epoch, datagram, &mut bytes);
        bytes
    }

    /// Sends bytes; the epoch, and the reply to their first request.
    fn ask(&self, bytes: &[u8]) -> (u64, Option<String>) {
        self.socket.send(bytes).unwrap();
        let mut buffer = [0; 2048];
        let len = self.socket.recv(&mut buffer).unwrap();
        let sealed = self.key.open(Sender::Server, self.port, &buffer[..len]);
        let sealed = sealed.expect("an answer with a right seal");
        let reply = Header::read(sealed.datagram).ok().map(|(header, records)| {
            let first = replies(header.count, records).next().unwrap();
            format!("{:?}", first.unwrap())
        });
        (sealed.epoch, reply)
    }

    fn is_silent(&self, bytes: &[u8]) -> bool {
        self.socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        self.socket.send(bytes).unwrap();
        let is_silent = self.socket.recv(&mut [0; 2048]).is_err();
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        is_silent
    }
}

fn increment(sequence: u64) -> Vec<u8> {
    let mut datagram = RequestDatagram::default();
    datagram.begin(&Header {
        client: 7,
        sequence,
        limit: 1400,
        ..Header::default()
    });
    let request = Request {
        key: b"n",
        hash: 0,
        operation: Operation::Increment { delta: 1 },
    };
    assert!(datagram.push(&request, 1400));
    datagram.bytes().to_vec()
}

#[test]
fn who_knows_the_password_is_served_and_nobody_else() {
    for workers in [1, 3] {
        let running = running(workers);
        if workers > 1 && running.settings.steering != Steering::Bpf {
            eprintln!("skipped: this system does not steer datagrams");
            continue;
        }
        let options = ExchangeOptions::default();
        let password = Password::new(PASSWORD);
        let mut client =
            DatagramClient::connect_sealed(address(&running), options, password).unwrap();
        let keys: Vec<String> = (0..1000).map(|key| format!("key {key}")).collect();
        let sets: Vec<_> = keys.iter().map(|key| set(key.as_bytes(), b"v")).collect();
        let mut stored = 0;
        let mut take = |_, reply: Option<Reply<'_>>| stored += usize::from(reply.is_some());
        client.execute(&sets, &mut take).unwrap();
        assert_eq!(stored, 1000);
        assert_eq!(value(&mut client, b"key 7"), Some(b"v".to_vec()));

        let guess = Password::new(b"a guess");
        let mut guessing =
            DatagramClient::connect_sealed(address(&running), options, guess).unwrap();
        let result = guessing.execute(&[request(b"key 7", Operation::Get)], &mut |_, _| {});
        let Err(ClientError::Socket(error)) = result else {
            panic!("{result:?}");
        };
        assert!(error.to_string().contains("another password"), "{error}");
        // Also from this machine: where it listens, others could be.
        let raw = Raw::connect(address(&running));
        assert!(raw.is_silent(&increment(1)));
        let refused = running.metric("overside_kv_datagrams_refused_total ");
        assert!(refused >= 2.0, "{refused}");
    }
}

#[test]
fn a_recorded_datagram_is_not_executed_again() {
    let running = running(1);
    let raw = Raw::connect(address(&running));
    let (epoch, nothing) = raw.ask(&raw.seal(0, b""));
    assert_eq!(nothing, None);
    let recorded = raw.seal(epoch, &increment(1));
    let (_, first) = raw.ask(&recorded);
    assert_eq!(first.as_deref(), Some("Answer(Number(1))"));
    assert_eq!(raw.ask(&recorded).1.as_deref(), Some("Repeated"));
    // Of another time, or of a server that was started before.
    let (now, nothing) = raw.ask(&raw.seal(epoch ^ (1 << 40), &increment(2)));
    assert_eq!((now, nothing), (epoch, None));
    // Changed, cut off, sent to another port, or sent back.
    for changed in [3, 5, 10, 20, 40] {
        let mut bytes = raw.seal(epoch, &increment(3));
        bytes[changed] ^= 1;
        assert!(raw.is_silent(&bytes), "{changed}");
    }
    let bytes = raw.seal(epoch, &increment(3));
    assert!(raw.is_silent(&bytes[..bytes.len() - 1]));
    let mut elsewhere = Vec::new();
    (raw.key).seal(
        Sender::Client,
        raw.port ^ 1,
        epoch,
        &increment(3),
        &mut elsewhere,
    );
    assert!(raw.is_silent(&elsewhere));
    let mut answer = Vec::new();
    (raw.key).seal(Sender::Server, raw.port, epoch, &increment(3), &mut answer);
    assert!(raw.is_silent(&answer));
    let (_, second) = raw.ask(&raw.seal(epoch, &increment(4)));
    assert_eq!(second.as_deref(), Some("Answer(Number(2))"));
}

#[test]
fn a_client_of_this_machine_may_seal_too() {
    let running = Running::start_with(
        Settings {
            addresses: Addresses {
                datagram: vec![local()],
                ..addresses()
            },
            ..open(1)
        },
        store,
    );
    let options = ExchangeOptions::default();
    let password = Password::new(PASSWORD);
    let mut sealed = DatagramClient::connect_sealed(address(&running), options, password).unwrap();
    let mut plain = DatagramClient::connect(address(&running), options).unwrap();
    sealed.execute(&[set(b"a", b"b")], &mut |_, _| {}).unwrap();
    assert_eq!(value(&mut plain, b"a"), Some(b"b".to_vec()));
}

#[test]
fn without_a_password_or_steering_other_machines_are_kept_out() {
    let refused = |settings| Server::bind(settings).expect_err("it listens");
    let without = Settings {
        password: None,
        ..open(1)
    };
    assert!(matches!(
        refused(without),
        ServerError::Exposed(Exposed::Datagram(_))
    ));
    let unsteered = Settings {
        steering: Steering::Ports,
        ..open(2)
    };
    assert!(refused(unsteered).to_string().contains("several cores"));
}
