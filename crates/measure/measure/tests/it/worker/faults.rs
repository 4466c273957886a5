//! A device that does wrong never gives a figure, whenever it begins to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::worker::inputs::{DataSet, text};
use overside_device::Timing;
use overside_measure::audit::{Fault, Times, worker};
use overside_measure::{FailureKind, Sample, Setting, Status, Test, Worker};

/// Sixteen buffers are verified: 0 begins in verification, 20 under the clock or in the warm-up.
const BEGINNINGS: [usize; 3] = [0, 7, 20];

/// Wrong once or ever after, in both settings: no figures, and the reason.
fn check(operation: &str, fault: Fault, kind: FailureKind, message: &str) {
    check_times(operation, fault, Times::Once, kind, message);
    check_times(operation, fault, Times::Always, kind, message);
}

fn check_times(operation: &str, fault: Fault, times: Times, kind: FailureKind, message: &str) {
    let data = DataSet::new(&text(1 << 17));
    let mut test = data.test(operation);
    if operation.starts_with("match") {
        test.patterns = vec!["Ramp to I-5 ".into()];
    }
    for after in BEGINNINGS {
        for setting in [Setting::Static, Setting::Reconfiguration] {
            let test = Test { setting, ..test.clone() };
            let mut sample = worker(fault, after, times).measure(&test);
            // A busy machine may not get to the job that goes wrong in so short a sample.
            if sample.work.as_ref().is_some_and(|work| work.jobs < 4) {
                let longer = Test { sample_s: 1.0, ..test };
                sample = worker(fault, after, times).measure(&longer);
            }
            has_failed(
                &sample,
                kind,
                message,
                &format!("{fault:?} {times:?} {operation} {after} {setting:?}"),
            );
        }
    }
}

fn has_failed(sample: &Sample, kind: FailureKind, message: &str, what: &str) {
    assert_eq!(sample.status, Status::Failed, "{what}");
    let error = sample.error.as_ref().unwrap();
    assert_eq!(error.kind, kind, "{what}: {error}");
    assert!(error.message.contains(message), "{what}: {error}");
    assert!(sample.metrics.is_empty() && sample.work.is_none() && sample.elapsed_ns.is_none());
}

#[test]
fn whatever_a_device_does_wrong_is_noticed() {
    use FailureKind::{Job, Verification};
    use Fault::*;
    let table: [(Fault, &[&str], FailureKind, &str); 11] = [
        (WrongByte, &["hash-sha256", "match-bitmap"], Verification, ""),
        (
            EarlyCompletion,
            &["compress-lz4", "decompress-zstd", "copy", "hash-crc32"],
            Verification,
            "",
        ),
        (
            FewerBytes,
            &["compress-gzip", "decompress-zlib", "copy", "hash-xxh3", "match-bitmap"],
            Verification,
            "",
        ),
        (WrongValue, &["match-count", "match-search", "match-bitmap"], Verification, "says"),
        (Failure, &["copy"], Job, "as injected"),
        (FailureAsDone, &["compress-deflate"], Verification, ""),
        (FailureAsDone, &["match-count"], Verification, "none"),
        (BeyondDestination, &["copy"], Verification, "written into 4096"),
        // Only compression can fail to make things smaller.
        (FalseIncompressible, &["copy", "decompress-lz4-block"], Verification, "incompressible"),
        // What ran elsewhere is not filed under this device.
        (OtherDevice, &["copy"], Verification, "elsewhere ran the job"),
        (Duplicate, &["copy"], Verification, ""),
    ];
    for (fault, operations, kind, message) in table {
        for operation in operations {
            check(operation, fault, kind, message);
        }
    }
    for (fault, message) in [(UnknownTag, "not in flight"), (KeptDestination, "did not come back")]
    {
        check("copy", fault, Verification, message);
    }
}

#[test]
fn what_begins_and_goes_on_is_noticed() {
    // One byte within a long output, once, under the clock is what only comparing every byte of
    // every output would show. Ever after, it shows when the clock has stopped.
    for operation in ["compress-deflate", "decompress-deflate", "copy"] {
        let kind = FailureKind::Verification;
        check_times(operation, Fault::WrongByte, Times::Always, kind, "");
    }
    let kind = FailureKind::Lost;
    check_times("copy", Fault::Loss, Times::Always, kind, "as injected");
}

#[test]
fn what_others_compress_is_not_incompressible() {
    let words = DataSet::new(&b"what is said three times is true, ".repeat(2000));
    let lines = DataSet::new(&text(1 << 17));
    for operation in ["compress-deflate", "compress-lz4-block", "compress-zstd"] {
        // A tenth is left of the words; half of the lines, but that was seen before the clock.
        for (data, beginnings) in [(&words, &BEGINNINGS[..]), (&lines, &[20])] {
            for &after in beginnings {
                for times in [Times::Once, Times::Always] {
                    let sample = worker(Fault::FalseIncompressible, after, times)
                        .measure(&data.test(operation));
                    let what = format!("{operation} {after} {times:?}");
                    has_failed(&sample, FailureKind::Verification, "called incompressible", &what);
                }
            }
        }
    }
}

#[test]
fn a_job_that_never_ends_ends_the_sample_in_time() {
    let data = DataSet::new(&text(1 << 17));
    for after in BEGINNINGS {
        let test = Test { sample_s: 60.0, timeout_s: 0.3, ..data.test("copy") };
        // On a busy machine the time may be over before the job that never ends has begun.
        let is_in_flight = |_| {
            let sample = worker(Fault::Silence, after, Times::Once).measure(&test);
            has_failed(&sample, FailureKind::Timeout, "before the test's time was over", "never");
            sample.error.unwrap().message.contains("in flight")
        };
        assert!((0..10).any(is_in_flight));
    }
}

#[test]
fn a_sample_that_takes_longer_than_it_may_ends_in_time() {
    let data = DataSet::new(&text(1 << 17));
    for setting in [Setting::Static, Setting::Reconfiguration] {
        let test = Test { setting, sample_s: 60.0, timeout_s: 0.5, ..data.test("copy") };
        let begin = std::time::Instant::now();
        let sample = Worker::new().measure(&test);
        // Whether it waits for a job or looks at the clock then is chance.
        let message = "before the test's time was over";
        has_failed(&sample, FailureKind::Timeout, message, &format!("{setting:?}"));
        assert!(begin.elapsed().as_secs() < 59);
    }
}

#[test]
fn a_test_out_of_time_leaves_its_device_to_nobody() {
    let data = DataSet::new(&text(1 << 17));
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&opened);
    let mut worker = Worker::with_devices(Box::new(move |name, options| {
        counted.fetch_add(1, Ordering::Relaxed);
        overside_backends::open(name, options)
    }));
    let test = Test {
        device: "emulated:bf2".into(),
        timing: Some(Timing::Replay),
        ..data.test("compress-deflate")
    };
    let late = Test { sample_s: 60.0, timeout_s: 0.5, ..test.clone() };
    for (test, status, devices) in [
        (&test, Status::Ok, 1),
        (&late, Status::Failed, 1),
        (&test, Status::Ok, 2),
        (&test, Status::Ok, 2),
    ] {
        let sample = worker.measure(test);
        assert_eq!(sample.status, status, "{:?}", sample.error);
        assert_eq!(opened.load(Ordering::Relaxed), devices);
    }
}

#[test]
fn a_panic_is_a_failed_sample_and_the_next_test_runs() {
    let data = DataSet::new(&text(1 << 17));
    let mut worker = worker(Fault::Panic, 3, Times::Always);
    let sample = worker.measure(&data.test("copy"));
    has_failed(&sample, FailureKind::Internal, "as injected", "panic");
    let next =
        worker.measure(&Test { operation: "hash-xxh3".parse().unwrap(), ..data.test("copy") });
    has_failed(&next, FailureKind::Internal, "as injected", "panic again");
}

#[test]
fn late_completions_make_the_timing_invalid() {
    let data = DataSet::new(&text(1 << 17));
    let sample = worker(Fault::Late, 16, Times::Always).measure(&data.test("copy"));
    assert_eq!(sample.status, Status::Ok);
    let warning = sample.warnings.iter().find(|warning| warning.kind == "late").unwrap();
    assert!(warning.message.contains("invalid"), "{warning:?}");
    // Only an emulated device counts them.
    assert_eq!(sample.late, None);
}

#[test]
fn without_a_fault_there_are_figures() {
    let data = DataSet::new(&text(1 << 17));
    for setting in [Setting::Static, Setting::Reconfiguration] {
        let test = Test { setting, ..data.test("copy") };
        let sample = Worker::new().measure(&test);
        assert_eq!(sample.status, Status::Ok, "{:?}", sample.error);
    }
}
