//! Tests of behavior that hardware has and software drivers do not.

use crate::common;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Behavior, allocated_bytes, behave, card, mapped_within};
use overside_backend_dpdk::{DpdkDevice, DpdkError};
use overside_device::{
    Completion, Context, ContextConfig, Device, ExternalBytes, Job, JobError, MemoryKind,
    Operation, OperationConfig, Outcome, SubmitError,
};
use overside_ops::Format;
use overside_testkit::assert_contains;
use overside_testkit::conformance::PROMISES;

const COMPRESS: Operation = Operation::Compress(Format::Deflate);
const DECOMPRESS: Operation = Operation::Decompress(Format::Deflate);

fn open(device: &DpdkDevice, operation: Operation) -> Box<dyn Context> {
    let config = ContextConfig {
        operation: OperationConfig::new(operation),
        depth: 8,
        max_source_bytes: 65_535,
        max_destination_bytes: 65_535,
    };
    device.open(config).unwrap()
}

fn job(device: &DpdkDevice, tag: u64, source: &[u8], capacity: usize) -> Job {
    let mut region = device.alloc(source.len(), 64).unwrap();
    region.copy_from_slice(source);
    Job {
        tag,
        source: region.share().into(),
        destination: device.alloc(capacity, 64).unwrap(),
        deadline: None,
    }
}

fn submit(context: &mut dyn Context, job: Job) {
    let mut jobs = VecDeque::from([job]);
    let begin = Instant::now();
    while !jobs.is_empty() {
        context.submit(&mut jobs).unwrap();
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}

fn next(context: &mut dyn Context) -> Completion {
    let (mut out, begin) = (Vec::new(), Instant::now());
    while context.poll(&mut out, 1).unwrap() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
    out.remove(0)
}

#[test]
fn a_card_keeps_each_promise() {
    for (name, promise) in PROMISES {
        eprintln!("{name}");
        promise(&|| card("card0") as Arc<dyn Device>);
    }
}

#[test]
fn capabilities_are_what_the_card_did_when_it_was_tried() {
    let device = card("card1");
    let all: Vec<String> =
        (device.capabilities().iter()).map(|one| one.operation.to_string()).collect();
    // It refuses to make a transform that compresses LZ4.
    assert_eq!(all, ["compress-deflate", "decompress-deflate", "decompress-lz4-block"]);
    for one in device.capabilities().iter() {
        assert_eq!(one.max_segments, 1, "{}", one.operation);
        assert_eq!(one.max_source_bytes, 65_535, "{}", one.operation);
        assert_eq!(one.memory, MemoryKind::Registered, "{}", one.operation);
        assert!(!one.event, "{}", one.operation);
    }
}

#[test]
fn a_driver_with_one_error_for_two_causes_is_not_taken_for_more_than_it_says() {
    let device = card("old6");
    let text = b"what is said three times is true, is true, is true".repeat(20);
    let mut context = open(&device, COMPRESS);
    submit(&mut *context, job(&device, 1, &text, 2000));
    let made = next(&mut *context);
    let Ok(Outcome::Done(output)) = made.result else {
        panic!("{:?}", made.result);
    };
    let stream = made.destination.unwrap()[..output.written].to_vec();
    let mut context = open(&device, DECOMPRESS);
    submit(&mut *context, job(&device, 2, &stream, 100));
    let unclear = next(&mut *context).result;
    assert!(
        matches!(&unclear, Err(JobError::Failed(reason)) if reason.contains("does not say which")),
        "{unclear:?}"
    );
    submit(&mut *context, job(&device, 3, &stream, text.len()));
    assert!(next(&mut *context).result.is_ok());
}

#[test]
fn a_driver_that_does_not_notice_a_cut_stream_is_not_offered_for_decompression() {
    let device = card("blind7");
    assert!(device.capabilities().get(COMPRESS).is_some());
    assert!(device.capabilities().get(DECOMPRESS).is_none());
}

#[test]
fn a_job_that_the_card_keeps_is_given_up_and_its_destination_is_quarantined() {
    let device = card("card2");
    let mut context = open(&device, COMPRESS);
    behave(2, Behavior::Stalled);
    // The time of one that a busy machine kept from the card is over before the card has it.
    let mut attempts = (1..100).map(|attempt| {
        let mut late = job(&device, 7, b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 100);
        late.deadline = Some(Instant::now() + attempt * Duration::from_millis(30));
        submit(&mut *context, late);
        assert_eq!((context.in_flight(), context.quarantined()), (1, 0));
        let completion = next(&mut *context);
        assert_eq!(completion.tag, 7);
        assert_eq!(completion.result, Err(JobError::DeadlineExceeded));
        completion
    });
    // A late card would write into its destination.
    assert!(attempts.any(|completion| completion.destination.is_none()));
    assert_eq!((context.in_flight(), context.quarantined()), (0, 1));
    behave(2, Behavior::Good);
    assert_eq!(context.quarantined(), 0, "the card has confirmed");
    assert_eq!(context.poll(&mut Vec::new(), 1), Ok(0), "it does not complete twice");
    submit(&mut *context, job(&device, 8, b"bbbbbbbbbbbbbbbbbbbbbbbbbbbb", 100));
    assert!(next(&mut *context).result.is_ok());
}

#[test]
fn memory_of_a_context_that_is_gone_stays_until_the_card_is_done_with_it() {
    let device = card("card3");
    let mut context = open(&device, COMPRESS);
    behave(3, Behavior::Stalled);
    let kept = 60_000 + 50_000;
    submit(&mut *context, job(&device, 1, &[b'a'; 60_000], 50_000));
    let closed = context.close(Instant::now() + Duration::from_millis(20));
    assert_eq!(closed.abandoned, [1]);
    std::thread::sleep(Duration::from_millis(20));
    assert!(allocated_bytes() >= kept, "the card may still write");
    behave(3, Behavior::Good);
    // The contexts of other tests come and go meanwhile, so it is looked for what is left at the
    // least.
    let (begin, mut least) = (Instant::now(), usize::MAX);
    while begin.elapsed() < Duration::from_secs(60) && least >= kept {
        least = least.min(allocated_bytes());
    }
    assert!(least < kept, "{least} bytes are left");
}

#[test]
fn an_unplugged_card_is_lost_with_the_jobs_it_had() {
    let device = card("card4");
    let mut context = open(&device, COMPRESS);
    behave(4, Behavior::Stalled);
    submit(&mut *context, job(&device, 5, b"cccccccccccccccccccccc", 100));
    behave(4, Behavior::Gone);
    let lost = context.poll(&mut Vec::new(), 8).unwrap_err();
    assert_eq!(lost.tags, [5]);
    assert_eq!(lost.device, "dpdk:card4");
    let mut more = VecDeque::from([job(&device, 6, b"dddddddddddddddddddd", 100)]);
    let refused = context.submit(&mut more);
    assert!(matches!(refused, Err(SubmitError::Lost(_))), "{refused:?}");
    assert_eq!(more.len(), 1, "it stays with the caller");
    let closed = context.close(Instant::now() + Duration::from_secs(5));
    assert_eq!(closed.abandoned, [5]);
}

#[test]
fn a_card_that_takes_nothing_though_it_has_nothing_is_lost() {
    let device = card("card5");
    let mut context = open(&device, COMPRESS);
    behave(5, Behavior::Refuses);
    let mut jobs = VecDeque::from([job(&device, 1, b"eeeeeeeeeeeeeeeeeeeeee", 100)]);
    let begin = Instant::now();
    let lost = loop {
        match context.submit(&mut jobs) {
            Ok(taken) => assert_eq!(taken, 0, "back-pressure, for a while"),
            Err(lost) => break lost,
        }
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(lost.to_string().contains("takes no jobs"), "{lost}");
    assert_eq!(jobs.len(), 1);
}

/// A part of a buffer that others have parts of, too.
struct Part(Arc<Vec<u8>>, Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1.clone()]
    }
}

#[test]
fn buffers_that_share_pages_are_registered_once_and_let_go_by_the_last() {
    let device = card("card1");
    let whole = Arc::new(vec![b'f'; 400_000]);
    let register = |range: Range<usize>| {
        let part = Part(Arc::clone(&whole), range);
        device.register(ExternalBytes::new(part)).unwrap()
    };
    let mapped = || mapped_within(whole.as_ptr() as usize, whole.len());
    let middle = register(100_000..150_000);
    let (small, all, inside) =
        (register(90_000..100_001), register(0..400_000), register(120_000..120_010));
    assert!(mapped() >= 2, "what was there stays, and what is around it is added");
    drop((small, all, inside));
    assert_eq!(mapped(), 1, "the first one is still in use");
    let mut context = open(&device, COMPRESS);
    let mut first = job(&device, 1, b"", 5_000);
    first.source = middle.clone().into();
    submit(&mut *context, first);
    let completion = next(&mut *context);
    assert!(completion.result.is_ok(), "{:?}", completion.result);
    drop((middle, completion));
    assert_eq!(mapped(), 0);
}

#[test]
fn an_unknown_name_is_told_what_there_is() {
    let unknown = DpdkDevice::open_in(&common::environment(), "card9").err();
    let Some(DpdkError::Unknown { found, .. }) = unknown else {
        panic!("{unknown:?}");
    };
    assert_contains(&found, "card0");
    assert_contains(&found, "compress_isal");
}
