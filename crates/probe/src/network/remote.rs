//! An end of a network test that an agent plays for a host: the host asks, the agent answers.
//!
//! ```text
//!   host                              agent
//!   receive: what is sent        ->
//!                                <-   receiving: a port, and the secret that a client has to know
//!
//!   connect: what to send where  ->
//!                                <-   connected
//!   pass: how long               ->
//!                                <-   passed: what came of it
//! ```
//!
//! The end that receives is a [`Receiver`] at the address that the host has reached the agent at. It
//! lives as long as the host's connection to the agent. [`NetworkReply::Failed`] may be the answer to
//! anything.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use overside_link::Secret;
use overside_link::agent::{Host, MAX_PROBE_BYTES, Probe, ProbePeer};
use overside_link::codec::{self, CodecError, Message, clean};
use serde::{Deserialize, Serialize};

use super::client::{Client, Limit, Pass, Slice};
use super::receiver::{Receiver, ReceiverConfig};
use super::{CONNECTIONS_MAX, Error, Load, Plan, Role, Traffic, cores_within, place, within};
use crate::latency::{Latencies, PlainLatencies};

/// What hosts ask agents for.
pub const KIND: &str = "network";
/// The longest time that a pass is sent for, and the longest that it may take, in nanoseconds.
const SENDING_NS_MAX: u64 = 3600 * 1_000_000_000;
const PASS_NS_MAX: u64 = 24 * SENDING_NS_MAX;
/// The most slices that are told.
const SLICES_MAX: usize = 4000;
/// The longest text of an error in bytes.
const TEXT_MAX: usize = 1000;

/// What a host asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkQuestion {
    /// Answer one client. Once, and first.
    Receive {
        /// What it is going to send.
        load: Load,
        /// The cores that the threads are pinned to, one after the other.
        cores: Option<Vec<usize>>,
    },
    /// Be the client. Once.
    Connect(Box<Plan>),
    /// Send.
    Pass {
        /// For how long.
        limit: Limit,
        /// How long it may take at most, in nanoseconds.
        within_ns: u64,
    },
}

/// What an agent answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkReply {
    /// It answers whoever knows the secret.
    Receiving {
        /// The port, of the address that the host has reached the agent at.
        port: u16,
        /// What the client has to know.
        secret: Secret,
        /// Whose cores its are.
        role: Role,
        /// Which machine it runs on, as [`super::machine`] tells it.
        machine: u64,
    },
    /// All connections are open.
    Connected {
        /// Whose cores the client's are.
        role: Role,
        /// Which machine the client runs on, as [`super::machine`] tells it.
        machine: u64,
    },
    /// What was sent and checked.
    Passed(Box<Passed>),
    /// Why not.
    Failed {
        /// Which sort of thing went wrong.
        kind: FailedKind,
        /// What.
        message: String,
    },
}

/// Sorts of what goes wrong there, as [`Error`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailedKind {
    /// Something came that is not what was sent.
    Wrong,
    /// The other end went away.
    Closed,
    /// It took too long.
    Timeout,
    /// The question is none, comes at the wrong time or asks for too much.
    Question,
    /// A session, an address or a descriptor that cannot be had.
    Other,
}

/// A [`Pass`] as it is sent, with all its latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passed {
    elapsed_ns: u64,
    messages: u64,
    bytes: u64,
    #[serde(deserialize_with = "codec::list::<_, _, CONNECTIONS_MAX>")]
    connection_bytes: Vec<u64>,
    writes: u64,
    client_cpu_ns: u64,
    server_cpu_ns: u64,
    late: u64,
    /// The fields of [`Slice`].
    #[serde(deserialize_with = "codec::list::<_, _, SLICES_MAX>")]
    slices: Vec<[u64; 6]>,
    latencies: PlainLatencies,
}

impl Message for NetworkQuestion {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;
}

impl Message for NetworkReply {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        if let Self::Failed { message, .. } = self {
            *message = clean(message, TEXT_MAX);
        }
        Ok(())
    }
}

impl Passed {
    fn new(pass: &Pass, latencies: &Latencies) -> Self {
        Self {
            elapsed_ns: nanoseconds(pass.elapsed),
            messages: pass.messages,
            bytes: pass.bytes,
            connection_bytes: pass.connection_bytes.clone(),
            writes: pass.writes,
            client_cpu_ns: nanoseconds(pass.client_cpu),
            server_cpu_ns: nanoseconds(pass.server_cpu),
            late: pass.late,
            slices: (pass.slices.iter().take(SLICES_MAX))
                .map(|slice| {
                    [
                        nanoseconds(slice.end),
                        nanoseconds(slice.length),
                        slice.bytes,
                        slice.messages,
                        slice.latency_sum_ns,
                        slice.latency_max_ns,
                    ]
                })
                .collect(),
            latencies: latencies.to_plain(),
        }
    }

    /// What was sent, by `plan`, and its latencies. The pass begins now.
    ///
    /// # Errors
    /// [`Error::Wrong`] if the figures contradict each other or the plan.
    pub fn pass(&self, plan: &Plan) -> Result<(Pass, Latencies), Error> {
        let latencies = Latencies::from_plain(&self.latencies).map_err(Error::Wrong)?;
        let trips = plan.load.traffic == Traffic::RoundTrips;
        let sum = (self.connection_bytes.iter()).try_fold(0u64, |sum, &one| sum.checked_add(one));
        let expected = [
            (
                "connections",
                self.connection_bytes.len() as u64,
                plan.load.connections as u64,
            ),
            ("bytes", sum.unwrap_or(u64::MAX), self.bytes),
            (
                "bytes of messages",
                self.messages.saturating_mul(plan.load.message_bytes as u64),
                self.bytes,
            ),
            (
                "latencies",
                latencies.count(),
                if trips { self.messages } else { 0 },
            ),
        ];
        for (what, told, right) in expected {
            if told != right {
                let what = format!("its figures have {told} {what}, where there are {right}");
                return Err(Error::Wrong(what));
            }
        }
        let sent = self.messages > 0 && self.elapsed_ns > 0 && self.late <= self.messages;
        if !sent || self.elapsed_ns > PASS_NS_MAX || !slices_can_be(&self.slices) {
            return Err(Error::Wrong("its figures cannot be".into()));
        }
        let pass = Pass {
            start: Instant::now(),
            elapsed: Duration::from_nanos(self.elapsed_ns),
            messages: self.messages,
            bytes: self.bytes,
            connection_bytes: self.connection_bytes.clone(),
            writes: self.writes,
            client_cpu: Duration::from_nanos(self.client_cpu_ns),
            server_cpu: Duration::from_nanos(self.server_cpu_ns),
            late: self.late,
            slices: self.slices.iter().map(slice).collect(),
        };
        Ok((pass, latencies))
    }
}

/// Whether they are not too many, lie within a pass, and can be added up.
fn slices_can_be(slices: &[[u64; 6]]) -> bool {
    let within = |slice: &[u64; 6]| slice[0] <= PASS_NS_MAX && slice[1] <= PASS_NS_MAX;
    let sum =
        |column: usize| (slices.iter()).try_fold(0u64, |sum, slice| sum.checked_add(slice[column]));
    slices.len() <= SLICES_MAX && slices.iter().all(within) && (2..5).all(|it| sum(it).is_some())
}

fn slice(&[end, length, bytes, messages, sum, max]: &[u64; 6]) -> Slice {
    Slice {
        end: Duration::from_nanos(end),
        length: Duration::from_nanos(length.max(1)),
        bytes,
        messages,
        latency_sum_ns: sum,
        latency_max_ns: max,
    }
}

/// Plays ends of network tests.
#[derive(Clone, Copy, Debug)]
pub struct NetworkProbe {
    /// Whose cores these are.
    pub role: Role,
}

impl Probe for NetworkProbe {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        Ok(Box::new(End {
            role: self.role,
            host,
            receiver: None,
            client: None,
        }))
    }
}

/// One end, for one host.
struct End {
    role: Role,
    host: Host,
    receiver: Option<Receiver>,
    client: Option<(Client, Plan)>,
}

impl ProbePeer for End {
    fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let reply = match NetworkQuestion::decode(question) {
            Ok(NetworkQuestion::Receive { load, cores }) => self.receive(load, cores),
            Ok(NetworkQuestion::Connect(plan)) => self.connect(*plan),
            Ok(NetworkQuestion::Pass { limit, within_ns }) => self.pass(limit, within_ns),
            Err(error) => Err(Trouble::Question(error.to_string())),
        };
        reply.unwrap_or_else(NetworkReply::from).encode()
    }
}

/// Why a question has no other answer.
enum Trouble {
    Question(String),
    Test(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Test(error)
    }
}

impl From<Trouble> for NetworkReply {
    fn from(trouble: Trouble) -> Self {
        let (kind, message) = match trouble {
            Trouble::Question(text) => (FailedKind::Question, text),
            Trouble::Test(error) => (FailedKind::from(&error), error.to_string()),
        };
        Self::Failed {
            kind,
            message: clean(&message, TEXT_MAX),
        }
    }
}

impl From<&Error> for FailedKind {
    fn from(error: &Error) -> Self {
        match error {
            Error::Wrong(_) => Self::Wrong,
            Error::Closed => Self::Closed,
            Error::Timeout(_) => Self::Timeout,
            Error::Bound { .. } => Self::Question,
            Error::Unreachable { .. } | Error::Stranger { .. } | Error::System { .. } => {
                Self::Other
            }
        }
    }
}

impl End {
    fn receive(&mut self, load: Load, cores: Option<Vec<usize>>) -> Result<NetworkReply, Trouble> {
        if self.receiver.is_some() || self.client.is_some() {
            return Err(out_of_turn("this end is one already"));
        }
        cores_within(cores.as_deref())?;
        let secret = Secret::random().map_err(Error::system("a secret"))?;
        let config = ReceiverConfig {
            load,
            secret,
            namespace: None,
            cores,
        };
        let mut address: SocketAddr = self.host.here;
        address.set_port(0);
        let receiver = self.receiver.insert(Receiver::listen(address, config)?);
        Ok(NetworkReply::Receiving {
            port: receiver.address().port(),
            secret,
            role: self.role,
            machine: place::machine(),
        })
    }

    fn connect(&mut self, plan: Plan) -> Result<NetworkReply, Trouble> {
        if self.receiver.is_some() || self.client.is_some() {
            return Err(out_of_turn("this end is one already"));
        }
        if let Some(slice) = plan.slice {
            let least = Duration::from_micros(50).as_secs_f64();
            within("slice", slice.as_secs_f64(), least, 3600.0)?;
        }
        let client = Client::open_for(plan.clone(), self.host.cancelled.clone())?;
        self.client = Some((client, plan));
        Ok(NetworkReply::Connected {
            role: self.role,
            machine: place::machine(),
        })
    }

    fn pass(&mut self, limit: Limit, within_ns: u64) -> Result<NetworkReply, Trouble> {
        within("within_ns", within_ns, 1, PASS_NS_MAX)?;
        if let Limit::Time(time) = limit {
            within("time_ns", nanoseconds(time), 1, SENDING_NS_MAX)?;
        }
        // A client whose pass went wrong is of no use.
        let Some((mut client, plan)) = self.client.take() else {
            return Err(out_of_turn("there are no connections to send over"));
        };
        let deadline = Instant::now() + Duration::from_nanos(within_ns);
        let mut records: Vec<Latencies> =
            (0..plan.load.threads).map(|_| Latencies::new()).collect();
        let pass = client.pass(limit, &mut records, deadline)?;
        if pass.slices.len() > SLICES_MAX {
            let slices = pass.slices.len();
            let text = format!("there are {slices} slices, and at most {SLICES_MAX} are told");
            return Err(Trouble::Question(text));
        }
        let mut latencies = Latencies::new();
        for record in &records {
            latencies.add(record);
        }
        self.client = Some((client, plan));
        Ok(NetworkReply::Passed(Box::new(Passed::new(
            &pass, &latencies,
        ))))
    }
}

fn out_of_turn(text: &str) -> Trouble {
    Trouble::Question(text.into())
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
