//! `--explain`: devices that ran the search, and the reasons.

use overside_command::line;
use std::time::Duration;

use overside_match::Search;
use overside_placement::{Policy, TargetReport};

use crate::verification;

/// Maximum number of decisions that are shown; the report has more.
const DECISIONS_MAX: usize = 40;

/// Returns lines about a search: its targets, engine, verification, events and decisions.
pub(super) fn text(search: &Search, policy: Policy) -> String {
    let mut text = format!("placement {policy}\n");
    let Some(report) = search.report() else {
        text.push_str("nothing was searched\n");
        return text;
    };
    if let Some(because) = search.because() {
        line!(text, "  {because}");
    }
    if let Some(trial) = search.trial() {
        let times: Vec<String> = (trial.times.iter())
            .map(|(name, time)| format!("{name} {:.0} us", time.as_secs_f64() * 1e6))
            .collect();
        line!(text, "  engine {} by a trial: {}", trial.variant, times.join(", "));
    }
    for target in report.targets() {
        line!(text, "  {}", of_target(target));
    }
    if let Some(verified) = verification::text(&report) {
        line!(text, "  {verified}");
    }
    for event in &report.events {
        line!(text, "  {event}");
    }
    for decided in report.decisions.iter().take(DECISIONS_MAX) {
        line!(
            text,
            "  {:.4} s: {:.1} % to {}: {}",
            Duration::from_nanos(decided.at_ns).as_secs_f64(),
            100.0 * decided.fraction,
            decided.rest(),
            decided.reason
        );
    }
    let more = report.decisions.len().saturating_sub(DECISIONS_MAX) as u64;
    if more + report.decisions_left_out > 0 {
        line!(text, "  and {} decisions more", more + report.decisions_left_out);
    }
    text
}

fn of_target(target: &TargetReport) -> String {
    let ran = target.applied.as_ref().map_or_else(
        || "nothing".to_owned(),
        |applied| format!("{} ({})", applied.variant, applied.library),
    );
    format!(
        "{}: {} chunks, {} B by {ran}, busy {:.3} ms, failed {}",
        target.device,
        target.chunks,
        target.source_bytes,
        target.busy_ns as f64 / 1e6,
        target.failed
    )
}
