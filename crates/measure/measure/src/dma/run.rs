//! Takes one sample: makes both sides and runs the test.

use std::sync::Arc;
use std::time::Instant;

use overside_device::{Clock, Device};
use overside_link::verbs::Side;
use overside_probe::Failure;
use overside_probe::closed_loop::Timeouts;
use overside_probe::dma::{DEPTH_MAX, Initiator, Lane, PayloadPattern, Peer, Plan, run_test};

use super::agent;
use super::copying::Copying;
use super::figures::sample;
use super::parameters::DmaTest;
use super::path::{EndpointWrapper, Ends, Path, over_link};
use super::shape::Emulated;
use super::virtual_engine::DmaEngine;
use crate::evidence::Evidence;
use crate::memory_budget::memory_fits;
use crate::plan::operations_max;
use crate::sample::Sample;

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
    let plan = test.plan();
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

/// Runs over a link, with the other end in this process as well.
pub(super) fn between_ends(
    test: &DmaTest,
    ends: Ends,
    deadline: Instant,
) -> Result<Sample, Failure> {
    let (plan, timeouts) = (test.plan(), Timeouts::until(deadline));
    let peer_side = match test.initiator {
        Side::Host => Side::Dpu,
        Side::Dpu => Side::Host,
    };
    let evidence = ends.evidence();
    let (name, what) = (test.device.as_str(), (plan, test.initiator));
    let cores = test.cores.clone();
    let mut initiator = Initiator::over(ends.initiator, name, what, cores, timeouts.clone());
    let mut peer = Peer::over(ends.peer, name, (plan, peer_side), timeouts);
    let mut taken = run_test(&plan, &test.times(), &mut initiator, Some(&mut peer))?;
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

/// Runs on a device that copies.
fn on_device(
    test: &DmaTest,
    device: &Arc<dyn Device>,
    deadline: Instant,
) -> Result<Sample, Failure> {
    let plan = test.plan();
    let lanes = (0..test.threads).map(|index| {
        let lane =
            Copying::new(Arc::clone(device), Clock::default(), PayloadPattern::new(plan, index))?;
        Ok::<Box<dyn Lane>, Failure>(Box::new(lane))
    });
    let lanes = lanes.collect::<Result<Vec<_>, _>>()?;
    let (what, cores) = ((plan, test.initiator), test.cores.clone());
    let mut initiator = Initiator::alone(lanes, what, cores, Timeouts::until(deadline));
    let taken = run_test(&plan, &test.times(), &mut initiator, None)?;
    Ok(sample(test, taken, Evidence::of_device(device.info())))
}

/// Runs on a card's engine in virtual time. The operations in flight of all initiator's threads
/// form one queue: the threads share the engine, and their own work takes no time.
fn in_virtual_time(
    test: &DmaTest,
    emulated: &Emulated,
    deadline: Instant,
) -> Result<Sample, Failure> {
    let clock = match test.begin {
        None => Clock::simulated(),
        Some(_) => Clock::beside_real_time(),
    };
    let device: Arc<dyn Device> = Arc::new(DmaEngine::new(&test.device, emulated, clock.clone()));
    let depth = (test.depth * test.threads).min(DEPTH_MAX as usize);
    let plan = Plan { threads: 1, depth, events: false, ..test.plan() };
    let pattern = PayloadPattern::new(plan, 0);
    let lane = Copying::new(Arc::clone(&device), clock.clone(), pattern)?;
    let timeouts = Timeouts::until(deadline);
    let most = operations_max(&clock, test.buffer_size);
    let mut initiator =
        Initiator::alone(vec![Box::new(lane)], (plan, test.initiator), None, timeouts)
            .on_clock(clock, most);
    let taken = run_test(&plan, &test.times(), &mut initiator, None)?;
    let mut sample = sample(test, taken, Evidence::of_device(device.info()));
    // Utilization of cores, and the cost of posting, are unknown for bytes that move in virtual time.
    (sample.metrics).retain(|name, _| !name.ends_with("_utilisation") && name != "post_time");
    sample.model = Some(emulated.model.clone());
    if let Some(each_ns) = emulated.each_ns {
        sample.bound(each_ns, test.buffer_size as f64, depth == 1);
    }
    sample.warnings.extend(emulated.warnings.iter().cloned());
    Ok(sample)
}
