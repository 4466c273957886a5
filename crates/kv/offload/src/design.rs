//! Designs: the engines of each side, their threads, and the links between them.
//!
//! A thread has clients, a part of the keys (a *partition*), or both. Each thread with clients sends requests
//! to each partition that is not its own: over a channel within the process, or over a link of its own if the
//! partition is on the other side. The designs and their names are those of the DPU offload studies.

use std::ops::Range;

use overside_link::verbs::Side;
use serde::{Deserialize, Serialize};

use crate::LINK_BYTES;
use crate::partitions::channel_bytes;
use overside_kv::server::Addresses;
use overside_kv_datagram::{ethernet, herd};

/// Maximum number of links of a design, and most cores of a side.
pub const LINKS_MAX: usize = 64;

/// Placement of the two engines on host and DPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Both on the host.
    #[default]
    CpuOnly,
    /// Both on the DPU.
    DpuOnly,
    /// A communication engine on the DPU, the processing engine on the host: core to core.
    Lat,
    /// Like `Lat`, with several cores of the DPU.
    Sav,
    /// Like `Sav`, and further cores of the host have clients of their own.
    Dual,
    /// Keys are divided among both sides, each with both engines.
    Shrd,
    /// Communication engines on the host, the processing engine on the DPU.
    Proc,
}

// The words are those of the command line.
overside_base::words! {
    Design;
    CpuOnly "cpu-only", Lat "lat", Sav "sav", Dual "dual", Shrd "shrd", Proc "proc", DpuOnly "dpu-only"
}

impl Design {
    /// Returns the threads of the design with the given number of cores of each side. `None` if the
    /// design cannot use as many or as few cores, or would need more than [`LINKS_MAX`] links.
    #[must_use]
    pub fn layout(self, host_cores: usize, dpu_cores: usize) -> Option<Layout> {
        let complete = |complete| Threads { complete, ..Threads::default() };
        let communication = |communication| Threads { communication, ..Threads::default() };
        let processing = Threads { processing: 1, ..Threads::default() };
        let nothing = Threads::default();
        let (host, dpu) = match (self, host_cores, dpu_cores) {
            (Self::CpuOnly, 1.., 0) => (complete(host_cores), nothing),
            (Self::DpuOnly, 0, 1..) => (nothing, complete(dpu_cores)),
            (Self::Lat, 1, 1) | (Self::Sav, 1, 1..) => (processing, communication(dpu_cores)),
            (Self::Dual, 2.., 1..) => {
                let host = Threads { communication: host_cores - 1, ..processing };
                (host, communication(dpu_cores))
            }
            (Self::Shrd, 1.., 1..) => (complete(host_cores), complete(dpu_cores)),
            (Self::Proc, 1.., 1) => (communication(host_cores), processing),
            _ => return None,
        };
        let layout = Layout { host, dpu };
        let is_possible =
            host_cores.max(dpu_cores) <= LINKS_MAX && layout.links().count() <= LINKS_MAX;
        is_possible.then_some(layout)
    }

    /// The fewest cores of host and DPU that it takes.
    #[must_use]
    pub fn cores_min(self) -> (usize, usize) {
        match self {
            Self::CpuOnly => (1, 0),
            Self::DpuOnly => (0, 1),
            Self::Dual => (2, 1),
            Self::Lat | Self::Sav | Self::Shrd | Self::Proc => (1, 1),
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

    /// Yields the requesting side of every link. The host's links come first. Those of a side are ordered by
    /// its threads, and for each thread by partition.
    pub fn links(&self) -> impl Iterator<Item = Side> {
        let count = |asking: Threads, asked: Threads| asking.serving() * asked.partitions();
        let of_host = std::iter::repeat_n(Side::Host, count(self.host, self.dpu));
        let of_dpu = std::iter::repeat_n(Side::Dpu, count(self.dpu, self.host));
        of_host.chain(of_dpu)
    }

    /// Returns the memory that a side needs if the stores of both sides have `store_bytes`
    /// together.
    #[must_use]
    pub fn memory(&self, side: Side, store_bytes: u64, clients: ClientMemory) -> SideMemory {
        let threads = self.threads(side);
        let partitions = threads.partitions() as u64;
        let channels = match threads {
            // Those with clients and the one with the keys.
            Threads { communication, processing, .. } if communication * processing > 0 => {
                channel_bytes(2) / 2 * communication
            }
            Threads { complete, .. } => channel_bytes(complete.max(1)),
        };
        SideMemory {
            store: store_bytes / self.partitions() as u64 * partitions,
            connections: match threads.serving() {
                0 => 0,
                _ => clients.connections,
            },
            links: self.links().count() as u64 * LINK_BYTES,
            channels: channels as u64,
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

#[cfg(test)]
mod tests {
    use overside_link::verbs::Side;

    use super::{ClientMemory, Design};

    #[test]
    fn every_thread_with_clients_reaches_every_partition_of_the_other_side() {
        for (design, cores, links) in [
            (Design::CpuOnly, (3, 0), (0, 0)),
            (Design::DpuOnly, (0, 2), (0, 0)),
            (Design::Lat, (1, 1), (0, 1)),
            (Design::Sav, (1, 5), (0, 5)),
            (Design::Dual, (3, 4), (0, 4)),
            (Design::Shrd, (2, 3), (6, 6)),
            (Design::Proc, (4, 1), (4, 0)),
        ] {
            let layout = design.layout(cores.0, cores.1).unwrap();
            let count = |side| layout.links().filter(|asking| *asking == side).count();
            assert_eq!((count(Side::Host), count(Side::Dpu)), links, "{design:?}");
            assert!(layout.links().is_sorted_by_key(|side| side == Side::Dpu));
        }
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
        assert_eq!(Design::Sav.layout(1, 65), None, "too many links");
        assert_eq!(Design::DpuOnly.layout(0, 65), None, "too many cores");
        assert_eq!(Design::Shrd.layout(6, 6), None, "too many links");
    }

    #[test]
    fn memory_is_where_its_use_is() {
        let clients = ClientMemory { connections: 100, ..ClientMemory::default() };
        let layout = Design::Sav.layout(1, 4).unwrap();
        let [host, dpu] = [Side::Host, Side::Dpu].map(|side| layout.memory(side, 4000, clients));
        assert_eq!((host.store, host.connections), (4000, 0));
        assert_eq!((dpu.store, dpu.connections), (0, 100));
        assert_eq!(host.links, dpu.links);
        let layout = Design::Shrd.layout(1, 3).unwrap();
        let [host, dpu] = [Side::Host, Side::Dpu].map(|side| layout.memory(side, 4000, clients));
        assert_eq!((host.store, dpu.store), (1000, 3000));
        assert_eq!((host.connections, dpu.connections), (100, 100));
        assert_eq!((host.channels, dpu.channels > 0), (0, true));
    }
}
