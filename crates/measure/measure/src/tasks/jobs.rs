//! Parameters, metrics and report layout shared by the tasks that run jobs on a device.

use overside_ops::{Family, Lengths, Operation};
use overside_placement::DEVICES_MAX;

use super::place;
use super::spec::{Metric, Parameter, Reference, Report, TaskSpec, higher, latencies, lower};
use crate::test::{BUFFER_SIZE_MAX, DEPTH_MAX, PATTERNS_MAX, SAMPLE_BYTES_MAX, THREADS_MAX};

/// Description of the possible placements, for people.
const PLACEMENTS: &str =
    "cpu, device, split:PERCENT or adaptive; split:PERCENT+PERCENT for two devices";

/// Returns the declaration of the task of a family of operations: all of it follows from the entry in
/// the registry.
pub(super) fn spec(family: &'static Family) -> TaskSpec {
    let verb = family.verb;
    let has_ratio = matches!(family.lengths, Lengths::Shrinks | Lengths::Expands);
    let sides = if has_ratio { of_sides() } else { Vec::new() };
    let mut report = Report::new(family.title, &WAYS);
    report.references = family.references;
    report.engine = family.engine;
    report.restores = family.measured().any(|one| one.made_by().is_some());
    TaskSpec {
        name: verb,
        description: family.description,
        operation: Some(match family.parameter {
            Some(one) => format!("{verb}-{{{}}}", one.name),
            None => verb.into(),
        }),
        verified: true,
        parameters: (way().into_iter())
            .chain(own(family, has_ratio))
            .chain(common(family.data))
            .chain([place::node("measures")])
            .collect(),
        metrics: metrics(sides),
        report,
    }
}

/// Parameters that say how work is done, not which.
#[rustfmt::skip]
const WAYS: [&str; 10] = ["device", "variant", "threads", "cores", "depth", "batch", "completion", "timing",
    "placement", "cpu_variant"];

#[rustfmt::skip]
fn way() -> [Parameter; 2] {
    [
        Parameter::text("device", "what runs the jobs; `overside devices` lists them; DEVICE+DEVICE: \
            both, with a placement").default("cpu").names(Reference::Device),
        Parameter::text("variant", "the library or engine by name; `auto`: the fastest")
            .default("auto").names(Reference::Variant),
    ]
}

/// Parameters that only some families have.
#[rustfmt::skip]
fn own(family: &'static Family, has_ratio: bool) -> Vec<Parameter> {
    let mut own = Vec::new();
    if let Some(one) = family.parameter {
        let named = |operation: Operation| operation.member_name().zip(operation.member_title());
        let choices = family.measured().filter_map(named);
        own.push(Parameter::titled(one.name, one.doc, choices).default(one.default));
    }
    if family.has_levels {
        own.push(Parameter::integer("level", "compression level; without one the library's own", 0, 22));
    }
    if has_ratio {
        own.push(Parameter::integer("output_size", "a job's output buffer at first, twice as large \
            each time that a result does not fit; without one every result fits; not of placements",
            1, BUFFER_SIZE_MAX).unit("bytes"));
    }
    if family.has_patterns {
        own.push(Parameter::texts("patterns", "regular expressions, or the published queries q1 to \
            q4; a list is one value", PATTERNS_MAX).default(vec!["q1", "q2", "q3", "q4"])
            .names(Reference::Patterns));
    }
    own
}

/// Metrics of a compressed side.
#[rustfmt::skip]
fn of_sides() -> Vec<Metric> {
    vec![
        higher("compressed_throughput", "MB/s", "bytes of the compressed side in the elapsed time; \
            MB is 10^6 bytes"),
        lower("ratio", "-", "compressed bytes / uncompressed bytes"),
        lower("grown", "-", "output_size: mean number of times that a job was run again with a \
            larger output buffer"),
    ]
}

#[rustfmt::skip]
fn common(data: &'static str) -> Vec<Parameter> {
    let (depth, threads) = (DEPTH_MAX as u64, THREADS_MAX as u64);
    let size = "one buffer, on the uncompressed side";
    let doorbell = "jobs handed over at one doorbell";
    let made_of = "threads of a device that is made of threads";
    vec![
        Parameter::integer("buffer_size", size, 1, BUFFER_SIZE_MAX).default(65536).unit("bytes"),
        Parameter::integer("depth", "jobs in flight", 1, depth).default(16).or_all(),
        Parameter::integer("batch", doorbell, 1, depth).default(16),
        Parameter::integer("threads", made_of, 1, threads).default(1).or_all(),
        Parameter::cores("cores", "the cores that those threads are pinned to"),
        Parameter::text("placement", format!("who gets which chunks of a stream: {PLACEMENTS}; \
            without one the device has all, a job at a time")).names(Reference::Placement),
        Parameter::text("cpu_variant", "with a placement: the library of the CPU target")
            .names(Reference::Variant),
        Parameter::choice("sizes", "lengths of buffers: all buffer_size; mixed as of many tenants, from \
            a sixteenth of it to all of it, each octave as likely; the data's own row groups, record \
            batches or files, cut at buffer_size; or, from buffer_size on, as placement=adaptive finds \
            fastest", &["fixed", "mixed", "own", "adaptive"])
            .default("fixed"),
        Parameter::choice("input", "a stream of a placement: all buffers, or each file of the data \
            set, cut into buffers as the devices take them, and joined when all are done", &["buffers", "files"])
            .default("buffers"),
        Parameter::choice("setting", "reuse contexts and buffers, or set them up again for each \
            job (with a placement: for each stream; where lengths vary, when the length changes)", &["static", "reconfiguration"])
            .default("static"),
        Parameter::choice("completion", "wait for completions, or ask for them", &["event", "poll"])
            .default("event"),
        Parameter::choice("timing", "how an emulated device times its completions: on a virtual \
            clock, in real time (computed beforehand, or as they come), or not",
            &["virtual", "replay", "paced", "functional"]),
        Parameter::text("data", "a data set (`overside data list`), file or directory")
            .default(data).names(Reference::Data),
        Parameter::integer("sample_bytes", "how much of the data set is used, in buffers evenly \
            spaced over it", 1, SAMPLE_BYTES_MAX).default(8 << 20).unit("bytes"),
    ]
}

/// The metrics of jobs; `of_sides` are those of a compressed side.
#[rustfmt::skip]
fn metrics(of_sides: Vec<Metric>) -> Vec<Metric> {
    let throughput = [
        higher("throughput", "MB/s", "bytes of the uncompressed side in the elapsed time; MB is \
            10^6 bytes"),
        higher("file_throughput", "MB/s", "input=files: mean over the files of size over time; \
            `throughput` is the ratio of totals"),
        higher("engine_throughput", "MB/s", "bytes of the uncompressed side in the engine's own \
            time"),
        higher("rate", "jobs/s", "jobs in the elapsed time"),
    ];
    let cost = [
        lower("cpu_cost", "s/GB", "host CPU seconds per 10^9 bytes of the uncompressed side"),
        lower("cpu_seconds", "s", "host CPU seconds of the sample"),
    ];
    let stages = [
        ("submit", "CPU time of the submitter for a job, a part of virtual time; placements"),
        ("queueing", "mean time of a job in the device's queue"),
        ("start", "mean time of a job from the doorbell to the engine and back; emulated devices"),
        ("transfer", "mean time of a job on the link"),
        ("engine", "mean time of a job in the engine"),
        ("discovery", "finding the device"),
        ("init", "setting up a context"),
        ("memory", "making memory reachable for the device"),
        ("end", "tearing a context down"),
    ];
    let stage = |(name, what): (&str, &str)| lower(format!("stage_{name}"), "µs", what);
    let placement = [
        higher("device_share", "%", "bytes that the device processed, of all; placements"),
        higher("cpu_target_throughput", "MB/s", "bytes by the CPU target in the time that it had work; \
            placements"),
        higher("device_target_throughput", "MB/s", "bytes by the device target in the time that it had \
            work; placements"),
        higher("wall_throughput", "MB/s", "placement=cpu beside emulated devices: `throughput` in real time, \
            which other programs lower; `throughput` itself is in virtual time, as of the other placements"),
        lower("cpu_utilisation", "%", "host CPU seconds in the elapsed time, one core being 100; \
            placements"),
    ];
    let several = (2..=DEVICES_MAX).flat_map(|device| {
        let what = format!("bytes by device {device} in the time that it had work; placements on \
            several devices");
        [higher(format!("device{device}_target_throughput"), "MB/s", &what), share(device)]
    });
    (throughput.into_iter())
        .chain(of_sides)
        .chain(latencies("time from submission to reaping of a job"))
        .chain(cost)
        .chain(stages.map(stage))
        .chain(placement)
        .chain([share(1)])
        .chain(several)
        .collect()
}

/// The share of one of several devices.
fn share(device: usize) -> Metric {
    let number = Some(device).filter(|&device| device > 1);
    let name = number.map_or("device".into(), |number| format!("device{number}"));
    let what =
        format!("bytes that device {device} processed, of all; placements on several devices");
    higher(format!("{name}_own_share"), "%", &what)
}
