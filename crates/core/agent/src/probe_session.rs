//! Session of a test of which the agent plays one end: forwards the host's requests to the end's
//! thread, and its answers back.

use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use overside_base::{EventFd, panic_text};
use overside_link::agent::{
    CancellationToken, Host, MAX_PROBE_BYTES, Outbox, Probe, ProbePeer, Violation, probe,
};
use overside_link::codec::clean;

use crate::server::ProbePermit;

/// One end of a test, on a thread of its own. Dropping it cancels the end, and waits for it.
pub(crate) struct ProbeSession {
    /// Sender of requests, one at a time; `None` once there will be no more.
    requests: Option<SyncSender<Vec<u8>>>,
    answers: Receiver<Answer>,
    /// `true` while a request has not been answered.
    asked: bool,
    /// Time since when the host can continue the test.
    waiting: Option<Instant>,
    cancelled: CancellationToken,
    /// Event that is signalled when an answer is ready.
    woken: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    /// Permit, released when the whole session has ended.
    _permit: ProbePermit,
}

/// Answer of a probe, and `true` if the probe then waits for the host to continue. The error is the reason
/// why the test cannot continue.
type Answer = Result<(Vec<u8>, bool), String>;

impl ProbeSession {
    pub(crate) fn start(kind: &dyn Probe, host: Host, permit: ProbePermit) -> Result<Self, String> {
        let cancelled = host.cancelled.clone();
        let peer = kind.begin(host)?;
        let nothing_left = |error: &dyn std::fmt::Display| format!("nothing is left: {error}");
        let woken = EventFd::new();
        let woken = Arc::new(woken.map_err(|error| nothing_left(&error))?);
        let (requests, hear) = sync_channel(1);
        let (say, answers) = sync_channel(1);
        let wake = Arc::clone(&woken);
        let thread = std::thread::Builder::new()
            .name("agent-probe".into())
            .spawn(move || play(peer, &hear, &say, &wake))
            .map_err(|error| nothing_left(&error))?;
        Ok(Self {
            requests: Some(requests),
            answers,
            asked: false,
            waiting: None,
            cancelled,
            woken,
            thread: Some(thread),
            _permit: permit,
        })
    }

    /// Returns `true` while a request has not been answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.asked
    }

    /// Returns the time since when the host can continue the test and has not.
    pub(crate) fn waiting(&self) -> Option<Instant> {
        self.waiting
    }

    /// Returns the descriptor that becomes readable when an answer is available.
    pub(crate) fn woken(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// Forwards a request.
    pub(crate) fn ask(&mut self, request: Vec<u8>) -> Result<(), Violation> {
        if self.asked {
            let text = "a request comes before the last one was answered";
            return Err(Violation::OutOfTurn(text.into()));
        }
        self.asked = true;
        self.waiting = None;
        if let Some(requests) = &self.requests {
            // A thread that has ended is noticed when its answer is looked for.
            let _ = requests.try_send(request);
        }
        Ok(())
    }

    /// Forwards the probe's answer if there is one. Returns `true` if there was. An error is the
    /// reason why there will be no more.
    pub(crate) fn answer(&mut self, outbox: &mut Outbox) -> Result<bool, String> {
        match self.answers.try_recv() {
            Ok(answer) => {
                // Fails only if it is not readable.
                self.woken.clear();
                let (answer, waits) = answer?;
                outbox.frame(probe(&answer));
                self.asked = false;
                self.waiting = waits.then(Instant::now);
                Ok(true)
            }
            Err(TryRecvError::Disconnected) if self.asked => {
                Err("the thread that played an end of the test is gone".into())
            }
            Err(_) => Ok(false),
        }
    }
}

impl Drop for ProbeSession {
    fn drop(&mut self) {
        self.cancelled.cancel();
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic was caught; and if not, it is gone as well.
            let _ = thread.join();
        }
    }
}

/// The loop of a probe's thread.
fn play(
    mut peer: Box<dyn ProbePeer>,
    requests: &Receiver<Vec<u8>>,
    answers: &SyncSender<Answer>,
    woken: &EventFd,
) {
    while let Ok(request) = requests.recv() {
        let answer = match catch_unwind(AssertUnwindSafe(|| peer.answer(&request))) {
            Ok(answer) if (1..=MAX_PROBE_BYTES).contains(&answer.len()) => {
                Ok((answer, peer.waits_for_more()))
            }
            Ok(answer) => Err(format!(
                "an answer has {} bytes, where 1 to {MAX_PROBE_BYTES} are allowed",
                answer.len()
            )),
            Err(panic) => Err(format!(
                "playing an end of the test failed: {}",
                clean(panic_text(&*panic), 256)
            )),
        };
        let last = answer.is_err();
        // The session sends one request at a time, so there is room. If it has ended, the next
        // `recv` reports it.
        let _ = answers.try_send(answer);
        woken.signal();
        if last {
            return;
        }
    }
}
