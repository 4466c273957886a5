//! An end of a network test that an agent plays for a host: the host sends requests, the agent answers.
//!
//! ```text
//!   host                              agent
//!   receive: the plan            ->
//!                                <-   receiving: a port, and the secret for the client
//!
//!   connect: plan and address    ->
//!                                <-   connected
//!   clock                        ->
//!                                <-   clock: the agent's time
//!   pass: its length             ->
//!                                <-   passed: the result
//! ```
//!
//! The receiving end is a [`Receiver`] at the agent's address that the host has reached. It lives as long as
//! the host's connection to the agent. [`NetworkReply::Failed`] may be the answer to any request.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use overside_base::Reservation;
use overside_link::Secret;
use overside_link::agent::{Host, MAX_PROBE_BYTES, Probe, ProbePeer};
use overside_link::codec::{CodecError, Message, clean};
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::pass::{Limit, PASS_NS_MAX, Pass, SENDING_NS_MAX};
use super::receiver::{Receiver, ReceiverConfig};
use super::{Error, Load, Plan, Role, SLICES_SENT_MAX, nanoseconds, thread_setup};
use crate::bounds::{cores_within, within};

/// Probe kind under which hosts request an end of a network test from an agent.
pub const KIND: &str = "network";
/// The longest text of an error in bytes.
const TEXT_MAX: usize = 1000;

/// Request from a host to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkRequest {
    /// Answer one client. Once, and first.
    Receive {
        /// Traffic that the client is going to send.
        load: Load,
        /// The cores that the threads are pinned to, one after the other.
        cores: Option<Vec<usize>>,
    },
    /// Be the client. Once.
    Connect(Box<Plan>),
    /// Tell the time: [`NetworkReply::Clock`].
    Clock,
    /// Send.
    Pass {
        /// Limit of the pass.
        limit: Limit,
        /// Longest time that the pass may take, in nanoseconds.
        within_ns: u64,
    },
}

/// Answer of an agent to a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkReply {
    /// The receiver answers clients that know the secret.
    Receiving {
        /// The port, of the address that the host has reached the agent at.
        port: u16,
        /// Secret that the client must know.
        secret: Secret,
        /// Owner of the cores that the receiver runs on: a host or a DPU.
        role: Role,
        /// Identity of the machine that it runs on, from [`super::machine`].
        machine: u64,
    },
    /// All connections are open.
    Connected {
        /// Owner of the cores that the client runs on: a host or a DPU.
        role: Role,
        /// Identity of the machine that the client runs on, from [`super::machine`].
        machine: u64,
    },
    /// Nanoseconds of the agent's clock, whose zero means nothing.
    Clock(u64),
    /// Figures of the pass that was sent and checked.
    Passed(Box<Pass>),
    /// The request failed.
    Failed {
        /// Kind of failure.
        kind: FailedKind,
        /// Description of the failure.
        message: String,
    },
}

/// Kinds of failures at the other end, as [`Error`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailedKind {
    /// Received bytes are not those that were sent.
    Wrong,
    /// The other end went away.
    Closed,
    /// The request took too long.
    Timeout,
    /// The request is invalid, comes at the wrong time or exceeds a limit.
    Question,
    /// A session, an address or a descriptor is not available.
    Other,
}

impl Message for NetworkRequest {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;
}

impl Message for NetworkReply {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        if let Self::Failed { message, .. } = self {
            *message = clean(message, TEXT_MAX);
        }
        if let Self::Passed(pass) = self
            && let Some(events) = &mut pass.events
        {
            events.tidy();
        }
        Ok(())
    }
}

/// Plays ends of network tests.
#[derive(Clone, Copy, Debug)]
pub struct NetworkProbe {
    /// Owner of the cores that the ends run on: a host or a DPU.
    pub role: Role,
}

impl Probe for NetworkProbe {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        Ok(Box::new(RemoteEnd {
            role: self.role,
            host,
            origin: Instant::now(),
            memory: None,
            receiver: None,
            client: None,
        }))
    }
}

/// The agent's end of a test, for one host.
struct RemoteEnd {
    role: Role,
    host: Host,
    /// Zero of the clock that it reports.
    origin: Instant,
    memory: Option<Reservation>,
    receiver: Option<Receiver>,
    client: Option<Client>,
}

impl ProbePeer for RemoteEnd {
    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let reply = match NetworkRequest::decode(request) {
            Ok(NetworkRequest::Receive { load, cores }) => self.receive(load, cores),
            Ok(NetworkRequest::Connect(plan)) => self.connect(*plan),
            Ok(NetworkRequest::Clock) => {
                Ok(NetworkReply::Clock(nanoseconds(self.origin.elapsed())))
            }
            Ok(NetworkRequest::Pass { limit, within_ns }) => self.pass(limit, within_ns),
            Err(error) => Err(Refusal::Question(error.to_string())),
        };
        reply.unwrap_or_else(NetworkReply::from).encode()
    }
}

/// Reason why a request is refused or has failed.
enum Refusal {
    Question(String),
    Test(Error),
}

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Test(error.into())
    }
}

impl From<Refusal> for NetworkReply {
    fn from(trouble: Refusal) -> Self {
        let (kind, message) = match trouble {
            Refusal::Question(text) => (FailedKind::Question, text),
            Refusal::Test(error) => (FailedKind::from(&error), error.to_string()),
        };
        Self::Failed { kind, message: clean(&message, TEXT_MAX) }
    }
}

impl From<&Error> for FailedKind {
    fn from(error: &Error) -> Self {
        match error {
            Error::Wrong(_) => Self::Wrong,
            Error::Closed => Self::Closed,
            Error::Timeout(_) => Self::Timeout,
            Error::Bound(_) => Self::Question,
            Error::Unreachable { .. } | Error::Stranger { .. } | Error::System { .. } => {
                Self::Other
            }
        }
    }
}

impl RemoteEnd {
    fn receive(&mut self, load: Load, cores: Option<Vec<usize>>) -> Result<NetworkReply, Refusal> {
        if self.receiver.is_some() || self.client.is_some() {
            return Err(out_of_turn("this end is one already"));
        }
        cores_within(cores.as_deref())?;
        load.check()?;
        self.reserve(load.memory_bytes())?;
        let secret = Secret::random().map_err(Error::system("a secret"))?;
        let config = ReceiverConfig { load, secret, namespace: None, cores };
        let mut address: SocketAddr = self.host.here;
        address.set_port(0);
        let receiver = self.receiver.insert(Receiver::listen(address, config)?);
        Ok(NetworkReply::Receiving {
            port: receiver.address().port(),
            secret,
            role: self.role,
            machine: thread_setup::machine(),
        })
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), Refusal> {
        let reserved = self.host.memory.reserve(bytes);
        let refused = |error| Refusal::Question(format!("it has no memory for this test: {error}"));
        self.memory = Some(reserved.map_err(refused)?);
        Ok(())
    }

    fn connect(&mut self, plan: Plan) -> Result<NetworkReply, Refusal> {
        if self.receiver.is_some() || self.client.is_some() {
            return Err(out_of_turn("this end is one already"));
        }
        if let Some(slice) = plan.slice {
            let least = Duration::from_micros(50).as_secs_f64();
            within("slice", slice.as_secs_f64(), least, 3600.0)?;
        }
        plan.check()?;
        self.reserve(plan.memory_bytes())?;
        let client = Client::open_for(plan, self.host.cancelled.clone())?;
        self.client = Some(client);
        Ok(NetworkReply::Connected { role: self.role, machine: thread_setup::machine() })
    }

    fn pass(&mut self, limit: Limit, within_ns: u64) -> Result<NetworkReply, Refusal> {
        within("within_ns", within_ns, 1, PASS_NS_MAX)?;
        if let Limit::Time(time) = limit {
            within("time_ns", nanoseconds(time), 1, SENDING_NS_MAX)?;
        }
        // A client whose pass went wrong is of no use.
        let Some(mut client) = self.client.take() else {
            return Err(out_of_turn("there are no connections to send over"));
        };
        let deadline = Instant::now() + Duration::from_nanos(within_ns);
        let mut pass = client.pass(limit, deadline, || ())?;
        pass.started_ns = nanoseconds(pass.start - self.origin);
        if pass.slices.len() > SLICES_SENT_MAX {
            let slices = pass.slices.len();
            let text = format!("there are {slices} slices, and at most {SLICES_SENT_MAX} are sent");
            return Err(Refusal::Question(text));
        }
        self.client = Some(client);
        Ok(NetworkReply::Passed(Box::new(pass)))
    }
}

fn out_of_turn(text: &str) -> Refusal {
    Refusal::Question(text.into())
}
