//! A client's end: writes datagrams into the regions of a server's workers.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::Region;
use overside_link::Secret;
use overside_link::shm::{self, ShmOptions};
use overside_link::ucx::{self, UcxOptions};
use overside_link::verbs::{Completion, Endpoint, QueuePair, RemoteMemory, Side, Verb, Work};

use super::introduction::{ClientIntroduction, ServerIntroduction};
use super::{RegionAddress, link_config};
use crate::link::{
    OffloadError, PollDeadline, TRAILER_BYTES, Trailer, receive_message, send_message,
};
use crate::udp::{DatagramSocket, RX_QUEUE_DEFAULT};

/// Longest time that the server may take to admit a client, since others may be connecting too.
const COMING_MAX: Duration = Duration::from_secs(10);
/// Longest time that a transfer may take.
const TRANSFER_MAX: Duration = Duration::from_secs(10);
/// Completions that are looked at together.
const COMPLETIONS: usize = 64;

/// Writes requests into a server's memory. Replies come to its socket.
pub struct RequestWriter {
    regions: Vec<WorkerRegion>,
    socket: DatagramSocket,
    /// Memory for assembling messages, without the regions that are being written.
    staging: Vec<Region>,
    work: VecDeque<Work>,
    completions: Vec<Completion>,
    endpoint: Arc<dyn Endpoint>,
}

/// The region of a worker.
struct WorkerRegion {
    queue_pair: Box<dyn QueuePair>,
    memory: RemoteMemory,
    slot_bytes: usize,
    slots: usize,
    /// Datagrams written so far, and those of them that the worker has taken.
    written: u64,
    taken: u64,
    /// Sequence numbers of those that it has not, as far as is known.
    waiting: VecDeque<u64>,
}

impl std::fmt::Debug for RequestWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestWriter")
            .field("workers", &self.regions.len())
            .field("socket", &self.socket)
            .finish_non_exhaustive()
    }
}

impl RequestWriter {
    /// Connects to the server at an address. A server that is reached by UCX requires its secret.
    ///
    /// # Errors
    /// [`OffloadError`].
    pub fn connect(place: &RegionAddress, secret: Option<Secret>) -> Result<Self, OffloadError> {
        let deadline = Instant::now() + COMING_MAX;
        let config = link_config(Side::Dpu, 1);
        let (endpoint, ip): (Arc<dyn Endpoint>, _) = match place {
            RegionAddress::Path(path) => {
                let endpoint = shm::connect(path, &config, &ShmOptions::default(), deadline)?;
                (Arc::new(endpoint), IpAddr::V4(Ipv4Addr::LOCALHOST))
            }
            RegionAddress::Address(address) => {
                let options = UcxOptions { secret, ..UcxOptions::default() };
                let endpoint = ucx::connect(*address, &config, &options, deadline)?;
                (Arc::new(endpoint), address.ip())
            }
        };
        let (mut regions, mut port) = (Vec::new(), 0);
        for index in 0..endpoint.capabilities().queue_pairs {
            let mut queue_pair = endpoint.open(index)?;
            let introduction = receive_message(&mut *queue_pair, deadline)?;
            let introduction = ServerIntroduction::decode(&introduction)?;
            port = introduction.port;
            regions.push(WorkerRegion::new(&*endpoint, queue_pair, &introduction)?);
        }
        let first = regions.first_mut();
        let first = first.ok_or(OffloadError::Violation("no region"))?;
        let system = |source| overside_link::verbs::ConnectError::System {
            doing: "opening a socket for replies".into(),
            source,
        };
        // Nothing comes to it but from there.
        let socket = DatagramSocket::connect(SocketAddr::new(ip, port), RX_QUEUE_DEFAULT);
        let socket = socket.map_err(system)?;
        let port = socket.address().map_err(system)?.port();
        let introduction = ClientIntroduction { port };
        send_message(&mut *first.queue_pair, &introduction.encode(), deadline)?;
        Ok(Self {
            regions,
            socket,
            staging: Vec::new(),
            work: VecDeque::new(),
            completions: Vec::new(),
            endpoint,
        })
    }

    /// Returns the socket at which replies arrive.
    #[must_use]
    pub fn socket(&self) -> &DatagramSocket {
        &self.socket
    }

    /// Maximum number of bytes in a datagram's payload.
    #[must_use]
    pub fn datagram_max_bytes(&self) -> usize {
        let all = self.regions.iter().map(|region| region.slot_bytes);
        all.min().unwrap_or(TRAILER_BYTES) - TRAILER_BYTES
    }

    /// Datagrams that may be on the way to a worker.
    #[must_use]
    pub fn slots(&self) -> usize {
        let all = self.regions.iter().map(|region| region.slots);
        all.min().unwrap_or_default()
    }

    /// Writes datagrams, which are concatenated in `bytes`; each has the partition of its keys, and its end.
    /// A datagram without a free slot is lost, as it may be in a network.
    ///
    /// # Errors
    /// [`OffloadError`]: the server is lost, or a datagram is longer than a slot.
    pub fn write(&mut self, bytes: &[u8], ends: &[(u32, usize)]) -> Result<(), OffloadError> {
        let mut begin = 0;
        for of_one in ends.chunk_by(|one, other| one.0 == other.0) {
            let partition = of_one[0].0 as usize;
            // A client that does not know the partitions yet names the first one.
            let number = if partition < self.regions.len() { partition } else { 0 };
            for (_, end) in of_one {
                self.stage(number, &bytes[begin..*end])?;
                begin = *end;
            }
            self.post(number)?;
        }
        Ok(())
    }

    /// Makes a message of a datagram.
    fn stage(&mut self, number: usize, datagram: &[u8]) -> Result<(), OffloadError> {
        let region = &mut self.regions[number];
        if region.is_full() {
            region.fetch_taken(&*self.endpoint)?;
        }
        if region.is_full() {
            return Ok(());
        }
        let slot_bytes = region.slot_bytes;
        if datagram.len() + TRAILER_BYTES > slot_bytes {
            return Err(OffloadError::Violation("a datagram longer than a slot"));
        }
        let trailer = Trailer {
            sequence: region.written + 1,
            count: 1,
            len: datagram.len(),
            is_rendezvous: false,
        };
        let mut staging = match self.staging.pop() {
            Some(staging) if staging.len() >= slot_bytes => staging,
            _ => self.endpoint.alloc(slot_bytes, 64)?,
        };
        let begin = slot_bytes - TRAILER_BYTES - datagram.len();
        let message = &mut staging.bytes_mut()?[begin..slot_bytes];
        let (body, end) = message.split_at_mut(datagram.len());
        body.copy_from_slice(datagram);
        end.copy_from_slice(&trailer.encode(datagram));
        let slot = trailer.sequence as usize % region.slots * slot_bytes;
        let to = (region.memory).slice((slot + begin) as u64..(slot + slot_bytes) as u64);
        let to = to.map_err(|_| OffloadError::Violation("smaller memory than it said"))?;
        let from = staging.share().slice(begin..slot_bytes);
        self.work.push_back(Work::new(0, Verb::Write { from, to }));
        region.written += 1;
        region.waiting.push_back(sequence_of(datagram));
        Ok(())
    }

    /// Posts the written answers; waits while the link takes none.
    fn post(&mut self, number: usize) -> Result<(), OffloadError> {
        let mut patience = PollDeadline::new(TRANSFER_MAX);
        while !self.work.is_empty() {
            if self.regions[number].queue_pair.post(&mut self.work)? == 0 {
                patience.spend()?;
            }
            self.complete(number)?;
        }
        Ok(())
    }

    fn complete(&mut self, number: usize) -> Result<(), OffloadError> {
        let queue_pair = &mut self.regions[number].queue_pair;
        queue_pair.poll(&mut self.completions, COMPLETIONS)?;
        for completion in self.completions.drain(..) {
            completion.result?;
            let source = completion.source.and_then(|source| source.reclaim().ok());
            self.staging.extend(source);
        }
        Ok(())
    }

    /// Makes a link without hardware progress.
    ///
    /// # Errors
    /// [`OffloadError`]: the server is lost.
    pub fn progress(&mut self) -> Result<(), OffloadError> {
        (0..self.regions.len()).try_for_each(|number| self.complete(number))
    }

    /// The datagram of requests with this sequence number was answered: its slot and those before are free.
    pub fn answered(&mut self, sequence: u64) {
        for region in &mut self.regions {
            if let Some(at) = region.waiting.iter().position(|one| *one == sequence) {
                region.free(at + 1);
                return;
            }
        }
    }
}

impl WorkerRegion {
    fn new(
        endpoint: &dyn Endpoint,
        queue_pair: Box<dyn QueuePair>,
        introduction: &ServerIntroduction,
    ) -> Result<Self, OffloadError> {
        let memory = endpoint.import(&introduction.token)?;
        if memory.len() < introduction.region_bytes() as u64 {
            return Err(OffloadError::Violation("memory of another size than it said"));
        }
        Ok(Self {
            queue_pair,
            memory,
            slot_bytes: introduction.slot_bytes,
            slots: introduction.slots,
            written: 0,
            taken: 0,
            waiting: VecDeque::new(),
        })
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= self.slots
    }

    fn free(&mut self, count: usize) {
        self.waiting.drain(..count);
        self.taken += count as u64;
    }

    /// Reads how many the worker has taken: replies may have been lost.
    fn fetch_taken(&mut self, endpoint: &dyn Endpoint) -> Result<(), OffloadError> {
        let at = (self.slots * self.slot_bytes) as u64;
        let from = self.memory.slice(at..at + 8);
        let from = from.map_err(|_| OffloadError::Violation("smaller memory than it said"))?;
        let into = endpoint.alloc(8, 64)?;
        let mut work = VecDeque::from([Work::new(0, Verb::Read { from, into })]);
        let mut patience = PollDeadline::new(TRANSFER_MAX);
        let mut completions = Vec::new();
        while !work.is_empty() {
            self.queue_pair.post(&mut work)?;
            patience.spend()?;
        }
        loop {
            self.queue_pair.poll(&mut completions, COMPLETIONS)?;
            for completion in completions.drain(..) {
                completion.result?;
                let Some(word) = completion.destination else {
                    continue;
                };
                let word = word.bytes()?.first_chunk().copied().unwrap_or_default();
                // More than was written cannot have been taken.
                let taken = u64::from_le_bytes(word).min(self.written);
                self.free(taken.saturating_sub(self.taken) as usize);
                return Ok(());
            }
            patience.spend()?;
        }
    }
}

/// Returns the sequence number of a datagram whose header this program has written.
fn sequence_of(datagram: &[u8]) -> u64 {
    let at = datagram.get(16..24).and_then(|bytes| bytes.try_into().ok());
    at.map_or(0, u64::from_le_bytes)
}
