//! Datagrams compared with RESP, both of this store, from the same server process: trains of datagrams that were built
//! before the clock starts, one train in flight of each socket of the load.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use overside_base::Random;
use overside_kv::protocol::datagram::{ETHERNET_BYTES, HEADER_BYTES, Header, RequestDatagram};
use overside_kv::udp::{DatagramSocket, RX_QUEUE_DEFAULT, ReceiveBuffers};
use overside_kv::{Operation, Request};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::{KEYS, Sample, VARIANTS, WINDOW, cpu_ns};

/// Load of one benchmark case: each socket sends one train of datagrams at once, then waits for the
/// answers.
pub(crate) struct Case {
    pub sockets: usize,
    /// Datagrams of a train.
    pub train: usize,
    /// Requests of a datagram.
    pub requests: usize,
    pub is_set: bool,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let kind = if self.is_set { "SET" } else { "GET" };
        let Self { sockets, train, requests, .. } = self;
        format!("datagram {kind} -c {sockets} {train} x {requests}")
    }
}

/// One server that speaks both: its process, and where RESP and datagrams are spoken.
pub(crate) fn own() -> (Child, SocketAddr, SocketAddr) {
    let mut process = Command::new(std::env::current_exe().expect("a path"))
        .arg("--serve=datagram")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    let mut address = || {
        let line = lines.next().expect("a line").expect("text");
        line.parse().expect("an address")
    };
    let (tcp, udp) = (address(), address());
    (process, tcp, udp)
}

/// Datagrams, and where each ends.
type Train = (Vec<u8>, Vec<(u32, usize)>);

struct Client {
    socket: DatagramSocket,
    trains: Vec<Train>,
    next: usize,
    sequence: u64,
    /// Answers of the train that have not come.
    missing: usize,
    sent: Instant,
}

impl Client {
    fn new(case: &Case, number: usize, address: SocketAddr) -> Self {
        // Sequence numbers begin anew, so this is another client each time.
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let id = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::new(number as u64 + 1);
        Self {
            socket: DatagramSocket::connect(address, RX_QUEUE_DEFAULT).expect("a socket"),
            trains: (0..VARIANTS).map(|_| train(case, id, &mut random)).collect(),
            next: 0,
            sequence: 1,
            missing: 0,
            sent: Instant::now(),
        }
    }

    /// Sends the next train, with sequence numbers that were not used before.
    fn send(&mut self, case: &Case) {
        let (bytes, ends) = &mut self.trains[self.next];
        let mut begin = 0;
        for (_, end) in &*ends {
            bytes[begin + 16..begin + 24].copy_from_slice(&self.sequence.to_le_bytes());
            self.sequence += 1;
            begin = *end;
        }
        self.sent = Instant::now();
        let sent = self.socket.send(bytes, ends, |_| None);
        assert_eq!(sent.failed, 0);
        self.next = (self.next + 1) % VARIANTS;
        self.missing = case.train * case.requests;
    }
}

fn train(case: &Case, client: u64, random: &mut Random) -> Train {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    let mut datagram = RequestDatagram::default();
    for _ in 0..case.train {
        datagram.begin(&Header { client, limit: ETHERNET_BYTES as u16, ..Header::default() });
        for _ in 0..case.requests {
            let key = format!("{:08}", random.below(KEYS));
            let operation = match case.is_set {
                false => Operation::Get,
                true => Operation::set(key.as_bytes()),
            };
            let request = Request { key: key.as_bytes(), hash: 0, operation };
            assert!(datagram.push(&request, ETHERNET_BYTES), "it fits");
        }
        bytes.extend_from_slice(datagram.bytes());
        ends.push((0, bytes.len()));
    }
    (bytes, ends)
}

pub(crate) fn measure(case: &Case, process: &Child, address: SocketAddr) -> Sample {
    let set_of = epoll::create(CreateFlags::CLOEXEC).expect("epoll");
    let mut clients: Vec<_> = (0..case.sockets)
        .map(|number| {
            let client = Client::new(case, number, address);
            let data = EventData::new_u64(number as u64);
            epoll::add(&set_of, &client.socket, data, EventFlags::IN).expect("epoll");
            client
        })
        .collect();
    let mut buffers = ReceiveBuffers::new();
    let mut events = Vec::with_capacity(256);
    let mut latencies_us = Vec::with_capacity(1 << 20);
    let mut replies = 0;
    let cpu_before_ns = cpu_ns(process);
    let begin = Instant::now();
    clients.iter_mut().for_each(|client| client.send(case));
    while begin.elapsed() < WINDOW {
        events.clear();
        let spare = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&set_of, spare, None).expect("epoll");
        for event in &events {
            let client = &mut clients[event.data.u64() as usize];
            client.socket.receive(&mut buffers).expect("it answers");
            for answer in buffers.received().flat_map(|message| message.datagrams()) {
                let (header, records) = Header::read(answer).expect("an answer");
                let least = if case.is_set { 2 } else { 9 };
                let count = usize::from(header.count);
                assert!(records.len() >= count * least && answer.len() > HEADER_BYTES);
                client.missing -= count;
                replies += count;
            }
            if client.missing == 0 {
                latencies_us.push(client.sent.elapsed().as_nanos() as f64 / 1e3);
                client.send(case);
            }
        }
    }
    let rate = replies as f64 / begin.elapsed().as_secs_f64();
    let cpu_ns = (cpu_ns(process) - cpu_before_ns) / replies as f64;
    // Nothing of this run comes in the next.
    drop(clients);
    Sample::new(rate, cpu_ns, latencies_us)
}
