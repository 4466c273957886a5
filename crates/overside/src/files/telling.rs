//! What is told of a file that is done: `-v`, `--explain`, `--stats`.

use std::fmt::Write;
use std::time::Duration;

use overside_device::Provenance;
use overside_placement::{Report, TargetReport};

use super::arguments::Stats;
use super::{Done, Verb};

/// Events that are told unasked.
const EVENTS_MAX: usize = 8;

/// Bytes in decimal units.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, bytes < 1000, "B")
}

/// Bytes a second in decimal units.
pub fn rate(bytes_per_s: f64) -> String {
    scaled(bytes_per_s, false, "B/s")
}

fn scaled(mut value: f64, whole: bool, unit: &str) -> String {
    let mut prefixes = ["", "k", "M", "G", "T", "P"].into_iter();
    let mut prefix = prefixes.next().unwrap_or_default();
    for larger in prefixes {
        if value < 999.5 {
            break;
        }
        (value, prefix) = (value / 1000.0, larger);
    }
    let digits = match value {
        _ if whole => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {prefix}{unit}")
}

/// One line: how much shorter, how fast, and where it ran.
pub fn line(done: &Done) -> String {
    let what = match &done.output {
        Some(output) => format!("{} -> {output}", done.input),
        None if done.verb == Verb::Decompress => format!("{}: OK", done.input),
        None => done.input.clone(),
    };
    format!(
        "{what}: {} to {} ({}), {}; {}",
        bytes(done.summary.bytes_in),
        bytes(done.summary.bytes_out),
        percent(done.compressed_bytes() as f64 / done.plain_bytes() as f64),
        rate(done.throughput()),
        places(done),
    )
}

/// Which library did which part, where; and whether its times are a real device's.
fn places(done: &Done) -> String {
    let legs: Vec<(&TargetReport, u64)> = (done.legs())
        .map(|leg| (leg, done.plain_bytes_of(leg)))
        .filter(|(leg, _)| leg.chunks > 0)
        .collect();
    let all: u64 = legs.iter().map(|(_, bytes)| bytes).sum();
    let mut places: Vec<String> = (legs.iter())
        .map(|(leg, bytes)| {
            let part = match legs.len() {
                1 => String::new(),
                _ => format!("{} by ", percent(*bytes as f64 / all as f64)),
            };
            part + &place(leg)
        })
        .collect();
    let pieces = done.summary.in_pieces;
    if pieces > 0 {
        places.push(format!("{pieces} {} in pieces", many(pieces, "member")));
    }
    if places.is_empty() {
        places.push("nothing to do".into());
    }
    places.join(", ")
}

fn place(leg: &TargetReport) -> String {
    let Some(applied) = &leg.applied else {
        return leg.device.clone();
    };
    let how = match applied.provenance {
        Provenance::Measured => String::new(),
        Provenance::Emulated if leg.late > 0 => format!(
            " (emulated, {} of {} {} later than the card's)",
            leg.late,
            leg.chunks,
            many(leg.chunks, "chunk")
        ),
        Provenance::Emulated => " (emulated)".into(),
        Provenance::Modelled => " (modelled)".into(),
        Provenance::Published => " (published)".into(),
    };
    format!("{} on {}{how}", applied.library, leg.device)
}

/// What went wrong on the way, although all is well in the end.
pub fn events(done: &Done) -> String {
    let mut text = String::new();
    let Some(report) = done.report() else {
        return text;
    };
    for event in report.events.iter().take(EVENTS_MAX) {
        push(
            &mut text,
            format_args!("overside {}: {}: {event}", done.verb, done.input),
        );
    }
    text
}

/// What the controller decided and why, in numbers. Decisions that changed nothing are counted.
pub fn explain(done: &Done) -> String {
    let decisions = done.report().map_or(&[][..], |report| &report.decisions);
    if decisions.is_empty() {
        return format!(
            "{}: placement {}, nothing to decide\n",
            done.input, done.policy
        );
    }
    let mut text = format!("{}: placement {}\n", done.input, done.policy);
    let mut shown: Option<(f64, bool)> = None;
    let mut left_out = 0;
    for (at, decided) in decisions.iter().enumerate() {
        let same = shown.is_some_and(|(fraction, probe)| {
            probe == decided.probe && (fraction - decided.fraction).abs() < 0.05
        });
        if same && at + 1 < decisions.len() {
            left_out += 1;
            continue;
        }
        shown = Some((decided.fraction, decided.probe));
        push(
            &mut text,
            format_args!(
                "{:9.4} s  {:>6} to the device: {}",
                Duration::from_nanos(decided.at_ns).as_secs_f64(),
                percent(decided.fraction),
                decided.reason
            ),
        );
    }
    left_out += done.report().map_or(0, |report| report.decisions_left_out);
    if left_out > 0 {
        push(
            &mut text,
            format_args!("  and {left_out} decisions that changed little"),
        );
    }
    text
}

/// All figures.
pub fn stats(done: &Done, how: Stats) -> String {
    match how {
        Stats::Json => json(done),
        Stats::Text => text(done),
    }
}

fn json(done: &Done) -> String {
    let value = serde_json::json!({
        "verb": done.verb.to_string(),
        "input": done.input,
        "output": done.output,
        "placement": done.policy.to_string(),
        "elapsed_ns": done.elapsed.as_nanos() as u64,
        "throughput_bytes_per_s": done.throughput(),
        "summary": done.summary,
    });
    format!("{value}\n")
}

fn text(done: &Done) -> String {
    let summary = &done.summary;
    let mut text = String::new();
    let out = &mut text;
    push(out, format_args!("{}", line(done)));
    push(
        out,
        format_args!(
            "  {}: {} {}, {} stored as they are, {} in pieces",
            summary.container,
            summary.members,
            many(summary.members, "member"),
            summary.stored,
            summary.in_pieces
        ),
    );
    push(
        out,
        format_args!(
            "  {} B read, {} B written in {:.4} s; the rate counts uncompressed bytes",
            summary.bytes_in,
            summary.bytes_out,
            done.elapsed.as_secs_f64()
        ),
    );
    for leg in done.legs() {
        leg_text(leg, out);
    }
    if let Some(report) = done.report() {
        report_text(report, out);
    }
    text
}

fn leg_text(leg: &TargetReport, out: &mut String) {
    let ms = |time_ns: u64| time_ns as f64 / 1e6;
    push(
        out,
        format_args!(
            "  {}: {} {}, {} B in, {} B out, busy {:.3} ms, engine {:.3} ms",
            leg.device,
            leg.chunks,
            many(leg.chunks, "chunk"),
            leg.source_bytes,
            leg.destination_bytes,
            ms(leg.busy_ns),
            ms(leg.engine_ns)
        ),
    );
    let cpu = leg.cpu_time;
    push(
        out,
        format_args!(
            "    CPU time: host {:.3} ms, DPU {:.3} ms, emulator {:.3} ms; set up {} {}: {:.3} ms",
            ms(cpu.host_ns),
            ms(cpu.dpu_ns),
            ms(cpu.emulator_ns),
            leg.setups,
            many(leg.setups, "time"),
            ms(leg.lifecycle.init_ns.unwrap_or(0))
        ),
    );
    if leg.failed + leg.late > 0 {
        push(
            out,
            format_args!("    {} failed, {} late", leg.failed, leg.late),
        );
    }
}

fn report_text(report: &Report, out: &mut String) {
    push(
        out,
        format_args!(
            "  memory: {:.3} ms; {} copies for a leg that could not reach it, {} B; {} given up",
            report.memory_ns as f64 / 1e6,
            report.bounce_copies,
            report.bounce_bytes,
            report.quarantined
        ),
    );
    for event in &report.events {
        push(out, format_args!("  {event}"));
    }
    if report.events_left_out > 0 {
        push(out, format_args!("  and {} more", report.events_left_out));
    }
}

fn percent(part: f64) -> String {
    match part.is_finite() {
        true => format!("{:.1} %", 100.0 * part),
        // Of nothing.
        false => "-".into(),
    }
}

fn many(count: u64, word: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{word}{plural}")
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let texts = [0, 999, 1000, 9994, 9_995, 99_960, 999_600, 12_345_678_901].map(bytes);
        assert_eq!(
            texts,
            [
                "0 B", "999 B", "1.00 kB", "9.99 kB", "10.0 kB", "100 kB", "1.00 MB", "12.3 GB"
            ]
        );
        assert_eq!(rate(0.5), "0.50 B/s");
    }
}
