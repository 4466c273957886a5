//! Arguments for the design of a key-value store: the side, host or DPU, on which each of its two
//! engines runs.

use std::net::{SocketAddr, SocketAddrV4};
use std::ops::RangeInclusive;

use clap::{ArgAction, ValueEnum};

use overside_kv::ethernet::PortSettings;
use overside_kv::server::{Addresses, Settings, Steering};
use overside_kv::store::MEMORY_MAX_BYTES;
use overside_kv_offload::agent::{Clients, OpenRequest, StoreLimits};
use overside_kv_offload::design::{CORES_MAX, ClientMemory, Layout, SideMemory};
use overside_kv_offload::{Batching, Design, Optimizations};
use overside_link::verbs::Side;
use overside_probe::dma::Link;

use super::access::{self, Access, Listener};
use super::card::CardMode;
use super::dpdk;
use super::limits::one_of;
use overside_command::options::size_within;

#[derive(clap::Args)]
#[command(next_help_heading = "Design")]
pub(super) struct DesignArguments {
    /// Side where clients connect (c) and side of the keys (k): `cpu-only` here; `lat` c on cores of the DPU, k on as
    /// many here (--cores); `sav` c on cores of the DPU (--dpu-cores), k on one here; `dual` as `sav`, and c and k on
    /// further cores here; `shrd` c and k on both sides; `proc` c here, k on the DPU; `dpu-only` both on the DPU
    #[arg(long, default_value = "cpu-only", value_parser = one_of(Design::ALL.map(|one| (one.name(), one))))]
    pub design: Design,
    /// The DPU's agent, as `overside agents` knows it
    #[arg(long, value_name = "NODE")]
    dpu: Option<String>,
    /// Card that the agent emulates: bf2, bf3, or with its mode, bf2:separated [default: the one that the
    /// agent finds, if any]
    #[arg(long, value_name = "CARD", value_parser = CardMode::parse, requires = "dpu")]
    card: Option<CardMode>,
    /// Cores of the DPU [default: 1; with `lat` as many as --cores]
    #[arg(long, value_name = "N", requires = "dpu",
          value_parser = clap::value_parser!(u64).range(1..=CORES_MAX as u64))]
    dpu_cores: Option<u64>,
    /// Address of the DPU to listen at, with or without a port, where the host has clients too; may be
    /// repeated. PROTOCOL is redis, tls, memcached, datagram or metrics [default: redis].
    /// Otherwise --listen and the like are the DPU's
    #[arg(long, value_name = "[PROTOCOL=]ADDRESS", value_parser = DpuAddress::parse, requires = "dpu")]
    dpu_listen: Vec<DpuAddress>,
    /// Answer datagrams at a port of the DPU that DPDK drives, where the host has clients too; otherwise --dpdk-port is
    /// the DPU's. It is one that the agent gives hosts (overside agent --kv-dpdk-port)
    #[arg(long, value_name = "DEVICE", requires = "dpu_dpdk_address", requires = "dpu")]
    dpu_dpdk_port: Option<String>,
    /// IPv4 address of that port, which no other host has, and the UDP port of datagrams [default port: 6379]
    #[arg(long, value_name = "ADDRESS", requires = "dpu_dpdk_port", value_parser = dpdk::address)]
    dpu_dpdk_address: Option<SocketAddrV4>,
    /// Maximum memory on the DPU; a larger store is refused
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = size_within(MEMORY))]
    dpu_memory: usize,
    /// Link to the DPU: shm (an agent on this machine) or ucx
    #[arg(long, value_name = "LINK", default_value = "shm", value_parser = link, requires = "dpu")]
    link: Link,
    /// A message over the link for each batch of requests, or for each request, to compare with
    #[arg(long, default_value = "batch", requires = "dpu",
          value_parser = one_of([("batch", Batching::Batch), ("request", Batching::Request)]))]
    link_batch: Batching,
    /// Longest message over the link, unless one request alone is longer [default: 64 requests, however
    /// long]
    #[arg(long, value_name = "SIZE", value_parser = size_within(MESSAGE), requires = "dpu")]
    link_message: Option<usize>,
    /// Make the next message while the other side executes the one before, or wait for its answers, to
    /// compare with
    #[arg(long, default_value = "on", requires = "dpu", action = ArgAction::Set,
          value_parser = one_of([("on", true), ("off", false)]))]
    overlap: bool,
    /// Time at which replies leave: those of a batch before the next one is parsed (`early`), or those of all that
    /// has come together (`late`)
    #[arg(long, default_value = "late", action = ArgAction::Set,
          value_parser = one_of([("early", true), ("late", false)]))]
    send: bool,
}

/// An address of the DPU, and what clients speak there.
#[derive(Clone, Copy)]
struct DpuAddress {
    protocol: Protocol,
    address: SocketAddr,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    Redis,
    Tls,
    Memcached,
    Datagram,
    Metrics,
}

impl DpuAddress {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, address) = text.split_once('=').unwrap_or(("redis", text));
        let protocol = Protocol::from_str(name, false).map_err(|_| {
            let all = Protocol::value_variants().iter();
            let names = all.filter_map(|one| Some(one.to_possible_value()?.get_name().to_owned()));
            format!("not a protocol; one of {}", names.collect::<Vec<_>>().join(", "))
        })?;
        let parse = match protocol {
            Protocol::Redis | Protocol::Tls | Protocol::Datagram => access::address,
            Protocol::Memcached => access::memcached_address,
            Protocol::Metrics => access::full_address,
        };
        let address = parse(address)?;
        Ok(Self { protocol, address })
    }
}

/// Allowed values of `--dpu-memory` and of the length of a link's messages, in bytes.
const MEMORY: RangeInclusive<usize> = 1 << 20..=1 << 46;
const MESSAGE: RangeInclusive<usize> = 256..=64 << 10;

fn link(text: &str) -> Result<Link, String> {
    Link::named(text).ok_or_else(|| "shm or ucx".into())
}

impl DesignArguments {
    /// The DPU's agent, where there is one.
    pub(super) fn node(&self) -> Option<&str> {
        self.dpu.as_deref()
    }

    /// `true` if there are addresses of the DPU beside those of the host.
    fn has_dpu_addresses(&self) -> bool {
        !self.dpu_listen.is_empty() || self.dpu_dpdk_port.is_some()
    }

    /// Addresses at which clients connect to the DPU: its own, or those in `host` if there are none.
    pub(super) fn dpu_addresses(&self, host: &Addresses) -> Addresses {
        if !self.has_dpu_addresses() {
            return host.clone();
        }
        let port = self.dpu_dpdk_port.clone().zip(self.dpu_dpdk_address);
        let of = |protocol| {
            let all = self.dpu_listen.iter().filter(move |one| one.protocol == protocol);
            all.map(|one| one.address)
        };
        Addresses {
            tcp: of(Protocol::Redis).collect(),
            tls: of(Protocol::Tls).collect(),
            memcached: of(Protocol::Memcached).collect(),
            datagram: of(Protocol::Datagram)
                .chain(self.dpu_dpdk_address.map(SocketAddr::V4))
                .collect(),
            port: port.map(|(device, address)| PortSettings { device, address: *address.ip() }),
            metrics: of(Protocol::Metrics).next(),
            ..Addresses::default()
        }
    }

    /// Cores of the DPU, beside `host_cores` of the host.
    pub(super) fn dpu_cores(&self, host_cores: usize) -> usize {
        let default = || self.design.dpu_cores_default(host_cores);
        match self.dpu {
            Some(_) => self.dpu_cores.map_or_else(default, |cores| cores as usize),
            None => 0,
        }
    }

    /// Refuses contradictory options. Returns the threads of both sides, with `host_cores` cores on the host.
    pub(super) fn check(&self, access: &Access, host_cores: usize) -> Result<Layout, String> {
        let design = self.design;
        let name = design.name();
        let (host_min, dpu_min) = design.cores_min();
        match (&self.dpu, dpu_min) {
            (None, 1..) => {
                return Err(format!(
                    "--design {name} needs --dpu NODE; `overside agents add NODE ADDRESS` makes one known"
                ));
            }
            (Some(_), 0) => return Err(format!("--design {name} has no use for --dpu")),
            _ => {}
        }
        let dpu_cores = self.dpu_cores(host_cores);
        let layout = design.layout(host_cores, dpu_cores);
        let layout = layout.ok_or_else(|| match (design, host_cores < host_min) {
            (_, true) => format!("--design {name} needs --cores {host_min} or more"),
            (Design::Lat, _) => format!(
                "--design lat pairs cores: give as many --cores as --dpu-cores, not {host_cores} and {dpu_cores}"
            ),
            _ => format!(
                "--design {name} does not run with --cores {host_cores} and --dpu-cores {dpu_cores}"
            ),
        })?;
        let has_both = layout.host.serving() > 0 && layout.dpu.serving() > 0;
        match has_both {
            true if !self.has_dpu_addresses() => Err(format!(
                "--design {name} has clients on both sides: --dpu-listen ADDRESS is required"
            )),
            true => {
                access.check(Listener::Host)?;
                let there = self.dpu_addresses(&Addresses::default());
                access.check_exposure(&there).map(|()| layout)
            }
            false if self.has_dpu_addresses() => Err(format!(
                "--design {name} has clients on one side: --listen and --dpdk-port are its addresses, without \
                 --dpu-listen and --dpu-dpdk-port"
            )),
            false if layout.host.serving() == 0 => access.check(Listener::Agent).map(|()| layout),
            false => access.check(Listener::Host).map(|()| layout),
        }
    }

    /// Returns the card that carries the DPU's side, if it is known: the one that was named, or the result of
    /// `ask`.
    pub(super) fn card(
        &self,
        ask: impl FnOnce(&str) -> Result<Option<CardMode>, String>,
    ) -> Result<Option<CardMode>, String> {
        match (&self.card, self.node()) {
            (Some(card), _) => Ok(Some(card.clone())),
            (None, Some(node)) => ask(node),
            (None, None) => Ok(None),
        }
    }

    /// Finds whether the DPU's side fits its memory.
    pub(super) fn check_memory(
        &self,
        layout: &Layout,
        store: u64,
        clients: ClientMemory,
    ) -> Result<(), String> {
        let memory = layout.memory(Side::Dpu, store, clients);
        let most = self.dpu_memory as u64;
        if layout.dpu == Default::default() || memory.total() <= most {
            return Ok(());
        }
        let SideMemory { store, connections, links, channels, request_regions, dpdk_port } = memory;
        let parts = [
            ("store", store, "--memory"),
            ("connections", connections, "--client-memory"),
            ("links", links, "--dpu-cores"),
            ("channels between cores", channels, "--dpu-cores"),
            ("request regions", request_regions, "--dpu-cores"),
            ("DPDK and its port", dpdk_port, "--rx-queue"),
        ];
        let parts = || parts.iter().filter(|(_, bytes, _)| *bytes > 0);
        let listed: Vec<_> =
            parts().map(|(name, bytes, _)| format!("{name} {}", mib(*bytes))).collect();
        let largest = parts().max_by_key(|(_, bytes, _)| bytes).map_or("", |part| part.2);
        Err(format!(
            "the DPU would need up to {} ({}), more than the {} of --dpu-memory: give less {largest}, or \
             more --dpu-memory if the DPU has it",
            mib(memory.total()),
            listed.join(", "),
            mib(most)
        ))
    }

    /// Returns the default memory of the store: for its part on the DPU the memory that is left there, and
    /// for a part on the host at most the share of `host`.
    pub(super) fn default_store(&self, layout: &Layout, host: u64, clients: ClientMemory) -> u64 {
        let dpu = layout.dpu.partitions() as u64;
        if dpu == 0 {
            return host;
        }
        let rest = layout.memory(Side::Dpu, 0, clients).total();
        let part = (self.dpu_memory as u64).saturating_sub(rest) / dpu;
        let part_here = host.checked_div(layout.host.partitions() as u64);
        let part = part.min(part_here.unwrap_or(u64::MAX));
        let most = MEMORY_MAX_BYTES as u64;
        (part.min(most) * layout.partitions() as u64).min(most)
    }

    /// Request to the agent to run the DPU's side.
    pub(super) fn opening(
        &self,
        (host_cores, store): (usize, StoreLimits),
        requires_certificates: bool,
        settings: &Settings,
    ) -> OpenRequest {
        OpenRequest {
            design: self.design,
            host_cores,
            dpu_cores: self.dpu_cores(host_cores),
            link: self.link,
            clients: Clients {
                addresses: self.dpu_addresses(&settings.addresses),
                requires_certificates,
                trusts_port: settings.trusts_port,
                rx_queue: settings.rx_queue,
                by_ports: settings.steering == Steering::Ports,
                password: settings.password.as_ref().map(|password| password.digest()),
                count: settings.limits.clients,
                memory_bytes: settings.limits.memory_bytes as u64,
            },
            store,
            keeping: None,
            busy_poll: settings.busy_poll,
            optimizations: self.optimizations(),
            name: settings.name.clone(),
            now_ms: 0,
        }
    }

    pub(super) fn optimizations(&self) -> Optimizations {
        Optimizations {
            batching: self.link_batch,
            message_bytes: self.link_message.map(|bytes| bytes as u32),
            overlap: self.overlap,
            sends_early: self.send,
        }
    }
}

pub(super) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
