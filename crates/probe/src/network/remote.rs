//! An end of a network test that an agent plays for a host: the host asks, the agent answers.
//!
//! ```text
//!   host                              agent
//!   receive: what is sent        ->
//!                                <-   receiving: a port, and the secret that a client has to know
//!
//!   connect: what to send where  ->
//!                                <-   connected
//!   clock                        ->
//!                                <-   clock: the agent's time
//!   pass: how long               ->
//!                                <-   passed: what came of it
//! ```
//!
//! The end that receives is a [`Receiver`] at the address that the host has reached the agent at. It
//! lives as long as the host's connection to the agent. [`NetworkReply::Failed`] may be the answer to
//! anything.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use overside_base::Reservation;
use overside_link::Secret;
use overside_link::agent::{Host, MAX_PROBE_BYTES, Probe, ProbePeer};
use overside_link::codec::{CodecError, Message, clean};
use serde::{Deserialize, Serialize};

use super::client::{Client, Limit, OneWay, Pass, Slice};
use super::receiver::{Receiver, ReceiverConfig};
use super::{Error, Load, Plan, Role, SLICES_SENT_MAX, Traffic, nanoseconds, thread_setup};
use crate::bounds::{cores_within, within};

/// What hosts ask agents for.
pub const KIND: &str = "network";
/// The longest time that a pass is sent for, and the longest that it may take, in nanoseconds.
const SENDING_NS_MAX: u64 = 3600 * 1_000_000_000;
const PASS_NS_MAX: u64 = 24 * SENDING_NS_MAX;
const PASS_TIME_MAX: Duration = Duration::from_nanos(PASS_NS_MAX);
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
    /// Tell the time: [`NetworkReply::Clock`].
    Clock,
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
    /// Nanoseconds of the agent's clock, whose zero means nothing.
    Clock(u64),
    /// What was sent and checked.
    Passed(Box<Pass>),
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

impl Message for NetworkQuestion {
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

impl Pass {
    /// Whether the figures of another machine can be those of a pass by `plan`.
    ///
    /// # Errors
    /// [`Error::Wrong`] if they contradict each other or the plan.
    pub fn check(&self, plan: &Plan) -> Result<(), Error> {
        let timed = plan.load.traffic == Traffic::RoundTrips || plan.load.is_paced();
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
                self.latencies.count(),
                if timed { self.messages } else { 0 },
            ),
        ];
        for (what, told, right) in expected {
            if told != right {
                let what = format!("its figures have {told} {what}, where there are {right}");
                return Err(Error::Wrong(what));
            }
        }
        let one_way = self.one_way.unwrap_or(OneWay {
            sent: self.messages,
            ..OneWay::default()
        });
        let paced = self.one_way.is_some() == plan.load.is_paced()
            && self.messages <= one_way.sent
            && (one_way.drift.is_finite() && one_way.drift_error.is_finite());
        let sent = self.messages > 0 && !self.elapsed.is_zero() && self.late <= one_way.sent;
        let counted = (self.events.clone()).is_none_or(|mut events| events.tidy())
            && self.events.is_some() == plan.events;
        let sent = sent && counted;
        if !sent || !paced || self.elapsed > PASS_TIME_MAX || !slices_can_be(&self.slices) {
            return Err(Error::Wrong("its figures cannot be".into()));
        }
        Ok(())
    }
}

/// Whether they lie within a pass, and can be added up.
pub(super) fn slices_can_be(slices: &[Slice]) -> bool {
    let within = |slice: &Slice| slice.end <= PASS_TIME_MAX && slice.length <= PASS_TIME_MAX;
    let counts: [fn(&Slice) -> u64; 4] = [
        |slice| slice.lost,
        |slice| slice.bytes,
        |slice| slice.messages,
        |slice| slice.latency_sum_ns,
    ];
    let sum = |count: fn(&Slice) -> u64| {
        (slices.iter()).try_fold(0u64, |sum, slice| sum.checked_add(count(slice)))
    };
    slices.iter().all(within) && counts.into_iter().all(|count| sum(count).is_some())
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

/// One end, for one host.
struct RemoteEnd {
    role: Role,
    host: Host,
    /// Zero of the clock that it tells.
    origin: Instant,
    memory: Option<Reservation>,
    receiver: Option<Receiver>,
    client: Option<Client>,
}

impl ProbePeer for RemoteEnd {
    fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let reply = match NetworkQuestion::decode(question) {
            Ok(NetworkQuestion::Receive { load, cores }) => self.receive(load, cores),
            Ok(NetworkQuestion::Connect(plan)) => self.connect(*plan),
            Ok(NetworkQuestion::Clock) => {
                Ok(NetworkReply::Clock(nanoseconds(self.origin.elapsed())))
            }
            Ok(NetworkQuestion::Pass { limit, within_ns }) => self.pass(limit, within_ns),
            Err(error) => Err(Refusal::Question(error.to_string())),
        };
        reply.unwrap_or_else(NetworkReply::from).encode()
    }
}

/// Why a question has no other answer.
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
        Ok(NetworkReply::Connected {
            role: self.role,
            machine: thread_setup::machine(),
        })
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
        let mut pass = client.pass(limit, deadline)?;
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
