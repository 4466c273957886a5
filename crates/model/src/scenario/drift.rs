//! Co-processing while the device slows down: fixed shares against following its rate.

mod world;

use overside_ops::Operation;

use overside_config::Error;

use super::{Better, Key, Method, Metric, Point, Row, Scenario};
use crate::{
    Answer, Basis, Evidence, EvidenceLevel, Interval, Library, MissingParameter, NoPrediction,
    OperationProfile, Outcome, ParameterValue, Profile, Quantity, Unit, Values,
};
use world::{Deal, Ran, World};

/// The most chunks of one stream.
const MAX_CHUNKS: u64 = 65_536;
/// Simulations of one point: each of six parameters at both ends and once in the middle, for
/// three figures.
const RUNS: u64 = 39;

/// `coprocessing-drift`.
pub(super) struct Drift;

const KEYS: &[Key] = &[
    Key::profile("profile", "bf2", "the card"),
    Key::choice(
        "operation",
        &["compress-deflate", "decompress-deflate", "decompress-lz4"],
        "compress-deflate",
        "what is done to each chunk",
    ),
    Key::choice(
        "placement",
        &["cpu", "device", "split", "adaptive"],
        "cpu, device, split, adaptive",
        "who gets which chunk",
    ),
    Key::amount(
        "share",
        Unit::Percent,
        (0.0, 100.0),
        "",
        "the device's part under split; that at which both are done together before it slows",
    ),
    Key::amount(
        "cpu_rate",
        Unit::MBPerS,
        (0.01, 1e6),
        "60 MB/s",
        "one core's rate, of the uncompressed side",
    ),
    Key::count("cores", 1, 1024, "8", "host cores that work on chunks"),
    Key::amount(
        "ratio",
        Unit::Count,
        (0.001, 2.0),
        "0.4",
        "compressed bytes by uncompressed ones",
    ),
    Key::amount(
        "bytes",
        Unit::B,
        (4.0 * 1024.0, 1_099_511_627_776.0),
        "1 GiB",
        "the stream, of the uncompressed side",
    ),
    Key::amount(
        "chunk",
        Unit::B,
        (4.0 * 1024.0, 134_217_728.0),
        "1 MiB",
        "one chunk, of the uncompressed side",
    ),
    Key::count(
        "depth",
        1,
        4096,
        "8",
        "chunks that the device is given at once",
    ),
    Key::amount(
        "slowdown",
        Unit::Count,
        (1.0, 1000.0),
        "4",
        "how many times as long the engine takes afterwards; 1 is no drift",
    ),
    Key::amount(
        "slows_at",
        Unit::Percent,
        (0.0, 100.0),
        "50",
        "when it slows: part of the time that both would take together without it",
    ),
];

impl Scenario for Drift {
    fn name(&self) -> &'static str {
        "coprocessing-drift"
    }

    fn about(&self) -> &'static str {
        "a stream shared by cores and a device that slows down on the way"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn events(&self, point: &Point) -> u64 {
        chunks(point).saturating_mul(RUNS)
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let chunks = chunks(point);
        if chunks > MAX_CHUNKS {
            let problem = format!("{chunks} chunks of {}", point.word("chunk"));
            let allowed = format!("up to {MAX_CHUNKS} chunks; larger ones, or fewer bytes");
            return Err(Error::of_key("chunk", problem, allowed));
        }
        let operation: Operation = (point.word("operation").parse())
            .map_err(|error| Error::of_key("operation", format!("{error}"), "an operation"))?;
        let profile = library.profile(point.word("profile"));
        let entry = profile.and_then(|profile| Some((profile, profile.operation(operation)?)));
        let setup = match entry {
            Some((profile, entry)) => Setup::of(point, profile, entry)?,
            None if point.word("placement") == "cpu" => Setup::cores(point),
            None => return Ok(vec![absent(point, profile, operation)]),
        };
        Ok(vec![setup.row(point)])
    }
}

fn chunks(point: &Point) -> u64 {
    (point.number("bytes") / point.number("chunk")).ceil() as u64
}

/// A row without figures: the card does not do it.
fn absent(point: &Point, profile: Option<&Profile>, operation: Operation) -> Row {
    let name = point.word("profile");
    let because = profile.and_then(|profile| profile.why_absent(operation));
    let answer = || {
        let reason = because.map_or_else(String::new, |why| format!(": {why}"));
        Err(NoPrediction {
            why: format!("{name} cannot {operation}{reason}"),
            remedy: "choose another card: `overside list profiles`".into(),
        })
    };
    Row {
        throughput: Some(Metric::new(
            "throughput",
            Unit::MBPerS,
            Better::Higher,
            answer(),
        )),
        ..Row::default()
    }
}

/// What is known, and what one chunk is.
struct Setup {
    evidence: Evidence,
    chunk_bytes: f64,
    source_bytes: f64,
    result_bytes: f64,
    engine_bytes: f64,
    missing: Vec<String>,
}

/// Parameters of the device, by the profile's entries.
const LINK_IN: &str = "link.to_device";
const LINK_OUT: &str = "link.from_device";
const ENGINE: &str = "engine.rate";
const PER_JOB: &str = "engine.per_job";
const LATENCY: &str = "engine.latency";
const ENGINES: &str = "device.engines";

impl Setup {
    fn cores(point: &Point) -> Self {
        let chunk_bytes = point.number("chunk");
        Self {
            evidence: Evidence::new(),
            chunk_bytes,
            source_bytes: chunk_bytes,
            result_bytes: chunk_bytes,
            engine_bytes: chunk_bytes,
            missing: Vec::new(),
        }
    }

    fn of(point: &Point, profile: &Profile, entry: &OperationProfile) -> Result<Self, Error> {
        let mut setup = Self::cores(point);
        let packed = setup.chunk_bytes * point.number("ratio");
        let compresses = point.word("operation").starts_with("compress");
        if compresses {
            setup.result_bytes = packed;
        } else {
            setup.source_bytes = packed;
        }
        if entry.basis == Basis::Compressed {
            setup.engine_bytes = packed;
        }
        let (source, result) = (entry.max_source_bytes(), entry.max_destination_bytes());
        if setup.source_bytes > source as f64 || setup.result_bytes > result as f64 {
            let problem = format!("{} is longer than one job", point.word("chunk"));
            let allowed = format!("up to {source} bytes of source and {result} of result");
            return Err(Error::of_key("chunk", problem, allowed));
        }
        let terms: [(&str, Option<&Quantity>); 6] = [
            (LINK_IN, profile.link.to_device.as_ref()),
            (LINK_OUT, profile.link.from_device.as_ref()),
            (ENGINE, entry.rate.as_ref()),
            (PER_JOB, entry.per_job.as_ref()),
            (LATENCY, entry.latency.as_ref()),
            (ENGINES, profile.device.engines.as_ref()),
        ];
        for (name, quantity) in terms {
            match quantity {
                Some(quantity) => setup
                    .evidence
                    .insert(name, ParameterValue::Quantity(quantity.clone())),
                None => setup.missing.push(name.into()),
            }
        }
        Ok(setup)
    }

    /// The stream as the values have it.
    fn world(&self, point: &Point, values: &Values<'_>) -> Result<World, MissingParameter> {
        let placement = point.word("placement");
        let chunks = chunks(point);
        let core_ns = self.chunk_bytes / point.number("cpu_rate") * 1e9;
        let mut world = World {
            chunks,
            deal: Deal::Fixed { device: 0 },
            cores: point.count("cores"),
            core_ns,
            link_in_ns: 0.0,
            engine_ns: 0.0,
            engines: 1,
            link_out_ns: 0.0,
            latency_ns: 0.0,
            depth: point.count("depth"),
            slowdown: point.number("slowdown"),
            slow_from_ns: f64::INFINITY,
        };
        if placement == "cpu" {
            return Ok(world);
        }
        let optional = |name: &str| {
            if values.has(name) {
                values.get(name)
            } else {
                Ok(0.0)
            }
        };
        let moved = |name: &str, bytes: f64| {
            let rate = optional(name)?;
            Ok(if rate > 0.0 { bytes / rate * 1e9 } else { 0.0 })
        };
        world.link_in_ns = moved(LINK_IN, self.source_bytes)?;
        world.link_out_ns = moved(LINK_OUT, self.result_bytes)?;
        world.engine_ns = self.engine_bytes / values.get(ENGINE)? * 1e9 + optional(PER_JOB)?;
        world.engines = optional(ENGINES)?.max(1.0) as usize;
        world.latency_ns = optional(LATENCY)?;
        let (cores, device) = (core_ns / world.cores as f64, device_ns(&world, 1.0));
        let together = 1.0 / (1.0 / cores + 1.0 / device);
        world.slow_from_ns = chunks as f64 * together * point.number("slows_at");
        let equal_finish = cores / (cores + device);
        let share = point.number_if_set("share").unwrap_or(equal_finish);
        world.deal = match placement {
            "device" => Deal::Fixed { device: chunks },
            "split" => Deal::Fixed {
                device: (share * chunks as f64).round() as u64,
            },
            _ => Deal::Shared,
        };
        Ok(world)
    }

    fn predict(&self, point: &Point, figure: impl Fn(&World, &Ran) -> f64) -> Answer {
        let answer = self.evidence.predict(EvidenceLevel::Card, |values| {
            let world = self.world(point, values)?;
            let ran = world.run().map_err(|error| {
                MissingParameter::nothing(error.to_string(), "ask for less work")
            })?;
            Ok(Outcome {
                value: figure(&world, &ran),
                bottleneck: Some(ran.bottleneck.into()),
            })
        });
        answer.map(|mut prediction| {
            if prediction.influences.is_empty() {
                // It follows from the question alone.
                prediction.interval = Interval::exactly(prediction.interval.typ);
            }
            prediction
        })
    }

    fn row(&self, point: &Point) -> Row {
        let bytes = self.chunk_bytes * chunks(point) as f64;
        let throughput = self.predict(point, |_, ran| bytes / ran.time_ns * 1e9);
        let busy = self.predict(point, |_, ran| ran.busy_cores);
        let reached = self.predict(point, |world, ran| shortest_ns(world) / ran.time_ns);
        let share = self.predict(point, |_, ran| {
            ran.device_chunks as f64 / chunks(point) as f64
        });
        // What is predicted to be none is no figure that a formula can have.
        let or_none = |name: &str, unit, better, answer: Answer| match answer {
            Err(_) if throughput.is_ok() => Metric::given(name, unit, better, 0.0),
            answer => Metric::new(name, unit, better, answer),
        };
        let mut more = Vec::new();
        let placement = point.word("placement");
        if matches!(placement, "split" | "adaptive") {
            let share = or_none("device share", Unit::Percent, Better::Neither, share);
            more.push(share.at_most(1.0));
        }
        if placement != "cpu" {
            let best = Metric::new(
                "of the best possible",
                Unit::Percent,
                Better::Higher,
                reached,
            );
            more.push(best.at_most(1.0));
        }
        let host_cores = or_none("host cores", Unit::Count, Better::Lower, busy);
        let host_cores = host_cores.at_most(point.number("cores"));
        let mut notes = vec![
            "host cores are those that work on chunks; what driving the device costs them is not \
             published"
                .to_owned(),
        ];
        if placement != "cpu" && !self.missing.is_empty() {
            notes.push(format!(
                "no fact gives {}: they count as zero, and one engine is assumed, so that the \
                 device may be slower than this",
                self.missing.join(", ")
            ));
        }
        Row {
            method: Method::Simulated,
            throughput: Some(Metric::new(
                "throughput",
                Unit::MBPerS,
                Better::Higher,
                throughput,
            )),
            host_cores: Some(host_cores),
            more,
            notes,
            ..Row::default()
        }
    }
}

/// The device's time a chunk when many are in flight.
fn device_ns(world: &World, slowdown: f64) -> f64 {
    let engine = world.engine_ns * slowdown / world.engines as f64;
    engine.max(world.link_in_ns).max(world.link_out_ns)
}

/// The time of who knows all rates beforehand and never has to wait for a chunk.
fn shortest_ns(world: &World) -> f64 {
    let cores = world.cores as f64 / world.core_ns;
    let before = cores + 1.0 / device_ns(world, 1.0);
    let after = cores + 1.0 / device_ns(world, world.slowdown);
    let chunks = world.chunks as f64;
    let done = before * world.slow_from_ns;
    if done >= chunks {
        chunks / before
    } else {
        world.slow_from_ns + (chunks - done) / after
    }
}
