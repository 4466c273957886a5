//! The figures of a DMA test.

use std::time::Duration;

use overside_link::verbs::Side;
use overside_probe::dma::TestResult;

use super::parameters::{DmaOperation, DmaTest};
use crate::evidence::Evidence;
use crate::metrics::Metrics;
use crate::sample::{Check, MeasuredWork, Sample, Work};
use crate::tasks::processor_events;
use crate::warnings::{Late, SampleCounts, warnings};

/// Sample of a test's result. `over` is the evidence of its path.
pub(super) fn sample(test: &DmaTest, taken: TestResult, over: Evidence) -> Sample {
    let (mut ran, cpu) = (taken.ran, taken.cpu);
    let events = ran.events.take();
    let (count, late) = (ran.count(), ran.late);
    let bytes = count.saturating_mul(test.buffer_size);
    let elapsed = Duration::from_nanos(ran.elapsed_ns);
    let evidence = over.with_late(late, count).and(Evidence::measured(cpu));
    let work = Work { jobs: count, bytes, doorbells: ran.doorbells, ..Work::default() };
    let mut metrics = Metrics::of_work(&work, elapsed, cpu);
    let done = MeasuredWork {
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
