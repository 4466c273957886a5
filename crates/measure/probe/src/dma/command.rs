//! Commands to a side of a test, and the side's answers. They are the same for a side in this
//! program and for an agent's.

use overside_device::{Applied, CpuTime};
use overside_link::codec;
use overside_link::verbs::LinkConfig;
use serde::{Deserialize, Serialize};

use crate::closed_loop::Until;
use crate::counters::Events;
use crate::failure::{Failure, FailureKind};
use crate::latency::Latencies;

/// Maximum number of threads of a side.
const THREADS_MAX: usize = LinkConfig::MAX_QUEUE_PAIRS;

/// Command to a side of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Peer: exports memory, or starts to confirm messages. [`Answer::Prepared`].
    Prepare,
    /// Initiator: opens queue pairs, with the peer's memory by its tokens, one for each
    /// thread of one-sided operations. [`Answer::Done`].
    #[serde(deserialize_with = "codec::list::<_, _, THREADS_MAX>")]
    Start(Vec<Vec<u8>>),
    /// Fill all places with the payloads of that number, and overwrite the memory where bytes
    /// arrive. [`Answer::Done`].
    Fill(u64),
    /// Overwrites the memory where bytes arrive. [`Answer::Done`].
    #[serde(rename = "spoil")]
    Poison,
    /// Peer: keeps further messages for inspection, or stops keeping them. [`Answer::Done`].
    #[serde(rename = "keep")]
    Capture(bool),
    /// Initiator: runs. [`Answer::Ran`].
    Run(Until),
    /// Compares the bytes of each thread's first places, this number for each. [`Answer::Compared`].
    #[serde(deserialize_with = "codec::list::<_, _, THREADS_MAX>")]
    Compare(Vec<u64>),
    /// Reports the CPU time so far. [`Answer::CpuTime`].
    #[serde(rename = "usage")]
    CpuTime,
    /// Peer: stops confirming. [`Answer::Done`].
    Stop,
    /// Closes the link. [`Answer::Done`].
    End,
}

/// Answer of a side to a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The command is done.
    Done,
    /// Tokens of exported memory, one a thread; none where operations are messages.
    #[serde(deserialize_with = "codec::list::<_, _, THREADS_MAX>")]
    Prepared(Vec<Vec<u8>>),
    /// Result of a run.
    Ran(Box<RunReport>),
    /// Number of places that are right.
    Compared(u64),
    /// CPU time so far.
    #[serde(rename = "spent")]
    CpuTime(CpuTime),
}

/// Result of a run, by the initiator's clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    /// Time from before the first doorbell of any thread until the last operation was reaped.
    pub elapsed_ns: u64,
    /// Operations of each thread; all of them are over.
    #[serde(deserialize_with = "codec::list::<_, _, THREADS_MAX>")]
    pub counts: Vec<u64>,
    /// Doorbells that took something.
    pub doorbells: u64,
    /// Operations later than the profile's time.
    pub late: u64,
    /// Latency of each operation, from its doorbell until it was reaped; `None` if operations were
    /// not timed.
    pub latencies: Option<Latencies>,
    /// CPU time that all threads together spent on handing operations over; if completions were
    /// deferred.
    pub posting_ns: Option<u64>,
    /// Processor events counted on all threads; `None` if they were not requested.
    pub events: Option<Events>,
    /// CPU time that the initiator's side spent meanwhile.
    pub cpu: CpuTime,
    /// Device, driver, variant and library that moved the bytes.
    pub applied: Applied,
}

impl RunReport {
    /// Operations of all threads.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, one| sum.saturating_add(*one))
    }
}

/// A side of a test: the one that starts operations, or its peer.
pub trait TestSide {
    /// Executes a command.
    ///
    /// # Errors
    /// [`Failure`], which ends the test.
    fn execute(&mut self, command: Command) -> Result<Answer, Failure>;
}

/// A command that this side does not get, or not now.
pub(super) fn out_of_turn(command: &Command) -> Failure {
    let text = format!("{command:?}");
    let name = text.split(['(', ' ']).next().unwrap_or_default();
    Failure::new(FailureKind::Job, format!("{name:?} is not for this side now"))
}
