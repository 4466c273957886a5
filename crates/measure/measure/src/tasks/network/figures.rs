//! The figures of a network test.

use std::time::Duration;

use overside_device::{Applied, CpuTime, Provenance};
use overside_probe::network::{OneWay, Pass, Protocol, Role, Slice, Traffic};

use super::background::JobsReport;
use super::phases::{self, CatchUp};
use super::{NetworkResult, NetworkTest};
use crate::evidence::Evidence;
use crate::metrics::Metrics;
use crate::node::LOCAL;
use crate::sample::{Check, MeasuredWork, Sample, Series, Warning, Work, nanoseconds};
use crate::tasks::processor_events;

/// Share of messages that may be sent late without a warning.
const LATE_LIMIT: f64 = 0.01;
/// Fewer messages than this do not give a distribution.
const FEW_MESSAGES: u64 = 100;

/// Sample of the result of a test.
pub(super) fn sample(test: &NetworkTest, taken: &NetworkResult) -> Sample {
    let timed = &taken.timed;
    let traffic = cpu_time(taken);
    let evidence = match &taken.jobs {
        None => Evidence::measured(traffic),
        Some(jobs) => {
            // What they took alone was not taken while the traffic's clock ran.
            let alone = Evidence { cpu: CpuTime::default(), late: None, ..jobs.alone.evidence() };
            (Evidence::measured(traffic)).and(jobs.sample.evidence()).and(alone)
        }
    };
    let done = MeasuredWork {
        applied: Some(applied(test, taken)),
        work: Work {
            jobs: timed.messages,
            bytes: timed.bytes,
            doorbells: timed.writes,
            ..Work::default()
        },
        elapsed_ns: nanoseconds(timed.elapsed),
        check: Check {
            method:
                "every message's number and length; every byte of the first 64 of a connection, of \
                 every 1021st, and of those up to 1024 bytes"
                    .into(),
            value: format!("{:016x}", test.seed),
            buffers: taken.verified.messages + timed.messages,
        },
    };
    let mut sample = Sample::ok(evidence, done);
    let mut metrics = Metrics::default();
    let seconds = timed.elapsed.as_secs_f64();
    let rate = |bytes: u64| bytes as f64 / 1e6 / seconds;
    metrics.put("throughput", rate(timed.bytes));
    metrics.put("bit_rate", rate(timed.bytes) * 8.0 / 1e3);
    metrics.put("rate", timed.messages as f64 / seconds);
    let of_one = |bytes: Option<&u64>| bytes.copied().map_or(f64::NAN, rate);
    let connections = timed.connection_bytes.iter();
    metrics.put("connection_throughput_min", of_one(connections.clone().min()));
    metrics.put("connection_throughput_max", of_one(connections.max()));
    let share = |time: Duration| time.as_secs_f64() / seconds * 100.0;
    metrics.put("client_cpu", share(timed.client_cpu));
    metrics.put("server_cpu", share(timed.server_cpu));
    metrics.put("hop_cpu", taken.hop.map_or(f64::NAN, share));
    metrics.put("machine_cpu", taken.machine_share.unwrap_or(f64::NAN) * 100.0);
    metrics.put("cpu_seconds", evidence.cpu.host_ns as f64 / 1e9);
    metrics.put("cpu_cost", traffic.host_ns as f64 / timed.bytes as f64);
    if test.pattern == Traffic::RoundTrips {
        metrics.put_latencies(&timed.latencies);
        sample.histogram = Some(timed.latencies.to_text());
    }
    if let Some(one_way) = &timed.one_way {
        put_one_way(timed, one_way, &mut metrics);
    }
    if let Some(jobs) = &taken.jobs {
        phases::figures(test, timed, jobs, &mut metrics);
    }
    sample.metrics = metrics.0;
    if let Some(events) = &timed.events {
        processor_events::put(&mut sample, events, timed.messages);
    }
    sample.series = series(test, taken);
    sample.warnings.extend(warnings(test, taken));
    sample
}

/// Adds the metrics that only a paced stream has: one-way delays, clock errors, loss, duplicates,
/// reordering and late messages.
fn put_one_way(timed: &Pass, one_way: &OneWay, metrics: &mut Metrics) {
    timed.latencies.metrics(&mut |name, value| {
        metrics.put(name.replace("latency", "delay"), value);
    });
    metrics.put("delay_error", one_way.clock_error_ns as f64 / 1e3);
    metrics.put("clock_drift", one_way.drift * 1e6);
    metrics.put("clock_drift_error", one_way.drift_error * 1e6);
    let lost = one_way.lost(timed.messages);
    let share = |count: u64| 100.0 * count as f64 / one_way.sent as f64;
    metrics.put("loss", share(lost));
    metrics.put("lost", lost as f64);
    metrics.put("duplicates", one_way.duplicates as f64);
    metrics.put("reordered", one_way.reordered as f64);
    metrics.put("late", share(timed.late));
}

fn applied(test: &NetworkTest, taken: &NetworkResult) -> Applied {
    let version = env!("CARGO_PKG_VERSION");
    let way = match &test.hop {
        Some(hop) => hop.description.clone(),
        None if taken.destination.ip().is_loopback() => "loopback".into(),
        None if taken.client.is_beside(taken.server) => "within one machine".into(),
        None => "the network as it is".into(),
    };
    Applied {
        device: from_to(test),
        driver: format!("probe {version}"),
        variant: test.mode.clone().unwrap_or_else(|| "as-is".into()),
        library: match test.protocol {
            Protocol::Tcp => format!("TCP of Linux, {way}"),
            Protocol::Udp => format!("UDP of Linux, {way}"),
        },
        because: None,
        provenance: Provenance::Measured,
    }
}

/// Both ends by their names, where one is an agent.
fn from_to(test: &NetworkTest) -> String {
    let name = |node: &Option<String>| node.clone().unwrap_or_else(|| "host".into());
    let [source, destination] = [&test.source_node, &test.destination_node].map(name);
    match (&test.source_node, &test.destination_node) {
        (None, None) => source,
        _ => format!("{source} to {destination}"),
    }
}

/// Returns the CPU time of both ends' threads and the hop's processes. The time of another host is
/// on no ledger of this one.
fn cpu_time(taken: &NetworkResult) -> CpuTime {
    let mut cpu = CpuTime::default();
    let timed = &taken.timed;
    for (whose, time) in [(taken.client, timed.client_cpu), (taken.server, timed.server_cpu)] {
        match (whose.role, whose.here) {
            (Role::Dpu, _) => cpu.dpu_ns += nanoseconds(time),
            (Role::Host, true) => cpu.host_ns += nanoseconds(time),
            (Role::Host, false) => {}
        }
    }
    cpu.host_ns += nanoseconds(taken.hop.unwrap_or_default());
    cpu
}

fn series(test: &NetworkTest, taken: &NetworkResult) -> Option<Series> {
    let slice_s = test.slice_s?;
    let slices = &taken.timed.slices;
    let round = |value: f64| (value * 1e6).round() / 1e6;
    let is_timed = test.pattern == Traffic::RoundTrips || taken.timed.one_way.is_some();
    let latency = |of: fn(&Slice) -> f64| {
        let values =
            slices.iter().map(|slice| (slice.messages > 0).then(|| round(of(slice) / 1e3)));
        is_timed.then(|| values.collect())
    };
    Some(Series {
        slice_s,
        end_s: slices.iter().map(|slice| round(slice.end.as_secs_f64())).collect(),
        throughput: slices.iter().map(|slice| round(phases::rate(slice))).collect(),
        latency_mean: latency(|slice| slice.latency_sum_ns as f64 / slice.messages as f64),
        latency_max: latency(|slice| slice.latency_max_ns as f64),
        lost: (taken.timed.one_way.as_ref())
            .map(|_| slices.iter().map(|slice| slice.lost).collect()),
        phases: (taken.jobs.as_ref())
            .map(|jobs| phases::spans(&taken.timed, jobs))
            .unwrap_or_default(),
        jobs_s: taken.jobs.as_ref().map(|jobs| {
            let (begin, end) = jobs.between(taken.timed.start);
            [round(begin.as_secs_f64()), round(end.as_secs_f64())]
        }),
    })
}

fn warnings(test: &NetworkTest, taken: &NetworkResult) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut warn = |kind: &str, message: String, remedy: &str| {
        all.push(Warning::new(kind, message, remedy));
    };
    let timed = &taken.timed;
    let sent = timed.one_way.map_or(timed.messages, |one_way| one_way.sent);
    if timed.late as f64 > LATE_LIMIT * sent as f64 {
        let (late, messages) = (timed.late, sent);
        warn(
            "late",
            format!(
                "{late} of {messages} messages were sent more than a millisecond after their time"
            ),
            "ask for a lower rate, or for more depth, connections or threads; the latencies count \
             from the intended times all the same",
        );
    }
    if test.pattern == Traffic::RoundTrips && timed.messages < FEW_MESSAGES {
        warn(
            "few-jobs",
            format!("only {} messages came back: percentiles say little", timed.messages),
            "raise measure.sample_s, or lower message_size",
        );
    }
    for (end, whose) in [("client", taken.client), ("server", taken.server)] {
        if whose.role == Role::Host && !whose.here {
            warn(
                "other-host",
                format!("the {end}'s CPU time is on no ledger: it is another host's"),
                "start what runs on a card's own cores with --role dpu",
            );
        }
    }
    let nodes = test.source_node.is_some() || test.destination_node.is_some();
    if nodes && taken.client.is_beside(taken.server) {
        warn(
            "one-machine",
            format!(
                "{}: both run on the same machine, share its cores, and no network lies between \
                 them",
                from_to(test)
            ),
            "run the agent on the card, or on another machine: docs/core/agent.md",
        );
    }
    if let Some(one_way) = &timed.one_way {
        all.extend(clocks_apart(timed, one_way));
    }
    if let Some(jobs) = &taken.jobs {
        all.extend(jobs.sample.warnings.iter().cloned());
        all.extend(still_behind(test, jobs, timed));
        all.extend(overrun(jobs, timed));
        if !jobs_are_elsewhere(test) {
            all.push(Warning::new(
                "not-a-card",
                "the jobs beside run on this machine's cores, which also carry the network: this \
                 is not how an accelerator disturbs a card's traffic"
                    .into(),
                "measure on a card: docs/measure/modes.md",
            ));
        }
    }
    all
}

/// Returns `true` if the jobs run on an agent's device, or are run by an agent, and so do not use
/// this machine's cores.
fn jobs_are_elsewhere(test: &NetworkTest) -> bool {
    let text = |key: &str| test.beside.as_ref()?.get(key)?.as_str();
    let device = text("device").is_some_and(|name| name.contains('/'));
    device || text("node").is_some_and(|node| node != LOCAL)
}

/// Returns a warning if the relation of the clocks is too uncertain for the delays: its error
/// exceeds the median delay.
fn clocks_apart(timed: &Pass, one_way: &OneWay) -> Option<Warning> {
    let median_ns = timed.latencies.quantile_ns(0.5);
    (one_way.clock_error_ns > median_ns).then(|| {
        Warning::new(
            "clocks",
            format!(
                "how the clocks of the two ends relate is known within {:.1} µs only, and the median \
                 delay is {:.1} µs",
                one_way.clock_error_ns as f64 / 1e3,
                median_ns as f64 / 1e3
            ),
            "compare delays with each other, not with zero; an idle network and idle ends relate \
             clocks better",
        )
    })
}

/// Returns a warning if the traffic ended before its delays were back at their level before the
/// jobs.
fn still_behind(test: &NetworkTest, jobs: &JobsReport, timed: &Pass) -> Option<Warning> {
    test.rate?;
    let (begin, end) = jobs.between(timed.start);
    let never = CatchUp { after: None };
    (phases::catch_up(&timed.slices, begin, end)? == never).then(|| {
        Warning::new(
            "not-caught-up",
            "when the traffic ended its delays were still above those before the jobs".into(),
            "raise measure.sample_s, or lower the rate",
        )
    })
}

/// Returns a warning if no slice of the traffic begins after the jobs have ended.
fn overrun(jobs: &JobsReport, timed: &Pass) -> Option<Warning> {
    let (_, end) = jobs.between(timed.start);
    let last = timed.slices.last()?;
    if last.end.saturating_sub(last.length) >= end {
        return None;
    }
    Some(Warning::new(
        "overrun",
        format!(
            "the jobs ran until {:.3} s and the traffic until {:.3} s: there are no figures of \
             the time after them",
            end.as_secs_f64(),
            last.end.as_secs_f64()
        ),
        "raise measure.sample_s, or lower buffer_size, job_depth or slice_ms",
    ))
}
