//! The load generator's end of a port that DPDK drives: one thread polls it for all of its connections, each of which
//! is a UDP port of its own.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use overside_backend_dpdk::ethernet::ReceivedFrame;
use overside_base::lock;
use serde::{Deserialize, Serialize};

use overside_kv_datagram::ethernet::port::{self, FrameCounts, HostQueue};
use overside_kv_datagram::ethernet::{Checked, FrameKind, Mac, Path, PortSettings};
use overside_kv_datagram::udp::RX_QUEUE_DEFAULT;

/// UDP port of the first connection; others have the following ports.
const FIRST_PORT: u16 = 20_000;
/// Maximum number of connections; each uses a UDP port of its own.
pub(super) const CONNECTIONS_MAX: usize = 40_000;
/// Maximum number of queues: as many partitions as a server can have.
pub(super) const QUEUES_MAX: usize = 255;
/// Longest time to wait for the other side of a port. `ASK_AGAIN` is the time between two requests
/// for its hardware address.
const PATIENCE: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Times that a queue is read at a time.
const READS_MAX: usize = 4;
/// Turns in which nothing came, before others may run who need this core.
const SPIN_TURNS: u32 = 256;

/// A port of this machine, as the load generator uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadPort {
    /// The port, and the load generator's address there.
    pub port: PortSettings,
    /// Queues: datagrams of partition p are sent by queue p, modulo their number. A server at the other end of a
    /// memif has as many as cores.
    pub queues: usize,
}

/// Ports stay open from the load to the run, and from one run to the next: to open one takes long, and the server
/// would lose its link.
static PARKED: Mutex<Option<(LoadPort, Vec<HostQueue>)>> = Mutex::new(None);

/// Port of a thread, which its connections share.
#[derive(Debug)]
pub(super) struct PortHub {
    settings: LoadPort,
    queues: Vec<HostQueue>,
    server: SocketAddrV4,
    server_mac: Mac,
    /// Frames that have arrived for each connection.
    inboxes: Vec<Vec<ReceivedFrame>>,
    /// Connections whose inbox is not empty.
    ready: Vec<usize>,
    frames: Vec<ReceivedFrame>,
    counts: FrameCounts,
}

impl PortHub {
    /// Opens the port and finds the server.
    pub(crate) fn open(
        settings: &LoadPort,
        server: SocketAddrV4,
        connections: usize,
    ) -> io::Result<Self> {
        let parked = lock(&PARKED).take().filter(|(of, _)| of == settings);
        let queues = match parked {
            Some((_, queues)) => Ok(queues),
            None => port::open(&settings.port, settings.queues, RX_QUEUE_DEFAULT),
        };
        let queues = queues.map_err(io::Error::other)?;
        queues.iter().for_each(|queue| queue.queue.enter());
        let mut hub = Self {
            settings: settings.clone(),
            queues,
            server,
            server_mac: [0; 6],
            inboxes: (0..connections).map(|_| Vec::new()).collect(),
            ready: Vec::new(),
            frames: Vec::new(),
            counts: FrameCounts::default(),
        };
        hub.find_server()?;
        Ok(hub)
    }

    fn find_server(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        let mut asked: Option<Instant> = None;
        while begin.elapsed() < PATIENCE {
            if asked.is_none_or(|asked| asked.elapsed() > ASK_AGAIN) {
                self.queues[0].ask(*self.server.ip());
                asked = Some(Instant::now());
            }
            self.poll();
            if self.server_mac != [0; 6] {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (what, ip) = (&self.settings.port.device, self.server.ip());
        let state = match self.queues[0].queue.port().is_up() {
            true => "nobody there has that address",
            false => "it has no link",
        };
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("{ip} does not answer at the port {what}: {state}"),
        ))
    }

    /// Receives frames, some at most.
    fn poll(&mut self) {
        for number in 0..self.queues.len() {
            for _ in 0..READS_MAX {
                let has_more = self.queues[number].receive(&mut self.frames);
                self.sort(number);
                if !has_more {
                    break;
                }
            }
        }
    }

    /// Distributes frames to their connections.
    fn sort(&mut self, number: usize) {
        let queue = &mut self.queues[number];
        for frame in self.frames.drain(..) {
            match queue.look(&frame, &mut self.counts) {
                FrameKind::Datagram(datagram) if datagram.path.address == *self.server.ip() => {
                    let number = datagram.path.local_port.wrapping_sub(FIRST_PORT);
                    if let Some(inbox) = self.inboxes.get_mut(usize::from(number)) {
                        if inbox.is_empty() {
                            self.ready.push(usize::from(number));
                        }
                        inbox.push(frame);
                    }
                }
                FrameKind::Neighbor(address, mac) if address == *self.server.ip() => {
                    self.server_mac = mac;
                }
                FrameKind::HostRequest(question) => {
                    queue.reply(&question);
                    queue.queue.flush();
                }
                _ => {}
            }
        }
    }

    /// Waits until something has come for some connections, whose numbers are appended, or `most` has passed.
    pub(crate) fn wait(&mut self, most: Duration, ready: &mut Vec<usize>) {
        let begin = Instant::now();
        let mut turns = 0;
        loop {
            self.poll();
            if !self.ready.is_empty() || begin.elapsed() >= most {
                ready.append(&mut self.ready);
                return;
            }
            turns += 1;
            if turns > SPIN_TURNS {
                std::thread::yield_now();
            }
        }
    }
}

impl Drop for PortHub {
    fn drop(&mut self) {
        let queues = std::mem::take(&mut self.queues);
        if !queues.is_empty() {
            *lock(&PARKED) = Some((self.settings.clone(), queues));
        }
    }
}

/// A connection's end.
#[derive(Debug)]
pub(super) struct PortChannel {
    hub: Rc<RefCell<PortHub>>,
    number: usize,
}

impl PortChannel {
    /// The connection of this number.
    pub(crate) fn new(hub: &Rc<RefCell<PortHub>>, number: usize) -> Self {
        Self { hub: Rc::clone(hub), number }
    }

    /// Maximum number of bytes in a datagram's payload.
    pub(crate) fn datagram_max_bytes(&self) -> usize {
        self.hub.borrow().queues[0].payload_max_bytes()
    }

    /// Sends datagrams, which are concatenated in `bytes`; `ends` has the partition and the end of each.
    /// Datagrams without room in the queue are lost.
    pub(crate) fn send(&mut self, bytes: &[u8], ends: &[(u32, usize)]) {
        let hub = &mut *self.hub.borrow_mut();
        let path = Path {
            mac: hub.server_mac,
            vlan: None,
            address: *hub.server.ip(),
            port: hub.server.port(),
            local_port: FIRST_PORT + self.number as u16,
        };
        let mut begin = 0;
        for of_one in ends.chunk_by(|one, other| one.0 == other.0) {
            let queue = of_one[0].0 as usize % hub.queues.len();
            let end = of_one[of_one.len() - 1].1;
            let relative: Vec<_> = of_one.iter().map(|(to, end)| (*to, end - begin)).collect();
            hub.queues[queue].send(&bytes[begin..end], &relative, |_| &path);
            begin = end;
        }
    }

    /// Passes on the received datagrams.
    pub(crate) fn receive(&mut self, take: &mut dyn FnMut(&[u8])) {
        let (frames, host) = {
            let hub = &mut *self.hub.borrow_mut();
            (std::mem::take(&mut hub.inboxes[self.number]), hub.queues[0].host)
        };
        for frame in &frames {
            // Checksums were looked at when it was received.
            if let FrameKind::Datagram(datagram) = host.receive(frame, Checked::Good) {
                take(datagram.payload);
            }
        }
    }
}
