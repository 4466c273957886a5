//! Promises about the jobs, memory and configurations that a device refuses, and the errors that it
//! returns.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Factory;
use super::cases::{self, Case};
use super::driver::{Watch, config, open, poll, submit};
use crate::data::{noise, text};
use overside_device::{
    Context, ContextConfig, Device, DeviceId, ExternalBytes, Job, MemoryError, MemoryKind,
    OpenError, Operation, OperationConfig, Refusal, Region, Registration, Source, SubmitError,
};

/// Checks that a depth of 0, or above the device's limit, is an error.
pub fn config_limits(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let capability = case.capability();
        let good = config(&case, 1);
        let bad = [
            ContextConfig { depth: 0, ..good.clone() },
            ContextConfig { depth: capability.max_depth.saturating_add(1), ..good.clone() },
            ContextConfig {
                max_source_bytes: capability.max_source_bytes.saturating_add(1),
                ..good.clone()
            },
            ContextConfig {
                max_destination_bytes: capability.max_destination_bytes.saturating_add(1),
                ..good.clone()
            },
        ];
        for bad in bad {
            let error = device.open(bad.clone()).err();
            assert!(matches!(error, Some(OpenError::Limit { .. })), "{bad:?}: {error:?}");
        }
        assert!(device.open(good).is_ok());
    }
}

/// Opening an operation that is not among the capabilities fails with [`OpenError::Unsupported`].
pub fn unsupported_operation(factory: Factory<'_>) {
    let device = &*factory();
    let known = |operation: &Operation| device.capabilities().get(*operation).is_some();
    for operation in Operation::all().into_iter().filter(|operation| !known(operation)) {
        let config = config(&Case::of(device, operation, "auto", text(7, 100)), 1);
        match device.open(config).err() {
            Some(OpenError::Unsupported { operation: named, .. }) => assert_eq!(named, operation),
            other => panic!("{operation}: {other:?}"),
        }
    }
}

/// A variant that is not there and a pattern that does not compile are errors of opening.
pub fn operation_that_cannot_be_prepared(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let good = config(&case, 1);
        let mut bad = vec![OperationConfig { variant: "no such library".into(), ..case.config }];
        if bad[0].operation.family().has_patterns {
            let patterns = vec!["ok".into(), "(".into()];
            bad.push(OperationConfig { patterns, ..good.operation.clone() });
            bad.push(OperationConfig { patterns: Vec::new(), ..good.operation.clone() });
        }
        for operation in bad {
            let error = device.open(ContextConfig { operation, ..good.clone() }).err();
            assert!(matches!(error, Some(OpenError::Operation(_))), "{error:?}");
        }
    }
}

/// Sources and destinations longer than the context takes are refused and stay with the caller;
/// jobs before them are taken.
pub fn oversized_buffers_refused(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let mut context = open(&case, 4);
        let (max, capacity) = (case.input.len(), case.capacity);
        let mut long = case.job(2);
        long.source = cases::slice(device, &vec![b'a'; max + 1]).into();
        let refusal = Refusal::SourceTooLong { len: max as u64 + 1, max: max as u64 };
        refused(&mut *context, &case, long, refusal);
        let mut roomy = case.job(2);
        roomy.destination = device.alloc(capacity + 1, 1).expect("memory");
        let refusal =
            Refusal::DestinationTooLong { len: capacity as u64 + 1, max: capacity as u64 };
        refused(&mut *context, &case, roomy, refusal);
    }
}

/// More segments than the device takes are refused, not gathered.
pub fn too_many_segments_refused(factory: Factory<'_>) {
    let device = &*factory();
    for case in cases::all(device) {
        let max = case.capability().max_segments;
        if max > 10_000 {
            continue;
        }
        let mut context = open(&case, 2);
        let source = case.source();
        let mut job = case.job(2);
        job.source = Source::Chain((0..=max).map(|_| source.slice(0..0)).collect());
        let refusal = Refusal::TooManySegments { segments: max + 1, max };
        refused(&mut *context, &case, job, refusal);
    }
}

/// A device that needs registered memory refuses other memory, on either side of a job.
pub fn unregistered_memory_refused(factory: Factory<'_>) {
    let device = &*factory();
    refuses_memory_of(device, |len| Region::allocate(len, 1, None).expect("memory"));
}

/// A registration with another device is not valid, even if that is of the same kind.
pub fn other_devices_memory_refused(factory: Factory<'_>) {
    let (device, other) = (factory(), factory());
    refuses_memory_of(&*device, |len| other.alloc(len, 1).expect("memory"));
}

fn refuses_memory_of(device: &dyn Device, alloc: impl Fn(usize) -> Region) {
    refuses(device, |memory| memory != MemoryKind::Any, alloc);
}

/// Devices that take such memory refuse regions of `alloc` on either side of a job.
fn refuses(
    device: &dyn Device,
    which: impl Fn(MemoryKind) -> bool,
    alloc: impl Fn(usize) -> Region,
) {
    for case in cases::all(device) {
        if !which(case.capability().memory) {
            continue;
        }
        let mut context = open(&case, 2);
        let mut job = case.job(2);
        job.source = alloc(case.input.len()).share().into();
        refused(&mut *context, &case, job, Refusal::Unregistered);
        let mut job = case.job(2);
        job.destination = alloc(case.capacity);
        refused(&mut *context, &case, job, Refusal::Unregistered);
    }
}

/// Offers a good job and a bad one: the good one is taken, the bad one is named and stays.
fn refused(context: &mut dyn Context, case: &Case<'_>, bad: Job, refusal: Refusal) {
    let operation = case.config.operation;
    let tag = bad.tag;
    let mut jobs = VecDeque::from([case.job(1), bad]);
    assert_eq!(submit(context, &mut jobs), 1, "{operation}: the good job is taken");
    assert_eq!(jobs.front().map(|job| job.tag), Some(tag), "{operation}: the bad one is not");
    let error = context.submit(&mut jobs);
    assert_eq!(error, Err(SubmitError::Refused { tag, refusal }), "{operation}");
    assert_eq!(jobs.len(), 1, "{operation}: it stays with the caller");
    let mut out = Vec::new();
    let watch = Watch::start();
    while poll(context, &mut out) == 0 {
        watch.check("the good job");
    }
    case.verify(&out[0]);
}

/// Memory holds bytes that were written through the device, and nothing goes beyond its end. The
/// CPU can address it, unless the capabilities say that only the device can.
pub fn memory_holds_what_is_written(factory: Factory<'_>) {
    let device = &*factory();
    let kinds = device.capabilities().iter().map(|known| known.memory);
    let only_device = kinds.clone().all(|kind| kind == MemoryKind::Device);
    for len in [0, 1, 100, 70_000] {
        let whole = device.alloc(len, 64).expect("memory");
        assert_eq!(whole.is_addressable(), !only_device);
        assert_eq!(whole.bytes().is_ok(), !only_device);
        assert!(cases::read(device, &whole).iter().all(|byte| *byte == 0));
        let (_, mut region) = whole.split_at(len / 3);
        let bytes = noise(region.len() / 2);
        let at = region.len() - bytes.len();
        let len = region.len();
        assert_eq!(device.write(&mut region, at, &bytes), Ok(()));
        assert!(cases::read(device, &region)[at..] == bytes);
        let past_the_end = [(at + 1, len - at), (usize::MAX, 1), (region.len() + 1, 0)];
        let is_beyond = |result| matches!(result, Err(MemoryError::OutOfBounds { .. }));
        for (offset, len) in past_the_end {
            let mut bytes = vec![0; len];
            assert!(is_beyond(device.write(&mut region, offset, &bytes)));
            assert!(is_beyond(device.read(&region, offset, &mut bytes)));
        }
        let slice = region.share();
        assert_eq!(slice.is_addressable(), !only_device);
    }
    let registered = device.register(ExternalBytes::new(vec![7; 100]));
    match registered {
        Ok(slice) => assert_eq!(slice.bytes().map(<[u8]>::to_vec), Ok(vec![7; 100])),
        Err(error) => assert!(matches!(error, MemoryError::Unreachable { .. }), "{error}"),
    }
}

/// Memory that only another device can address is refused by every device.
pub fn memory_out_of_reach_refused(factory: Factory<'_>) {
    let device = &*factory();
    let registration = || Registration { device: DeviceId::unique(), handle: Arc::new(()) };
    refuses(device, |_| true, |len| Region::of_device(len, registration()));
}
