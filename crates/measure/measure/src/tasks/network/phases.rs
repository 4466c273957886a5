//! The five phases of traffic beside jobs, in the order in which they are measured:
//!
//! 1. *idle*: neither traffic nor jobs, a third of the sample's time long;
//! 2. *alone*: the jobs alone, as long;
//! 3. *before*: the traffic alone, the first third of the sample;
//! 4. *during*: both;
//! 5. *after*: the traffic alone again, while it recovers.

use std::time::{Duration, Instant};

use overside_probe::network::{Pass, Slice, Traffic};

use super::NetworkTest;
use super::background::JobsReport;
use crate::metrics::Metrics;
use crate::sample::SeriesPhase;
use crate::tasks::processor_events;

/// Recovery of the traffic after the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CatchUp {
    /// Time from the end of the jobs until the stream was as before; `None` if that was not reached before
    /// the traffic ended.
    pub after: Option<Duration>,
}

/// Measures the time from `end`, when the jobs ended, until delays are back at their level before
/// `begin`.
///
/// The former level is the highest mean delay of any slice before the jobs. Delays are back at the
/// beginning of the first slice after the jobs whose mean is not above that. So the time is as fine
/// as the slices are. `None`: there is no slice before the jobs, or none after them.
pub(super) fn catch_up(slices: &[Slice], begin: Duration, end: Duration) -> Option<CatchUp> {
    let timed = || slices.iter().filter(|slice| slice.messages > 0);
    let mean = |slice: &Slice| slice.latency_sum_ns / slice.messages;
    let level = timed().filter(|slice| slice.end <= begin).map(mean).max()?;
    let begins = |slice: &Slice| slice.end.saturating_sub(slice.length);
    let mut after = timed().filter(|slice| begins(slice) >= end).peekable();
    after.peek()?;
    let back = after.find(|slice| mean(slice) <= level);
    Some(CatchUp { after: back.map(|slice| begins(slice) - end) })
}

/// The slices that lie within a phase.
fn within(slices: &[Slice], from: Duration, to: Duration) -> Vec<&Slice> {
    let inside = |slice: &&Slice| slice.end.saturating_sub(slice.length) >= from && slice.end <= to;
    slices.iter().filter(inside).collect()
}

/// Adds the figures before, during and after the jobs: throughput and its variation, latency or delay, and
/// loss.
pub(super) fn figures(test: &NetworkTest, timed: &Pass, jobs: &JobsReport, metrics: &mut Metrics) {
    let (begin, end) = jobs.between(timed.start);
    let all =
        [("before", Duration::ZERO, begin), ("during", begin, end), ("after", end, Duration::MAX)];
    for (name, from, to) in all {
        let slices = within(&timed.slices, from, to);
        let rates: Vec<f64> = slices.iter().map(|slice| rate(slice)).collect();
        let mut put = |what: &str, value: f64| metrics.put(format!("{what}_{name}"), value);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        put("throughput", mean);
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        put("jitter", (variance / rates.len() as f64).sqrt() / mean * 100.0);
        let sum = |of: fn(&Slice) -> u64| slices.iter().map(|slice| of(slice)).sum::<u64>() as f64;
        let (messages, lost) = (sum(|slice| slice.messages), sum(|slice| slice.lost));
        let latency = sum(|slice| slice.latency_sum_ns) / messages / 1e3;
        if test.pattern == Traffic::RoundTrips {
            put("latency", latency);
        }
        if timed.one_way.is_some() {
            put("delay", latency);
            let longest = slices.iter().map(|slice| slice.latency_max_ns).max();
            put("delay_max", longest.map_or(f64::NAN, |ns| ns as f64 / 1e3));
            put("loss", 100.0 * lost / (messages + lost));
        }
    }
    if test.rate.is_some() {
        let back = catch_up(&timed.slices, begin, end).and_then(|catch_up| catch_up.after);
        metrics.put("catch_up", back.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3));
        let after = within(&timed.slices, end, Duration::MAX);
        let peak = after.into_iter().map(rate).fold(f64::NAN, f64::max);
        metrics.put("throughput_after_max", peak);
    }
    for (name, sample) in [("job_throughput", &jobs.sample), ("job_throughput_alone", &jobs.alone)]
    {
        if let Some(&rate) = sample.metrics.get("throughput") {
            metrics.put(name, rate);
        }
    }
    for name in processor_events::names() {
        if let Some(&value) = jobs.sample.metrics.get(name) {
            metrics.put(format!("job_{name}"), value);
        }
    }
    if let Some(share) = jobs.idle.machine_share {
        metrics.put("machine_cpu_idle", share * 100.0);
    }
}

/// MB/s.
pub(super) fn rate(slice: &Slice) -> f64 {
    slice.bytes as f64 / 1e6 / slice.length.as_secs_f64()
}

/// Returns the begin and end of each phase, from the beginning of the traffic; the first two are before the
/// jobs.
pub(super) fn spans(timed: &Pass, jobs: &JobsReport) -> Vec<SeriesPhase> {
    let since_start = |at: Instant| match at.checked_duration_since(timed.start) {
        Some(after) => after.as_secs_f64(),
        None => -(timed.start - at).as_secs_f64(),
    };
    let (begin, end) = jobs.between(timed.start);
    let (begin, end) = (begin.as_secs_f64(), end.as_secs_f64());
    let last = (timed.slices.last()).map_or(timed.elapsed, |slice| slice.end.max(timed.elapsed));
    let last = last.as_secs_f64();
    let alone_s = jobs.length(&jobs.alone).as_secs_f64();
    let alone = since_start(jobs.alone_began);
    let phase = |name: &str, begin_s: f64, end_s: f64| SeriesPhase {
        name: name.into(),
        begin_s: (begin_s * 1e6).round() / 1e6,
        end_s: (end_s * 1e6).round() / 1e6,
    };
    let idle = (since_start(jobs.idle.began), since_start(jobs.idle.ended));
    let mut all = vec![
        phase("idle", idle.0, idle.1),
        phase("alone", alone, alone + alone_s),
        phase("before", 0.0, begin.min(last)),
        phase("during", begin.min(last), end.min(last)),
    ];
    if end < last {
        all.push(phase("after", end, last));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Duration = Duration::from_millis(10);

    /// Slices of 10 ms with one message each, or none.
    fn slices(delays_ns: &[u64]) -> Vec<Slice> {
        let slice = |(number, &delay_ns): (usize, &u64)| Slice {
            end: SLICE * (number as u32 + 1),
            length: SLICE,
            messages: u64::from(delay_ns > 0),
            latency_sum_ns: delay_ns,
            ..Slice::default()
        };
        delays_ns.iter().enumerate().map(slice).collect()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn traffic_has_caught_up_when_delays_are_what_they_were() {
        let caught = |delays: &[u64]| catch_up(&slices(delays), ms(20), ms(39));
        let after = |after| Some(CatchUp { after });
        // The jobs ran from 20 to 39 ms; the former level is 7.
        assert_eq!(caught(&[5, 7, 90, 80, 60, 20, 7, 5]), after(Some(ms(21))));
        // Nothing came in the second slice after them.
        assert_eq!(caught(&[5, 7, 90, 80, 60, 0, 6]), after(Some(ms(21))));
        // It was never disturbed.
        assert_eq!(caught(&[5, 7, 6, 6, 6]), after(Some(ms(1))));
        // Never back.
        assert_eq!(caught(&[5, 7, 90, 80, 60, 8]), after(None));
        // Nothing before, or nothing after.
        assert_eq!(caught(&[0, 0, 90, 80, 60, 8]), None);
        assert_eq!(caught(&[5, 7, 90]), None);
    }
}
