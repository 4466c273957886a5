//! Report of a pipeline run, as text for people and as JSON for programs.

use overside_config::units;
use overside_device::{Provenance, Timing};
use overside_flow::{NodeReport, PipelineReport, StageReport, WrittenFile};
use serde_json::{Value, json};

use super::ray::{self, Places};
use overside_command::{columns::columns, line, messages::shown};

/// Result of a pipeline run: its report and the files that were written.
pub(super) struct Summary {
    pub report: PipelineReport,
    pub files: Vec<WrittenFile>,
    /// Places at which Ray has started nodes; `None` without Ray.
    pub ray: Option<Places>,
}

/// Most files, and most events, that are listed with a line each.
const LISTED_MAX: usize = 32;

/// Returns the result for people: the answer first.
pub(super) fn table(summary: &Summary) -> String {
    let (report, totals) = (&summary.report, &summary.report.totals);
    let mut text = String::new();
    let seconds = totals.elapsed_ns as f64 / 1e9;
    line!(
        text,
        "{} of {} rows in {}, {} of input values; {} of batches held at most",
        units::count(totals.volume.rows_out),
        units::count(totals.volume.rows_in),
        units::duration(seconds),
        units::rate(totals.volume.bytes_in as f64 / seconds.max(1e-9)),
        units::size(totals.held_bytes_max as f64),
    );
    if let Some(caveat) = caveat(report) {
        line!(text, "{caveat}");
    }
    text += &stages(report);
    text += &summary.ray.as_ref().map(ray::text).unwrap_or_default();
    if summary.files.len() <= LISTED_MAX {
        let head = ["rows", "size", "file"];
        let files = summary.files.iter().map(|file| {
            [units::count(file.rows), units::size(file.bytes as f64), shown(&file.path)]
        });
        text += &columns(head, files);
    } else {
        let bytes: u64 = summary.files.iter().map(|file| file.bytes).sum();
        let count = summary.files.len();
        line!(text, "{count} files, {}", units::size(bytes as f64));
    }
    let events = &totals.events;
    for event in events.kept.iter().take(LISTED_MAX) {
        let at = units::duration(event.at_ns as f64 / 1e9);
        line!(text, "after {at}: {}: {}", event.stage, event.message);
    }
    let left_out = events.kept.len().saturating_sub(LISTED_MAX) as u64 + events.left_out;
    if left_out > 0 {
        line!(text, "and {left_out} more events");
    }
    text
}

/// Warning about the times in a report; `None` if all of them were measured on real machines.
fn caveat(report: &PipelineReport) -> Option<&'static str> {
    match (report.provenance, report.timing) {
        (Provenance::Measured, Timing::Real) => None,
        (_, Timing::Functional) => Some(
            "emulated: an in-process node is threads of this machine; its times say nothing about a DPU",
        ),
        _ => Some("emulated: a device took the time that its profile gives"),
    }
}

fn stages(report: &PipelineReport) -> String {
    let head = [
        "stage",
        "where",
        "busy",
        "throughput",
        "in",
        "out",
        "host CPU",
        "node CPU",
        "queue delay",
    ];
    let rows = report.all_stages().map(|stage| {
        let node = stage.node.as_ref().filter(|node| node.batches > 0);
        let delay = |node: &NodeReport| node.queued_ns as f64 / 1e9 / node.batches as f64;
        [
            shown(&stage.name),
            place(stage),
            units::duration(stage.busy_ns as f64 / 1e9),
            units::rate(stage.throughput_bytes_per_s),
            units::size(stage.volume.bytes_in as f64),
            units::size(stage.volume.bytes_out as f64),
            units::duration(stage.host.cpu_ns as f64 / 1e9),
            node.map_or("–".into(), |node| units::duration(node.cpu_ns as f64 / 1e9)),
            node.map_or("–".into(), |node| units::duration(delay(node))),
        ]
    });
    columns(head, rows)
}

/// `host 30, dpu0 70`: batches, and devices that took part.
fn place(stage: &StageReport) -> String {
    let mut places = Vec::new();
    let node = stage.node.as_ref().filter(|node| node.batches > 0);
    if stage.host.batches > 0 || node.is_none() {
        places.push(format!("host {}", stage.host.batches));
    }
    places.extend(node.map(|node| format!("{} {}", shown(&node.name), node.batches)));
    let devices = stage.devices.iter().filter(|device| device.device != "cpu");
    places.extend(devices.map(|device| format!("{} {} jobs", shown(&device.device), device.jobs)));
    places.join(", ")
}

/// Returns the result for programs.
pub(super) fn json(summary: &Summary) -> Value {
    let files = summary.files.iter().map(|file| {
        json!({
            "partition": file.partition,
            "file": shown(&file.path),
            "rows": file.rows,
            "file_bytes": file.bytes,
        })
    });
    // Texts, numbers, and maps with texts as keys.
    let mut value = serde_json::to_value(&summary.report).unwrap_or_default();
    value["files"] = files.collect();
    if let Some(places) = &summary.ray {
        value["ray"] = json!(places);
    }
    value
}
