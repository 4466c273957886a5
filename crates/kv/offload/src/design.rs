//! Designs: the engines of each side, their threads, and the links between them.
//!
//! A thread has clients, a part of the keys (a *partition*), or both. [`Layout::route`] says how a thread with
//! clients reaches a partition: it is its own, another thread of its side has it, or it is on the other side.
//!
//! 1. Threads with clients and partitions of the other side are paired in order, and each pair has a link of its
//!    own. Of S threads and P partitions the larger number is that of the links: the one is paired with several
//!    of the other, in equal parts.
//! 2. For a partition with which it is not paired, a thread asks a thread of its side that is. So the number of
//!    links grows with the cores and not with their square.
//! 3. Datagrams that clients divide by partitions arrive at the thread of the pair.
//!
//! The designs and their names are those of the DPU offload studies.

use std::ops::Range;

use overside_link::verbs::Side;
use serde::{Deserialize, Serialize};

use crate::{CHANNEL_BYTES, LINK_BYTES};
use overside_kv::server::Addresses;
use overside_kv_datagram::{ethernet, herd};

/// Maximum number of cores of a side.
pub const CORES_MAX: usize = 64;

/// Placement of the two engines on host and DPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Both on the host.
    #[default]
    CpuOnly,
    /// Both on the DPU.
    DpuOnly,
    /// Communication engines on the DPU, as many processing engines on the host: core to core.
    Lat,
    /// Communication engines on the DPU, one processing engine on the host.
    Sav,
    /// Like `Sav`, and further cores of the host have both engines.
    Dual,
    /// Keys are divided among both sides, each with both engines.
    Shrd,
    /// Communication engines on the host, processing engines on the DPU.
    Proc,
}

// The words are those of the command line.
overside_base::words! {
    Design;
    CpuOnly "cpu-only", Lat "lat", Sav "sav", Dual "dual", Shrd "shrd", Proc "proc", DpuOnly "dpu-only"
}

impl Design {
    /// Returns the threads of the design with the given number of cores of each side. `None` if the
    /// design cannot use as many or as few cores, or if they are more than [`CORES_MAX`].
    #[must_use]
    pub fn layout(self, host_cores: usize, dpu_cores: usize) -> Option<Layout> {
        let complete = |complete| Threads { complete, ..Threads::default() };
        let communication = |communication| Threads { communication, ..Threads::default() };
        let processing = |processing| Threads { processing, ..Threads::default() };
        let nothing = Threads::default();
        let (host, dpu) = match (self, host_cores, dpu_cores) {
            (Self::CpuOnly, 1.., 0) => (complete(host_cores), nothing),
            (Self::DpuOnly, 0, 1..) => (nothing, complete(dpu_cores)),
            (Self::Lat, 1.., _) if host_cores == dpu_cores => {
                (processing(host_cores), communication(dpu_cores))
            }
            (Self::Sav, 1, 1..) => (processing(1), communication(dpu_cores)),
            (Self::Dual, 2.., 1..) => {
                let host = Threads { complete: host_cores - 1, ..processing(1) };
                (host, communication(dpu_cores))
            }
            (Self::Shrd, 1.., 1..) => (complete(host_cores), complete(dpu_cores)),
            (Self::Proc, 1.., 1..) => (communication(host_cores), processing(dpu_cores)),
            _ => return None,
        };
        (host_cores.max(dpu_cores) <= CORES_MAX).then_some(Layout { host, dpu })
    }

    /// Minimum numbers of cores of host and DPU.
    #[must_use]
    pub fn cores_min(self) -> (usize, usize) {
        match self {
            Self::CpuOnly => (1, 0),
            Self::DpuOnly => (0, 1),
            Self::Dual => (2, 1),
            Self::Lat | Self::Sav | Self::Shrd | Self::Proc => (1, 1),
        }
    }

    /// Number of the DPU's cores if none is given, beside `host_cores` of the host.
    #[must_use]
    pub fn dpu_cores_default(self, host_cores: usize) -> usize {
        match self {
            Self::Lat => host_cores,
            _ => self.cores_min().1,
        }
    }
}

/// The threads of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads {
    /// Number of threads with clients and a partition.
    pub complete: usize,
    /// Threads that only serve clients.
    pub communication: usize,
    /// Threads that only have a partition.
    pub processing: usize,
}

impl Threads {
    /// Returns the number of threads that have clients.
    #[must_use]
    pub fn serving(self) -> usize {
        self.complete + self.communication
    }

    /// Returns the number of threads that have a partition.
    #[must_use]
    pub fn partitions(self) -> usize {
        self.complete + self.processing
    }
}

/// Way from a thread with clients to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The thread has it.
    Own,
    /// The processing thread of its side with this number has it.
    Processing(usize),
    /// The thread with clients of its side with this number has it, or has a link to it.
    Worker(usize),
    /// The partition is on the other side of a link of the thread.
    Link,
}

/// A link between both sides: a thread with clients sends requests for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DesignLink {
    /// Side of the thread.
    pub asking: Side,
    /// Number of the thread among those of its side with clients.
    pub thread: usize,
    /// Number of the partition, on the other side.
    pub partition: usize,
}

/// The threads of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Threads on the host.
    pub host: Threads,
    /// Threads on the DPU.
    pub dpu: Threads,
}

/// Upper bounds on the memory of one side (host or DPU), by use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideMemory {
    /// Partitions, indices included.
    pub store: u64,
    /// Connections of clients.
    pub connections: u64,
    /// Links: slots, and long values that are under way.
    pub links: u64,
    /// Channels between threads of the side.
    pub channels: u64,
    /// Regions that clients write requests into.
    pub request_regions: u64,
    /// DPDK and its port.
    pub dpdk_port: u64,
}

/// Upper bounds on the memory that clients need on a side that serves clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientMemory {
    /// Memory of the clients' connections.
    pub connections: u64,
    /// `true` if clients write requests into regions.
    pub has_regions: bool,
    /// Receive descriptors of each queue of a port that DPDK drives, where there is one.
    pub port_descriptors: Option<usize>,
}

impl ClientMemory {
    /// Returns the bounds for `connections` bytes of connections and for the other ways to connect
    /// that `addresses` has. Each queue of a DPDK port has `rx_queue` receive descriptors.
    #[must_use]
    pub fn new(connections: u64, addresses: &Addresses, rx_queue: usize) -> Self {
        Self {
            connections,
            has_regions: addresses.herd.is_some(),
            port_descriptors: addresses.port.as_ref().map(|_| rx_queue),
        }
    }
}

impl SideMemory {
    /// Sum of all parts in bytes.
    #[must_use]
    pub fn total(self) -> u64 {
        let clients = self.connections + self.request_regions;
        self.store + self.links + self.channels + clients + self.dpdk_port
    }
}

impl Layout {
    /// The threads of a side.
    #[must_use]
    pub fn threads(&self, side: Side) -> Threads {
        match side {
            Side::Host => self.host,
            Side::Dpu => self.dpu,
        }
    }

    /// Partitions of both sides: first those of the host.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.host.partitions() + self.dpu.partitions()
    }

    /// The numbers of a side's partitions.
    #[must_use]
    pub fn partitions_of(&self, side: Side) -> Range<usize> {
        match side {
            Side::Host => 0..self.host.partitions(),
            Side::Dpu => self.host.partitions()..self.partitions(),
        }
    }

    /// Returns how thread `thread` of those with clients on `side` reaches a partition. On a side, partitions of
    /// processing threads come first, then those of threads with clients in order.
    ///
    /// # Panics
    /// If there is no such thread or partition.
    #[must_use]
    pub fn route(&self, side: Side, thread: usize, partition: usize) -> Route {
        let threads = self.threads(side);
        let serving = threads.serving();
        assert!(thread < serving && partition < self.partitions(), "no such thread or partition");
        let own = self.partitions_of(side);
        if own.contains(&partition) {
            let number = partition - own.start;
            return match number.checked_sub(threads.processing) {
                None => Route::Processing(number),
                Some(worker) if worker == thread => Route::Own,
                Some(worker) => Route::Worker(worker),
            };
        }
        let there = self.partitions_of(other(side));
        let (number, count) = (partition - there.start, there.len());
        let pair = match serving > count {
            false => number * serving / count,
            true => {
                // The threads that are paired with it, of which each asking thread has one.
                let first = |number: usize| (number * serving).div_ceil(count);
                let pairs = first(number)..first(number + 1);
                match pairs.contains(&thread) {
                    true => thread,
                    false => pairs.start + thread % pairs.len(),
                }
            }
        };
        match pair == thread {
            true => Route::Link,
            false => Route::Worker(pair),
        }
    }

    /// Yields the route of each thread with clients of a side to each partition: thread, partition, route.
    pub fn routes(&self, side: Side) -> impl Iterator<Item = (usize, usize, Route)> {
        let threads = 0..self.threads(side).serving();
        threads.flat_map(move |thread| {
            (0..self.partitions()).map(move |at| (thread, at, self.route(side, thread, at)))
        })
    }

    /// Yields every link. Those over which the host sends requests come first. Those of a side are ordered by its
    /// threads, and for each thread by partition.
    pub fn links(&self) -> impl Iterator<Item = DesignLink> {
        [Side::Host, Side::Dpu].into_iter().flat_map(|asking| {
            let links = self.routes(asking).filter(|(_, _, route)| *route == Route::Link);
            links.map(move |(thread, partition, _)| DesignLink { asking, thread, partition })
        })
    }

    /// Returns the memory that a side needs if the stores of both sides have `store_bytes`
    /// together.
    #[must_use]
    pub fn memory(&self, side: Side, store_bytes: u64, clients: ClientMemory) -> SideMemory {
        let threads = self.threads(side);
        let partitions = threads.partitions() as u64;
        let is_channel = |route: Route| matches!(route, Route::Processing(_) | Route::Worker(_));
        let channels = self.routes(side).filter(|(_, _, route)| is_channel(*route)).count();
        SideMemory {
            store: store_bytes / self.partitions() as u64 * partitions,
            connections: match threads.serving() {
                0 => 0,
                _ => clients.connections,
            },
            links: self.links().count() as u64 * LINK_BYTES,
            channels: (channels * CHANNEL_BYTES) as u64,
            request_regions: match clients.has_regions {
                true => herd::memory_bytes(threads.serving()),
                false => 0,
            },
            dpdk_port: match (threads.serving(), clients.port_descriptors) {
                (0, _) | (_, None) => 0,
                (queues, Some(descriptors)) => ethernet::memory_bytes(queues, descriptors),
            },
        }
    }
}

/// The other side.
fn other(side: Side) -> Side {
    match side {
        Side::Host => Side::Dpu,
        Side::Dpu => Side::Host,
    }
}

#[cfg(test)]
mod tests {
    use overside_link::verbs::Side;

    use super::{ClientMemory, Design, Layout, Route, other};

    const SIDES: [Side; 2] = [Side::Host, Side::Dpu];

    /// Layouts of every design with 1 to 9 cores of each side.
    fn layouts() -> impl Iterator<Item = (Design, Layout)> {
        Design::ALL.into_iter().flat_map(|design| {
            let cores = (0..=9).flat_map(|host| (0..=9).map(move |dpu| (host, dpu)));
            cores.filter_map(move |(host, dpu)| Some((design, design.layout(host, dpu)?)))
        })
    }

    #[test]
    fn links_are_as_many_as_pairs_need() {
        for (design, cores, links) in [
            (Design::CpuOnly, (3, 0), (0, 0)),
            (Design::DpuOnly, (0, 2), (0, 0)),
            (Design::Lat, (1, 1), (0, 1)),
            (Design::Lat, (8, 8), (0, 8)),
            (Design::Sav, (1, 5), (0, 5)),
            (Design::Dual, (3, 4), (0, 4)),
            (Design::Dual, (8, 2), (0, 8)),
            (Design::Shrd, (2, 3), (3, 3)),
            (Design::Shrd, (8, 8), (8, 8)),
            (Design::Shrd, (64, 64), (64, 64)),
            (Design::Proc, (4, 1), (4, 0)),
            (Design::Proc, (4, 8), (8, 0)),
        ] {
            let layout = design.layout(cores.0, cores.1).unwrap();
            let count = |side| layout.links().filter(|link| link.asking == side).count();
            assert_eq!((count(Side::Host), count(Side::Dpu)), links, "{design:?}");
            assert!(
                layout.links().is_sorted_by_key(|link| (link.asking == Side::Dpu, link.thread))
            );
        }
    }

    #[test]
    fn every_thread_with_clients_reaches_every_partition() {
        for (design, layout) in layouts() {
            for side in SIDES {
                for (thread, partition, route) in layout.routes(side) {
                    if let Route::Worker(other) = route {
                        let route = layout.route(side, other, partition);
                        let is_there = matches!(route, Route::Own | Route::Link);
                        assert!(is_there, "{design:?} {layout:?} {side:?} {thread} {partition}");
                    }
                }
                let own: Vec<_> = (layout.routes(side))
                    .filter(|(_, _, route)| *route == Route::Own)
                    .map(|(thread, partition, _)| (thread, partition))
                    .collect();
                assert_eq!(own.len(), layout.threads(side).complete, "{design:?}");
            }
            // Each partition of the other side is answered over links of its own.
            let linked = |partition| layout.links().any(|link| link.partition == partition);
            for side in SIDES {
                let is_asked = layout.threads(other(side)).serving() > 0;
                assert!(
                    layout.partitions_of(side).all(|one| linked(one) == is_asked),
                    "{design:?}"
                );
            }
        }
    }

    #[test]
    fn cores_of_lat_are_pairs() {
        let layout = Design::Lat.layout(8, 8).unwrap();
        assert!(layout.links().all(|link| link.thread == link.partition));
        assert_eq!(layout.route(Side::Dpu, 2, 5), Route::Worker(5));
        assert_eq!(Design::Lat.dpu_cores_default(8), 8);
    }

    #[test]
    fn cores_that_a_design_cannot_use_are_no_layout() {
        for design in Design::ALL {
            let (host, dpu) = design.cores_min();
            assert!(design.layout(host, dpu).is_some(), "{design:?}");
            for (host, dpu) in [(host.wrapping_sub(1), dpu), (host, dpu.wrapping_sub(1))] {
                let is_fewer = host < usize::MAX && dpu < usize::MAX;
                assert!(!is_fewer || design.layout(host, dpu).is_none(), "{design:?}");
            }
        }
        assert_eq!(Design::Lat.layout(1, 2), None);
        assert_eq!(Design::Sav.layout(2, 2), None);
        assert_eq!(Design::Sav.layout(1, 65), None, "too many cores");
        assert_eq!(Design::DpuOnly.layout(0, 65), None, "too many cores");
    }

    #[test]
    fn memory_is_where_its_use_is() {
        let clients = ClientMemory { connections: 100, ..ClientMemory::default() };
        let layout = Design::Sav.layout(1, 4).unwrap();
        let [host, dpu] = SIDES.map(|side| layout.memory(side, 4000, clients));
        assert_eq!((host.store, host.connections), (4000, 0));
        assert_eq!((dpu.store, dpu.connections), (0, 100));
        assert_eq!(host.links, dpu.links);
        assert_eq!((host.channels, dpu.channels), (0, 0));
        let layout = Design::Shrd.layout(1, 3).unwrap();
        let [host, dpu] = SIDES.map(|side| layout.memory(side, 4000, clients));
        assert_eq!((host.store, dpu.store), (1000, 3000));
        assert_eq!((host.connections, dpu.connections), (100, 100));
        assert_eq!((host.channels, dpu.channels > 0), (0, true));
    }
}
