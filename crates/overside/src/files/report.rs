//! Report on a processed file: `-v`, `--explain`, `--stats`.

use std::collections::BTreeMap;
use std::time::Duration;

use overside_compress::{Policy, Summary};
use overside_config::units;
use overside_device::Provenance;
use overside_placement::{Report, Target, TargetReport};

use super::Verb;
use super::arguments::{MessageArguments, StatsFormat};
use crate::verification;
use overside_command::{line, messages::shown};

/// Maximum number of events that are printed without an option.
const EVENTS_MAX: usize = 8;

/// Report on one processed file.
pub(super) struct FileReport {
    pub verb: Verb,
    pub input: String,
    /// Name of the output; `None` if none was kept.
    pub output: Option<String>,
    /// Level at which the CPU compressed; `None` if nothing was compressed.
    pub level: Option<u32>,
    pub policy: Policy,
    pub elapsed: Duration,
    pub summary: Summary,
}

impl FileReport {
    /// Returns all requested texts. With `listed`, the list has replaced the line of `-v`.
    pub(super) fn text(&self, asked: &MessageArguments, listed: bool) -> String {
        let mut text = String::new();
        if !asked.quiet && asked.stats.is_none() {
            text.push_str(&events(self));
        }
        if asked.explain {
            text.push_str(&explain(self));
        }
        match asked.stats {
            Some(StatsFormat::Json) => text.push_str(&json(self)),
            Some(StatsFormat::Text) => text.push_str(&stats(self)),
            None if asked.verbose && !listed => text.push_str(&line(self)),
            None => {}
        }
        text
    }

    /// Returns `true` if a device gave a wrong result. Such results were detected and not used.
    pub(super) fn is_device_wrong(&self) -> bool {
        (self.report()).is_some_and(|report| report.verification.wrong > 0)
    }

    fn plain_bytes(&self) -> u64 {
        match self.verb {
            Verb::Compress => self.summary.bytes_in,
            Verb::Decompress => self.summary.bytes_out,
        }
    }

    fn compressed_bytes(&self) -> u64 {
        match self.verb {
            Verb::Compress => self.summary.bytes_out,
            Verb::Decompress => self.summary.bytes_in,
        }
    }

    fn plain_bytes_of(&self, target: &TargetReport) -> u64 {
        match self.verb {
            Verb::Compress => target.source_bytes,
            Verb::Decompress => target.destination_bytes,
        }
    }

    /// Returns the number of uncompressed bytes per second.
    fn throughput(&self) -> f64 {
        self.plain_bytes() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    fn report(&self) -> Option<&Report> {
        self.summary.report.as_ref()
    }

    fn targets(&self) -> impl Iterator<Item = &TargetReport> {
        self.report().into_iter().flat_map(Report::targets)
    }
}

/// Returns one line: ratio, throughput, and where it ran.
fn line(file: &FileReport) -> String {
    let what = match &file.output {
        Some(output) => format!("{} -> {}", shown(&file.input), shown(output)),
        None if file.verb == Verb::Decompress => format!("{}: OK", shown(&file.input)),
        None => shown(&file.input),
    };
    format!(
        "{what}: {} to {} ({}), {}{}; {}",
        units::size(file.summary.bytes_in as f64),
        units::size(file.summary.bytes_out as f64),
        percent(file.compressed_bytes() as f64 / file.plain_bytes() as f64),
        units::rate(file.throughput()),
        (file.level).map_or_else(String::new, |level| format!(", level {level}")),
        places(file),
    )
}

/// Returns the library and device of each part, and whether the times are those of a real device.
fn places(file: &FileReport) -> String {
    let targets: Vec<(&TargetReport, u64)> = (file.targets())
        .map(|target| (target, file.plain_bytes_of(target)))
        .filter(|(target, _)| target.chunks > 0)
        .collect();
    let all: u64 = targets.iter().map(|(_, bytes)| bytes).sum();
    let mut places: Vec<String> = (targets.iter())
        .map(|(target, bytes)| {
            let part = match targets.len() {
                1 => String::new(),
                _ => format!("{} by ", percent(*bytes as f64 / all as f64)),
            };
            part + &place(target)
        })
        .collect();
    let streamed = file.summary.streamed;
    if streamed > 0 {
        places.push(format!("{streamed} {} streamed", many(streamed, "member")));
    }
    places.extend(file.report().and_then(verification::text));
    if places.is_empty() {
        places.push("nothing to do".into());
    }
    places.join(", ")
}

fn place(target: &TargetReport) -> String {
    let Some(applied) = &target.applied else {
        return target.device.clone();
    };
    let how = match applied.provenance {
        Provenance::Measured => String::new(),
        Provenance::Emulated if target.late > 0 => format!(
            " (emulated; timing meaningless: {} of {} {} too slow to keep the card's pace)",
            target.late,
            target.chunks,
            many(target.chunks, "chunk")
        ),
        Provenance::Emulated => " (emulated)".into(),
        Provenance::Modelled => " (modelled)".into(),
        Provenance::Published => " (published)".into(),
    };
    format!("{} on {}{how}", applied.library, target.device)
}

/// Returns lines about problems that were recovered from, at most [`EVENTS_MAX`].
fn events(file: &FileReport) -> String {
    let mut text = String::new();
    let Some(report) = file.report() else {
        return text;
    };
    let name = shown(&file.input);
    for event in report.events.iter().take(EVENTS_MAX) {
        line!(text, "overside {}: {name}: {event}", file.verb);
    }
    text
}

/// Returns decisions of the placement controller with their reasons, in numbers. Decisions with
/// little effect are only counted.
fn explain(file: &FileReport) -> String {
    let name = shown(&file.input);
    let decisions = file.report().map_or(&[][..], |report| &report.decisions);
    if decisions.is_empty() {
        return format!("{name}: placement {}, nothing to decide\n", file.policy);
    }
    let mut text = format!("{name}: placement {}\n", file.policy);
    let mut shown: BTreeMap<Target, (f64, bool)> = BTreeMap::new();
    let mut left_out = 0;
    for (at, decided) in decisions.iter().enumerate() {
        if let Some(bytes) = decided.chunk_bytes {
            line!(
                text,
                "{:9.4} s  chunks of {bytes} bytes{}: {}",
                Duration::from_nanos(decided.at_ns).as_secs_f64(),
                if decided.probe { " tried" } else { "" },
                decided.reason
            );
            continue;
        }
        let same = shown.get(&decided.target).is_some_and(|(fraction, probe)| {
            *probe == decided.probe && (fraction - decided.fraction).abs() < 0.05
        });
        if same && at + 1 < decisions.len() {
            left_out += 1;
            continue;
        }
        shown.insert(decided.target, (decided.fraction, decided.probe));
        line!(
            text,
            "{:9.4} s  {:>6} to {}: {}",
            Duration::from_nanos(decided.at_ns).as_secs_f64(),
            percent(decided.fraction),
            decided.rest(),
            decided.reason
        );
    }
    left_out += file.report().map_or(0, |report| report.decisions_left_out);
    if left_out > 0 {
        line!(text, "  and {left_out} decisions that changed little");
    }
    text
}

fn json(file: &FileReport) -> String {
    let value = serde_json::json!({
        "schema": "file/1",
        "verb": file.verb.to_string(),
        "input": file.input,
        "output": file.output,
        "level": file.level,
        "placement": file.policy.to_string(),
        "elapsed_ns": file.elapsed.as_nanos() as u64,
        "throughput_bytes_per_s": file.throughput(),
        "summary": file.summary,
    });
    format!("{value}\n")
}

fn stats(file: &FileReport) -> String {
    let summary = &file.summary;
    let mut text = String::new();
    let out = &mut text;
    line!(out, "{}", line(file));
    line!(
        out,
        "  {}: {} {}, {} stored, {} streamed",
        summary.container,
        summary.members,
        many(summary.members, "member"),
        summary.stored,
        summary.streamed
    );
    line!(
        out,
        "  {} B read, {} B written in {:.4} s; the rate counts uncompressed bytes",
        summary.bytes_in,
        summary.bytes_out,
        file.elapsed.as_secs_f64()
    );
    for target in file.targets() {
        target_text(target, out);
    }
    if let Some(joining) = summary.joining {
        line!(
            out,
            "  joined {} {} to one stream: {:.3} ms of this machine's CPU time",
            joining.chunks,
            many(joining.chunks, "chunk"),
            joining.cpu_ns as f64 / 1e6
        );
    }
    if let Some(report) = file.report() {
        report_text(report, out);
    }
    text
}

fn target_text(target: &TargetReport, out: &mut String) {
    let ms = |time_ns: u64| time_ns as f64 / 1e6;
    line!(
        out,
        "  {}: {} {}, {} B in, {} B out, busy {:.3} ms, engine {:.3} ms",
        target.device,
        target.chunks,
        many(target.chunks, "chunk"),
        target.source_bytes,
        target.destination_bytes,
        ms(target.busy_ns),
        ms(target.engine_ns)
    );
    let cpu = target.cpu_time;
    line!(
        out,
        "    CPU time: host {:.3} ms, DPU {:.3} ms, emulator {:.3} ms; set up {} {}: {:.3} ms",
        ms(cpu.host_ns),
        ms(cpu.dpu_ns),
        ms(cpu.emulator_ns),
        target.setups,
        many(target.setups, "time"),
        ms(target.lifecycle.init_ns.unwrap_or(0))
    );
    if target.failed + target.late > 0 {
        line!(out, "    {} failed, {} late", target.failed, target.late);
    }
}

fn report_text(report: &Report, out: &mut String) {
    line!(
        out,
        "  memory: {:.3} ms; {} copies for a target that could not reach it, {} B; {} given up",
        report.memory_ns as f64 / 1e6,
        report.bounce_copies,
        report.bounce_bytes,
        report.quarantined
    );
    line!(
        out,
        "  waiting for results, and work meanwhile: {:.3} ms of CPU time",
        report.wait_cpu_ns as f64 / 1e6
    );
    for event in &report.events {
        line!(out, "  {event}");
    }
    if report.events_left_out > 0 {
        line!(out, "  and {} more", report.events_left_out);
    }
}

fn percent(part: f64) -> String {
    match part.is_finite() {
        true => format!("{:.1} %", 100.0 * part),
        // There was nothing to divide by.
        false => "-".into(),
    }
}

fn many(count: u64, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{word}{plural}")
}
