//! The two ends of a test: in this process, or played by agents.

use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use overside_backends::agents::{ProbeError, RemoteProbe};
use overside_link::Secret;
use overside_link::agent::CancellationToken;
use overside_link::codec::Message;
use overside_probe::network::remote::{self, FailedKind, NetworkReply, NetworkRequest};
use overside_probe::network::{
    Client, ClockOffset, Echo, Error, Limit, Pass, Plan, ReceiverConfig, Role, machine,
};

use super::{NetworkTest, no_sample};
use overside_probe::{Failure, FailureKind};

/// Time by which an agent gives up a pass before this end does, so that the agent can still report
/// it.
const HEAD_START: Duration = Duration::from_secs(1);

/// Intervals at which this process checks that the agent at the other end is still connected.
/// `LOOK_HERE` is used while this process sends: sending is measured, and must not wait for the
/// check at its end. `LOOK_THERE` is used while another agent sends.
const LOOK_HERE: Duration = Duration::from_millis(20);
const LOOK_THERE: Duration = Duration::from_millis(250);

/// Echoes that relate the clock of an agent that sends to this machine's: this one's has the times
/// of jobs.
const ECHOES: usize = 8;

/// Both ends, with all connections between them open.
pub(super) struct Ends {
    sender: Sender,
    receiver: Receiver,
    /// The server's address.
    pub destination: SocketAddr,
    /// Location of the client.
    pub client: EndLocation,
    /// Location of the server.
    pub server: EndLocation,
}

/// Location of an end: the owner and the machine of the cores that it runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndLocation {
    pub role: Role,
    /// This machine's.
    pub here: bool,
    machine: u64,
}

impl EndLocation {
    /// This process's.
    fn ours() -> Self {
        Self { role: Role::Host, here: true, machine: machine() }
    }

    /// Makes an end. `whose` is 0 for a machine without an identity.
    fn new(role: Role, whose: u64) -> Self {
        Self { role, here: whose != 0 && whose == machine(), machine: whose }
    }

    /// Both ends run on the same machine.
    pub(super) fn is_beside(self, other: Self) -> bool {
        self.machine != 0 && self.machine == other.machine
    }
}

/// End that sends and measures the time: this process or an agent.
enum Sender {
    Here(Box<Client>),
    There(Box<RemoteProbe>, Box<Plan>),
}

/// End that answers: this process or an agent. It is kept for as long as the test runs.
enum Receiver {
    Here { _receiver: overside_probe::network::Receiver },
    There(Box<RemoteProbe>),
}

impl Ends {
    /// Opens the ends of a test.
    pub(super) fn open(test: &NetworkTest, deadline: Instant) -> Result<Self, Failure> {
        let source = test.source_node.as_deref();
        let source = source.map(|node| crate::remote_end::open(node, remote::KIND));
        let source = source.transpose()?;
        let Receiving { mut receiver, destination, secret, whose: server } =
            receiver(test, source.as_ref(), deadline)?;
        let plan = test.plan(destination, secret);
        let Some(mut probe) = source else {
            let cancelled = CancellationToken::default();
            let open = || Client::open_for(plan, cancelled.clone());
            let client = receiver.watched(|| cancelled.cancel(), open)?;
            return Ok(Self {
                receiver,
                destination,
                client: EndLocation::ours(),
                server,
                sender: Sender::Here(Box::new(client)),
            });
        };
        if let Some(reason) = no_way(&probe, destination) {
            return Err(Failure::unsupported(reason));
        }
        let plan = Box::new(plan);
        let request = NetworkRequest::Connect(plan.clone());
        let connected = ask_beside(&mut probe, &request, deadline, &mut receiver)?;
        let NetworkReply::Connected { role, machine } = connected else {
            return Err(something_else(&probe));
        };
        Ok(Self {
            sender: Sender::There(Box::new(probe), plan),
            receiver,
            destination,
            client: EndLocation::new(role, machine),
            server,
        })
    }

    /// Sends until `limit` is reached; see [`Client::pass`].
    pub(super) fn pass(
        &mut self,
        limit: Limit,
        deadline: Instant,
        started: impl FnOnce(),
    ) -> Result<Pass, Failure> {
        match &mut self.sender {
            Sender::Here(client) => {
                let interrupter = client.interrupter().map_err(no_sample)?;
                let pass = || client.pass(limit, deadline, started);
                self.receiver.watched(|| interrupter.interrupt(), pass)
            }
            Sender::There(probe, plan) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let within = left.saturating_sub(HEAD_START).max(left / 2);
                let asked = Instant::now();
                let offset = clock_offset(probe, asked, deadline)?;
                let request = NetworkRequest::Pass {
                    limit,
                    within_ns: u64::try_from(within.as_nanos()).unwrap_or(u64::MAX).max(1),
                };
                started();
                let passed = ask_beside(probe, &request, deadline, &mut self.receiver)?;
                let NetworkReply::Passed(pass) = passed else {
                    return Err(something_else(probe));
                };
                let wrong = |error: &dyn std::fmt::Display| {
                    of(probe.node(), FailureKind::Verification, error)
                };
                pass.check(plan).map_err(|error| wrong(&error))?;
                let start_ns = (pass.started_ns.cast_signed()).checked_sub(offset.middle_ns());
                let start = start_ns.and_then(|ns| {
                    let within_error = ns.saturating_add_unsigned(offset.error_ns()).max(0);
                    asked.checked_add(Duration::from_nanos(within_error.cast_unsigned()))
                });
                match start.filter(|start| *start <= Instant::now()) {
                    Some(start) => Ok(Pass { start, ..*pass }),
                    None => Err(wrong(&"it says that it began at a time that cannot be")),
                }
            }
        }
    }

    /// Neither end is on this machine.
    pub(super) fn are_elsewhere(&self) -> bool {
        !self.client.here && !self.server.here
    }

    /// Makes agents free the test's resources before the next test.
    pub(super) fn close(self) {
        // One that does not answer is found out by the next test.
        if let Sender::There(probe, _) = self.sender {
            let _ = probe.close();
        }
        if let Receiver::There(probe) = self.receiver {
            let _ = probe.close();
        }
    }
}

/// Measures the offset between the sending agent's clock and the time since `origin`.
fn clock_offset(
    source: &mut RemoteProbe,
    origin: Instant,
    deadline: Instant,
) -> Result<ClockOffset, Failure> {
    let now_ns = || crate::sample::nanoseconds(origin.elapsed());
    let mut echoes = Vec::new();
    for _ in 0..ECHOES {
        let sent_ns = now_ns();
        let NetworkReply::Clock(there_ns) = ask(source, &NetworkRequest::Clock, deadline)? else {
            return Err(something_else(source));
        };
        echoes.push(Echo { sent_ns, there_ns, back_ns: now_ns() });
    }
    ClockOffset::estimate(&echoes).ok_or_else(|| something_else(source))
}

/// End that answers, with the data that the client needs to reach it.
struct Receiving {
    receiver: Receiver,
    destination: SocketAddr,
    /// Secret that the client must know.
    secret: Secret,
    whose: EndLocation,
}

fn receiver(
    test: &NetworkTest,
    source: Option<&RemoteProbe>,
    deadline: Instant,
) -> Result<Receiving, Failure> {
    if let Some(node) = &test.destination_node {
        let mut probe = crate::remote_end::open(node, remote::KIND)?;
        let request =
            NetworkRequest::Receive { load: test.load(), cores: test.server_cores.clone() };
        let NetworkReply::Receiving { port, secret, role, machine } =
            ask(&mut probe, &request, deadline)?
        else {
            return Err(something_else(&probe));
        };
        // Where the agent is reached, its end of the test is.
        let mut destination = probe.there();
        destination.set_port(port);
        return Ok(Receiving {
            receiver: Receiver::There(Box::new(probe)),
            destination,
            secret,
            whose: EndLocation::new(role, machine),
        });
    }
    let mut address = match (&test.hop, source) {
        (Some(hop), _) => (hop.server_address, 0).into(),
        (None, Some(source)) => source.here(),
        (None, None) => (Ipv4Addr::LOCALHOST, 0).into(),
    };
    address.set_port(0);
    let secret = Secret::random().map_err(|source| {
        let what = "a secret".into();
        no_sample(Error::System { what, source })
    })?;
    let config = ReceiverConfig {
        load: test.load(),
        secret,
        namespace: test.hop.as_ref().map(|hop| hop.server_namespace.clone()),
        cores: test.server_cores.clone(),
    };
    let receiver = overside_probe::network::Receiver::listen(address, config);
    let receiver = receiver.map_err(no_sample)?;
    Ok(Receiving {
        destination: receiver.address(),
        receiver: Receiver::Here { _receiver: receiver },
        secret,
        whose: EndLocation::ours(),
    })
}

/// Returns the reason if an agent certainly cannot reach the server: the server's address is a
/// loopback address of another machine. `None` otherwise.
fn no_way(source: &RemoteProbe, destination: SocketAddr) -> Option<String> {
    let inside = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    (inside(destination) && !inside(source.there())).then(|| {
        format!(
            "the destination is at {destination}, which is the same machine and not another one for \
             {node}: give it an address of the network between the two (`overside agents add`)",
            node = source.node()
        )
    })
}

impl Receiver {
    /// Runs this process's end, and checks meanwhile that the agent that plays the other is still
    /// there: if not, `interrupt` ends the run.
    fn watched<T>(
        &mut self,
        interrupt: impl Fn() + Sync,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let Self::There(probe) = self else {
            return work().map_err(no_sample);
        };
        let with = format!("with {}", probe.node());
        let is_done = AtomicBool::new(false);
        let (done, lost) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| {
                while !is_done.load(Ordering::Acquire) {
                    if let Err(lost) = probe.watch(Instant::now() + LOOK_HERE) {
                        interrupt();
                        return Some(lost);
                    }
                }
                None
            });
            // A panic passes through here only after the watching has ended.
            let done = catch_unwind(AssertUnwindSafe(work));
            is_done.store(true, Ordering::Release);
            let lost = watching.join().expect("watching does not panic");
            (done.unwrap_or_else(|panic| resume_unwind(panic)), lost)
        });
        done.map_err(|error| match (lost, no_sample(error)) {
            (Some(lost), _) => crate::remote_end::no_sample(lost),
            (None, failure) if failure.kind == FailureKind::Unsupported => failure,
            (None, failure) => of(&with, failure.kind, &failure.message),
        })
    }
}

/// Sends a request to the sending agent, and checks meanwhile that the answering agent is still there.
fn ask_beside(
    source: &mut RemoteProbe,
    request: &NetworkRequest,
    deadline: Instant,
    receiver: &mut Receiver,
) -> Result<NetworkReply, Failure> {
    use crate::remote_end::no_sample;
    source.tell(&request.encode()).map_err(no_sample)?;
    loop {
        let until = deadline.min(Instant::now() + LOOK_THERE);
        if let Some(answer) = source.answer_until(until).map_err(no_sample)? {
            return reply(source, &answer);
        }
        if until == deadline {
            let node = source.node().to_owned();
            return Err(no_sample(ProbeError::Late { node }));
        }
        if let Receiver::There(probe) = receiver {
            let moment = Instant::now() + Duration::from_millis(1);
            probe.watch(moment).map_err(no_sample)?;
        }
    }
}

/// Sends a request to an agent. Returns its answer, or the failure that it reports.
fn ask(
    probe: &mut RemoteProbe,
    request: &NetworkRequest,
    deadline: Instant,
) -> Result<NetworkReply, Failure> {
    let answer = probe.ask(&request.encode(), deadline);
    reply(probe, &answer.map_err(crate::remote_end::no_sample)?)
}

fn reply(probe: &RemoteProbe, answer: &[u8]) -> Result<NetworkReply, Failure> {
    match NetworkReply::decode(answer) {
        Ok(NetworkReply::Failed { kind, message }) => {
            let kind = match kind {
                FailedKind::Wrong => FailureKind::Verification,
                FailedKind::Closed => FailureKind::Lost,
                FailedKind::Timeout => FailureKind::Timeout,
                FailedKind::Question | FailedKind::Other => FailureKind::Job,
            };
            Err(of(probe.node(), kind, &message))
        }
        Ok(reply) => Ok(reply),
        Err(error) => Err(of(probe.node(), FailureKind::Job, &error)),
    }
}

fn something_else(probe: &RemoteProbe) -> Failure {
    of(probe.node(), FailureKind::Job, &"it answers something else")
}

/// A failure, and whose.
fn of(node: &str, kind: FailureKind, what: &dyn std::fmt::Display) -> Failure {
    Failure::new(kind, format!("{node}: {what}"))
}
