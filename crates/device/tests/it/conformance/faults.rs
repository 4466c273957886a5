//! Each way of breaking the device is caught by the promise
//! that is about it.

use std::panic::catch_unwind;
use std::time::Duration;

use overside_device::conformance::{PROMISES, set_patience};

use crate::conformance::toy::{Fault, toy};

/// Each fault and the promises that must notice it.
const CAUGHT: &[(Fault, &[&str])] = &[
    (
        Fault::DuplicatesCompletions,
        &["every_tag_comes_back_once", "round_trip"],
    ),
    (
        Fault::DropsCompletions,
        &["every_tag_comes_back_once", "back_pressure"],
    ),
    (
        Fault::ChangesTags,
        &["every_tag_comes_back_once", "round_trip"],
    ),
    (
        Fault::WritesWrongBytes,
        &["round_trip", "many_contexts_in_many_threads"],
    ),
    (Fault::CountsWrong, &["round_trip"]),
    (
        Fault::CutsShort,
        &["output_too_small", "decompression_bomb"],
    ),
    (Fault::StoresIncompressible, &["incompressible_input"]),
    (Fault::AcceptsCorrupt, &["corrupt_input"]),
    (Fault::DropsEmpty, &["empty_source"]),
    (
        Fault::TakesTooLong,
        &["oversized_buffers_refused", "reconfigure"],
    ),
    (Fault::TakesTooManySegments, &["too_many_segments_refused"]),
    (
        Fault::TakesAnyMemory,
        &[
            "unregistered_memory_refused",
            "other_devices_memory_refused",
        ],
    ),
    (Fault::TakesTooManyJobs, &["back_pressure"]),
    (Fault::OpensAnything, &["unsupported_operation"]),
    (Fault::OpensAnyDepth, &["config_limits"]),
    (
        Fault::OpensAnyVariant,
        &["operation_that_cannot_be_prepared"],
    ),
    (Fault::NamesAnother, &["round_trip"]),
    (Fault::MissesDeadlines, &["deadline_passed"]),
    (Fault::KeepsQuarantine, &["deadline_passed", "deadline_far"]),
    (Fault::NeverWakes, &["events_wake"]),
    (Fault::AlwaysWakes, &["events_wake"]),
    (
        Fault::ForgetsAtClose,
        &["close_waits_for_jobs", "close_gives_up"],
    ),
    (
        Fault::ReconfiguresInFlight,
        &["reconfigure_refused_in_flight"],
    ),
    (Fault::ReconfiguresNothing, &["reconfigure"]),
    (Fault::BreaksAtReconfigure, &["reconfigure_fails_whole"]),
    (Fault::LeaksMemory, &["drop_without_close"]),
];

#[test]
fn each_fault_is_caught_by_the_promise_about_it() {
    // What hangs is noticed by waiting, so do not wait long.
    set_patience(Duration::from_millis(500));
    for (fault, names) in CAUGHT {
        for name in *names {
            let (_, promise) = PROMISES.iter().find(|(known, _)| known == name).unwrap();
            let kept = catch_unwind(|| promise(&|| toy(*fault))).is_ok();
            assert!(!kept, "{fault:?} went unnoticed by {name}");
        }
    }
}
