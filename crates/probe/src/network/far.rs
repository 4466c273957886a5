//! An end of a network test that an agent plays for a host: the host asks, the agent answers, both
//! in JSON.
//!
//! ```text
//!   host                              agent
//!   serve                        ->
//!                                <-   serving: a port, and the token that a client has to know
//!
//!   connect: what to send where  ->
//!                                <-   connected
//!   pass: how long               ->
//!                                <-   passed: what came of it
//! ```
//!
//! A server is a [`Server`] of one session, at the address that the host has reached the agent at. It
//! lives as long as the host's connection to the agent. [`Told::Failed`] may be the answer to anything.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use overside_link::agent::{Host, Part, Probe, clean};
use serde::{Deserialize, Serialize};

use super::client::{Client, Limit, Pass, Slice};
use super::server::{Options, Server};
use super::{Error, Plan, Role, Token, Traffic, cores_within, place, within};
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
pub enum Ask {
    /// Answer one client. Once, and first.
    Serve {
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
pub enum Told {
    /// It answers whoever knows the token.
    Serving {
        /// The port, of the address that the host has reached the agent at.
        port: u16,
        /// What the client has to know.
        token: Token,
    },
    /// All connections are open.
    Connected {
        /// Whose cores the client's are.
        role: Role,
        /// Which machine the client runs on, as [`super::machine`] tells it.
        machine: u64,
        /// Whose cores the server says that its are.
        server_role: Role,
        /// Which machine the server says that it runs on.
        server_machine: u64,
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
    connection_bytes: Vec<u64>,
    writes: u64,
    client_cpu_ns: u64,
    server_cpu_ns: u64,
    late: u64,
    /// The fields of [`Slice`].
    slices: Vec<[u64; 6]>,
    latencies: PlainLatencies,
}

impl Ask {
    /// As it is sent.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }
}

impl Told {
    /// Reads one. Texts are cut and have no control characters.
    ///
    /// # Errors
    /// [`Error::Wrong`] if it is none.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        let mut told = serde_json::from_slice(json).map_err(|error| {
            let error = clean(&error.to_string(), TEXT_MAX);
            Error::Wrong(format!("an answer cannot be read: {error}"))
        })?;
        if let Self::Failed { message, .. } = &mut told {
            *message = clean(message, TEXT_MAX);
        }
        Ok(told)
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
        let trips = plan.traffic == Traffic::RoundTrips;
        let sum = (self.connection_bytes.iter()).try_fold(0u64, |sum, &one| sum.checked_add(one));
        let expected = [
            (
                "connections",
                self.connection_bytes.len() as u64,
                plan.connections as u64,
            ),
            ("bytes", sum.unwrap_or(u64::MAX), self.bytes),
            (
                "bytes of messages",
                self.messages.saturating_mul(plan.message_bytes as u64),
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
pub struct Far {
    /// Whose cores these are.
    pub role: Role,
}

impl Probe for Far {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn Part>, String> {
        Ok(Box::new(End {
            role: self.role,
            host,
            server: None,
            client: None,
        }))
    }
}

/// One end, for one host.
struct End {
    role: Role,
    host: Host,
    server: Option<Server>,
    client: Option<(Client, Plan)>,
}

impl Part for End {
    fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let told = match serde_json::from_slice(question) {
            Ok(Ask::Serve { cores }) => self.serve(cores),
            Ok(Ask::Connect(plan)) => self.connect(*plan),
            Ok(Ask::Pass { limit, within_ns }) => self.pass(limit, within_ns),
            Err(error) => Err(Trouble::Question(format!("it is no question: {error}"))),
        };
        encode(&told.unwrap_or_else(Told::from))
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

impl From<Trouble> for Told {
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
            Error::Unreachable { .. }
            | Error::Stranger { .. }
            | Error::Refused { .. }
            | Error::System { .. } => Self::Other,
        }
    }
}

impl End {
    fn serve(&mut self, cores: Option<Vec<usize>>) -> Result<Told, Trouble> {
        if self.server.is_some() || self.client.is_some() {
            return Err(out_of_turn("this end is one already"));
        }
        cores_within(cores.as_deref())?;
        let token = Token::fresh().map_err(Error::system("a token"))?;
        let options = Options {
            role: self.role,
            cores,
            sessions_max: 1,
            token: Some(token.clone()),
            ..Options::default()
        };
        let mut address: SocketAddr = self.host.here;
        address.set_port(0);
        let server = self.server.insert(Server::start(address, options)?);
        let port = server.address().port();
        Ok(Told::Serving { port, token })
    }

    fn connect(&mut self, plan: Plan) -> Result<Told, Trouble> {
        if self.server.is_some() || self.client.is_some() {
            return Err(out_of_turn("this end is one already"));
        }
        if let Some(slice) = plan.slice {
            let least = Duration::from_micros(50).as_secs_f64();
            within("slice", slice.as_secs_f64(), least, 3600.0)?;
        }
        let client = Client::open_for(plan.clone(), self.host.gone.clone())?;
        let told = Told::Connected {
            role: self.role,
            machine: place::machine(),
            server_role: client.role(),
            server_machine: client.server_machine(),
        };
        self.client = Some((client, plan));
        Ok(told)
    }

    fn pass(&mut self, limit: Limit, within_ns: u64) -> Result<Told, Trouble> {
        within("within_ns", within_ns, 1, PASS_NS_MAX)?;
        if let Limit::Time(time) = limit {
            within("time_ns", nanoseconds(time), 1, SENDING_NS_MAX)?;
        }
        // A client whose pass went wrong is of no use.
        let Some((mut client, plan)) = self.client.take() else {
            return Err(out_of_turn("there are no connections to send over"));
        };
        let deadline = Instant::now() + Duration::from_nanos(within_ns);
        let mut records: Vec<Latencies> = (0..plan.threads).map(|_| Latencies::new()).collect();
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
        Ok(Told::Passed(Box::new(Passed::new(&pass, &latencies))))
    }
}

fn out_of_turn(text: &str) -> Trouble {
    Trouble::Question(text.into())
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    // Strings, numbers and lists; there is no map whose keys might not be strings.
    serde_json::to_vec(message).expect("a message is JSON")
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
