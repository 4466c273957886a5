//! How much a device gets done a second: the least of what queue, engines, link and cores allow.

use overside_ops::Direction;
use serde::{Deserialize, Serialize};

use crate::{CostError, Dimension, Interval, Profile, Setting, Span, Work, cost};

/// What limits a throughput, and to how much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// `engines`, `link to the device`, `link from the device`, `queue` or `cores`.
    pub name: String,
    /// Bytes of the uncompressed side a second that it allows.
    pub per_s: Interval,
}

/// What a device gets done a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Bytes of the uncompressed side a second; `None` if nothing is known that limits it.
    pub per_s: Option<Interval>,
    /// What limits it.
    pub bottleneck: Option<String>,
    /// Everything that limits it, the tightest first.
    pub bounds: Vec<Bound>,
    /// Terms without a fact: they count as zero, so that the throughput is an upper bound.
    pub missing: Vec<String>,
    /// The facts that it rests on.
    pub facts: Vec<String>,
}

/// The throughput of buffers like `work`, with `depth` of them in flight and `cores` that submit.
///
/// In the reconfiguration setting a context runs one buffer, and each core has one.
///
/// # Errors
/// As [`cost`].
pub fn throughput(
    profile: &Profile,
    work: &Work,
    depth: u64,
    cores: u64,
) -> Result<Throughput, CostError> {
    let cost = cost(profile, work)?;
    let mut missing = cost.missing.clone();
    let bytes = match work.operation.uncompressed_side() {
        Direction::Source => work.source_bytes,
        Direction::Destination => work.destination_bytes,
    } as f64;
    let parts = &cost.parts;
    let mut bounds = Vec::new();
    let mut bound = |name: &str, servers: f64, time: Span| {
        if time.high_ns == 0 || bytes == 0.0 {
            return;
        }
        // A time of zero at its low end allows any rate: the typical one stands in for it.
        let ns = |time: u64, otherwise: u64| (if time == 0 { otherwise } else { time }) as f64;
        let typ = ns(time.typ_ns, time.high_ns);
        let per_s = Interval {
            low: servers * bytes / time.high_ns as f64 * 1e9,
            typ: servers * bytes / typ * 1e9,
            high: servers * bytes / ns(time.low_ns, typ as u64) * 1e9,
        };
        bounds.push(Bound {
            name: name.into(),
            per_s,
        });
    };
    if parts.engine.is_some() || parts.per_job.is_some() {
        let engine = together(parts.engine, parts.per_job);
        bound("engines", profile.engines() as f64, engine);
    }
    for (name, time) in [
        ("link to the device", parts.link_in),
        ("link from the device", parts.link_out),
    ] {
        if let Some(time) = time {
            bound(name, 1.0, time);
        }
    }
    let (cores, depth) = (cores.max(1) as f64, depth.max(1) as f64);
    let in_flight = match work.setting {
        Setting::Static => depth,
        Setting::Reconfiguration => cores,
    };
    let whole = Span {
        low_ns: cost.low_ns,
        typ_ns: cost.typ_ns,
        high_ns: cost.high_ns,
    };
    bound("queue", in_flight, whole);
    match core_time(profile, work) {
        Some(time) => bound("cores", cores, together(Some(time), parts.submit)),
        None if work.completion.is_some() => missing.push("time of a core that a job takes".into()),
        None => {}
    }
    bounds.sort_by(|a, b| a.per_s.typ.total_cmp(&b.per_s.typ));
    let least = |of: fn(&Interval) -> f64| {
        (bounds.iter())
            .map(|one| of(&one.per_s))
            .fold(f64::INFINITY, f64::min)
    };
    let per_s = (!bounds.is_empty()).then(|| Interval {
        low: least(|one| one.low),
        typ: least(|one| one.typ),
        high: least(|one| one.high),
    });
    Ok(Throughput {
        per_s,
        bottleneck: bounds.first().map(|one| one.name.clone()),
        bounds,
        missing,
        facts: cost.facts,
    })
}

/// Time of a submitting core that the buffer's jobs take.
fn core_time(profile: &Profile, work: &Work) -> Option<Span> {
    let name = format!("job.cpu.{}.{}", work.operation, work.completion?.name());
    let one = profile.values.get(&name)?;
    (one.unit.dimension() == Dimension::Time)
        .then(|| Span::of(one.interval().scale(work.jobs.max(1) as f64)))
}

fn together(a: Option<Span>, b: Option<Span>) -> Span {
    let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
    Span {
        low_ns: a.low_ns.saturating_add(b.low_ns),
        typ_ns: a.typ_ns.saturating_add(b.typ_ns),
        high_ns: a.high_ns.saturating_add(b.high_ns),
    }
}
