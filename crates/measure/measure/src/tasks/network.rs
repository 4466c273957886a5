//! Tests of kind `network`: round trips and streams over TCP and UDP, the loops of
//! `overside_probe::network`.

mod background;
mod ends;
mod figures;
mod machine_busy;
mod phases;
mod spec;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use overside_device::threads::process_cpu_ns;
use overside_link::Secret;
use overside_probe::network::{CONNECTIONS_MAX, Error, Limit, Load, Pass, Plan, Protocol, Traffic};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Measured;
use crate::sample::Sample;
use crate::test::{CompletionMode, TestError, one, times_within};
use background::BackgroundLoad;
use ends::{EndLocation, Ends};
use machine_busy::machine_busy_s;
use overside_probe::{Failure, FailureKind};
use overside_probe::{cores_within, within};
pub(super) use spec::{MODES, forwarding_cores, spec};

/// Messages of each connection that verification sends, if they are short enough.
const VERIFIED_MESSAGES: u64 = 64;
/// Maximum number of bytes that it sends.
const VERIFIED_BYTES: u64 = 64 << 20;
/// Time in seconds that limits the verification of a stream with a rate: no more messages are sent
/// for it than the stream sends in this time.
const VERIFIED_S: f64 = 0.25;
/// Maximum number of slices of a series.
const SLICES_MAX: f64 = 2000.0;
/// The longest name of a node in bytes.
const NODE_MAX: usize = 64;
/// Maximum number of processes of a hop.
const PROCESSES_MAX: usize = 64;

/// Parameters of a network test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkTest {
    /// Traffic pattern on the connections: round trips or a stream.
    pub pattern: Traffic,
    /// The agent that sends, by its name in the inventory. Without it this process does.
    pub source_node: Option<String>,
    /// The agent that answers, by its name in the inventory. Without it this process does.
    pub destination_node: Option<String>,
    /// The name of the way that the bytes take.
    pub mode: Option<String>,
    /// Forwarding path between the ends, if it was built for this test.
    pub hop: Option<Hop>,
    /// Transport protocol that carries the messages.
    #[serde(default)]
    pub protocol: Protocol,
    /// One message in bytes.
    pub message_size: usize,
    /// Data connections.
    #[serde(default = "one")]
    pub connections: usize,
    /// Threads of either end.
    #[serde(default = "one")]
    pub threads: usize,
    /// Messages outstanding on a connection, for round trips.
    #[serde(default = "one")]
    pub depth: usize,
    /// Maximum number of messages in one write.
    #[serde(default = "one")]
    pub batch: usize,
    /// Messages a second over all connections, at even distances.
    pub rate: Option<f64>,
    /// Method by which both ends wait: by events or by polling.
    #[serde(default)]
    pub completion: CompletionMode,
    /// The cores that the client's threads are pinned to, where they run; not pinned if absent.
    pub cores: Option<Vec<usize>>,
    /// The cores that the server's threads are pinned to; not pinned if absent.
    pub server_cores: Option<Vec<usize>>,
    /// Requested size of the sockets' buffers, in bytes; the system decides if absent.
    pub socket_buffer: Option<usize>,
    /// Seconds of one slice of the series; no series if absent.
    pub slice_s: Option<f64>,
    /// `true` if the processor's events are counted on the client's threads.
    #[serde(default)]
    pub events: bool,
    /// Test that runs in the middle third of the time: a test of jobs, or of kind `dma`, without
    /// its times.
    pub beside: Option<Map<String, Value>>,
    /// Seconds of the same work before the clock starts.
    pub warmup_s: f64,
    /// Seconds of sending under the clock.
    pub sample_s: f64,
    /// Seconds after which the sample has failed, preparation included.
    pub timeout_s: f64,
    /// Makes the content of the messages.
    #[serde(default)]
    pub seed: u64,
}

/// Forwarding path between two network namespaces of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The client's namespace, as a file of it.
    pub client_namespace: PathBuf,
    /// The server's.
    pub server_namespace: PathBuf,
    /// The server's address there; the port is free to choose.
    pub server_address: Ipv4Addr,
    /// Description of the forwarding program, for people.
    pub description: String,
    /// The processes that forward, whose CPU time is the hop's.
    pub processes: Vec<u32>,
}

impl NetworkTest {
    /// Builds the description of the traffic that both ends need.
    fn load(&self) -> Load {
        Load {
            traffic: self.pattern,
            message_bytes: self.message_size,
            connections: self.connections,
            threads: self.threads,
            waiting: self.completion,
            socket_buffer: self.socket_buffer,
            seed: self.seed,
            protocol: self.protocol,
            paced_messages: self.paced_messages(),
        }
    }

    /// Maximum number of messages of a pass; of streams with a rate.
    fn paced_messages(&self) -> Option<u64> {
        let rate = self.rate.filter(|_| self.pattern == Traffic::Stream)?;
        let timed = (rate * self.sample_s.max(self.warmup_s)).ceil() as u64;
        // Each connection sends at least what is verified, and one more at either end of the time.
        Some(timed.saturating_add(self.connections as u64 * (VERIFIED_MESSAGES + 2)))
    }

    /// Builds the client's plan for the server at `destination`, which expects `secret`.
    fn plan(&self, destination: SocketAddr, secret: Secret) -> Plan {
        Plan {
            destination,
            secret,
            load: self.load(),
            depth: self.depth,
            batch: self.batch,
            rate_per_s: self.rate,
            cores: self.cores.clone(),
            namespace: self.hop.as_ref().map(|hop| hop.client_namespace.clone()),
            slice: self.slice_s.map(Duration::from_secs_f64),
            events: self.events,
        }
    }

    /// Messages of each connection that are verified before the clock starts.
    fn verified(&self) -> u64 {
        let together =
            (self.connections.clamp(1, CONNECTIONS_MAX) * self.message_size.max(1)) as u64;
        let most = (VERIFIED_BYTES / together).clamp(1, VERIFIED_MESSAGES);
        let soon = |rate: f64| (rate * VERIFIED_S / self.connections.max(1) as f64) as u64;
        let most_soon = self.rate.map_or(most, soon);
        most.min(most_soon).max(1)
    }

    /// Returns the CPU time of the hop's processes so far; `None` if there are none or the system does not
    /// report it.
    fn hop_ns(&self) -> Option<u64> {
        let processes = &self.hop.as_ref()?.processes;
        if processes.is_empty() {
            return None;
        }
        (processes.iter()).map(|&process| process_cpu_ns(process)).sum()
    }
}

impl Measured for NetworkTest {
    fn check(&self) -> Result<(), TestError> {
        times_within(self.warmup_s, self.sample_s, self.timeout_s)?;
        cores_within(self.cores.as_deref())?;
        cores_within(self.server_cores.as_deref())?;
        let slices = self.slice_s.map_or(1.0, |slice_s| self.sample_s / slice_s);
        within("sample_s / slice_s", slices, 1.0, SLICES_MAX)?;
        let only = |given: bool, field: &'static str, allowed: &str| match given {
            true => Err(TestError::bound(field, "given", allowed)),
            false => Ok(()),
        };
        let (source, destination) = (&self.source_node, &self.destination_node);
        for node in [source, destination].into_iter().flatten() {
            within("the length of a node's name", node.len(), 1, NODE_MAX)?;
        }
        let elsewhere = source.is_some() || destination.is_some();
        let both_here = "given only if both ends are in this process";
        only(self.hop.is_some() && elsewhere, "hop", both_here)?;
        let unsliced = self.beside.is_some() && self.slice_s.is_none();
        only(unsliced, "beside", "given only with slice_s")?;
        if let Some(hop) = &self.hop {
            within("the hop's processes", hop.processes.len(), 0, PROCESSES_MAX)?;
        }
        if let Some(beside) = &self.beside {
            BackgroundLoad::parse(beside, self)?;
        }
        let anywhere = (Ipv4Addr::LOCALHOST, 1).into();
        let secret = Secret::random().map_err(|error| TestError::Json(error.to_string()))?;
        self.plan(anywhere, secret).check().map_err(|error| match error {
            Error::Bound(bound) => bound.into(),
            other => TestError::Json(other.to_string()),
        })
    }

    fn timeout_s(&self) -> f64 {
        self.timeout_s
    }

    fn take(&self, deadline: Instant) -> Result<Sample, Failure> {
        let mut ends = Ends::open(self, deadline)?;
        let mut pass = |limit: Limit| ends.pass(limit, deadline, || ());
        let verified = pass(Limit::Messages(self.verified()))?;
        if self.warmup_s > 0.0 {
            pass(Limit::Time(Duration::from_secs_f64(self.warmup_s)))?;
        }
        let beside = match &self.beside {
            None => None,
            Some(beside) => {
                let beside = BackgroundLoad::parse(beside, self)
                    .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
                let third = Duration::from_secs_f64(self.sample_s / 3.0);
                Some(beside.prepare(third, deadline)?)
            }
        };
        let (hop_before, machine_before) = (self.hop_ns(), machine_busy_s());
        let began = Instant::now();
        // Jobs wait for a third of the traffic, not of the time that it takes to begin.
        let started = || {
            if let Some(beside) = &beside {
                beside.go(Duration::from_secs_f64(self.sample_s / 3.0));
            }
        };
        let limit = Limit::Time(Duration::from_secs_f64(self.sample_s));
        let timed = ends.pass(limit, deadline, started)?;
        let took_s = began.elapsed().as_secs_f64();
        let machine_share = machine_busy_s()
            .zip(machine_before)
            .map(|(now, then)| (now - then) / took_s)
            .filter(|_| !ends.are_elsewhere());
        let hop_ns = self.hop_ns().zip(hop_before).map(|(now, then)| now.saturating_sub(then));
        let jobs = beside.map(background::Prepared::finish).transpose()?;
        let taken = NetworkResult {
            destination: ends.destination,
            client: ends.client,
            server: ends.server,
            verified,
            timed,
            hop: hop_ns.map(Duration::from_nanos),
            machine_share,
            jobs,
        };
        ends.close();
        Ok(figures::sample(self, &taken))
    }
}

/// Both ends, the passes and the CPU times of one repetition, of which `figures` makes the sample.
struct NetworkResult {
    destination: SocketAddr,
    /// Locations of the two ends: the owner and the machine of the cores that they run on.
    client: EndLocation,
    server: EndLocation,
    verified: Pass,
    timed: Pass,
    /// CPU time of the hop's processes.
    hop: Option<Duration>,
    /// Average number of busy cores of this machine, over all its processes; `None` if neither end
    /// is on it or the system does not report it.
    machine_share: Option<f64>,
    jobs: Option<background::JobsReport>,
}

fn no_sample(error: Error) -> Failure {
    let kind = match &error {
        Error::Wrong(_) => FailureKind::Verification,
        Error::Closed => FailureKind::Lost,
        Error::Timeout(_) => FailureKind::Timeout,
        Error::Bound(_) => FailureKind::Internal,
        Error::Unreachable { .. } | Error::Stranger { .. } | Error::System { .. } => {
            FailureKind::Job
        }
    };
    Failure::new(kind, error.to_string())
}
