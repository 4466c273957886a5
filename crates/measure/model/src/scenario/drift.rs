//! Co-processing while the device slows down: fixed shares against following its rate.

mod stream;

use overside_config::Error;
use overside_ops::Operation;

use super::{Method, Point, Row};
use crate::engine::JobBytes;
use crate::{
    Answer, Evaluation, Evidence, EvidenceLevel, Interval, Library, MissingParameter, NoPrediction,
    OperationProfile, Outcome, Profile, Quantity, Values,
};
use stream::{Assignment, StreamModel, StreamResult};

/// Maximum number of chunks of one stream.
const MAX_CHUNKS: u64 = 65_536;
/// Simulations of one point: each of seven parameters at both ends and once in the middle, for
/// three figures.
const RUNS: u64 = 45;

/// About how many events a point simulates.
pub(super) fn events(point: &Point) -> u64 {
    chunks(point).saturating_mul(RUNS)
}

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
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
        Some((profile, entry)) => DriftSetup::of(point, library, (profile, entry, operation))?,
        None if point.word("placement") == "cpu" => DriftSetup::cores(point, library),
        None => return Ok(vec![absent(point, profile, operation)]),
    };
    Ok(vec![setup.row(point)])
}

fn chunks(point: &Point) -> u64 {
    (point.number("bytes") / point.number("chunk")).ceil() as u64
}

/// A row without figures: the card does not do it.
fn absent(point: &Point, profile: Option<&Profile>, operation: Operation) -> Row {
    let name = point.word("profile");
    let because = profile.and_then(|profile| profile.why_absent(operation));
    let reason = because.map_or_else(String::new, |why| format!(": {why}"));
    let none = NoPrediction {
        why: format!("{name} cannot {operation}{reason}"),
        remedy: "choose another card: `overside list profiles`".into(),
    };
    Row { throughput: Some(point.metric("throughput", Err(none))), ..Row::default() }
}

/// Known parameters of the device and the core, and the bytes of one chunk.
struct DriftSetup {
    evidence: Evidence,
    chunk_bytes: f64,
    source_bytes: f64,
    result_bytes: f64,
    /// Bytes that the engine's rate counts, more for data that it takes longer for.
    engine_bytes: f64,
    /// Fraction of the latency that a chunk has.
    latency_share: f64,
    missing: Vec<String>,
    /// Library and level on the cores, in words.
    library: String,
}

/// Parameters of the device, by the profile's entries.
const LINK_IN: &str = "link.to_device";
const LINK_OUT: &str = "link.from_device";
const ENGINE: &str = "engine.rate";
const PER_JOB: &str = "engine.per_job";
const LATENCY: &str = "engine.latency";
const ENGINES: &str = "device.engines";
/// One core of the host.
const CORE: &str = "host.core";
/// Host whose core it is where the question names none.
const HOST: &str = "host-coproc-bf2";

/// Returns the parameters that may give one core's rate of an operation, with their libraries, the
/// fastest first.
fn core_parameters(operation: &str) -> [(&'static str, &'static str); 2] {
    match operation {
        "compress-deflate" => [
            ("libdeflate", "codec.libdeflate.compress.rate"),
            ("zlib", "codec.deflate.compress.rate"),
        ],
        "decompress-deflate" => [
            ("libdeflate", "codec.libdeflate.decompress.rate"),
            ("zlib", "codec.deflate.decompress.rate"),
        ],
        _ => [("LZ4", "codec.lz4.decompress.rate"), ("LZ4", "codec.lz4.decompress.corpus")],
    }
}

impl DriftSetup {
    fn cores(point: &Point, library: &Library) -> Self {
        let chunk_bytes = point.number("chunk");
        let mut evidence = Evidence::new();
        let host = point.word_if_set("host").unwrap_or(HOST);
        let of = core_parameters(point.word("operation"));
        let values = library.profile(host).map(|host| &host.values);
        let known = of.into_iter().find_map(|(name, rate)| Some((name, values?.get(rate)?)));
        let library = match (point.word_if_set("cpu_rate"), known) {
            (Some(rate), _) => format!("a core's rate is set, {rate}, of whichever library"),
            (None, Some((name, rate))) => {
                evidence.insert(CORE, rate.clone());
                let level = rate.note.iter().flat_map(|note| note.split(';'));
                let level = level.map(str::trim).find(|part| part.contains("level "));
                let level = level.map(|part| part[part.find("level").unwrap_or(0)..].to_owned());
                let level = level.map_or_else(String::new, |level| format!(" at {level}"));
                format!("the cores run {name}{level}, as fast as one of {host}")
            }
            (None, None) => format!("no rate of a core of {host} is known"),
        };
        Self {
            evidence,
            chunk_bytes,
            source_bytes: chunk_bytes,
            result_bytes: chunk_bytes,
            engine_bytes: chunk_bytes,
            latency_share: 1.0,
            missing: Vec::new(),
            library,
        }
    }

    fn of(
        point: &Point,
        library: &Library,
        (profile, entry, operation): (&Profile, &OperationProfile, Operation),
    ) -> Result<Self, Error> {
        let mut setup = Self::cores(point, library);
        let packed = setup.chunk_bytes * point.number("ratio");
        let compresses = point.word("operation").starts_with("compress");
        if compresses {
            setup.result_bytes = packed;
        } else {
            setup.source_bytes = packed;
        }
        let (source, result) = (entry.max_source_bytes(), entry.max_destination_bytes());
        if setup.source_bytes > source as f64 || setup.result_bytes > result as f64 {
            let problem = format!("{} is longer than one job", point.word("chunk"));
            let allowed = format!("up to {source} bytes of source and {result} of result");
            return Err(Error::of_key("chunk", problem, allowed));
        }
        let job = JobBytes {
            operation,
            source: setup.source_bytes as u64,
            destination: setup.result_bytes as u64,
        };
        if let Some(rate) = entry.rate.as_ref().map(Quantity::interval) {
            setup.engine_bytes = entry.engine_ns(rate, job).typ * rate.typ / 1e9;
        }
        setup.latency_share = entry.latency_share(job);
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
                Some(quantity) => setup.evidence.insert(name, quantity.clone()),
                None => setup.missing.push(name.into()),
            }
        }
        Ok(setup)
    }

    /// One core's bytes of the uncompressed side a second.
    fn core_rate(&self, point: &Point, values: &Values<'_>) -> Evaluation {
        match point.number_if_set("cpu_rate") {
            Some(rate) => Ok(rate),
            // Published and measured rates of decompression count what goes in.
            None if point.word("operation").starts_with("decompress") => {
                Ok(values.get(CORE)? / point.number("ratio"))
            }
            None => values.get(CORE),
        }
    }

    /// The stream as the values have it.
    fn world(&self, point: &Point, values: &Values<'_>) -> Evaluation<StreamModel> {
        let placement = point.word("placement");
        let chunks = chunks(point);
        let core_ns = self.chunk_bytes / self.core_rate(point, values)? * 1e9;
        let mut world = StreamModel {
            chunks,
            assignment: Assignment::Fixed { device: 0 },
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
            if values.has(name) { values.get(name) } else { Ok(0.0) }
        };
        let moved = |name: &str, bytes: f64| {
            let rate = optional(name)?;
            Ok(if rate > 0.0 { bytes / rate * 1e9 } else { 0.0 })
        };
        world.link_in_ns = moved(LINK_IN, self.source_bytes)?;
        world.link_out_ns = moved(LINK_OUT, self.result_bytes)?;
        world.engine_ns = self.engine_bytes / values.get(ENGINE)? * 1e9 + optional(PER_JOB)?;
        world.engines = optional(ENGINES)?.max(1.0) as usize;
        world.latency_ns = optional(LATENCY)? * self.latency_share;
        let (cores, device) = (core_ns / world.cores as f64, device_ns(&world, 1.0));
        let together = 1.0 / (1.0 / cores + 1.0 / device);
        world.slow_from_ns = chunks as f64 * together * point.number("slows_at");
        let equal_finish = cores / (cores + device);
        let share = point.number_if_set("share").unwrap_or(equal_finish);
        world.assignment = match placement {
            "device" => Assignment::Fixed { device: chunks },
            "split" => Assignment::Fixed { device: (share * chunks as f64).round() as u64 },
            _ => Assignment::Shared,
        };
        Ok(world)
    }

    fn predict(
        &self,
        point: &Point,
        figure: impl Fn(&StreamModel, &StreamResult) -> f64,
    ) -> Answer {
        let answer = self.evidence.predict(EvidenceLevel::Card, |values| {
            let world = self.world(point, values)?;
            let ran = world.run().map_err(|error| {
                MissingParameter::nothing(error.to_string(), "ask for less work")
            })?;
            Ok(Outcome { value: figure(&world, &ran), bottleneck: Some(ran.bottleneck.into()) })
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
        let share = self.predict(point, |_, ran| ran.device_chunks as f64 / chunks(point) as f64);
        // What is predicted to be none is no figure that a formula can have.
        let or_none = |name: &str, answer: Answer| match answer {
            Err(_) if throughput.is_ok() => point.given(name, 0.0),
            answer => point.metric(name, answer),
        };
        let mut more = Vec::new();
        let placement = point.word("placement");
        if matches!(placement, "split" | "adaptive") {
            more.push(or_none("device share", share).at_most(1.0));
        }
        if placement != "cpu" {
            more.push(point.metric("of the best possible", reached).at_most(1.0));
        }
        let host_cores = or_none("host cores", busy);
        let host_cores = host_cores.at_most(point.number("cores"));
        let mut notes = vec![
            self.library.clone(),
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
            throughput: Some(point.metric("throughput", throughput)),
            host_cores: Some(host_cores),
            more,
            notes,
            ..Row::default()
        }
    }
}

/// The device's time a chunk when many are in flight.
fn device_ns(world: &StreamModel, slowdown: f64) -> f64 {
    let engine = world.engine_ns * slowdown / world.engines as f64;
    engine.max(world.link_in_ns).max(world.link_out_ns)
}

/// Shortest time, of a scheduler that knows all rates beforehand and never has to wait for a chunk.
fn shortest_ns(world: &StreamModel) -> f64 {
    let cores = world.cores as f64 / world.core_ns;
    let before = cores + 1.0 / device_ns(world, 1.0);
    let after = cores + 1.0 / device_ns(world, world.slowdown);
    let chunks = world.chunks as f64;
    let done = before * world.slow_from_ns;
    if done >= chunks { chunks / before } else { world.slow_from_ns + (chunks - done) / after }
}
