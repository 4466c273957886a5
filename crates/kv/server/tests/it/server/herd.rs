//! Requests that are written into a polled region.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use overside_base::Random;
use overside_kv::herd::{
    CLIENTS_MAX, REGION_BYTES, RegionAddress, RequestWriter, SLOT_BYTES, SLOTS,
};
use overside_kv::server::{Addresses, Settings};
use overside_kv::udp::ReceiveBuffers;
use overside_kv::{Request, partition_of};
use overside_link::shm::{self, ShmOptions};
use overside_link::verbs::{
    Endpoint, LinkConfig, Messages, QueuePair, RecvBatch, RemoteMemory, Side, Token, Verb, Work,
};
use tempfile::TempDir;

use crate::requests::{get, set};

use super::datagrams::{packet, store, values};
use super::running::{PATIENCE, Running, addresses, local, settings, until};

fn running(directory: &Path, workers: usize) -> Running {
    let settings = Settings {
        addresses: Addresses {
            herd: Some(RegionAddress::Path(directory.join("herd"))),
            metrics: Some(local()),
            ..addresses()
        },
        workers,
        ..settings()
    };
    Running::start_with(settings, store)
}

/// A client that keeps the rules.
struct Client {
    writer: RequestWriter,
    buffers: ReceiveBuffers,
    id: u64,
    sequence: u64,
}

impl Client {
    fn new(running: &Running, id: u64) -> Self {
        let place = running.settings.addresses.herd.as_ref().unwrap();
        Self {
            writer: RequestWriter::connect(place, None).unwrap(),
            buffers: ReceiveBuffers::new(),
            id,
            sequence: 0,
        }
    }

    fn write(&mut self, partition: usize, requests: &[Request<'_>]) {
        self.sequence += 1;
        let bytes = packet(self.id, self.sequence, 2000, requests);
        let ends = [(partition as u32, bytes.len())];
        self.writer.write(&bytes, &ends).unwrap();
    }

    /// Values of the next answers.
    fn receive(&mut self) -> (u64, Vec<Option<Vec<u8>>>) {
        let begin = Instant::now();
        while self.writer.socket().receive(&mut self.buffers).unwrap() == 0 {
            assert!(begin.elapsed() < PATIENCE, "no answer");
            std::thread::yield_now();
        }
        let all: Vec<&[u8]> =
            (self.buffers.received()).flat_map(|message| message.datagrams()).collect();
        let [answer] = all[..] else {
            panic!("one at a time: {}", all.len());
        };
        let (client, sequence, values) = values(answer);
        assert_eq!(client, self.id);
        self.writer.answered(sequence);
        (sequence, values)
    }

    fn ask(&mut self, partition: usize, requests: &[Request<'_>]) -> Vec<Option<Vec<u8>>> {
        self.write(partition, requests);
        let (sequence, values) = self.receive();
        assert_eq!(sequence, self.sequence);
        values
    }
}

/// A client that does as it likes with its region.
struct Hostile {
    queue_pair: Box<dyn QueuePair>,
    memory: RemoteMemory,
    endpoint: shm::ShmEndpoint,
}

impl Hostile {
    /// Connects, and sends `introduction` if there is one.
    fn new(running: &Running, introduction: Option<&[u8]>) -> Self {
        let Some(RegionAddress::Path(path)) = &running.settings.addresses.herd else {
            panic!("it listens at a path");
        };
        let deadline = Instant::now() + PATIENCE;
        let config = LinkConfig::new(Side::Dpu);
        let endpoint = shm::connect(path, &config, &ShmOptions::default(), deadline).unwrap();
        let mut queue_pair = endpoint.open(0).unwrap();
        let mut batch = RecvBatch::new();
        while queue_pair.receive(&mut batch, 1).unwrap() == 0 {
            assert!(Instant::now() < deadline);
        }
        let token = Token::from_bytes(&batch.as_bytes()[16..]).unwrap();
        let memory = endpoint.import(&token).unwrap();
        assert_eq!(memory.len(), REGION_BYTES as u64);
        if let Some(introduction) = introduction {
            queue_pair.send(Messages::one(introduction).unwrap()).unwrap();
        }
        Self { queue_pair, memory, endpoint }
    }

    /// A port of this process.
    fn introduction(socket: &UdpSocket) -> Vec<u8> {
        let port = socket.local_addr().unwrap().port().to_le_bytes();
        [&b"OvHR\x01\x00"[..], &port].concat()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let mut from = self.endpoint.alloc(bytes.len(), 64).unwrap();
        from.bytes_mut().unwrap().copy_from_slice(bytes);
        let to = (self.memory).slice(at as u64..(at + bytes.len()) as u64);
        let verb = Verb::Write { from: from.share().slice(0..bytes.len()), to: to.unwrap() };
        // The server may have let it go already.
        let mut work = VecDeque::from([Work::new(0, verb)]);
        if self.queue_pair.post(&mut work).is_ok() {
            let _ = self.queue_pair.poll(&mut Vec::new(), 10);
        }
    }
}

fn clients(running: &Running) -> usize {
    running.metric("overside_kv_request_region_clients ") as usize
}

fn until_clients(running: &Running, count: usize) {
    until("so many clients", || clients(running) == count);
}

#[test]
fn requests_are_written_into_memory_and_answered_by_datagrams() {
    let directory = TempDir::new().unwrap();
    let running = running(directory.path(), 1);
    let (mut one, mut other) = (Client::new(&running, 1), Client::new(&running, 2));
    assert_eq!(one.ask(0, &[set(b"a", b"1"), get(b"a")]), [None, Some(b"1".to_vec())]);
    running.connect().ask("GET a", "$1\r\n1\r\n");
    assert_eq!(other.ask(0, &[get(b"a"), get(b"b")]), [Some(b"1".to_vec()), None]);
    // Slots are used again.
    for round in 0..3 * SLOTS {
        let value = round.to_string();
        let values = one.ask(0, &[set(b"n", value.as_bytes()), get(b"n")]);
        assert_eq!(values[1], Some(value.into_bytes()));
    }
    assert_eq!(clients(&running), 2);
    drop(one);
    until_clients(&running, 1);
    assert_eq!(other.ask(0, &[get(b"a")]), [Some(b"1".to_vec())]);
}

#[test]
fn a_slot_is_free_again_though_its_reply_was_lost() {
    let directory = TempDir::new().unwrap();
    let running = running(directory.path(), 1);
    let mut client = Client::new(&running, 1);
    // No reply is looked at, and the region is written more than once around.
    let begin = Instant::now();
    let executed = |running: &Running| running.metric("overside_kv_commands_total ");
    for round in 1..=3 * SLOTS {
        client.write(0, &[get(b"a")]);
        while executed(&running) < round as f64 {
            assert!(begin.elapsed() < PATIENCE, "{round}");
        }
    }
}

#[test]
fn what_finds_no_free_slot_is_lost_and_nothing_else() {
    let directory = TempDir::new().unwrap();
    let running = running(directory.path(), 1);
    let mut client = Client::new(&running, 1);
    let bytes = packet(1, 1, 2000, &[get(b"a")]);
    let long = vec![0; SLOT_BYTES];
    assert!(client.writer.write(&long, &[(0, SLOT_BYTES)]).is_err());
    // Far more than there are slots, at once.
    let all = bytes.repeat(8 * SLOTS);
    let ends: Vec<_> = (1..=8 * SLOTS).map(|n| (0, n * bytes.len())).collect();
    client.writer.write(&all, &ends).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    while client.writer.socket().receive(&mut client.buffers).unwrap() > 0 {}
    client.writer.answered(1);
    client.sequence = 10;
    client.write(0, &[get(b"a")]);
    let received = || running.metric("overside_kv_datagrams_received_total ");
    until("there is room again", || received() > SLOTS as f64);
}

#[test]
fn each_worker_has_a_region_of_each_client() {
    let directory = TempDir::new().unwrap();
    let running = running(directory.path(), 2);
    let mut client = Client::new(&running, 1);
    for number in 0..40 {
        let key = format!("key{number}");
        let partition = partition_of(key.as_bytes(), 2);
        client.ask(partition, &[set(key.as_bytes(), b"1")]);
        // The other worker sends it on.
        let value = client.ask(1 - partition, &[get(key.as_bytes())]);
        assert_eq!(value, [Some(b"1".to_vec())]);
    }
    assert_eq!(clients(&running), 1);
}

#[test]
fn who_writes_garbage_harms_nobody_else() {
    let directory = TempDir::new().unwrap();
    let running = running(directory.path(), 1);
    let mut good = Client::new(&running, 1);
    let mut random = Random::new(7);
    let socket = UdpSocket::bind(local()).unwrap();
    let mut hostile: Vec<Hostile> =
        (0..3).map(|_| Hostile::new(&running, Some(&Hostile::introduction(&socket)))).collect();
    until_clients(&running, 4);
    for round in 0..200 {
        for one in &mut hostile {
            let len = 1 + random.below(3 * SLOT_BYTES as u64) as usize;
            let mut bytes: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
            let mut at = random.below((REGION_BYTES - len) as u64) as usize;
            // Last words that are due, with anything before them.
            if random.chance(0.5) {
                let due = 1 + random.below(3);
                at = ((due as usize) % SLOTS) * SLOT_BYTES;
                bytes.resize(SLOT_BYTES, 0xff);
                bytes[SLOT_BYTES - 8..].copy_from_slice(&(due << 16 | 1).to_le_bytes());
            }
            one.write(at, &bytes);
        }
        let value = round.to_string();
        let values = good.ask(0, &[set(b"a", value.as_bytes()), get(b"a")]);
        assert_eq!(values[1], Some(value.into_bytes()));
    }
    // What is in the slot that is due never becomes a message: they are given up.
    for one in &mut hostile {
        let end = (1 % SLOTS + 1) * SLOT_BYTES;
        one.write(end - 8, &(1_u64 << 16 | 1).to_le_bytes());
    }
    until_clients(&running, 1);
    assert_eq!(good.ask(0, &[get(b"a")]), [Some(b"199".to_vec())]);
}

#[test]
fn who_says_nothing_or_nonsense_at_the_door_is_let_go() {
    let directory = TempDir::new().unwrap();
    let running = running(directory.path(), 1);
    let wrong: [Option<&[u8]>; 4] = [
        None,
        Some(b"OvHR\x01\x00\x00\x00"),
        Some(b"OvHR\x09\x00\x01\x01"),
        Some(b"nonsense that is longer than an introduction"),
    ];
    for introduction in wrong {
        let _hostile = Hostile::new(&running, introduction);
        let mut good = Client::new(&running, 1);
        assert_eq!(good.ask(0, &[get(b"a")]), [None]);
    }
    until_clients(&running, 0);
}

#[test]
fn there_are_no_more_clients_than_the_limit() {
    let directory = TempDir::new().unwrap();
    let running = running(directory.path(), 1);
    let mut all: Vec<Client> =
        (0..CLIENTS_MAX as u64).map(|id| Client::new(&running, id)).collect();
    until_clients(&running, CLIENTS_MAX);
    let place = running.settings.addresses.herd.as_ref().unwrap();
    assert!(RequestWriter::connect(place, None).is_err());
    assert_eq!(all[CLIENTS_MAX - 1].ask(0, &[get(b"a")]), [None]);
    all.pop();
    until_clients(&running, CLIENTS_MAX - 1);
    assert_eq!(Client::new(&running, 1000).ask(0, &[get(b"a")]), [None]);
}
