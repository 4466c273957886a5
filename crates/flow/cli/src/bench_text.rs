//! Text and JSON that `overside flow bench` prints.

use overside_command::{columns::columns, line};
use overside_config::units;
use overside_device::{DeviceInfo, Provenance};
use overside_flow::bench::{Algorithm, Pass};
use overside_flow::pack::StageTime;
use serde_json::{Value, json};

/// Results of a benchmark.
pub(super) struct Measured {
    /// Title: the table, its partition key, and the packing.
    pub title: String,
    pub threads: usize,
    pub packed_bytes: u64,
    pub passes: Vec<Pass>,
    /// The device that was to take part.
    pub device: Option<DeviceInfo>,
    pub algorithm: Algorithm,
    /// `true` if the table is partitioned; `false` if it is only unpacked and packed.
    pub is_partitioned: bool,
}

/// A stage of a pass.
type Stage = (&'static str, fn(&Pass) -> StageTime);

const STAGES: [Stage; 3] = [
    ("unpack", |pass| pass.times.unpack),
    ("partition", |pass| pass.times.partition),
    ("repack", |pass| pass.times.repack),
];

impl Measured {
    fn median(&self, of: impl Fn(&Pass) -> f64) -> f64 {
        overside_base::median(self.passes.iter().map(of)).unwrap_or_default()
    }

    /// The rows of the largest partition over the mean, without those of null keys.
    fn imbalance(&self) -> f64 {
        let parts = self.passes.last().map_or(&[][..], |pass| &pass.parts);
        let parts = match self.is_partitioned {
            true => &parts[..parts.len().saturating_sub(1)],
            false => parts,
        };
        let rows = parts.iter().map(|part| part.rows);
        let (most, all) = (rows.clone().max().unwrap_or(0), rows.sum::<u64>());
        match all {
            0 => 1.0,
            all => most as f64 * parts.len() as f64 / all as f64,
        }
    }

    /// Bytes of the table's buffers, not compressed.
    fn table_bytes(&self) -> u64 {
        (self.passes.first()).map_or(0, |pass| pass.times.unpack.bytes_out)
    }
}

/// Returns the result for people: the answer first.
pub(super) fn table(measured: &Measured) -> String {
    let mut text = String::new();
    let bytes = measured.table_bytes() as f64;
    let elapsed_s = measured.median(|pass| pass.elapsed_ns() as f64 / 1e9);
    let passes = measured.passes.len();
    line!(
        text,
        "{}: {} in {}",
        measured.title,
        units::rate(bytes / elapsed_s),
        units::duration(elapsed_s)
    );
    let head = ["stage", "time", "CPU time", "throughput"];
    let stages =
        STAGES.into_iter().filter(|(name, _)| measured.is_partitioned || *name != "partition");
    let rows = stages.map(|(name, stage)| {
        let wall_s = measured.median(|pass| stage(pass).wall_ns as f64 / 1e9);
        let cpu_s = measured.median(|pass| stage(pass).cpu_ns as f64 / 1e9);
        [
            name.into(),
            units::duration(wall_s),
            units::duration(cpu_s),
            units::rate(bytes / wall_s.max(1e-9)),
        ]
    });
    text += &columns(head, rows);
    let packed: u64 =
        (measured.passes.last()).map_or(0, |pass| pass.parts.iter().map(|part| part.bytes).sum());
    line!(
        text,
        "{} of buffers, packed {} ({:.0} %), the partitions {}; threads: {}; medians of {passes} \
         passes, all verified",
        units::size(bytes),
        units::size(measured.packed_bytes as f64),
        100.0 * measured.packed_bytes as f64 / bytes,
        units::size(packed as f64),
        measured.threads,
    );
    if let Some(device) = &measured.device {
        let jobs: u64 = measured.passes.iter().map(|pass| pass.device.jobs).sum();
        line!(text, "{}: {} jobs", device.name, units::count(jobs));
        if device.provenance != Provenance::Measured {
            line!(
                text,
                "emulated: times of the card are its profile's, times of the threads their CPU time on this \
                 machine"
            );
        }
    }
    text
}

/// Returns the result for programs.
pub(super) fn json(measured: &Measured) -> Value {
    let passes = measured.passes.iter().map(|pass| {
        let mut value = json!(pass);
        value["elapsed_ns"] = json!(pass.elapsed_ns());
        value
    });
    let last = measured.passes.last();
    let device = (measured.device.as_ref()).map(|device| {
        json!({
            "name": device.name,
            "driver": device.driver,
            "provenance": device.provenance,
            "timing": device.timing,
            "applied": last.and_then(|pass| pass.device.applied.as_ref()),
        })
    });
    json!({
        "schema": "flow-bench/1",
        "version": env!("CARGO_PKG_VERSION"),
        "algorithm": measured.algorithm.to_string(),
        "partitioned": measured.is_partitioned,
        "imbalance": measured.imbalance(),
        "threads": measured.threads,
        "table_bytes": measured.table_bytes(),
        "packed_bytes": measured.packed_bytes,
        "parts": last.map(|pass| &pass.parts),
        "device": device,
        "passes": passes.collect::<Vec<_>>(),
    })
}
