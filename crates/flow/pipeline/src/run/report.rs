//! Report of a pipeline's statistics.

use std::time::Instant;

use overside_device::{CpuTime, Operation, Provenance, Timing};
use overside_placement::Report as ExecutorReport;
use serde::Serialize;

use crate::definition::placement::StagePlacement;
use crate::stage::PartitionedBatch;

/// Value of `schema` in a [`PipelineReport`].
pub const REPORT_SCHEMA: &str = "flow-run/1";
/// Maximum number of events that are kept; further ones are only counted.
const EVENTS_MAX: usize = 256;

/// Batches, rows and bytes that arrived, and that came of them. Bytes are those of values in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Number of batches that arrived.
    pub batches: u64,
    /// Number of their rows.
    pub rows_in: u64,
    /// Number of their bytes.
    pub bytes_in: u64,
    /// Number of resulting rows.
    pub rows_out: u64,
    /// Number of their bytes.
    pub bytes_out: u64,
}

impl Volume {
    /// Records the arrival of a batch.
    pub(crate) fn came(&mut self, pieces: &[PartitionedBatch], bytes: u64) {
        self.batches += 1;
        self.bytes_in += bytes;
        self.rows_in += rows(pieces);
    }

    /// Records that a batch leaves.
    pub(crate) fn left(&mut self, pieces: &[PartitionedBatch], bytes: u64) {
        self.bytes_out += bytes;
        self.rows_out += rows(pieces);
    }

    fn add(&mut self, other: Self) {
        self.batches += other.batches;
        self.rows_in += other.rows_in;
        self.bytes_in += other.bytes_in;
        self.rows_out += other.rows_out;
        self.bytes_out += other.bytes_out;
    }
}

/// Counts and times of a pipeline, or of one of its streams, so far. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineReport {
    /// Schema of the report: `flow-run/1`.
    pub schema: &'static str,
    /// Name of the pipeline.
    pub name: String,
    /// Counts and times of the stages.
    #[serde(flatten)]
    pub totals: Totals,
    /// Origin of the figures, such as measured or emulated: the weakest of all parts.
    pub provenance: Provenance,
    /// Meaning of the times, such as real or paced: the weakest of all parts.
    pub timing: Timing,
    /// Decompressing and reading the input.
    pub unpack: StageReport,
    /// Compressing and writing the output.
    pub repack: StageReport,
}

/// Counts and times of one stream, or their sums over several.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Time from the first batch until the last one was done, or until now.
    pub elapsed_ns: u64,
    /// Volume of the input and of the output.
    #[serde(flatten)]
    pub volume: Volume,
    /// Maximum number of bytes that were held at a time.
    pub held_bytes_max: u64,
    /// Number of bytes that are held now.
    pub held_bytes: u64,
    /// Stages in order.
    pub stages: Vec<StageReport>,
    /// Failures and moves of stages.
    #[serde(flatten)]
    pub events: Events,
}

/// Counts and times of one stage.
#[derive(Clone, Debug, Serialize)]
pub struct StageReport {
    /// Name of the stage.
    pub name: String,
    /// Kind of the stage, such as `filter`.
    pub kind: &'static str,
    /// Placement in the definition.
    pub placement: String,
    /// Volume of its input and of its output.
    #[serde(flatten)]
    pub volume: Volume,
    /// Time during which at least one batch was being processed.
    pub busy_ns: u64,
    /// Bytes of the uncompressed side per second of that time.
    pub throughput_bytes_per_s: f64,
    /// Number of waiting batches.
    pub queue_batches: usize,
    /// Number of their bytes.
    pub queue_bytes: u64,
    /// Work of the host.
    pub host: HostReport,
    /// Work of the node, if there is one.
    pub node: Option<NodeReport>,
    /// Work that executors did on devices and on their CPU threads; empty if no executor did any.
    pub devices: Vec<DeviceReport>,
}

/// Work that the host did for a stage, and the CPU time that the stage cost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HostReport {
    /// Number of batches whose results are the host's.
    pub batches: u64,
    /// Number of their bytes.
    pub bytes: u64,
    /// CPU time of the host's threads, including that of moving batches to the node.
    pub cpu_ns: u64,
    /// Number of batches that were processed in vain, because the node was faster.
    pub superseded: u64,
    /// Number of batches that failed on the node, or that it had when it was lost.
    pub repeated: u64,
}

/// Work that a node did for a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeReport {
    /// Name of the node.
    pub name: String,
    /// State of the connection: `open`, `not opened`, `lost` or `tried again`.
    pub state: &'static str,
    /// `true` if the node is a separate machine, not threads of this process.
    pub is_real: bool,
    /// Number of batches whose results are the node's.
    pub batches: u64,
    /// Number of their bytes.
    pub bytes: u64,
    /// Total time that batches waited for the node, on the host and on the node.
    pub queued_ns: u64,
    /// Longest wait of a batch.
    pub queued_ns_max: u64,
    /// Total time that the node worked on these batches.
    pub run_ns: u64,
    /// CPU time of the node for them, which is a separate ledger.
    pub cpu_ns: u64,
    /// Number of times that the stage went back to the host.
    pub moves_back: u64,
    /// Number of times that the stage went down to the node again.
    pub moves_down: u64,
    /// Number of times that the node was lost.
    pub losses: u64,
}

/// Work that one device did for a stage.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// Operation of the jobs.
    pub operation: String,
    /// Name of the device.
    pub device: String,
    /// Number of jobs whose results are the device's.
    pub jobs: u64,
    /// Number of bytes of their sources.
    pub source_bytes: u64,
    /// CPU time, by ledger.
    pub cpu_time: CpuTime,
    /// Origin of its times, such as measured or emulated; `None` if it is not known.
    pub provenance: Option<Provenance>,
}

/// Event of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PipelineEvent {
    /// Time of the event after the first batch, in nanoseconds.
    pub at_ns: u64,
    /// Name of the stage.
    pub stage: String,
    /// Description of the event.
    pub message: String,
}

impl Totals {
    /// Adds the statistics of another stream, which ran in parallel or later.
    pub(crate) fn push(&mut self, other: Self) {
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.volume.add(other.volume);
        self.held_bytes_max = self.held_bytes_max.max(other.held_bytes_max);
        self.held_bytes += other.held_bytes;
        match self.stages.is_empty() {
            true => self.stages = other.stages,
            false => {
                (self.stages.iter_mut().zip(other.stages)).for_each(|(one, other)| one.add(other))
            }
        }
        self.events.left_out += other.events.left_out;
        other.events.kept.into_iter().for_each(|event| self.events.push(event));
    }

    /// Makes a report with the pipeline's name and the statistics of unpacking and repacking.
    pub(crate) fn report(
        self,
        name: &str,
        (unpack, repack): (StageReport, StageReport),
    ) -> PipelineReport {
        let stages = self.stages.iter().chain([&unpack, &repack]);
        let of_devices = stages.clone().flat_map(|stage| &stage.devices);
        let of_devices = of_devices.filter_map(|device| device.provenance).max();
        let has_stand_in = (stages.filter_map(|stage| stage.node.as_ref()))
            .any(|node| !node.is_real && node.batches > 0);
        let weakest = of_devices.unwrap_or(Provenance::Measured);
        let (provenance, timing) = match (weakest, has_stand_in) {
            // Times of threads of this process do not represent another machine.
            (weakest, true) => (weakest.max(Provenance::Emulated), Timing::Functional),
            (Provenance::Measured, false) => (Provenance::Measured, Timing::Real),
            (weakest, false) => (weakest, Timing::Paced),
        };
        PipelineReport {
            schema: REPORT_SCHEMA,
            name: name.to_owned(),
            totals: self,
            provenance,
            timing,
            unpack,
            repack,
        }
    }
}

impl PipelineReport {
    /// Returns all stages, including unpacking and repacking.
    pub fn all_stages(&self) -> impl Iterator<Item = &StageReport> {
        let stages = std::iter::once(&self.unpack).chain(&self.totals.stages);
        stages.chain([&self.repack])
    }
}

impl StageReport {
    /// Computes the bytes of the uncompressed side per second of the time in which it was busy.
    pub(crate) fn compute_throughput(&mut self) {
        let bytes = match self.kind {
            "decompress" | "unpack" => self.volume.bytes_out,
            _ => self.volume.bytes_in,
        };
        let busy_s = self.busy_ns as f64 / 1e9;
        self.throughput_bytes_per_s = if busy_s > 0.0 { bytes as f64 / busy_s } else { 0.0 };
    }

    fn add(&mut self, other: Self) {
        self.volume.add(other.volume);
        self.busy_ns += other.busy_ns;
        self.queue_batches += other.queue_batches;
        self.queue_bytes += other.queue_bytes;
        self.host.batches += other.host.batches;
        self.host.bytes += other.host.bytes;
        self.host.cpu_ns += other.host.cpu_ns;
        self.host.superseded += other.host.superseded;
        self.host.repeated += other.host.repeated;
        if let (Some(node), Some(other)) = (&mut self.node, other.node) {
            node.add(&other);
        }
        other.devices.into_iter().for_each(|device| device.join(&mut self.devices));
        self.compute_throughput();
    }
}

impl NodeReport {
    fn add(&mut self, other: &Self) {
        self.state = other.state;
        self.batches += other.batches;
        self.bytes += other.bytes;
        self.queued_ns += other.queued_ns;
        self.queued_ns_max = self.queued_ns_max.max(other.queued_ns_max);
        self.run_ns += other.run_ns;
        self.cpu_ns += other.cpu_ns;
        self.moves_back += other.moves_back;
        self.moves_down += other.moves_down;
        self.losses += other.losses;
    }
}

/// Events of the stages, up to a maximum.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Events {
    /// Events in order; the first 256.
    #[serde(rename = "events")]
    pub kept: Vec<PipelineEvent>,
    /// Number of further events.
    #[serde(rename = "events_left_out")]
    pub left_out: u64,
}

impl Events {
    pub(crate) fn push(&mut self, event: PipelineEvent) {
        match self.kept.len() < EVENTS_MAX {
            true => self.kept.push(event),
            false => self.left_out += 1,
        }
    }
}

/// Counters of a stage while it runs.
#[derive(Debug, Default)]
pub(crate) struct StageCounts {
    pub volume: Volume,
    busy_ns: u64,
    running: usize,
    busy_since: Option<Instant>,
    pub host: HostReport,
    pub node: NodeReport,
}

impl StageCounts {
    /// Records that a thread or the node has started a batch. The stage is busy from the first of them on.
    pub(crate) fn begin(&mut self) {
        self.running += 1;
        if self.running == 1 {
            self.busy_since = Some(Instant::now());
        }
    }

    /// Records that a thread or the node has finished a batch. The stage is busy until the last of them.
    pub(crate) fn end(&mut self) {
        self.running = self.running.saturating_sub(1);
        if self.running == 0 {
            let since = self.busy_since.take();
            self.busy_ns += since.map_or(0, |since| since.elapsed().as_nanos() as u64);
        }
    }

    pub(crate) fn busy_ns(&self) -> u64 {
        let now = self.busy_since.map_or(0, |since| since.elapsed().as_nanos() as u64);
        self.busy_ns + now
    }

    /// Makes the report of a stage of this name and kind, whose executors did `executed`.
    pub(crate) fn report(
        &self,
        (name, kind): (&str, &'static str),
        placement: &StagePlacement,
        executed: &[(Operation, ExecutorReport)],
    ) -> StageReport {
        let devices = devices(executed);
        let by_executors: u64 = devices.iter().map(|device| device.cpu_time.host_ns).sum();
        let mut report = StageReport {
            name: name.to_owned(),
            kind,
            placement: placement.to_string(),
            volume: self.volume,
            busy_ns: self.busy_ns(),
            throughput_bytes_per_s: 0.0,
            queue_batches: 0,
            queue_bytes: 0,
            host: HostReport { cpu_ns: self.host.cpu_ns + by_executors, ..self.host },
            node: None,
            devices,
        };
        report.compute_throughput();
        report
    }
}

fn rows(pieces: &[PartitionedBatch]) -> u64 {
    pieces.iter().map(|piece| piece.batch.num_rows() as u64).sum()
}

/// Sums the reports of executors by operation and target. Targets without jobs are left out.
fn devices(reports: &[(Operation, ExecutorReport)]) -> Vec<DeviceReport> {
    let mut all: Vec<DeviceReport> = Vec::new();
    for (operation, report) in reports {
        for target in report.targets() {
            let device = DeviceReport {
                operation: operation.to_string(),
                device: target.device.clone(),
                jobs: target.chunks,
                source_bytes: target.source_bytes,
                cpu_time: target.cpu_time,
                provenance: target.applied.as_ref().map(|applied| applied.provenance),
            };
            device.join(&mut all);
        }
    }
    all.retain(|device| device.jobs > 0);
    all
}

impl DeviceReport {
    /// Adds this work to that of the same operation and device among `all`.
    fn join(self, all: &mut Vec<Self>) {
        let is_same =
            |one: &&mut Self| (&one.operation, &one.device) == (&self.operation, &self.device);
        let Some(known) = all.iter_mut().find(is_same) else {
            return all.push(self);
        };
        known.jobs += self.jobs;
        known.source_bytes += self.source_bytes;
        known.cpu_time = known.cpu_time.plus(self.cpu_time);
        known.provenance = known.provenance.max(self.provenance);
    }
}
