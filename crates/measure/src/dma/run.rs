//! One sample: makes the sides, has them conducted, and says what it came to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Clock, Device};
use overside_link::verbs::{Endpoint, Side};
use overside_probe::Failure;
use overside_probe::closed_loop::Timeouts;
use overside_probe::dma::{
    DEPTH_MAX, Initiator, Lane, PayloadPattern, Peer, Plan, TestResult, Times, run_test,
};

use super::agent;
use super::copying::Copying;
use super::path::{Ends, Path, over_link};
use super::shape::Emulated;
use super::virtual_engine::DmaEngine;
use crate::begin::Begin;
use crate::evidence::Evidence;
use crate::memory_budget::memory_fits;
use crate::metrics::Metrics;
use crate::plan::operations_max;
use crate::sample::{Check, Done, Sample, Work};
use crate::tasks::processor_events;
use crate::tasks::{DmaBuffers, DmaCompletion, DmaMeasure, DmaOperation, DmaTest};
use crate::warnings::{Late, SampleCounts, warnings};

/// An end of a link in place of another.
pub(crate) type EndpointWrapper<'a> = &'a dyn Fn(Arc<dyn Endpoint>) -> Arc<dyn Endpoint>;

/// Takes the sample.
pub(crate) fn take(test: &DmaTest, deadline: Instant) -> Result<Sample, Failure> {
    take_through(test, deadline, &|end| end)
}

/// Takes the sample, with other ends of a link within this process in place of both.
pub(crate) fn take_through(
    test: &DmaTest,
    deadline: Instant,
    through: EndpointWrapper<'_>,
) -> Result<Sample, Failure> {
    let plan = plan(test);
    let needed = match over_link(test) || test.device.starts_with("emulated:") {
        true => plan.memory_bytes(),
        false => plan.copying_bytes(),
    };
    memory_fits("the buffers of all operations in flight", needed)?;
    match Path::open(test, deadline)? {
        Path::Link(ends) => between_ends(test, ends.through(through), deadline),
        Path::Agent(node, link) => agent::take(test, &node, link, (deadline, through)),
        Path::Device(device) => on_device(test, &device, deadline),
        Path::Virtual(emulated) => in_virtual_time(test, &emulated, deadline),
    }
}

/// What both sides know of the test.
pub(super) fn plan(test: &DmaTest) -> Plan {
    Plan {
        operation: test.operation,
        event: test.completion == DmaCompletion::Event,
        deferred: test.completion == DmaCompletion::None,
        each: test.measure == DmaMeasure::Latency,
        size: test.buffer_size as usize,
        depth: test.depth,
        batch: test.batch.min(test.depth),
        threads: test.threads,
        distinct: test.buffers == DmaBuffers::Distinct,
        inline: test.inline,
        events: test.events,
        seed: test.seed,
    }
}

pub(super) fn times(test: &DmaTest) -> Times {
    Times {
        warmup: Duration::from_secs_f64(test.warmup_s),
        sample: Duration::from_secs_f64(test.sample_s),
        begin: test.begin.clone().map(Begin::into_inner),
    }
}

/// Over a link, with the other end in this process as well.
pub(super) fn between_ends(
    test: &DmaTest,
    ends: Ends,
    deadline: Instant,
) -> Result<Sample, Failure> {
    let (plan, timeouts) = (plan(test), Timeouts::until(deadline));
    let peer_side = match test.initiator {
        Side::Host => Side::Dpu,
        Side::Dpu => Side::Host,
    };
    let evidence = ends.evidence();
    let (name, what) = (test.device.as_str(), (plan, test.initiator));
    let cores = test.cores.clone();
    let mut initiator = Initiator::over(ends.initiator, name, what, cores, timeouts.clone());
    let mut peer = Peer::over(ends.peer, name, (plan, peer_side), timeouts);
    let mut taken = run_test(&plan, &times(test), &mut initiator, Some(&mut peer))?;
    let applied = &mut taken.ran.applied;
    applied.device = test.device.clone();
    let Some(emulated) = ends.emulated else {
        return Ok(sample(test, taken, evidence));
    };
    applied.library = format!("{}, paced by profile {}", applied.library, emulated.profile);
    let mut sample = sample(test, taken, evidence);
    sample.model = Some(emulated.model);
    sample.warnings.extend(emulated.warnings);
    Ok(sample)
}

/// On a device that copies.
fn on_device(
    test: &DmaTest,
    device: &Arc<dyn Device>,
    deadline: Instant,
) -> Result<Sample, Failure> {
    let plan = plan(test);
    let lanes = (0..test.threads).map(|index| {
        let lane = Copying::new(
            Arc::clone(device),
            Clock::default(),
            PayloadPattern::new(plan, index),
        )?;
        Ok::<Box<dyn Lane>, Failure>(Box::new(lane))
    });
    let lanes = lanes.collect::<Result<Vec<_>, _>>()?;
    let (what, cores) = ((plan, test.initiator), test.cores.clone());
    let mut initiator = Initiator::alone(lanes, what, cores, Timeouts::until(deadline));
    let taken = run_test(&plan, &times(test), &mut initiator, None)?;
    Ok(sample(test, taken, Evidence::of_device(device.info())))
}

/// On a card's engine in virtual time. What the initiator's threads have in flight together is one
/// queue's: they share the engine, and nothing that they do takes time.
fn in_virtual_time(
    test: &DmaTest,
    emulated: &Emulated,
    deadline: Instant,
) -> Result<Sample, Failure> {
    let clock = Clock::simulated();
    let device: Arc<dyn Device> = Arc::new(DmaEngine::new(&test.device, emulated, clock.clone()));
    let depth = (test.depth * test.threads).min(DEPTH_MAX as usize);
    let plan = Plan {
        threads: 1,
        depth,
        events: false,
        ..plan(test)
    };
    let pattern = PayloadPattern::new(plan, 0);
    let lane = Copying::new(Arc::clone(&device), clock.clone(), pattern)?;
    let timeouts = Timeouts::until(deadline);
    let most = operations_max(&clock, test.buffer_size);
    let mut initiator =
        Initiator::alone(vec![Box::new(lane)], (plan, test.initiator), None, timeouts)
            .on_clock(clock, most);
    let taken = run_test(&plan, &times(test), &mut initiator, None)?;
    let mut sample = sample(test, taken, Evidence::of_device(device.info()));
    // How busy cores are while bytes move in virtual time, and what posting costs, nobody has seen.
    (sample.metrics).retain(|name, _| !name.ends_with("_utilisation") && name != "post_time");
    sample.model = Some(emulated.model.clone());
    sample.warnings.extend(emulated.warnings.iter().cloned());
    Ok(sample)
}

/// The figures of what was taken. `over` is what the bytes went over.
pub(super) fn sample(test: &DmaTest, taken: TestResult, over: Evidence) -> Sample {
    let (mut ran, cpu) = (taken.ran, taken.cpu);
    let events = ran.events.take();
    let (count, late) = (ran.count(), ran.late);
    let bytes = count.saturating_mul(test.buffer_size);
    let elapsed = Duration::from_nanos(ran.elapsed_ns);
    let evidence = over.with_late(late, count).and(Evidence::measured(cpu));
    let work = Work {
        jobs: count,
        bytes,
        doorbells: ran.doorbells,
        ..Work::default()
    };
    let mut metrics = Metrics::of_work(&work, elapsed, cpu);
    let done = Done {
        applied: Some(ran.applied),
        work,
        elapsed_ns: ran.elapsed_ns,
        check: Check {
            method: match test.operation {
                DmaOperation::Read => "every byte at the initiator, before and after the clock",
                DmaOperation::Write | DmaOperation::Send => {
                    "every byte at the peer, before and after the clock"
                }
            }
            .into(),
            value: format!("seed:{:016x}", test.seed),
            buffers: taken.checked,
        },
    };
    let mut sample = Sample::ok(evidence, done);
    let percent = |ns: u64| 100.0 * (ns as f64 / 1e9) / elapsed.as_secs_f64();
    metrics.put("host_utilisation", percent(cpu.host_ns));
    metrics.put("dpu_utilisation", percent(cpu.dpu_ns));
    metrics.put("engine_utilisation", percent(cpu.emulator_ns));
    let own_ns = match test.initiator {
        Side::Host => cpu.host_ns,
        Side::Dpu => cpu.dpu_ns,
    };
    metrics.put("initiator_utilisation", percent(own_ns));
    if let Some(posting_ns) = ran.posting_ns {
        metrics.put("post_time", posting_ns as f64 / count.max(1) as f64);
    }
    if let Some(all) = ran.latencies {
        metrics.put_latencies(&all);
        sample.histogram = Some(all.to_text());
    }
    sample.metrics = metrics.0;
    sample.warnings = warnings(&SampleCounts {
        jobs: count,
        incompressible: 0,
        late: Late::Completions { late, of: count },
        varied: 0,
    });
    if let Some(events) = events {
        processor_events::put(&mut sample, &events, count);
    }
    sample
}
