//! Processor events counted while a test runs, for each task whose threads do the work themselves.

use overside_probe::counters::{Event, Events};

use super::spec::{Metric, Parameter, higher, lower};
use crate::sample::{Sample, Warning};

/// Returns the parameter that turns event counting on.
pub(super) fn parameter() -> Parameter {
    let about = "count cache misses and the like where the processor lets us";
    Parameter::boolean("events", about)
}

/// The figures, each per `each`: `an access`.
pub(super) fn metrics(each: &str) -> Vec<Metric> {
    let counted = [
        ("l1d_misses", "reads that miss the first cache, for"),
        ("l2_misses", "reads that miss the second cache, for"),
        ("llc_misses", "reads that miss the last cache, for"),
        ("dtlb_misses", "reads whose address is not in the translation cache, for"),
        ("cycles", "cycles for"),
        ("instructions", "instructions for"),
    ];
    let counted = counted.map(|(name, what)| {
        let description = format!("{what} {each}, counted by the processor");
        lower(name, "-", description)
    });
    let per_cycle = higher(
        "instructions_per_cycle",
        "-",
        "instructions in a cycle of the core, counted by the processor",
    );
    counted.into_iter().chain([per_cycle]).collect()
}

/// Returns the names of the figures of processor events.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let counted = Event::ALL.map(metric).into_iter();
    counted.chain(["instructions_per_cycle"])
}

/// Adds the counted events to the sample's metrics, divided by `count` measured items. Events that
/// were not counted become a warning with the reason.
pub(crate) fn put(sample: &mut Sample, events: &Events, count: u64) {
    let mut add = |name: &str, value: f64| sample.metrics.insert(name.into(), value);
    for (event, counted) in &events.counts {
        add(metric(*event), counted / count.max(1) as f64);
    }
    let counted = |event| {
        let found = events.counts.iter().find(|(known, _)| *known == event);
        found.map(|(_, count)| *count).filter(|count| *count > 0.0)
    };
    let both = counted(Event::Instructions).zip(counted(Event::Cycles));
    if let Some((instructions, cycles)) = both {
        add("instructions_per_cycle", instructions / cycles);
    }
    sample.warnings.extend(uncounted(events));
}

fn metric(event: Event) -> &'static str {
    match event {
        Event::Cycles => "cycles",
        Event::Instructions => "instructions",
        Event::L1dMisses => "l1d_misses",
        Event::L2Misses => "l2_misses",
        Event::LlcMisses => "llc_misses",
        Event::DtlbMisses => "dtlb_misses",
    }
}

/// Warning about the events without figures, with the reason.
fn uncounted(events: &Events) -> Option<Warning> {
    let (_, why) = events.refused.first()?;
    let names: Vec<&str> = (events.refused.iter()).map(|(event, _)| metric(*event)).collect();
    Some(Warning::new(
        "events",
        format!("not counted: {} ({why})", names.join(", ")),
        "allow it with `sysctl kernel.perf_event_paranoid=2`, run on bare metal or in a \
                 virtual machine that has performance counters, or set events to false",
    ))
}
