//! Copies, and their outcomes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_base::Random;
use overside_device::{
    Completion, Context, ContextConfig, Device, ExternalBytes, Job, JobError, Operation,
    OperationConfig, Outcome, Slice, SubmitError, wait,
};

/// Longer than any of these tests takes, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const LONGEST: usize = 1 << 20;

pub(crate) fn copying(depth: usize) -> ContextConfig {
    ContextConfig {
        operation: OperationConfig::new(Operation::Copy),
        depth,
        max_source_bytes: LONGEST as u64,
        max_destination_bytes: LONGEST as u64,
    }
}

/// Bytes that depend on the job's tag.
pub(crate) fn bytes(tag: u64, len: usize) -> Vec<u8> {
    Random::new(tag).bytes(len)
}

pub(crate) fn job(device: &dyn Device, tag: u64, len: usize) -> Job {
    Job {
        tag,
        source: Slice::from_external(ExternalBytes::new(bytes(tag, len)), None).into(),
        destination: device.alloc(len, 1).expect("memory"),
        deadline: None,
    }
}

/// Panics unless the job was copied.
pub(crate) fn assert_copied(completion: &Completion) {
    let tag = completion.tag;
    let Ok(Outcome::Done(output)) = completion.result else {
        panic!("job {tag}: {:?}", completion.result);
    };
    let destination = completion.destination.as_ref().expect("a destination");
    assert_eq!(output.written, destination.len());
    assert!(**destination == bytes(tag, destination.len()), "job {tag} has other bytes");
}

/// Result of running a series of jobs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All were copied.
    All,
    /// The device was lost, with this reason, after this number of jobs.
    Lost(String, usize),
}

/// Copies one buffer of each length, waiting for events. Checks that completed copies are right and
/// others are reported as lost.
pub(crate) fn run(context: &mut dyn Context, device: &dyn Device, lengths: &[usize]) -> End {
    let mut jobs: VecDeque<Job> =
        (lengths.iter().zip(0..)).map(|(len, tag)| job(device, tag, *len)).collect();
    let (mut out, begin) = (Vec::new(), Instant::now());
    while out.len() < lengths.len() {
        assert!(begin.elapsed() < PATIENCE, "{} of {}", out.len(), lengths.len());
        let offered = jobs.len();
        match context.submit(&mut jobs) {
            Ok(count) => assert_eq!(offered - count, jobs.len()),
            Err(SubmitError::Lost(_)) => {}
            Err(error) => panic!("{error}"),
        }
        wait(context, Duration::from_millis(100)).expect("waiting works");
        if let Err(lost) = context.poll(&mut out, 16) {
            out.iter().for_each(assert_copied);
            let mut all: Vec<u64> = out.iter().map(|completion| completion.tag).collect();
            all.extend(&lost.tags);
            all.extend(jobs.iter().map(|job| job.tag));
            all.sort_unstable();
            assert_eq!(all, (0..lengths.len() as u64).collect::<Vec<_>>());
            return End::Lost(lost.reason, out.len());
        }
    }
    out.iter().for_each(assert_copied);
    End::All
}

/// Polls until `count` completions are there.
pub(crate) fn reap(context: &mut dyn Context, count: usize) -> Vec<Completion> {
    let (mut out, begin) = (Vec::new(), Instant::now());
    while out.len() < count {
        assert!(begin.elapsed() < PATIENCE, "{} of {count}", out.len());
        wait(context, Duration::from_millis(100)).expect("waiting works");
        context.poll(&mut out, count).unwrap_or_else(|lost| panic!("{lost}"));
    }
    out
}

pub(crate) fn is_late(completion: &Completion) -> bool {
    completion.result == Err(JobError::DeadlineExceeded)
}
