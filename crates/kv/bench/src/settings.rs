//! Settings of a run: the server, the workload, and the load.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use overside_link::codec;
use serde::{Deserialize, Serialize};

use super::port::{self, LoadPort};
use super::{BenchError, ProtocolKind, Records, Workload};
use overside_kv_client::ServerTls;
use overside_kv_datagram::herd;
use overside_kv_datagram::udp::RECEIVE_BYTES;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// TCP port.
    Tcp(SocketAddr),
    /// Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Rule by which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum LoadMode {
    /// A connection sends `pipeline` requests, waits for their answers, and sends the next.
    Closed,
    /// Requests arrive at random (Poisson) at `rate`, on all connections together, independently of the
    /// server. At most `pipeline` are outstanding on a connection; further ones wait in the generator.
    Open {
        /// Requests a second.
        rate: f64,
    },
}

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Address of the server, its first endpoint.
    pub address: Address,
    /// Further endpoints of the same server: connections are dealt out among all, the first to `address`.
    #[serde(deserialize_with = "codec::list::<_, _, ENDPOINTS_MAX>")]
    pub further: Vec<Address>,
    /// The port of this machine that datagrams go by, instead of the kernel.
    pub port: Option<LoadPort>,
    /// Protocol that the server speaks.
    pub protocol: ProtocolKind,
    /// Password, which is sent first.
    pub password: Option<Vec<u8>>,
    /// TLS settings for the connection to the server. They stay with this process.
    #[serde(skip)]
    pub tls: Option<ServerTls>,
    /// Mix of requests to send.
    pub workload: Workload,
    /// Records that the requests are for.
    pub records: Records,
    /// Connections of all threads together.
    pub connections: usize,
    /// Threads that drive them.
    pub threads: usize,
    /// Core of the first thread; the next has the next core; `None` if the system chooses.
    pub core: Option<usize>,
    /// Requests in flight on a connection.
    pub pipeline: usize,
    /// Rule by which requests are sent.
    pub mode: LoadMode,
    /// Time before anything is counted.
    pub warm_up: Duration,
    /// Time that is measured, divided into `windows` of equal length.
    pub duration: Duration,
    /// Parts of the run.
    pub windows: usize,
    /// Seed of the random choices.
    pub seed: u64,
    /// Threads spin instead of sleeping.
    pub busy_poll: bool,
    /// Number of this load generator, among all that load the server together.
    pub generator: Generator,
}

/// A load generator among several, each with as many connections. They draw other requests and insert
/// other records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generator {
    /// Index of the generator, from 0 on.
    pub index: usize,
    /// Number of load generators.
    pub count: usize,
}

impl Generator {
    /// Settings of a generator without others.
    pub const ONLY: Self = Self { index: 0, count: 1 };
}

/// Maximum number of endpoints of a server.
pub(super) const ENDPOINTS_MAX: usize = 64;
/// Maximum number of connections of a run.
const CONNECTIONS_MAX: usize = 20_000;
const THREADS_MAX: usize = 256;
const PIPELINE_MAX: usize = 4096;
const WINDOWS_MAX: usize = 1000;
const GENERATORS_MAX: usize = 256;

/// Bytes that a connection reads at once.
pub(super) const READ_BYTES: usize = 64 << 10;
/// Requests in flight on a connection while records are loaded.
pub(super) const LOAD_PIPELINE: usize = 64;
/// Latencies of a window, and of the run.
const LATENCIES_BYTES: usize = 300 << 10;
/// Upper bound on the bytes of a request or an answer, without key and value.
const REQUEST_BYTES: usize = 128;

impl Settings {
    /// Memory that a run may take, generously.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let record = self.records.key_bytes + self.records.value_bytes + REQUEST_BYTES;
        let answers = match self.workload.has_scans() {
            true => self.workload.scan_max.max(1),
            false => 1,
        };
        let in_flight = 2 * self.pipeline.max(LOAD_PIPELINE) as u64 * answers;
        let buffers = match self.protocol {
            protocol if protocol.is_datagram() => RECEIVE_BYTES,
            _ => READ_BYTES,
        };
        let connection = buffers as u64 + in_flight.saturating_mul(record as u64);
        (connection.saturating_mul(self.connections as u64))
            .saturating_add((self.threads * self.windows * LATENCIES_BYTES) as u64)
    }

    /// All endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = &Address> {
        [&self.address].into_iter().chain(&self.further)
    }

    /// Returns the index of a connection's endpoint.
    pub(super) fn endpoint(&self, connection: u64) -> usize {
        (connection % (1 + self.further.len()) as u64) as usize
    }

    fn check_port(&self) -> Result<(), String> {
        let is_datagram = self.protocol == ProtocolKind::Datagram;
        let is_ipv4 = matches!(self.address, Address::Tcp(SocketAddr::V4(_)));
        let reason = match () {
            () if !is_datagram => "a port that DPDK drives carries datagrams: datagram://HOST:PORT",
            () if !is_ipv4 => "at a port that DPDK drives servers have IPv4 addresses",
            () if self.threads > 1 => "one thread polls a port that DPDK drives",
            () => return Ok(()),
        };
        Err(reason.into())
    }

    /// Checks the settings against their limits.
    ///
    /// # Errors
    /// [`BenchError::Settings`].
    pub fn check(&self) -> Result<(), BenchError> {
        let within = |what: &str, is: usize, max: usize| match (1..=max).contains(&is) {
            true => Ok(()),
            false => Err(format!("{what} must be from 1 to {max}, not {is}")),
        };
        let all = || {
            within("connections", self.connections, CONNECTIONS_MAX)?;
            within("threads", self.threads, THREADS_MAX)?;
            within("pipeline", self.pipeline, PIPELINE_MAX)?;
            within("windows", self.windows, WINDOWS_MAX)?;
            if self.duration.is_zero() {
                return Err("the time that counts must be longer than 0".into());
            }
            within("load generators", self.generator.count, GENERATORS_MAX)?;
            if self.generator.index >= self.generator.count {
                return Err("there are not so many load generators".into());
            }
            if self.threads > self.connections {
                return Err("each thread needs a connection".into());
            }
            if let LoadMode::Open { rate } = self.mode
                && !(rate.is_finite() && rate >= 1.0)
            {
                return Err("the rate must be 1 request a second or more".into());
            }
            if self.further.len() >= ENDPOINTS_MAX {
                return Err(format!("a server has at most {ENDPOINTS_MAX} endpoints"));
            }
            if self.protocol.is_datagram() && !self.further.is_empty() {
                return Err("datagrams go to one endpoint".into());
            }
            if self.protocol == ProtocolKind::Herd {
                within("connections", self.connections, herd::CLIENTS_MAX)?;
            }
            if let Some(port) = &self.port {
                within("connections", self.connections, port::CONNECTIONS_MAX)?;
                within("queues of the port", port.queues, port::QUEUES_MAX)?;
                self.check_port()?;
            }
            let has_password = match self.protocol {
                ProtocolKind::Resp => true,
                ProtocolKind::Herd => matches!(self.address, Address::Tcp(_)),
                _ => false,
            };
            if self.password.is_some() && !has_password {
                return Err(
                    "memcached's protocol, datagrams and shared memory have no password".into()
                );
            }
            let is_tcp = |address: &Address| matches!(address, Address::Tcp(_));
            let takes_tls = self.protocol == ProtocolKind::Resp && self.endpoints().all(is_tcp);
            if self.tls.is_some() && !takes_tls {
                return Err("TLS is for Redis's protocol over TCP".into());
            }
            let longest = self.records.key_bytes.saturating_add(self.records.value_bytes);
            let most = self.protocol.record_max_bytes();
            if self.protocol.is_datagram() && longest > most {
                return Err(format!("a key and its value have at most {most} bytes in a datagram"));
            }
            self.records.check()?;
            self.workload.check(self.protocol)
        };
        all().map_err(BenchError::Settings)
    }
}
