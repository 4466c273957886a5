//! Request regions of one worker: polls them, executes the requests that clients have written
//! there, and sends the replies.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use slab::Slab;

use super::packets::{Endpoint, PacketServer};
use super::replies::{ReceivedPackets, Serving};
use crate::herd::{RegionInbox, RequestRegion, SLOT_BYTES, SLOTS};
use crate::protocol::datagram::DATAGRAM_MAX_BYTES;
use crate::udp::Peer;
use overside_kv_backend::idle::Idle;
use overside_kv_datagram::link::TRAILER_BYTES;

/// Datagrams that are executed together, at most, and a client's last ones beyond them.
const GROUP: usize = 512;
/// Turns after which it is looked whether clients are gone, and their links work.
const CHECK_TURNS: u32 = 64;

/// The regions of a worker, and the server of their requests.
pub(super) struct Regions {
    inbox: RegionInbox,
    regions: Slab<RequestRegion>,
    server: PacketServer,
    /// Datagrams that clients wrote, concatenated. `ends` has the end of each, and the key of its region.
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
    /// The region that is looked at first.
    first: usize,
    idle: Idle,
    turns: u32,
}

/// Readable when a client has come.
impl AsFd for Regions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inbox.as_fd()
    }
}

impl Regions {
    pub(super) fn new(inbox: RegionInbox) -> Self {
        Self {
            inbox,
            regions: Slab::new(),
            server: PacketServer::default(),
            bytes: Vec::new(),
            ends: Vec::new(),
            first: 0,
            idle: Idle::default(),
            turns: 0,
        }
    }

    /// Takes in clients that have come.
    pub(super) fn admit(&mut self) {
        while let Some(region) = self.inbox.next() {
            tracing::debug!(?region, "a client has a request region");
            self.regions.insert(region);
            self.idle.end();
        }
    }

    /// Clients that are there.
    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }

    /// Requests executed.
    pub(super) fn commands(&self) -> u64 {
        self.server.commands()
    }

    /// Returns the longest time that the worker may sleep, since no event wakes it when clients
    /// write; `None` if there are no clients.
    pub(super) fn sleep_max(&self) -> Option<Duration> {
        (!self.regions.is_empty()).then(|| self.idle.sleep_max())
    }

    /// Serves written requests. Returns `true` if there were any.
    pub(super) fn serve(&mut self, serving: &mut Serving<'_>) -> bool {
        if self.regions.is_empty() {
            return false;
        }
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(CHECK_TURNS) {
            self.check();
        }
        self.collect();
        if self.ends.is_empty() {
            self.idle.spend();
            return false;
        }
        self.idle.end();
        let counters = &mut serving.state.counters.datagrams;
        counters.region_writes += self.ends.len() as u64;
        counters.region_written_bytes +=
            (self.bytes.len() + self.ends.len() * TRAILER_BYTES) as u64;
        let (mut packets, mut senders) = (Vec::new(), Vec::new());
        let mut peers: Vec<&Peer> = Vec::new();
        let (mut begin, mut last) = (0, None);
        for (end, key) in &self.ends {
            if last.replace(*key) != Some(*key) {
                peers.push(self.regions[*key].peer());
            }
            packets.push(&self.bytes[begin..*end]);
            senders.push(peers.len() as u32 - 1);
            begin = *end;
        }
        let socket = &self.inbox.socket;
        let received = ReceivedPackets {
            packets: &packets,
            senders: &senders,
            reply: &mut |bytes, ends| socket.send(bytes, ends, |peer| Some(peers[peer as usize])),
        };
        let endpoint = Endpoint { is_steered: false, datagram_max_bytes: DATAGRAM_MAX_BYTES };
        let before = self.server.commands();
        self.server.serve(endpoint, received, serving);
        serving.state.counters.datagrams.region_requests += self.server.commands() - before;
        true
    }

    /// Drops clients that are gone.
    fn check(&mut self) {
        self.regions.retain(|_, region| match region.check() {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(?region, "a client with a request region is gone: {error}");
                false
            }
        });
    }

    /// Copies the due datagrams of each client, another one first each time.
    fn collect(&mut self) {
        const KEPT_BYTES: usize = GROUP * SLOT_BYTES;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.ends.clear();
        let mut broken = Vec::new();
        let places = self.regions.capacity();
        let first = std::mem::take(&mut self.first);
        for key in (0..places).map(|place| (first + place) % places) {
            let Some(region) = self.regions.get_mut(key) else {
                continue;
            };
            let before = (self.ends.len(), self.bytes.len());
            for _ in 0..SLOTS {
                match region.receive(&mut self.bytes) {
                    Ok(true) => self.ends.push((self.bytes.len(), key)),
                    Ok(false) => break,
                    Err(error) => {
                        tracing::warn!(
                            ?region,
                            "a client with a request region is given up: {error}"
                        );
                        // What it has written before is not answered either.
                        self.ends.truncate(before.0);
                        self.bytes.truncate(before.1);
                        broken.push(key);
                        break;
                    }
                }
            }
            if self.ends.len() >= GROUP {
                self.first = key + 1;
                break;
            }
        }
        for key in broken {
            self.regions.remove(key);
        }
    }
}
