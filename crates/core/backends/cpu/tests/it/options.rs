//! Tests of which [`CpuOptions`] are accepted and how the others are rejected.

use overside_backend_cpu::{CpuDevice, CpuError, CpuOptions, MAX_THREADS};
use overside_device::{Clock, Device, Operation, OperationConfig};

fn error(threads: usize, cores: Option<Vec<usize>>) -> CpuError {
    CpuDevice::new(CpuOptions { threads, cores }).err().expect("an error")
}

#[test]
fn threads_are_bounded() {
    assert_eq!(error(0, None), CpuError::Threads(0));
    assert_eq!(error(MAX_THREADS + 1, None), CpuError::Threads(MAX_THREADS + 1));
}

#[test]
fn a_core_that_cannot_be_used_is_named_with_those_that_can() {
    assert_eq!(error(1, Some(Vec::new())), CpuError::NoCores);
    for core in [1023, 1024, usize::MAX] {
        match error(1, Some(vec![core])) {
            CpuError::Core { core: named, usable } => {
                assert_eq!(named, core);
                assert!(!usable.is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_operation_is_there_with_every_library_that_works_here() {
    let device = CpuDevice::new(CpuOptions::default()).expect("the default is possible");
    for operation in Operation::all() {
        let capability = device.capabilities().get(operation).expect("the libraries do all");
        let first = &capability.variants[0];
        let auto = overside_ops::prepare(&with_pattern(operation)).expect("auto works");
        assert_eq!(auto.variant().name, first, "{operation}: auto is the first that works");
    }
}

fn with_pattern(operation: Operation) -> OperationConfig {
    let mut config = OperationConfig::new(operation);
    if matches!(operation, Operation::Match(_)) {
        config.patterns.push("a".into());
    }
    config
}

#[test]
fn a_device_for_one_operation_knows_that_one_as_well_as_any() {
    let operation = Operation::Copy;
    let whole = CpuDevice::new(CpuOptions::default()).expect("the default is possible");
    let one = CpuDevice::for_operations(CpuOptions::default(), [operation], Clock::default())
        .expect("likewise");
    let capabilities: Vec<_> = one.capabilities().iter().collect();
    assert_eq!(capabilities, [whole.capabilities().get(operation).expect("a copy")]);
}
