//! Mistakes planted in tests of kind `dma`: between the test and a link that otherwise works.

use overside_link::verbs::Side;

use super::faulty_link::{LinkFault, with_fault};
use super::{Mistake, Planted};
use crate::dma::take_through;
use crate::{DmaBuffers, DmaCompletion, DmaMeasure, DmaOperation, DmaTest, Sample, Worker};

/// Operations in flight, and at one doorbell.
const DEPTH: usize = 4;
/// Operations that go right: those that are verified before the clock, and the warm-up.
const RIGHT: usize = 2 * DEPTH;

/// Mistakes to plant, each with the operation of its test and the fault that the link injects.
const PLANTED: [(Mistake, DmaOperation, LinkFault); 4] = [
    (Mistake::DirectionSwapped, DmaOperation::Write, LinkFault::Swapped),
    (Mistake::DirectionSwapped, DmaOperation::Read, LinkFault::Swapped),
    (Mistake::NothingMoved, DmaOperation::Write, LinkFault::Nothing),
    (Mistake::FirstByteOnly, DmaOperation::Read, LinkFault::First),
];

/// Plants each in turn.
pub(super) fn plant() -> impl Iterator<Item = Planted> {
    PLANTED.into_iter().map(|(mistake, operation, fault)| {
        let test = test(operation);
        let what = format!("dma {} over {}", operation.name(), test.device);
        let (honest, planted) = (measure(&test, LinkFault::None), measure(&test, fault));
        Planted::of(mistake, what, &honest, &planted)
    })
}

fn measure(test: &DmaTest, fault: LinkFault) -> Sample {
    Worker::new().guarded(test.timeout_s, |_, deadline| {
        take_through(test, deadline, &|end| with_fault(end, fault, RIGHT))
    })
}

/// A test over shared memory that a millisecond is enough for.
pub(crate) fn test(operation: DmaOperation) -> DmaTest {
    DmaTest {
        begin: None,
        timing: None,
        device: "shm".into(),
        variant: "auto".into(),
        initiator: Side::Host,
        operation,
        completion: DmaCompletion::Event,
        measure: DmaMeasure::Latency,
        buffer_size: 4096,
        depth: DEPTH,
        batch: DEPTH,
        threads: 1,
        cores: None,
        engine_core: None,
        buffers: DmaBuffers::Distinct,
        inline: false,
        events: false,
        warmup_s: 0.0,
        sample_s: 0.005,
        timeout_s: 20.0,
        seed: 1,
    }
}
