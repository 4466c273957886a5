//! What the tasks about jobs on a device share: parameters, metrics and what a report makes of
//! them.

use overside_placement::DEVICES_MAX;

use super::spec::{Metric, Parameter, Reference, Report, TaskSpec, higher, latencies, lower};
use crate::test::{BUFFER_SIZE_MAX, DEPTH_MAX, SAMPLE_BYTES_MAX, THREADS_MAX};

/// What a placement can be, for people.
const PLACEMENTS: &str =
    "cpu, device, split:PERCENT or adaptive; split:PERCENT+PERCENT for two devices";

/// A task of jobs of `operation`, with parameters of its own after the variant.
pub(super) fn task(
    name: &'static str,
    description: &'static str,
    operation: &'static str,
    own: Vec<Parameter>,
    metrics: Vec<Metric>,
    title: &'static str,
) -> TaskSpec {
    let first = [
        Parameter::text(
            "device",
            "what runs the jobs; `overside devices` lists them; DEVICE+DEVICE: both, with a placement",
        )
        .default("cpu")
        .names(Reference::Device),
        Parameter::text(
            "variant",
            "the library or engine by name; `auto`: the fastest",
        )
        .default("auto")
        .names(Reference::Variant),
    ];
    let mut parameters: Vec<_> = first.into_iter().chain(own).collect();
    for parameter in common() {
        // A task's own counts where both are.
        if !parameters.iter().any(|one| one.name == parameter.name) {
            parameters.push(parameter);
        }
    }
    TaskSpec {
        name,
        description,
        operation: Some(operation),
        verified: true,
        parameters,
        metrics,
        report: Report::new(
            title,
            &[
                "device",
                "variant",
                "threads",
                "cores",
                "depth",
                "batch",
                "completion",
                "timing",
                "placement",
                "cpu_variant",
            ],
        ),
    }
}

/// The parameter that names the data set.
pub(super) fn data(default: &'static str) -> Parameter {
    let doc = "a data set (`overside data list`), file or directory";
    Parameter::text("data", doc)
        .default(default)
        .names(Reference::Data)
}

#[rustfmt::skip]
fn common() -> Vec<Parameter> {
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
        data("corpus"),
        Parameter::integer("sample_bytes", "how much of the data set is used, in buffers evenly \
            spaced over it", 1, SAMPLE_BYTES_MAX).default(8 << 20).unit("bytes"),
    ]
}

/// The metrics of jobs; `of_sides` are those of a compressed side.
#[rustfmt::skip]
pub(super) fn metrics(of_sides: Vec<Metric>) -> Vec<Metric> {
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
    let number = if device > 1 {
        device.to_string()
    } else {
        String::new()
    };
    let what =
        format!("bytes that device {device} processed, of all; placements on several devices");
    higher(format!("device{number}_own_share"), "%", &what)
}
