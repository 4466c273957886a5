//! Text and JSON that `overside kv bench` prints.

use overside_command::line;
use overside_config::units::{count, number, size};
use overside_kv_bench::{CoreRoundTrip, Distribution, Point, ProtocolKind, Settings};
use serde_json::{Value, json};

use super::Report;

const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
/// Above this the load generator itself may be the limit.
const BUSY: f64 = 0.95;

impl Report {
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        if let [point] = &self.points[..] {
            self.one(point, &mut text);
        } else {
            self.table(&mut text);
        }
        line!(text, "");
        line!(text, "{}", conditions(&self.settings));
        if self.from != ["local"] {
            line!(text, "each of {} made this load", self.from.join(", "));
        }
        if let Some(rate) = self.loaded {
            line!(text, "loaded at {} records/s", number(rate, 3));
        }
        if let Some(CoreRoundTrip { cores, ns }) = self.core_round_trip {
            line!(
                text,
                "a cache line takes {} ns from core {} to core {} and back",
                number(ns, 3),
                cores[0],
                cores[1]
            );
        }
        let busiest = self.points.iter().map(Point::client_busy);
        let busiest = busiest.fold(0.0, f64::max);
        if busiest > BUSY && !self.settings.busy_poll {
            line!(
                text,
                "the load generator was busy {:.0} % of the time and may be the limit: add --threads",
                100.0 * busiest
            );
        }
        text
    }

    fn one(&self, point: &Point, text: &mut String) {
        let (median, least, most) = point.throughput();
        let windows = point.windows.len();
        line!(
            text,
            "{} requests/s ({} to {} in {windows} windows) [measured]",
            number(median, 3),
            number(least, 3),
            number(most, 3)
        );
        for (name, share) in SHARES {
            let (median, least, most) = point.latency_ns(share);
            line!(
                text,
                "{:<9} {:>8} µs ({} to {})",
                format!("{name}:"),
                micros(median),
                micros(least),
                micros(most)
            );
        }
        let all = point.latencies();
        line!(text, "{:<9} {:>8} µs", "greatest:", micros(all.max_ns() as f64));
        if point.unanswered_ns as f64 > 2.0 * all.max_ns() as f64 {
            line!(
                text,
                "at the end a request had waited {} µs for its answer, which is not counted",
                micros(point.unanswered_ns as f64)
            );
        }
        if point.misses > 0 {
            line!(
                text,
                "{} of {} reads found nothing",
                count(point.misses),
                count(point.hits + point.misses)
            );
        }
    }

    fn table(&self, text: &mut String) {
        line!(
            text,
            "{:>12} {:>12} {:>9} {:>9} {:>9} {:>9} [measured; latency in µs, median of {} windows]",
            "offered/s",
            "answered/s",
            "p50",
            "p99",
            "p99.9",
            "greatest",
            self.settings.windows
        );
        for point in &self.points {
            let offered = point.offered.map_or("closed loop".into(), |rate| number(rate, 3));
            let latency = |share| micros(point.latency_ns(share).0);
            line!(
                text,
                "{offered:>12} {:>12} {:>9} {:>9} {:>9} {:>9}",
                number(point.throughput().0, 3),
                latency(0.5),
                latency(0.99),
                latency(0.999),
                micros(point.latencies().max_ns() as f64)
            );
        }
    }

    pub(super) fn to_json(&self) -> String {
        let settings = &self.settings;
        let points: Vec<Value> = self.points.iter().map(point_json).collect();
        let mut value = conditions_json(settings);
        value["loaded_per_s"] = json!(self.loaded);
        value["from"] = json!(self.from);
        value["core_round_trip_ns"] = json!(self.core_round_trip.map(|measured| measured.ns));
        value["core_round_trip_cores"] = json!(self.core_round_trip.map(|measured| measured.cores));
        value["hash_ns_per_key"] = json!(self.hash_ns);
        value["points"] = json!(points);
        format!("{value:#}")
    }
}

fn endpoints(settings: &Settings) -> String {
    let all: Vec<_> = settings.endpoints().map(ToString::to_string).collect();
    all.join(", ")
}

/// Conditions of a benchmark run, as one line of text.
pub(crate) fn conditions(settings: &Settings) -> String {
    let distribution = match settings.workload.distribution {
        Distribution::Uniform => "uniform".into(),
        Distribution::Zipf(skew) => format!("Zipf {skew}"),
        Distribution::Latest(skew) => format!("latest, Zipf {skew}"),
    };
    format!(
        "{} at {}: workload {} ({distribution}) of {} records, keys {}, values {}; {} connections, \
         pipeline {}, {}, seed {}",
        protocol(settings.protocol),
        endpoints(settings),
        settings.workload.name,
        count(settings.records.count),
        size(settings.records.key_bytes as f64),
        size(settings.records.value_bytes as f64),
        settings.connections,
        settings.pipeline,
        match settings.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        },
        settings.seed,
    )
}

/// Conditions of a benchmark run, as JSON.
pub(crate) fn conditions_json(settings: &Settings) -> Value {
    json!({
        "schema": "kv-bench/1",
        "provenance": "measured",
        "server": endpoints(settings),
        "protocol": protocol(settings.protocol),
        "workload": settings.workload.name,
        "distribution": match settings.workload.distribution {
            Distribution::Uniform => json!({"kind": "uniform"}),
            Distribution::Zipf(skew) => json!({"kind": "zipf", "skew": skew}),
            Distribution::Latest(skew) => json!({"kind": "latest", "skew": skew}),
        },
        "records": settings.records.count,
        "key_bytes": settings.records.key_bytes,
        "value_bytes": settings.records.value_bytes,
        "connections": settings.connections,
        "pipeline": settings.pipeline,
        "threads": settings.threads,
        "busy_poll": settings.busy_poll,
        "seed": settings.seed
    })
}

fn point_json(point: &Point) -> Value {
    let windows: Vec<Value> = (point.windows.iter())
        .map(|window| {
            json!({
                "requests": window.done,
                "elapsed_s": window.seconds,
                "p50_ns": window.latencies.quantile_ns(0.5),
                "p99_ns": window.latencies.quantile_ns(0.99),
            })
        })
        .collect();
    let (median, least, most) = point.throughput();
    let all = point.latencies();
    let quantiles = SHARES.map(|(name, share)| {
        let (median, least, most) = point.latency_ns(share);
        (name.to_owned(), json!({"median": median, "min": least, "max": most}))
    });
    json!({
        "mode": match point.offered {
            None => json!({"loop": "closed"}),
            Some(rate) => json!({"loop": "open", "rate_per_s": rate}),
        },
        "requests_per_s": {"median": median, "min": least, "max": most},
        "latency_ns": serde_json::Map::from_iter(quantiles),
        "latency_max_ns": all.max_ns(),
        "unanswered_ns": point.unanswered_ns,
        "latency_histogram": all.to_text(),
        "answered": point.answered,
        "requests_by_endpoint": point.by_endpoint,
        "hits": point.hits,
        "misses": point.misses,
        "client_busy": point.client_busy(),
        "windows": windows,
    })
}

fn protocol(kind: ProtocolKind) -> &'static str {
    match kind {
        ProtocolKind::Resp => "redis",
        ProtocolKind::Memcached => "memcached",
        ProtocolKind::MemcachedMeta => "memcached-meta",
        ProtocolKind::Datagram => "datagram",
        ProtocolKind::Herd => "herd",
    }
}

fn micros(ns: f64) -> String {
    number(ns / 1e3, 3)
}
