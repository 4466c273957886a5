//! Parameters of a test that moves bytes between a host and a DPU.

use std::time::Duration;

use overside_device::Timing;
use overside_link::ucx::Transport;
use overside_link::verbs::Side;
pub use overside_probe::dma::Operation as DmaOperation;
use overside_probe::dma::{Plan, Times};
use serde::{Deserialize, Serialize};

use crate::begin::Begin;
use crate::test::{auto, one};

/// Parameters of a test that moves bytes between host and DPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DmaTest {
    /// Path for the bytes: `shm`, `ucx`, one of these with an agent at the other end as in
    /// `dpu0/ucx`, `emulated:` followed by a profile, or `dpdk:` followed by a device that copies.
    pub device: String,
    /// Variant: with `shm`, `engine`, a thread that copies, or `caller`, the posting thread; `auto`
    /// is `engine`. With `ucx`, one of its transports, such as `tcp`; `auto` is UCX's choice.
    #[serde(default = "auto")]
    pub variant: String,
    /// Timing of an emulated engine's completions: `virtual`, or `paced` for real time; `virtual`
    /// if absent. Other devices ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// Side that starts operations.
    pub initiator: Side,
    /// Operation that the initiator starts: a read, a write or a send.
    pub operation: DmaOperation,
    /// Method by which the end of operations is detected.
    #[serde(default)]
    pub completion: DmaCompletion,
    /// Quantity that is timed: each operation, or all of them together.
    #[serde(default)]
    pub measure: DmaMeasure,
    /// Bytes of one operation.
    pub buffer_size: u64,
    /// Operations in flight on each thread.
    #[serde(default = "one")]
    pub depth: usize,
    /// Operations at one doorbell.
    #[serde(default = "one")]
    pub batch: usize,
    /// Threads of the initiator, each with a queue pair.
    #[serde(default = "one")]
    pub threads: usize,
    /// The cores that they are pinned to, in turn; not pinned if absent.
    pub cores: Option<Vec<usize>>,
    /// Core for the thread of the software DMA engine; not pinned if absent.
    pub engine_core: Option<usize>,
    /// Payloads of the operations in flight: one for all, or one each.
    #[serde(default)]
    pub buffers: DmaBuffers,
    /// `true` if payloads are copied into the queue; writes and sends only.
    #[serde(default)]
    pub inline: bool,
    /// `true` if the processor's events are counted on the initiator's threads.
    #[serde(default)]
    pub events: bool,
    /// Seconds of the same work before the clock starts.
    pub warmup_s: f64,
    /// Seconds during which operations are handed over under the clock.
    pub sample_s: f64,
    /// Seconds after which the sample has failed, preparation included.
    pub timeout_s: f64,
    /// Seed of the payloads.
    #[serde(default)]
    pub seed: u64,
    /// Signal that starts the clock, in a test beside other work.
    #[serde(skip)]
    pub(crate) begin: Option<Begin>,
}

/// Method by which the end of operations is detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DmaCompletion {
    /// Sleep until the link or the device signals.
    #[default]
    Event,
    /// Polls until operations complete.
    Poll,
    /// No wait while there is room for another operation: submits as many as fit, then collects all
    /// of them by polling.
    None,
}

/// Quantity that is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DmaMeasure {
    /// Each operation.
    #[default]
    Latency,
    /// All of them together, so that looking at the clock costs nothing.
    Throughput,
}

/// Payloads of the operations in flight: one for all, or one each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DmaBuffers {
    /// All operations have the same payload; each has a destination of its own.
    #[default]
    Same,
    /// Each has one of its own.
    Distinct,
}

impl DmaTest {
    /// The transport that UCX is to use.
    pub(crate) fn transport(&self) -> Option<Transport> {
        Transport::named(&self.variant)
    }

    /// Builds the plan that both sides of the test use.
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            operation: self.operation,
            event: self.completion == DmaCompletion::Event,
            deferred: self.completion == DmaCompletion::None,
            each: self.measure == DmaMeasure::Latency,
            size: self.buffer_size as usize,
            depth: self.depth,
            batch: self.batch.min(self.depth),
            threads: self.threads,
            distinct: self.buffers == DmaBuffers::Distinct,
            inline: self.inline,
            events: self.events,
            seed: self.seed,
        }
    }

    /// The times of the run, as the probe takes them.
    pub(crate) fn times(&self) -> Times {
        Times {
            warmup: Duration::from_secs_f64(self.warmup_s),
            sample: Duration::from_secs_f64(self.sample_s),
            begin: self.begin.clone().map(Begin::into_inner),
        }
    }
}
