//! Cases about results: the right one, or the right error.

use overside_ops::{Format, Lengths};

use super::Factory;
use super::cases::{self, Case};
use super::driver::{open, run, run_one};
use crate::data::noise;
use overside_device::{Job, JobError, Operation, Outcome, Output, Source};

/// Name, driver and capabilities are there and make sense.
pub fn describes_itself(factory: Factory<'_>) {
    let device = factory();
    let info = device.info();
    for text in [&info.name, &info.driver, &info.location, &info.description] {
        assert!(!text.trim().is_empty(), "{info:?}");
    }
    let capabilities = device.capabilities();
    for (index, capability) in capabilities.iter().enumerate() {
        assert!(!capability.variants.is_empty(), "{capability:?}");
        assert!(capability.max_depth > 0 && capability.max_segments > 0, "{capability:?}");
        let first = capabilities.iter().position(|one| one.operation == capability.operation);
        assert_eq!(first, Some(index), "one capability for {}", capability.operation);
        assert_eq!(capabilities.get(capability.operation), Some(capability));
    }
    assert!(capabilities.iter().next().is_some(), "{} can do something", info.name);
}

/// Each operation by each variant gives the right bytes, and names their maker; a source can be in
/// several jobs at once.
pub fn round_trip(factory: Factory<'_>) {
    let device = &*factory();
    for capability in device.capabilities().iter() {
        for variant in &capability.variants {
            for len in [400, 20_000] {
                let case = Case::new(device, capability, variant, len);
                let source = case.source();
                let mut context = open(&case, 4);
                let jobs = (0..6).map(|tag| case.job(tag)).collect();
                let completions = run(&mut *context, jobs);
                for completion in &completions {
                    case.verify(completion);
                    let applied = &completion.applied;
                    assert_eq!(applied.device, device.info().name);
                    assert_eq!(&applied.variant, variant, "{} ran", applied.library);
                    assert_eq!(applied.provenance, device.info().provenance);
                    if let ([segment], Ok(own)) = (completion.source.segments(), source.bytes()) {
                        let bytes = segment.bytes().expect("as it was");
                        assert_eq!(bytes.as_ptr(), own.as_ptr(), "the job's own source");
                    }
                }
                assert_eq!(super::driver::tags(&completions), [0, 1, 2, 3, 4, 5]);
            }
        }
    }
}

/// A source in several segments is their concatenation.
pub fn segments_are_one_source(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let segments = case.capability().max_segments.min(40);
        let source = case.source();
        let mut context = open(&case, 1);
        for count in (1..=segments).step_by(7).chain([segments]) {
            let step = source.len().div_ceil(count).max(1);
            let cuts = (0..source.len()).step_by(step);
            let chain = cuts.map(|at| source.slice(at..source.len().min(at + step)));
            let mut job = case.job(1);
            job.source = Source::Chain(chain.collect());
            case.verify(&run_one(&mut *context, job));
        }
    }
}

/// A result that does not fit is an error, and the next job runs.
pub fn output_too_small(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device).iter().filter(|case| case.shortest_output() > 0) {
        let mut context = open(case, 2);
        for capacity in [0, 1, case.shortest_output() - 1] {
            let mut job = case.job(1);
            job.destination = device.alloc(capacity, 1).expect("memory");
            let completion = run_one(&mut *context, job);
            let expected = Err(JobError::OutputTooSmall { capacity });
            assert_eq!(completion.result, expected, "{}", case.config.operation);
            let destination = completion.destination.expect("the engine is done with it");
            assert_eq!(destination.len(), capacity);
        }
        case.verify(&run_one(&mut *context, case.job(2)));
    }
}

/// The bytes before and after a destination do not change, whether the result fits or not.
pub fn nothing_outside_the_destination_is_written(factory: Factory<'_>) {
    const GUARD: usize = 64;
    let device = &*factory();
    for case in cases::all(device) {
        let mut context = open(&case, 1);
        for capacity in [case.capacity, case.shortest_output().saturating_sub(1)] {
            let mut whole = device.alloc(GUARD + capacity + GUARD, 64).expect("memory");
            let guard = vec![0xA5; whole.len()];
            (device.write(&mut whole, 0, &guard)).expect("its own memory");
            let (before, rest) = whole.split_at(GUARD);
            let (destination, after) = rest.split_at(capacity);
            let job = Job { destination, ..case.job(1) };
            let completion = run_one(&mut *context, job);
            assert!(completion.destination.is_some(), "{:?}", completion.result);
            let around = [before, after].map(|region| cases::read(device, &region));
            let untouched = around.concat().iter().all(|byte| *byte == 0xA5);
            assert!(untouched, "{} wrote outside its destination", case.config.operation);
        }
    }
}

/// A job fails if its input is not in the operation's format, and the next job still runs.
pub fn corrupt_input(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device).iter().filter(|case| cases::expands(case.config.operation)) {
        let mut context = open(case, 2);
        let garbage = vec![0xFF; case.input.len().min(100)];
        // An LZ4 block has no end mark and no length: half of one may be a whole one.
        let lz4 = case.config.operation == Operation::Decompress(overside_ops::Format::Lz4Block);
        let half = (!lz4).then(|| case.input[..case.input.len() / 2].to_vec());
        for input in [garbage].into_iter().chain(half) {
            let source = cases::slice(device, &input);
            let completion = run_one(&mut *context, case.job_of(1, &source));
            let corrupt = match &completion.result {
                Err(JobError::Corrupt(reason)) => !reason.is_empty(),
                // Nor does it have a check by which a length can be known to be absurd.
                Err(JobError::OutputTooSmall { .. }) => lz4,
                _ => false,
            };
            assert!(corrupt, "{}: {:?}", case.config.operation, completion.result);
        }
        case.verify(&run_one(&mut *context, case.job(2)));
    }
}

/// Compressing noise is `Incompressible`, whether or not the larger result would have fitted.
pub fn incompressible_input(factory: Factory<'_>) {
    let device = &*factory();
    for text in cases::all(device) {
        let operation = text.config.operation;
        if operation.lengths() != Lengths::Shrinks {
            continue;
        }
        let mut case = Case::of(device, operation, "auto", noise(text.input.len()));
        let mut context = open(&case, 2);
        for capacity in [case.capacity, case.input.len()] {
            case.capacity = capacity;
            let completion = run_one(&mut *context, case.job(1));
            assert_eq!(completion.result, Ok(Outcome::Incompressible), "{operation}");
            assert!(completion.destination.is_some(), "{operation}");
        }
    }
}

/// A small input that expands enormously is bounded by its destination.
pub fn decompression_bomb(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device).iter().filter(|case| cases::expands(case.config.operation)) {
        let bomb = Case::of(device, case.config.operation, "auto", vec![0; 4 << 20]);
        if bomb.input.len() as u64 > case.capability().max_source_bytes {
            continue;
        }
        let config = super::driver::config(&bomb, 1);
        let config = overside_device::ContextConfig { max_destination_bytes: 4096, ..config };
        let mut context = device.open(config).unwrap_or_else(|error| panic!("{error}"));
        let mut job = bomb.job(1);
        job.destination = device.alloc(4096, 1).expect("memory");
        let completion = run_one(&mut *context, job);
        let expected = Err(JobError::OutputTooSmall { capacity: 4096 });
        assert_eq!(completion.result, expected, "{}", case.config.operation);
    }
}

/// No byte is a source like any other: nothing to compress, no stream, no record.
pub fn empty_source(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let operation = case.config.operation;
        let mut context = open(&case, 1);
        let source = cases::slice(device, &[]);
        let completion = run_one(&mut *context, case.job_of(1, &source));
        match operation.lengths() {
            Lengths::Shrinks => {
                assert_eq!(completion.result, Ok(Outcome::Incompressible), "{operation}");
            }
            // A series of blocks of which none is the last one may have none at all.
            _ if operation == Operation::Decompress(Format::DeflatePart) => {
                let nothing = Output { written: 0, value: None };
                assert_eq!(completion.result, Ok(Outcome::Done(nothing)), "{operation}");
            }
            Lengths::Expands | Lengths::Strips(_) => {
                let result = &completion.result;
                assert!(matches!(result, Err(JobError::Corrupt(_))), "{operation}: {result:?}");
            }
            Lengths::Grows(_) | Lengths::Answers => {
                let empty = Case::of(device, operation, "auto", Vec::new());
                let destination = completion.destination.expect("a job that is done");
                let (destination, _) = destination.split_at(empty.capacity);
                empty.verify(&overside_device::Completion {
                    destination: Some(destination),
                    ..completion
                });
            }
        }
    }
}
