//! Process that measures tests for an agent: one line of JSON in, one out, over a socket that is
//! its stdin. Output of libraries is separated from it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_link::agent::MAX_PROBE_BYTES;
use overside_probe::{Failure, FailureKind};
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::{Map, Value};

use crate::begin::Begin;
use crate::tasks::{AnyTest, resolve_all};
use crate::test::TestError;
use crate::worker::Worker;

/// The verb of the command `overside` that is such a process. For agents only.
pub const WORKER_VERB: &str = "measure-worker";
/// The allocator keeps freed memory, as in the worker processes of a host: otherwise page faults in
/// the sample depend on the addresses of buffers.
const ALLOCATOR: &str =
    "glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=268435456";
/// The key of a test that waits after its verification, and the messages then on lines of their
/// own: the worker's, and the agent's.
pub(super) const WAITS: &str = "waits";
pub(super) const READY: &str = "ready";
pub(super) const BEGIN: &str = "begin";
pub(super) const BEGUN: &str = "begun";
/// Interval at which the agent checks whether the host is still connected.
const LOOK: Duration = Duration::from_millis(50);
/// Longest time to wait for a process to exit after its socket has closed or failed.
const ENDING: Duration = Duration::from_secs(2);

/// Measures incoming tests until the input ends. Ends the process at once, in any state, when its parent
/// has ended.
///
/// # Errors
/// The system's error about stdin, which must be a socket.
pub fn serve_tests() -> io::Result<()> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let mut parent = UnixStream::from(stdin);
    let lines = BufReader::new(parent.try_clone()?);
    let (say, tests) = sync_channel(1);
    std::thread::Builder::new().name("tests".into()).spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if say.send(line).is_err() {
                break;
            }
        }
        std::process::exit(0);
    })?;
    let (lines, mut worker) = (Arc::new(Mutex::new(tests)), Worker::new());
    loop {
        let Ok(test) = lock(&lines).recv() else {
            return Ok(());
        };
        let sample = match waiting_test(&test) {
            Some(test) => {
                let begin = begin_when_told(parent.try_clone()?, Arc::clone(&lines));
                test.map(|mut test| worker.measure_beside(&mut test, begin).to_json())
            }
            None => worker.measure_json(&test),
        };
        let sample = sample.unwrap_or_else(|error| {
            let failure = Failure::new(FailureKind::Internal, error.to_string());
            crate::Sample::failed(failure).to_json()
        });
        parent.write_all(format!("{sample}\n").as_bytes())?;
    }
}

/// Parses a test that waits; `None` if it is another one.
fn waiting_test(line: &str) -> Option<Result<AnyTest, TestError>> {
    let mut test: Map<String, Value> = serde_json::from_str(line).ok()?;
    test.remove(WAITS)?;
    resolve_all(&mut test);
    Some(AnyTest::parse_beside(&Value::Object(test)))
}

/// Says that everything is verified, and waits for the word.
fn begin_when_told(parent: UnixStream, lines: Arc<Mutex<Receiver<String>>>) -> Begin {
    Begin::new(move || {
        // Where the agent has gone, this process is ended; any line is the word.
        let _ = (&parent).write_all(format!("{READY}\n").as_bytes());
        let _ = lock(&lines).recv();
        let _ = (&parent).write_all(format!("{BEGUN}\n").as_bytes());
    })
}

/// Command line that starts a worker process.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
}

/// The agent's end of a worker process. Dropping it ends the process.
pub(super) struct WorkerProcess {
    child: Child,
    socket: UnixStream,
    /// Bytes received after the last complete line.
    received: Vec<u8>,
}

impl WorkerProcess {
    pub(super) fn start(command: &WorkerCommand) -> Result<Self, Failure> {
        let failed = |error: &io::Error| {
            let text = format!("the agent cannot start a worker: {error}");
            Failure::new(FailureKind::Lost, text)
        };
        let started = || -> io::Result<Self> {
            let (socket, theirs) = UnixStream::pair()?;
            socket.set_nonblocking(true)?;
            let child = Command::new(&command.program)
                .args(&command.arguments)
                .stdin(OwnedFd::from(theirs))
                .stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?))
                .env("GLIBC_TUNABLES", tunables())
                .spawn()?;
            Ok(Self { child, socket, received: Vec::new() })
        };
        started().map_err(|error| failed(&error))
    }

    /// Writes `test`, unless it is empty, and waits for a line: the sample as JSON, or the earlier
    /// notice of a test that waits. After a failure the process is of no use any more.
    ///
    /// # Errors
    /// [`Failure`]: the process died, took too long, or the caller has cancelled.
    pub(super) fn measure(
        &mut self,
        test: &str,
        deadline: Instant,
        is_over: impl Fn() -> bool,
    ) -> Result<String, Failure> {
        let mut unsent = match test.is_empty() {
            true => Vec::new(),
            false => format!("{test}\n").into_bytes(),
        };
        loop {
            if !unsent.is_empty() {
                match self.socket.write(&unsent) {
                    Ok(count) => drop(unsent.drain(..count)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return Err(self.died()),
                }
            }
            if let Some(line) = self.line()? {
                return Ok(line);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let text = "the worker had no sample when the time was over, and was ended";
                return Err(Failure::new(FailureKind::Timeout, text));
            }
            if is_over() {
                return Err(Failure::new(FailureKind::Lost, "the host has gone"));
            }
            self.wait(!unsent.is_empty(), left.min(LOOK));
        }
    }

    /// Returns a line, if a whole one has arrived.
    fn line(&mut self) -> Result<Option<String>, Failure> {
        let mut chunk = [0; 1 << 16];
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(end + 1);
                let line = std::mem::replace(&mut self.received, rest);
                let line = String::from_utf8(line).map(|line| line.trim_end().to_owned());
                let not_text =
                    |_| Failure::new(FailureKind::Lost, "the worker's answer is no text");
                return line.map(Some).map_err(not_text);
            }
            if self.received.len() > MAX_PROBE_BYTES {
                let text = "the worker's answer has no end";
                return Err(Failure::new(FailureKind::Lost, text));
            }
            match self.socket.read(&mut chunk) {
                Ok(0) => return Err(self.died()),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(self.died()),
            }
        }
    }

    fn wait(&self, writes: bool, timeout: Duration) {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, writes);
        let mut set = [PollFd::new(&self.socket, flags)];
        // Whatever comes of it, everything is looked at again.
        let _ = poll(&mut set, timeout.try_into().ok().as_ref());
    }

    fn died(&mut self) -> Failure {
        let how = match self.ended() {
            Some(status) => match status.signal() {
                Some(signal) => format!("was ended by signal {signal}"),
                None => format!("ended with {status}"),
            },
            None => "closed its socket".into(),
        };
        Failure::new(FailureKind::Lost, format!("the worker {how}"))
    }

    /// Waits up to `ENDING` for the process to exit. Returns its status, or `None` if it is still
    /// running.
    fn ended(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + ENDING;
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the value of `GLIBC_TUNABLES` for a worker. If a tunable occurs twice, the last value
/// counts, so the user's own settings come last.
fn tunables() -> String {
    match std::env::var("GLIBC_TUNABLES") {
        Ok(own) => format!("{ALLOCATOR}:{own}"),
        Err(_) => ALLOCATOR.into(),
    }
}
