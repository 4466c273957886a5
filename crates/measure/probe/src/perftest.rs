//! Ends of an RDMA test by perftest's programs (`ib_write_lat`, `ib_send_bw`, ...) that an agent starts
//! for a host: the program that listens, or the one that connects to it and measures.
//!
//! ```text
//!   host                                  agent
//!   serve: what is measured          ->
//!                                    <-   listening: port and device
//!   (perftest's client comes to the port)
//!
//!   run: what is measured, and where ->
//!                                    <-   printed: what the client has printed
//! ```
//!
//! A host chooses among programs and numbers, never words of a command. A program ends with the
//! host's connection, and by itself when the test's time has ended. perftest does not authenticate:
//! the first client that reaches the port is served.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_link::agent::{
    CancellationToken, Host, MAX_PROBE_BYTES, MAX_TEXT_BYTES, Probe, ProbePeer,
};
use overside_link::codec::{CodecError, Message, clean};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::bounds::within;
use crate::dma::Operation;
use crate::failure::{Failure, FailureKind};

/// Probe kind under which hosts request perftest from an agent.
pub const KIND: &str = "perftest";
/// The longest message in bytes.
pub const MESSAGE_BYTES_MAX: u64 = 8 << 20;
/// The longest that perftest hands over inline.
const INLINE_BYTES_MAX: u64 = 912;
/// The longest that a test may take, in milliseconds.
const TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Largest number of bytes of a program's output that are kept; the tables that are read from it
/// have one row.
const PRINTED_BYTES_MAX: u64 = 64 << 10;
/// Longest time to wait for a server to listen.
const READY: Duration = Duration::from_secs(10);
/// Interval between two checks of a running program.
const LOOK: Duration = Duration::from_millis(10);
/// Directory in which Linux lists RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// Quantity that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// The time of one message at a time.
    Latency,
    /// Bandwidth with many messages in flight.
    Bandwidth,
}

/// Kinds of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Reliable.
    #[default]
    Rc,
    /// Unreliable.
    Uc,
    /// Datagrams.
    Ud,
    /// Reliable, with receive queues that connections share.
    Xrc,
}

impl Transport {
    /// Returns `true` if the transport has the verb. InfiniBand's specification, volume 1, 9.4:
    /// reads need a reliable connection, and datagrams only carry messages.
    pub fn has(self, operation: Operation) -> bool {
        match self {
            Self::Rc | Self::Xrc => true,
            Self::Uc => operation != Operation::Read,
            Self::Ud => operation == Operation::Send,
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
            Self::Xrc => "XRC",
        }
    }
}

/// A test of perftest's, the same at both ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Perftest {
    /// The verb.
    pub operation: Operation,
    /// Quantity that is measured: latency or bandwidth.
    pub metric: Metric,
    /// Type of connection between the ends.
    #[serde(default)]
    pub transport: Transport,
    /// This end's device; the first if absent.
    pub device: Option<String>,
    /// Bytes of a message.
    pub message_size: u64,
    /// Messages.
    pub iterations: u64,
    /// Messages in flight; bandwidth only.
    pub depth: Option<u64>,
    /// Connections; bandwidth only.
    pub queue_pairs: Option<u64>,
    /// Completions are slept for; else polled for.
    #[serde(default)]
    pub event: bool,
    /// The payload is copied into the queue when it is posted.
    #[serde(default)]
    pub inline: bool,
}

impl Perftest {
    /// Checks that perftest has such a test, and that every number is within its bounds.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`], with the bound.
    pub fn check(&self) -> Result<(), Failure> {
        within("message_size", self.message_size, 1, MESSAGE_BYTES_MAX)?;
        within("iterations", self.iterations, 5, 100_000_000)?;
        within("depth", self.depth.unwrap_or(1), 1, 16384)?;
        within("queue_pairs", self.queue_pairs.unwrap_or(1), 1, 1024)?;
        let (transport, verb) = (self.transport.option(), self.operation.name());
        if !self.transport.has(self.operation) {
            let message = format!("{transport} connections have no {verb}");
            return Err(Failure::unsupported(message));
        }
        if self.inline && self.operation == Operation::Read {
            let message = "a read has no payload to hand over inline";
            return Err(Failure::unsupported(message));
        }
        if self.inline {
            // perftest's own bound, whatever the device takes.
            within("message_size", self.message_size, 1, INLINE_BYTES_MAX)?;
        }
        let polls_only = (Operation::Write, Metric::Latency);
        if self.event && (self.operation, self.metric) == polls_only {
            let message = "nothing completes where a write ends: ib_write_lat only polls";
            return Err(Failure::unsupported(message));
        }
        let is_word = |name: &String| {
            (1..=64).contains(&name.len())
                && name.starts_with(|one: char| one.is_ascii_alphanumeric())
                && (name.chars()).all(|one| one.is_ascii_alphanumeric() || "_-.".contains(one))
        };
        if self.device.as_ref().is_some_and(|name| !is_word(name)) {
            return Err(Failure::unsupported("the RDMA device's name is none"));
        }
        Ok(())
    }

    /// The program.
    pub fn program(&self) -> String {
        let suffix = match self.metric {
            Metric::Latency => "lat",
            Metric::Bandwidth => "bw",
        };
        format!("ib_{}_{suffix}", self.operation.name())
    }

    /// Returns the command that starts either end; for the client, the server's address is added at
    /// the end.
    pub fn command(&self, port: u16) -> Vec<String> {
        // `-F`: no complaint about the governor before the table.
        let mut words = vec![self.program(), "-F".into()];
        let mut option = |name: &str, value: String| words.extend([name.into(), value]);
        option("-p", port.to_string());
        option("-c", self.transport.option().into());
        if let Some(device) = &self.device {
            option("-d", device.clone());
        }
        option("-s", self.message_size.to_string());
        option("-n", self.iterations.to_string());
        if self.operation != Operation::Read {
            // Each of the programs has a default of its own.
            option("-I", if self.inline { self.message_size } else { 0 }.to_string());
        }
        if self.metric == Metric::Bandwidth {
            option("-q", self.queue_pairs.unwrap_or(1).to_string());
            option("-t", self.depth.unwrap_or(1).to_string());
            words.push("--report_gbits".into());
        }
        if self.event {
            words.push("-e".into());
        }
        words
    }
}

/// An RDMA device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdmaDevice {
    /// Name of the device, such as `mlx5_0`.
    pub name: String,
    /// The network interface that it sends over in software; absent if it is a card.
    pub software_over: Option<String>,
}

/// The RDMA devices of this machine, by name.
pub fn devices() -> Vec<RdmaDevice> {
    devices_in(Path::new(DEVICES))
}

fn devices_in(directory: &Path) -> Vec<RdmaDevice> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<RdmaDevice> = entries
        .filter_map(|entry| {
            // Drivers in software (rxe, siw) say which interface they stand on.
            let parent = std::fs::read_to_string(entry.path().join("parent"));
            let name = entry.file_name().into_string().ok()?;
            let over = parent.ok().map(|text| clean(text.trim(), 64));
            Some(RdmaDevice { name: clean(&name, 64), software_over: over })
        })
        .collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Request from a host to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum PerftestRequest {
    /// Wait for a client. [`PerftestReply::Listening`].
    Serve {
        /// Test that the program runs.
        test: Perftest,
        /// Longest time that the program may run, in milliseconds.
        timeout_ms: u64,
    },
    /// Go to a server and measure. [`PerftestReply::Printed`].
    Run {
        /// Test that the program runs.
        test: Perftest,
        /// Address of the server.
        server: IpAddr,
        /// Port of the server.
        port: u16,
        /// Longest time that the program may run, in milliseconds.
        timeout_ms: u64,
    },
}

/// Answer of an agent to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PerftestReply {
    /// The agent listens; the client can connect.
    Listening {
        /// Port of the agent's machine.
        port: u16,
        /// RDMA device that the server uses.
        device: RdmaDevice,
    },
    /// The client is done.
    Printed {
        /// Output of the client program.
        text: String,
        /// RDMA device that the client used.
        device: RdmaDevice,
    },
    /// The request failed.
    Failed(Failure),
}

impl Message for PerftestRequest {
    const MAX_BYTES: usize = 64 << 10;
}

impl Message for PerftestReply {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        match self {
            Self::Failed(failure) => failure.message = clean(&failure.message, MAX_TEXT_BYTES),
            Self::Listening { device, .. } | Self::Printed { device, .. } => {
                device.name = clean(&device.name, 64);
                device.software_over = device.software_over.take().map(|name| clean(&name, 64));
            }
        }
        Ok(())
    }
}

/// The agent's part, as a kind of probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct PerftestProbe;

impl Probe for PerftestProbe {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        Ok(Box::new(RemoteEnd { cancelled: host.cancelled, server: None }))
    }
}

/// The end at an agent: starts the program that serves the host's.
struct RemoteEnd {
    cancelled: CancellationToken,
    /// Program that runs until the host disconnects.
    server: Option<Program>,
}

impl ProbePeer for RemoteEnd {
    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let unreadable =
            |error: CodecError| Failure::new(FailureKind::Job, format!("the request: {error}"));
        let request = PerftestRequest::decode(request).map_err(unreadable);
        let reply = request.and_then(|request| self.reply(request));
        reply.unwrap_or_else(PerftestReply::Failed).encode()
    }
}

impl RemoteEnd {
    fn reply(&mut self, request: PerftestRequest) -> Result<PerftestReply, Failure> {
        // A host has one program at a time.
        self.server = None;
        match request {
            PerftestRequest::Serve { test, timeout_ms } => {
                let (test, device) = with_device(test)?;
                let port = free_port().map_err(|error| cannot(&error))?;
                let program = Program::start(test.command(port), None, timeout_ms)?;
                let program = program.listening(port, &self.cancelled)?;
                self.server = Some(program);
                Ok(PerftestReply::Listening { port, device })
            }
            PerftestRequest::Run { test, server, port, timeout_ms } => {
                let (test, device) = with_device(test)?;
                let program = Program::start(test.command(port), Some(server), timeout_ms)?;
                let text = program.finish(&self.cancelled)?;
                Ok(PerftestReply::Printed { text, device })
            }
        }
    }
}

/// Finds the device of the test, and returns both.
fn with_device(mut test: Perftest) -> Result<(Perftest, RdmaDevice), Failure> {
    test.check()?;
    let mut known = devices().into_iter();
    let found = match &test.device {
        Some(name) => known.find(|device| device.name == *name),
        None => known.next(),
    };
    let device = found.ok_or_else(|| {
        Failure::unsupported(match &test.device {
            Some(name) => format!("no RDMA device {name}"),
            None => "no RDMA device: a network card with RDMA and its driver are needed".into(),
        })
    })?;
    test.device = Some(device.name.clone());
    Ok((test, device))
}

fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    Ok(listener.local_addr()?.port())
}

fn cannot(error: &io::Error) -> Failure {
    Failure::new(FailureKind::Job, format!("perftest cannot be started: {error}"))
}

/// A running program. Dropping it ends it and its children.
struct Program {
    name: String,
    child: Child,
    deadline: Instant,
    /// Thread that reads the program's output, up to [`PRINTED_BYTES_MAX`].
    output: Option<JoinHandle<Vec<u8>>>,
}

impl Program {
    /// Starts a program in a process group of its own, which `timeout` (coreutils) ends even if this process
    /// is gone.
    fn start(
        command: Vec<String>,
        server: Option<IpAddr>,
        timeout_ms: u64,
    ) -> Result<Self, Failure> {
        within("timeout_ms", timeout_ms, 1, TIMEOUT_MS_MAX)?;
        let name = command.first().cloned().unwrap_or_default();
        let is_there = std::env::var_os("PATH").is_some_and(|path| {
            std::env::split_paths(&path).any(|directory| directory.join(&name).is_file())
        });
        if !is_there {
            let message = format!("no {name}: apt-get install perftest");
            return Err(Failure::unsupported(message));
        }
        let limit = Duration::from_millis(timeout_ms);
        let mut words: Vec<OsString> =
            ["--signal=KILL".into(), limit.as_secs_f64().to_string().into()].into();
        words.extend(command.into_iter().map(OsString::from));
        words.extend(server.map(|address| address.to_string().into()));
        let started = || -> io::Result<Self> {
            let (reader, writer) = io::pipe()?;
            let child = Command::new("timeout")
                .args(&words)
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(writer.try_clone()?)
                .stderr(writer)
                .spawn()?;
            let mut program = Self { name, child, deadline: Instant::now() + limit, output: None };
            let read = std::thread::Builder::new().name("perftest".into());
            program.output = Some(read.spawn(move || printed(reader))?);
            Ok(program)
        };
        started().map_err(|error| cannot(&error))
    }

    /// Waits until a program listens at that port.
    fn listening(mut self, port: u16, cancelled: &CancellationToken) -> Result<Self, Failure> {
        let end = self.deadline.min(Instant::now() + READY);
        while !listens(port) {
            if self.has_ended()? || Instant::now() >= end {
                return Err(self.failure("did not listen", FailureKind::Job));
            }
            self.look(cancelled)?;
        }
        Ok(self)
    }

    /// Waits until the program has ended by itself, and returns its output.
    fn finish(mut self, cancelled: &CancellationToken) -> Result<String, Failure> {
        while !self.has_ended()? {
            if Instant::now() >= self.deadline {
                return Err(self.failure("was not done in time", FailureKind::Timeout));
            }
            self.look(cancelled)?;
        }
        let status = self.child.wait().map_err(|error| cannot(&error))?;
        match status.success() {
            true => Ok(self.text()),
            false => Err(self.failure(&format!("ended with {status}"), FailureKind::Job)),
        }
    }

    fn look(&self, cancelled: &CancellationToken) -> Result<(), Failure> {
        if cancelled.is_cancelled() {
            return Err(Failure::new(FailureKind::Lost, "the host has gone"));
        }
        std::thread::sleep(LOOK);
        Ok(())
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        let status = self.child.try_wait().map_err(|error| cannot(&error))?;
        Ok(status.is_some())
    }

    fn text(&mut self) -> String {
        self.end();
        let bytes = self.output.take().and_then(|output| output.join().ok());
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }

    fn failure(&mut self, what: &str, kind: FailureKind) -> Failure {
        let text = self.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let said = words.join(" ");
        let tail: String =
            said.chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect();
        let message = format!("{} {what}: {tail}", self.name);
        Failure::new(kind, clean(&message, MAX_TEXT_BYTES))
    }

    fn end(&mut self) {
        // One that has not been waited for has its number for itself.
        let runs = matches!(self.child.try_wait(), Ok(None));
        if let (true, Some(group)) = (runs, Pid::from_raw(self.child.id().cast_signed())) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
        if let Some(output) = self.output.take() {
            let _ = output.join();
        }
    }
}

/// All that comes, of which the beginning is kept: a program that prints more is not to stand still.
fn printed(mut from: PipeReader) -> Vec<u8> {
    let mut kept = Vec::new();
    let _ = from.by_ref().take(PRINTED_BYTES_MAX).read_to_end(&mut kept);
    let _ = io::copy(&mut from, &mut io::sink());
    kept
}

/// Returns `true` if a program listens at that port, in this network namespace.
fn listens(port: u16) -> bool {
    const LISTENING: &str = "0A";
    let ending = format!(":{port:04X}");
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().any(|table| {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        text.lines().skip(1).any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields.next().unwrap_or_default();
            local.ends_with(&ending) && fields.nth(1) == Some(LISTENING)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_in_software_say_what_they_stand_on() {
        let directory = std::env::temp_dir().join(format!("overside-rdma-{}", std::process::id()));
        for name in ["rxe0", "mlx5_0"] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
        }
        std::fs::write(directory.join("rxe0/parent"), "eth0\n").unwrap();
        let found = devices_in(&directory);
        let told: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), one.software_over.as_deref())).collect();
        assert_eq!(told, [("mlx5_0", None), ("rxe0", Some("eth0"))]);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(devices_in(&directory).is_empty());
    }

    #[test]
    fn a_program_ends_with_its_host_and_what_it_prints_is_bounded() {
        let cancelled = CancellationToken::default();
        let words = |command: &[&str]| command.iter().map(|&word| word.to_owned()).collect();
        let yes = Program::start(words(&["yes"]), None, 200).unwrap();
        let failure = yes.finish(&cancelled).unwrap_err();
        assert!(failure.message.len() < 400, "{failure}");
        let quick = Program::start(words(&["echo", "a", "b"]), None, 20_000).unwrap();
        assert_eq!(quick.finish(&cancelled).unwrap(), "a b\n");
        let failing = Program::start(words(&["false"]), None, 20_000).unwrap();
        let failure = failing.finish(&cancelled).unwrap_err();
        assert!(failure.message.starts_with("false ended with"), "{failure}");
        cancelled.cancel();
        let begun = Instant::now();
        let sleeping = Program::start(words(&["sleep", "60"]), None, 60_000).unwrap();
        assert_eq!(sleeping.finish(&cancelled).unwrap_err().kind, FailureKind::Lost);
        assert!(begun.elapsed() < Duration::from_secs(30));
        let absent = Program::start(words(&["ib_no_such"]), None, 1000).err().unwrap();
        assert_eq!(absent.kind, FailureKind::Unsupported);
    }
}
