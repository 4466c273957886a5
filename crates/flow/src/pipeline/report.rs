//! What a pipeline did, as figures.

use std::time::Instant;

use overside_device::{CpuTime, Operation, Provenance, Timing};
use overside_placement::{Report as ExecutorReport, TargetReport};
use serde::Serialize;

use super::packing::Packing;
use super::placement::StagePlacement;
use super::stage::Piece;

/// What `schema` of [`PipelineReport`] says.
pub const REPORT_SCHEMA: &str = "flow-run/1";
/// Events that are kept; the rest is counted.
const EVENTS_MAX: usize = 256;

/// What a pipeline, or one stream of it, did so far. Times are in nanoseconds, bytes those of values in
/// memory.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineReport {
    /// `flow-run/1`.
    pub schema: &'static str,
    /// The pipeline's name.
    pub name: String,
    /// From the first batch until the last one was done, or until now.
    pub elapsed_ns: u64,
    /// Batches that came.
    pub batches: u64,
    /// Their rows.
    pub rows_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Rows that came out.
    pub rows_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// The most bytes that were held at a time.
    pub held_bytes_max: u64,
    /// Bytes that are held now.
    pub held_bytes: u64,
    /// How the figures were obtained: the weakest of the parts.
    pub provenance: Provenance,
    /// What the times mean: the weakest of the parts.
    pub timing: Timing,
    /// Decompressing and reading what came in.
    pub unpack: StageReport,
    /// The stages, in their order.
    pub stages: Vec<StageReport>,
    /// Compressing and writing what went out.
    pub repack: StageReport,
    /// What went wrong and which stages moved, in order; the first 256.
    pub events: Vec<PipelineEvent>,
    /// Events beyond those.
    pub events_left_out: u64,
}

/// What one stage did.
#[derive(Clone, Debug, Serialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Where it was to run.
    pub placement: String,
    /// Batches that came.
    pub batches: u64,
    /// Their rows.
    pub rows_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Rows that came out.
    pub rows_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Time during which at least one batch was in work.
    pub busy_ns: u64,
    /// Bytes of the uncompressed side in a second of that time.
    pub throughput_bytes_per_s: f64,
    /// Batches that wait.
    pub queue_batches: usize,
    /// Their bytes.
    pub queue_bytes: u64,
    /// The host's part.
    pub host: HostReport,
    /// The node's part, if there is a node.
    pub node: Option<NodeReport>,
    /// What ran on devices through executors, if anything did.
    pub devices: Vec<DeviceReport>,
}

/// What the host did of a stage, and what the stage cost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HostReport {
    /// Batches whose results are the host's.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// CPU time of the host's threads, with what moving batches to the node took.
    pub cpu_ns: u64,
    /// Batches that were done for nothing, because the node was first.
    pub superseded: u64,
    /// Batches that the node failed at, or had when it was lost.
    pub repeated: u64,
}

/// What a node did of a stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Whether it is used now: `open`, `not opened`, `lost`, `tried again`.
    pub state: &'static str,
    /// Whether it is a machine of its own; threads of this process are none.
    pub is_real: bool,
    /// Batches whose results are the node's.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time that batches waited for it, here and there, in all.
    pub queued_ns: u64,
    /// The longest that one waited.
    pub queued_ns_max: u64,
    /// Time that it took for them, in all.
    pub run_ns: u64,
    /// CPU time that it took for them: a ledger of its own.
    pub cpu_ns: u64,
    /// How often the stage went back to the host.
    pub moves_back: u64,
    /// How often it went down to the node again.
    pub moves_down: u64,
    /// How often it was lost.
    pub losses: u64,
}

/// What one device of a stage did.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// The operation.
    pub operation: String,
    /// The device.
    pub device: String,
    /// Jobs whose results are its.
    pub jobs: u64,
    /// Bytes read for them.
    pub source_bytes: u64,
    /// CPU time, by ledger.
    pub cpu_time: CpuTimeReport,
    /// How its times were obtained.
    pub provenance: Option<Provenance>,
}

/// CPU time by ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuTimeReport {
    /// The host's.
    pub host_ns: u64,
    /// The DPU's.
    pub dpu_ns: u64,
    /// What emulation itself burns.
    pub emulator_ns: u64,
}

/// Something that happened to a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PipelineEvent {
    /// When, after the first batch.
    pub at_ns: u64,
    /// The stage.
    pub stage: String,
    /// What, in words.
    pub message: String,
}

/// What streams did.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub elapsed_ns: u64,
    pub batches: u64,
    pub rows_in: u64,
    pub bytes_in: u64,
    pub rows_out: u64,
    pub bytes_out: u64,
    pub held_bytes_max: u64,
    pub held_bytes: u64,
    pub stages: Vec<StageReport>,
    pub events: Events,
}

impl Totals {
    /// Adds those of another stream, which ran beside or after these.
    pub(super) fn push(&mut self, other: Self) {
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.batches += other.batches;
        self.rows_in += other.rows_in;
        self.bytes_in += other.bytes_in;
        self.rows_out += other.rows_out;
        self.bytes_out += other.bytes_out;
        self.held_bytes_max = self.held_bytes_max.max(other.held_bytes_max);
        self.held_bytes += other.held_bytes;
        match self.stages.is_empty() {
            true => self.stages = other.stages,
            false => {
                (self.stages.iter_mut().zip(other.stages)).for_each(|(one, other)| one.add(other))
            }
        }
        self.events.left_out += other.events.left_out;
        other
            .events
            .kept
            .into_iter()
            .for_each(|event| self.events.push(event));
    }

    /// As a report of the pipeline of that name.
    pub(super) fn report(self, name: &str, packing: &Packing) -> PipelineReport {
        let (unpack, repack) = (packing.unpack.report(), packing.repack.report());
        let stages = self.stages.iter().chain([&unpack, &repack]);
        let of_devices = stages.clone().flat_map(|stage| &stage.devices);
        let of_devices = of_devices.filter_map(|device| device.provenance).max();
        let has_stand_in = (stages.filter_map(|stage| stage.node.as_ref()))
            .any(|node| !node.is_real && node.batches > 0);
        let weakest = of_devices.unwrap_or(Provenance::Measured);
        let (provenance, timing) = match (weakest, has_stand_in) {
            // Threads of this process say nothing about the times of another machine.
            (weakest, true) => (weakest.max(Provenance::Emulated), Timing::Functional),
            (Provenance::Measured, false) => (Provenance::Measured, Timing::Real),
            (weakest, false) => (weakest, Timing::Paced),
        };
        PipelineReport {
            schema: REPORT_SCHEMA,
            name: name.to_owned(),
            elapsed_ns: self.elapsed_ns,
            batches: self.batches,
            rows_in: self.rows_in,
            bytes_in: self.bytes_in,
            rows_out: self.rows_out,
            bytes_out: self.bytes_out,
            held_bytes_max: self.held_bytes_max,
            held_bytes: self.held_bytes,
            provenance,
            timing,
            unpack,
            stages: self.stages,
            repack,
            events: self.events.kept,
            events_left_out: self.events.left_out,
        }
    }
}

impl PipelineReport {
    /// All stages, with what is done around them.
    pub fn all_stages(&self) -> impl Iterator<Item = &StageReport> {
        let stages = std::iter::once(&self.unpack).chain(&self.stages);
        stages.chain([&self.repack])
    }
}

impl StageReport {
    /// Bytes of the uncompressed side in a second of the time in which it was busy.
    pub(super) fn compute_throughput(&mut self) {
        let bytes = match self.kind {
            "decompress" | "unpack" => self.bytes_out,
            _ => self.bytes_in,
        };
        let busy_s = self.busy_ns as f64 / 1e9;
        self.throughput_bytes_per_s = if busy_s > 0.0 {
            bytes as f64 / busy_s
        } else {
            0.0
        };
    }

    fn add(&mut self, other: Self) {
        self.batches += other.batches;
        self.rows_in += other.rows_in;
        self.bytes_in += other.bytes_in;
        self.rows_out += other.rows_out;
        self.bytes_out += other.bytes_out;
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
        for device in other.devices {
            let same = |one: &&mut DeviceReport| {
                (&one.operation, &one.device) == (&device.operation, &device.device)
            };
            match self.devices.iter_mut().find(same) {
                Some(known) => known.join(&device),
                None => self.devices.push(device),
            }
        }
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

/// Events, bounded.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    pub kept: Vec<PipelineEvent>,
    pub left_out: u64,
}

impl Events {
    pub(super) fn push(&mut self, event: PipelineEvent) {
        match self.kept.len() < EVENTS_MAX {
            true => self.kept.push(event),
            false => self.left_out += 1,
        }
    }
}

/// What is counted of a stage while it runs.
#[derive(Debug, Default)]
pub(super) struct StageCounts {
    pub batches: u64,
    pub rows_in: u64,
    pub bytes_in: u64,
    pub rows_out: u64,
    pub bytes_out: u64,
    busy_ns: u64,
    running: usize,
    busy_since: Option<Instant>,
    pub host: HostReport,
    pub node: NodeReport,
}

impl StageCounts {
    /// A batch comes.
    pub(super) fn came(&mut self, pieces: &[Piece], bytes: u64) {
        self.batches += 1;
        self.bytes_in += bytes;
        self.rows_in += rows(pieces);
    }

    /// A batch leaves.
    pub(super) fn left(&mut self, pieces: &[Piece], bytes: u64) {
        self.bytes_out += bytes;
        self.rows_out += rows(pieces);
    }

    /// Somebody begins with a batch.
    pub(super) fn begin(&mut self) {
        self.running += 1;
        if self.running == 1 {
            self.busy_since = Some(Instant::now());
        }
    }

    /// Somebody has finished with one.
    pub(super) fn end(&mut self) {
        self.running = self.running.saturating_sub(1);
        if self.running == 0 {
            let since = self.busy_since.take();
            self.busy_ns += since.map_or(0, |since| since.elapsed().as_nanos() as u64);
        }
    }

    pub(super) fn busy_ns(&self) -> u64 {
        let now = self
            .busy_since
            .map_or(0, |since| since.elapsed().as_nanos() as u64);
        self.busy_ns + now
    }

    /// All of it as a stage of this name and kind, whose executors did `executed`.
    pub(super) fn report(
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
            batches: self.batches,
            rows_in: self.rows_in,
            bytes_in: self.bytes_in,
            rows_out: self.rows_out,
            bytes_out: self.bytes_out,
            busy_ns: self.busy_ns(),
            throughput_bytes_per_s: 0.0,
            queue_batches: 0,
            queue_bytes: 0,
            host: HostReport {
                cpu_ns: self.host.cpu_ns + by_executors,
                ..self.host
            },
            node: None,
            devices,
        };
        report.compute_throughput();
        report
    }
}

pub(super) fn rows(pieces: &[Piece]) -> u64 {
    pieces
        .iter()
        .map(|piece| piece.batch.num_rows() as u64)
        .sum()
}

/// What executors did, target by target; those of several threads are added up.
fn devices(reports: &[(Operation, ExecutorReport)]) -> Vec<DeviceReport> {
    let mut all: Vec<DeviceReport> = Vec::new();
    for (operation, report) in reports {
        for target in report.targets() {
            let (operation, device) = (operation.to_string(), target.device.clone());
            let known =
                (all.iter_mut()).find(|one| (&one.operation, &one.device) == (&operation, &device));
            match known {
                Some(known) => known.add(target),
                None => {
                    let mut one = DeviceReport {
                        operation,
                        device,
                        jobs: 0,
                        source_bytes: 0,
                        cpu_time: CpuTimeReport::default(),
                        provenance: None,
                    };
                    one.add(target);
                    all.push(one);
                }
            }
        }
    }
    all.retain(|device| device.jobs > 0);
    all
}

impl DeviceReport {
    fn join(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.source_bytes += other.source_bytes;
        self.cpu_time.host_ns += other.cpu_time.host_ns;
        self.cpu_time.dpu_ns += other.cpu_time.dpu_ns;
        self.cpu_time.emulator_ns += other.cpu_time.emulator_ns;
        self.provenance = self.provenance.max(other.provenance);
    }

    fn add(&mut self, target: &TargetReport) {
        let CpuTime {
            host_ns,
            dpu_ns,
            emulator_ns,
        } = target.cpu_time;
        self.jobs += target.chunks;
        self.source_bytes += target.source_bytes;
        self.cpu_time.host_ns += host_ns;
        self.cpu_time.dpu_ns += dpu_ns;
        self.cpu_time.emulator_ns += emulator_ns;
        let provenance = target.applied.as_ref().map(|applied| applied.provenance);
        self.provenance = self.provenance.max(provenance);
    }
}
