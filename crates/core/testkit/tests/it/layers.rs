//! Layers around a device change their own subject and nothing else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{
    Context, ContextConfig, Device, ExternalBytes, Job, JobError, Lost, Operation, OperationConfig,
    SubmitError,
};
use overside_layers::{Fault, FaultInjection, TimeLimit, is_silence};
use overside_testkit::{InlineDevice, InlineOptions};

const LIMIT: Duration = Duration::from_millis(20);

mod without_a_fault {
    use overside_layers::FaultInjection;

    overside_testkit::conformance_suite!(|| {
        FaultInjection::new(crate::toy::toy(crate::toy::Fault::Nothing), |_| None).device()
    });
}

mod within_its_time {
    use std::time::Duration;

    use overside_layers::TimeLimit;

    overside_testkit::conformance_suite!(|| {
        let device = crate::toy::toy(crate::toy::Fault::Nothing);
        TimeLimit::around(device, Duration::from_secs(60))
    });
}

fn inline() -> Arc<dyn Device> {
    Arc::new(InlineDevice::new(InlineOptions::default()))
}

fn open(device: &dyn Device) -> Box<dyn Context> {
    let config = ContextConfig {
        operation: OperationConfig::new(Operation::Copy),
        depth: 4,
        max_source_bytes: 100,
        max_destination_bytes: 100,
    };
    device.open(config).unwrap()
}

fn job(device: &dyn Device, tag: u64) -> Job {
    Job {
        tag,
        source: device.register(ExternalBytes::new(vec![7; 100])).unwrap().into(),
        destination: device.alloc(100, 1).unwrap(),
        deadline: None,
    }
}

/// Polls until the device is lost.
fn lost(context: &mut dyn Context) -> Lost {
    let (begin, mut out) = (Instant::now(), Vec::new());
    loop {
        assert!(begin.elapsed() < Duration::from_secs(60), "it goes on");
        match context.poll(&mut out, 16) {
            Ok(_) => std::thread::yield_now(),
            Err(lost) => return lost,
        }
    }
}

#[test]
fn a_job_beyond_its_time_completes_as_late() {
    let stalls = FaultInjection::new(inline(), |_| Some(Fault::Stall)).device();
    let device = TimeLimit::around(stalls, LIMIT);
    let mut context = open(&*device);
    context.submit(&mut VecDeque::from([job(&*device, 5)])).unwrap();
    let mut out = Vec::new();
    while context.poll(&mut out, 16).unwrap() == 0 {
        std::thread::yield_now();
    }
    assert_eq!((out[0].tag, &out[0].result), (5, &Err(JobError::DeadlineExceeded)));
    assert_eq!(context.quarantined(), 1);
}

#[test]
fn a_device_that_keeps_jobs_in_silence_is_lost() {
    let forgets =
        FaultInjection::new(inline(), |job| (job.of_context > 0).then_some(Fault::Silence));
    let device = TimeLimit::around(forgets.device(), LIMIT);
    let mut context = open(&*device);
    let mut jobs = (0..3).map(|tag| job(&*device, tag)).collect();
    assert_eq!(context.submit(&mut jobs), Ok(3));
    let begin = Instant::now();
    let lost = lost(&mut *context);
    assert!(is_silence(&lost) && begin.elapsed() > LIMIT, "{lost}");
    assert_eq!(lost.tags, [1, 2]);
}

#[test]
fn a_device_that_takes_nothing_is_lost() {
    let takes_nothing = FaultInjection::new(inline(), |_| Some(Fault::BackPressure)).device();
    let device = TimeLimit::around(takes_nothing, LIMIT);
    let mut context = open(&*device);
    let mut jobs = VecDeque::from([job(&*device, 0)]);
    let begin = Instant::now();
    let error = loop {
        match context.submit(&mut jobs) {
            Ok(taken) => assert_eq!(taken, 0),
            Err(error) => break error,
        }
        std::thread::yield_now();
    };
    assert!(matches!(&error, SubmitError::Lost(lost) if is_silence(lost)), "{error}");
    assert!(begin.elapsed() > LIMIT && jobs.len() == 1);
}

#[test]
fn an_idle_device_is_not_lost() {
    let device = TimeLimit::around(inline(), LIMIT);
    let mut context = open(&*device);
    for tag in 0..2 {
        context.submit(&mut VecDeque::from([job(&*device, tag)])).unwrap();
        let mut out = Vec::new();
        while context.poll(&mut out, 16).unwrap() == 0 {}
        std::thread::sleep(3 * LIMIT);
        assert_eq!(context.poll(&mut out, 16), Ok(0));
    }
}

#[test]
fn what_is_lost_on_purpose_says_so() {
    let device = FaultInjection::new(inline(), |job| (job.of_device == 1).then_some(Fault::Loss))
        .opening(|opening| opening != 1)
        .device();
    let mut context = open(&*device);
    let mut jobs = (0..3).map(|tag| job(&*device, tag)).collect();
    context.submit(&mut jobs).unwrap();
    assert!(!is_silence(&lost(&mut *context)));
    assert!(device.open(config_of(&*device)).is_err());
    assert_eq!((device.0.jobs(), device.0.openings()), (3, 2));
}

fn config_of(_: &dyn Device) -> ContextConfig {
    ContextConfig {
        operation: OperationConfig::new(Operation::Copy),
        depth: 1,
        max_source_bytes: 1,
        max_destination_bytes: 1,
    }
}
