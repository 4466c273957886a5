//! Each way of breaking the device is caught by the promise
//! that is about it.

use std::panic::{RefUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use overside_device::Device;
use overside_layers::{Fault as JobFault, FaultInjection};
use overside_testkit::conformance::{PROMISES, set_patience};

use crate::toy::{Fault, toy};

/// Faults that are injected into every job, and the promises that must detect them.
const JOBS: &[(JobFault, &[&str])] = &[
    (JobFault::Duplicate, &["every_tag_comes_back_once", "round_trip"]),
    (JobFault::Silence, &["every_tag_comes_back_once", "back_pressure"]),
    (JobFault::UnknownTag, &["every_tag_comes_back_once", "round_trip"]),
    (JobFault::WrongByte, &["round_trip", "many_contexts_in_many_threads"]),
    (JobFault::WrongValue, &["round_trip"]),
    (JobFault::FewerBytes, &["round_trip"]),
    (JobFault::BeyondDestination, &["round_trip"]),
    (JobFault::EarlyCompletion, &["round_trip"]),
    (JobFault::OtherDevice, &["round_trip"]),
    (JobFault::Failure, &["round_trip"]),
    (JobFault::Refusal, &["round_trip"]),
    (JobFault::KeptDestination, &["round_trip"]),
    (JobFault::Loss, &["round_trip"]),
];

/// Faults of the device as a whole, and the promises that must detect them.
const DEVICE: &[(Fault, &[&str])] = &[
    (Fault::CutsShort, &["output_too_small", "decompression_bomb"]),
    (Fault::StoresIncompressible, &["incompressible_input"]),
    (Fault::AcceptsCorrupt, &["corrupt_input"]),
    (Fault::DropsEmpty, &["empty_source"]),
    (Fault::TakesTooLong, &["oversized_buffers_refused", "reconfigure"]),
    (Fault::TakesTooManySegments, &["too_many_segments_refused"]),
    (Fault::TakesAnyMemory, &["unregistered_memory_refused", "other_devices_memory_refused"]),
    (Fault::TakesTooManyJobs, &["back_pressure"]),
    (Fault::OpensAnything, &["unsupported_operation"]),
    (Fault::OpensAnyDepth, &["config_limits"]),
    (Fault::OpensAnyVariant, &["operation_that_cannot_be_prepared"]),
    (Fault::MissesDeadlines, &["deadline_passed"]),
    (Fault::KeepsQuarantine, &["deadline_passed", "deadline_far"]),
    (Fault::NeverWakes, &["events_wake"]),
    (Fault::AlwaysWakes, &["events_wake"]),
    (Fault::ForgetsAtClose, &["close_waits_for_jobs", "close_gives_up"]),
    (Fault::ReconfiguresInFlight, &["reconfigure_refused_in_flight"]),
    (Fault::ReconfiguresNothing, &["reconfigure"]),
    (Fault::BreaksAtReconfigure, &["reconfigure_fails_whole"]),
    (Fault::LeaksMemory, &["drop_without_close"]),
];

/// Returns `true` if the promise fails on the device that `device` makes.
fn is_caught(promise: &str, device: impl Fn() -> Arc<dyn Device> + Sync + RefUnwindSafe) -> bool {
    // What hangs is noticed by waiting, so do not wait long.
    set_patience(Duration::from_millis(500));
    let (_, keeps) = PROMISES.iter().find(|(name, _)| *name == promise).unwrap();
    catch_unwind(|| keeps(&device)).is_err()
}

#[test]
fn each_fault_of_a_job_is_caught_by_the_promise_about_it() {
    for (fault, promises) in JOBS {
        let device = || FaultInjection::new(toy(Fault::Nothing), |_| Some(*fault)).device() as _;
        for promise in *promises {
            assert!(is_caught(promise, device), "{fault:?} went unnoticed by {promise}");
        }
    }
}

#[test]
fn each_fault_of_a_device_is_caught_by_the_promise_about_it() {
    for (fault, promises) in DEVICE {
        for promise in *promises {
            assert!(is_caught(promise, || toy(*fault)), "{fault:?} went unnoticed by {promise}");
        }
    }
}
