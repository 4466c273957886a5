//! One sample: makes the lanes, runs them, and says what it came to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::threads::process_cpu_ns;
use overside_device::{Applied, CpuTime, Device, Provenance, Timing};
use overside_link::verbs::{Endpoint, QueuePair, Side};
use overside_probe::latency::Latencies;

use super::copying::Copying;
use super::crew::{self, Orders, Taken};
use super::lane::Lane;
use super::one_sided::{OneSided, Plan};
use super::pass::Pace;
use super::path::{Ends, Path};
use super::payload::Mark;
use super::two_sided::{Answering, TwoSided, answer};
use crate::kinds::{DmaBuffers, DmaMeasure, DmaOperation, DmaTest};
use crate::measuring::{NoSample, memory_fits};
use crate::recorder::{Counted, Late, nanoseconds, warnings};
use crate::sample::{Check, Cpu, Failure, Sample, Work};

/// Takes the sample.
pub(crate) fn take(test: &DmaTest, deadline: Instant) -> Result<Sample, NoSample> {
    take_through(test, deadline, &|end| end)
}

/// Takes the sample, with something between the test and both ends of its link.
pub(crate) fn take_through(
    test: &DmaTest,
    deadline: Instant,
    through: &dyn Fn(Arc<dyn Endpoint>) -> Arc<dyn Endpoint>,
) -> Result<Sample, NoSample> {
    let plan = plan(test, 0);
    // The source of each operation, its destination, and copies while they are looked at.
    let bytes = 4 * plan.exported_bytes() as u64 * test.threads as u64;
    memory_fits("the buffers of all operations in flight", bytes)?;
    match Path::open(test, deadline)? {
        Path::Link(ends) => {
            let ends = Ends {
                initiator: through(ends.initiator),
                peer: through(ends.peer),
                ..ends
            };
            over_link(test, &ends, deadline)
        }
        Path::Device(device) => on_device(test, &device, deadline),
    }
}

fn plan(test: &DmaTest, thread: usize) -> Plan {
    Plan {
        size: test.buffer_size as usize,
        depth: test.depth,
        distinct: test.buffers == DmaBuffers::Distinct,
        inline: test.inline,
        mark: Mark {
            seed: test.seed,
            thread: thread as u64,
            epoch: 0,
        },
    }
}

fn orders<'a>(
    test: &'a DmaTest,
    deadline: Instant,
    others: &'a (dyn Fn() -> CpuTime + Sync),
) -> Orders<'a> {
    Orders {
        pace: Pace {
            depth: test.depth,
            batch: test.batch.min(test.depth),
            each: test.measure == DmaMeasure::Latency,
            reaping: test.completion,
            deadline,
        },
        cores: test.cores.as_deref(),
        warmup: Duration::from_secs_f64(test.warmup_s),
        sample: Duration::from_secs_f64(test.sample_s),
        others,
    }
}

/// Over a link, with the other end in this process as well.
pub(super) fn over_link(
    test: &DmaTest,
    ends: &Ends,
    deadline: Instant,
) -> Result<Sample, NoSample> {
    ends.can(test)?;
    let mut lanes: Vec<Box<dyn Lane>> = Vec::with_capacity(test.threads);
    // Kept open, and unused where operations are one-sided.
    let mut idle: Vec<Box<dyn QueuePair>> = Vec::new();
    let mut answering = Vec::new();
    for index in 0..test.threads {
        let open = |end: &Arc<dyn Endpoint>| end.open(index).map_err(Failure::from);
        let (pair, theirs) = (open(&ends.initiator)?, open(&ends.peer)?);
        let plan = plan(test, index);
        if test.operation == DmaOperation::Send {
            let shared = Arc::new(Answering::default());
            lanes.push(Box::new(TwoSided::new(
                &ends.initiator,
                pair,
                plan,
                Arc::clone(&shared),
            )));
            answering.push((shared, theirs));
        } else {
            let reads = test.operation == DmaOperation::Read;
            let (here, there) = (&ends.initiator, &ends.peer);
            lanes.push(Box::new(OneSided::new(here, there, pair, plan, reads)?));
            idle.push(theirs);
        }
    }
    let clocks: Vec<Arc<Answering>> = answering.iter().map(|(one, _)| Arc::clone(one)).collect();
    let peer_side = other(test.initiator);
    let others = || {
        let spent = clocks.iter().map(|one| one.clock.spent_ns()).sum();
        let ends = [ends.initiator.cpu_time(), ends.peer.cpu_time()];
        ends.into_iter().fold(peer_side.cpu_time(spent), add)
    };
    let orders = orders(test, deadline, &others);
    let taken = std::thread::scope(|scope| {
        let peers: Vec<_> = answering
            .drain(..)
            .map(|(shared, pair)| {
                let size = (test.buffer_size as usize, test.depth);
                scope.spawn(move || {
                    shared.clock.begin();
                    let ended = answer(pair, &shared, size, test.completion);
                    shared.clock.end();
                    ended
                })
            })
            .collect();
        let taken = crew::run(&mut lanes, &orders);
        clocks.iter().for_each(|one| one.stop());
        for peer in peers {
            let ended = peer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // What the initiator found out comes first.
            if let (Ok(_), Err(failure)) = (&taken, ended) {
                return Err(failure.into());
            }
        }
        taken
    })?;
    drop(idle);
    let mut cpu = test.initiator.cpu_time(taken.initiator_ns);
    cpu = add(cpu, taken.others);
    let (provenance, timing) = ends.info();
    let applied = ends.filed(test, taken.applied.clone());
    let mut sample = sample(test, taken, cpu, applied, (provenance, timing));
    if let Some(emulated) = &ends.emulated {
        sample.model = Some(emulated.model.clone());
        sample.warnings.extend(emulated.warnings.iter().cloned());
    }
    Ok(sample)
}

/// On a device that copies. All of this process's CPU time is the initiator's: the threads of a
/// software device are not told apart from it.
fn on_device(
    test: &DmaTest,
    device: &Arc<dyn Device>,
    deadline: Instant,
) -> Result<Sample, NoSample> {
    let lanes = (0..test.threads).map(|index| {
        let lane = Copying::new(Arc::clone(device), plan(test, index))?;
        Ok::<Box<dyn Lane>, NoSample>(Box::new(lane))
    });
    let mut lanes = lanes.collect::<Result<Vec<_>, _>>()?;
    let others = || {
        let spent = process_cpu_ns(std::process::id());
        test.initiator.cpu_time(spent.unwrap_or_default())
    };
    let orders = orders(test, deadline, &others);
    let taken = crew::run(&mut lanes, &orders)?;
    let cpu = taken.others;
    let applied = taken.applied.clone();
    let info = device.info();
    let what = (info.provenance, info.timing);
    Ok(sample(test, taken, cpu, applied, what))
}

fn other(side: Side) -> Side {
    match side {
        Side::Host => Side::Dpu,
        Side::Dpu => Side::Host,
    }
}

fn add(one: CpuTime, other: CpuTime) -> CpuTime {
    CpuTime {
        host_ns: one.host_ns + other.host_ns,
        dpu_ns: one.dpu_ns + other.dpu_ns,
        emulator_ns: one.emulator_ns + other.emulator_ns,
    }
}

/// The figures of what was taken.
fn sample(
    test: &DmaTest,
    taken: Taken,
    cpu: CpuTime,
    applied: Applied,
    (provenance, timing): (Provenance, Timing),
) -> Sample {
    let sum = |of: fn(&super::pass::Passed) -> u64| taken.passes.iter().map(of).sum::<u64>();
    let (count, late) = (sum(|one| one.count), sum(|one| one.late));
    let bytes = count * test.buffer_size;
    let start = taken.passes.iter().map(|one| one.start).min();
    let end = taken.passes.iter().map(|one| one.end).max();
    let elapsed = start
        .zip(end)
        .map_or(Duration::ZERO, |(start, end)| end - start);
    let mut sample = Sample::ok();
    sample.provenance = Some(provenance.max(applied.provenance));
    sample.timing = Some(timing);
    sample.applied = Some(applied);
    sample.work = Some(Work {
        jobs: count,
        bytes,
        doorbells: sum(|one| one.doorbells),
        ..Work::default()
    });
    sample.elapsed_ns = Some(nanoseconds(elapsed));
    sample.check = Some(Check {
        method: match test.operation {
            DmaOperation::Read => "every byte at the initiator, before and after the clock",
            DmaOperation::Write | DmaOperation::Send => {
                "every byte at the peer, before and after the clock"
            }
        }
        .into(),
        value: format!("seed:{:016x}", test.seed),
        buffers: taken.checked,
    });
    let seconds = elapsed.as_secs_f64();
    let mut add = |name: &str, value: f64| {
        if value.is_finite() {
            sample.metrics.insert(name.into(), value);
        }
    };
    add("throughput", bytes as f64 / 1e6 / seconds);
    add("rate", count as f64 / seconds);
    let ledgers = [cpu.host_ns, cpu.dpu_ns, cpu.emulator_ns].map(|ns| ns as f64 / 1e9);
    let names = ["host_utilisation", "dpu_utilisation", "engine_utilisation"];
    for (name, spent) in names.into_iter().zip(ledgers) {
        add(name, 100.0 * spent / seconds);
    }
    let own = match test.initiator {
        Side::Host => ledgers[0],
        Side::Dpu => ledgers[1],
    };
    add("initiator_utilisation", 100.0 * own / seconds);
    add("cpu_seconds", ledgers[0]);
    add("cpu_cost", ledgers[0] / (bytes as f64 / 1e9));
    let mut all = Latencies::new();
    let timed = taken.passes.iter().filter_map(|one| one.latencies.as_ref());
    timed.for_each(|one| all.add(one));
    if all.count() > 0 {
        all.metrics(&mut add);
        sample.histogram = Some(all.to_text());
    }
    sample.cpu = Some(Cpu {
        host_s: ledgers[0],
        dpu_s: ledgers[1],
        emulator_s: ledgers[2],
    });
    let emulated = if provenance == Provenance::Emulated {
        count
    } else {
        0
    };
    sample.late = (emulated > 0).then_some(late);
    sample.warnings = warnings(&Counted {
        jobs: count,
        incompressible: 0,
        late: Late::Completions { late, of: emulated },
        varied: 0,
    });
    sample
}
