//! Tests of kind `dma`: bytes that move between a host and a DPU.

use std::time::Instant;

use overside_device::Timing;
use overside_link::ucx::Transport;
use overside_link::verbs::LinkConfig;
use overside_probe::Failure;
use overside_probe::dma::{DEPTH_MAX, Link, SIZE_MAX};

use super::spec::{Charts, Parameter, Reference, Report, TaskSpec, higher, latencies, lower};
use super::{Measured, processor_events};
use crate::begin::Begin;
use crate::dma;
use crate::sample::Sample;
use crate::test::{THREADS_MAX, TestError, times_within};
use overside_probe::{cores_within, within};

pub use crate::dma::parameters::{DmaBuffers, DmaCompletion, DmaMeasure, DmaOperation, DmaTest};

#[rustfmt::skip]
pub(super) fn spec() -> TaskSpec {
    let operations = [
        ("read", "Read the peer's memory"),
        ("write", "Write the peer's memory"),
        ("send", "Send messages"),
    ];
    let mut variants = vec!["engine", "caller"];
    variants.extend(Transport::ALL.map(Transport::name));
    let device = Parameter {
        links: Link::ALL.map(Link::name).into(),
        // A profile of the user's that is wrong is named where it is used.
        cards: overside_model::dma::cards_of_ratios().unwrap_or_default(),
        ..Parameter::text(
            "device",
            "what the bytes go over: shm (shared memory), ucx (RDMA where there is a card, else \
             what UCX has), one of these with an agent as the DPU (dpu0/ucx), emulated: and a \
             profile, dpdk: and a device that copies",
        )
    };
    let parameters = vec![
        device.default("shm").names(Reference::Device),
        Parameter::choice("variant", "of shm: a thread that copies in place of a DMA engine \
            (engine), or whoever posts copies itself (caller); of ucx: the transport that it is \
            to take, as in tcp; without one UCX chooses", &variants),
        Parameter::choice("timing", "how an emulated engine times its completions: on a virtual clock, \
            or in real time (paced)", &["virtual", "paced"]),
        Parameter::choice("initiator", "who starts operations", &["host", "dpu"]).default("host"),
        Parameter::titled("operation", "bring the peer's bytes here (read), put ours there \
            (write), send a message that the peer's program confirms (send)", operations)
            .default("write"),
        Parameter::choice("completion", "wait for completions, ask for them, or (none) hand over as \
            many operations as fit and collect them all afterwards", &["event", "poll", "none"])
            .default("poll"),
        Parameter::choice("measure", "time each operation, or only all of them together",
            &["latency", "throughput"]).default("latency"),
        Parameter::integer("buffer_size", "one operation", 1, SIZE_MAX).default(64).unit("bytes"),
        Parameter::integer("depth", "operations in flight on each thread", 1, DEPTH_MAX).default(1),
        Parameter::integer("batch", "operations handed over at one doorbell", 1, DEPTH_MAX)
            .default(1),
        Parameter::integer("threads", "the initiator's threads", 1, LinkConfig::MAX_QUEUE_PAIRS as
            u64).default(1).or_all(),
        Parameter::cores("cores", "the initiator's cores that those threads are pinned to, in \
            turn"),
        Parameter::integer("engine_core", "the core of the thread that stands for a DMA engine", 0,
            THREADS_MAX as u64 - 1),
        Parameter::choice("buffers", "operations in flight carry the same payload, or each one of \
            its own", &["same", "distinct"]).default("same"),
        Parameter::boolean("inline", "writes and sends: copy the payload into the queue when it is \
            posted").default(false),
        processor_events::parameter().default(false),
    ];
    let rates = [
        higher("throughput", "MB/s", "bytes moved in the elapsed time; MB is 10^6 bytes"),
        higher("rate", "operations/s", "operations in the elapsed time"),
        lower("post_time", "ns", "CPU time of a thread to hand one operation over, with completion \
            none"),
    ];
    let sides = [
        ("host", "the host's side"),
        ("dpu", "the DPU's side"),
        ("initiator", "the side that starts operations"),
        ("engine", "the thread that stands for a DMA engine"),
    ];
    let utilisation = |(name, what): (&str, &str)| {
        let description = format!("CPU seconds of {what} in the elapsed time, one core being 100");
        lower(format!("{name}_utilisation"), "%", description)
    };
    let cost = [
        lower("cpu_seconds", "s", "host CPU seconds of the sample"),
        lower("cpu_cost", "s/GB", "host CPU seconds per 10^9 bytes moved"),
    ];
    let ways = [
        "device",
        "variant",
        "threads",
        "cores",
        "depth",
        "batch",
        "completion",
        "timing",
        "initiator",
        "engine_core",
    ];
    TaskSpec {
        name: "dma",
        description: "move bytes between host and DPU; they are looked at where they arrive",
        operation: None,
        verified: true,
        parameters,
        metrics: (rates.into_iter())
            .chain(latencies(
                "time of an operation, from its doorbell until it was reaped",
            ))
            .chain(sides.map(utilisation))
            .chain(cost)
            .chain(processor_events::metrics("an operation"))
            .collect(),
        report: Report {
            advised: false,
            charts: Charts::Moves,
            ..Report::new("{operation}", &ways)
        },
    }
}

impl Measured for DmaTest {
    fn check(&self) -> Result<(), TestError> {
        within("buffer_size", self.buffer_size, 1, SIZE_MAX)?;
        within("depth", self.depth as u64, 1, DEPTH_MAX)?;
        within("batch", self.batch as u64, 1, DEPTH_MAX)?;
        let most = LinkConfig::MAX_QUEUE_PAIRS as u64;
        within("threads", self.threads as u64, 1, most)?;
        cores_within(self.cores.as_deref())?;
        cores_within(self.engine_core.as_ref().map(std::slice::from_ref))?;
        times_within(self.warmup_s, self.sample_s, self.timeout_s)?;
        let bound = |field, value: &str, allowed: String| {
            TestError::bound(field, format!("{value:?}"), allowed)
        };
        let known = ["auto", "engine", "caller"].contains(&self.variant.as_str());
        if !known && self.transport().is_none() {
            let transports = Transport::ALL.map(Transport::name).join(", ");
            let allowed = format!("auto, engine, caller, or one of UCX's: {transports}");
            return Err(bound("variant", &self.variant, allowed));
        }
        if let Some(timing @ (Timing::Real | Timing::Replay | Timing::Functional)) = self.timing {
            let value = format!("{timing:?}").to_lowercase();
            return Err(bound("timing", &value, "virtual or paced".into()));
        }
        if self.completion == DmaCompletion::None && self.measure == DmaMeasure::Latency {
            let allowed = "\"throughput\" with completion \"none\": nobody looks at when one ends";
            return Err(bound("measure", "latency", allowed.into()));
        }
        if self.inline && self.operation == DmaOperation::Read {
            let allowed = "false for reads: they have no payload to hand over".into();
            return Err(bound("inline", "true", allowed));
        }
        let links = Link::ALL.map(Link::name).join(", ");
        if self.device.rsplit('/').next() == Some("tcp") {
            let ucx = format!("{}ucx", self.device.trim_end_matches("tcp"));
            let allowed = format!("{ucx:?} with variant \"tcp\": UCX carries bytes over TCP");
            return Err(bound("device", &self.device, allowed));
        }
        if let Some((node, link)) = self.device.split_once('/') {
            let allowed = format!("one of {links} after the name of an agent");
            return match Link::named(link) {
                Some(_) if !node.is_empty() => Ok(()),
                _ => Err(bound("device", &self.device, allowed)),
            };
        }
        let prefixes = ["emulated:", "dpdk:"];
        let known = prefixes.iter().any(|kind| self.device.starts_with(kind));
        if known || Link::named(&self.device).is_some() {
            return Ok(());
        }
        let allowed = match overside_model::profile(&self.device) {
            Ok(card) => {
                format!("\"emulated:{}\": a card is no device, its emulation is", card.name)
            }
            Err(_) => format!(
                "{links}, one of these after the name of an agent and a slash, emulated: and a \
                 profile, or dpdk: and a device that copies"
            ),
        };
        Err(bound("device", &self.device, allowed))
    }

    fn timeout_s(&self) -> f64 {
        self.timeout_s
    }

    fn can_be_begun(&self) -> bool {
        true
    }

    fn begin_by(&mut self, begin: Begin) {
        self.begin = Some(begin);
    }

    fn take(&self, deadline: Instant) -> Result<Sample, Failure> {
        dma::take(self, deadline)
    }
}
