//! Memory that is split, shared and taken back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use overside_device::{DeviceId, ExternalBytes, MemoryError, Region, Registration, Slice};
use proptest::prelude::*;

fn region(len: usize) -> Region {
    Region::allocate(len, 16, None).unwrap()
}

#[test]
fn memory_is_zeroed_and_aligned() {
    for align in [1, 64, 4096] {
        let region = Region::allocate(100, align, None).unwrap();
        assert_eq!(region.as_ptr() as usize % align, 0);
        assert!(region.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn impossible_memory_is_an_error() {
    let error = |len, align| Region::allocate(len, align, None).unwrap_err();
    assert_eq!(error(1, 3), MemoryError::Alignment(3));
    assert_eq!(error(1, 0), MemoryError::Alignment(0));
    assert_eq!(error(usize::MAX, 1), MemoryError::Exhausted { len: usize::MAX });
    // Miri ends the program where a system would say no.
    if !cfg!(miri) {
        assert_eq!(error(1 << 60, 1), MemoryError::Exhausted { len: 1 << 60 });
    }
}

#[test]
fn the_owner_and_the_registration_go_with_the_last_handle() {
    static OWNERS: AtomicUsize = AtomicUsize::new(0);
    struct Bytes([u8; 10]);
    impl AsRef<[u8]> for Bytes {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Bytes {
        fn drop(&mut self) {
            OWNERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let handle = Arc::new(());
    let registration = Registration { device: DeviceId::unique(), handle: handle.clone() };
    OWNERS.fetch_add(1, Ordering::Relaxed);
    let slice = Slice::from_external(ExternalBytes::new(Bytes(*b"0123456789")), Some(registration));
    let part = slice.slice(3..6);
    drop(slice);
    assert_eq!(&*part, b"345");
    assert_eq!((OWNERS.load(Ordering::Relaxed), Arc::strong_count(&handle)), (1, 2));
    drop(part);
    assert_eq!((OWNERS.load(Ordering::Relaxed), Arc::strong_count(&handle)), (0, 1));
}

#[test]
fn somebody_elses_memory_is_never_given_out_for_writing() {
    let slice = Slice::from_external(ExternalBytes::new(vec![1, 2, 3]), None);
    assert_eq!(&*slice.reclaim().unwrap_err(), [1, 2, 3]);
}

#[test]
fn parts_are_written_and_read_in_different_threads() {
    let (mut left, mut right) = region(2000).split_at(1000);
    std::thread::scope(|scope| {
        scope.spawn(|| left.fill(1));
        scope.spawn(|| right.fill(2));
    });
    let (left, right) = (left.share(), right.share());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert!(left.iter().all(|byte| *byte == 1)));
            scope.spawn(|| assert!(right.iter().all(|byte| *byte == 2)));
        }
    });
}

/// A handle and the bytes that must be seen through it.
enum Handle {
    Write(Region, Vec<u8>),
    Read(Slice, Vec<u8>),
}

impl Handle {
    fn check(&self) {
        match self {
            Self::Write(region, expected) => assert_eq!(&**region, &**expected),
            Self::Read(slice, expected) => assert_eq!(&**slice, &**expected),
        }
    }
}

/// Applies an action to the handle chosen by `which`, at or with `at`.
fn step(handles: &mut Vec<Handle>, action: u8, which: usize, at: usize) {
    let index = which % handles.len();
    let alone = handles.len() == 1;
    match (action, handles.swap_remove(index)) {
        (0, Handle::Write(region, expected)) => {
            let at = at % (expected.len() + 1);
            let (left, right) = region.split_at(at);
            handles.push(Handle::Write(left, expected[..at].to_vec()));
            handles.push(Handle::Write(right, expected[at..].to_vec()));
        }
        (1, Handle::Write(mut region, mut expected)) => {
            region.fill(at as u8);
            expected.fill(at as u8);
            handles.push(Handle::Write(region, expected));
        }
        (2, Handle::Write(region, expected)) => {
            handles.push(Handle::Read(region.share(), expected));
        }
        (3, Handle::Read(slice, expected)) => {
            let (from, to) = (at % (expected.len() + 1), expected.len());
            let part = slice.slice(from..to);
            handles.push(Handle::Read(part, expected[from..to].to_vec()));
            handles.push(Handle::Read(slice, expected));
        }
        (4, Handle::Read(slice, expected)) => match slice.reclaim() {
            Ok(region) => {
                assert!(alone, "given out for writing while others read or write");
                let whole = region.to_vec();
                assert!(whole.len() >= expected.len());
                handles.push(Handle::Write(region, whole));
            }
            Err(slice) => {
                assert!(!alone, "nobody else has it");
                handles.push(Handle::Read(slice, expected));
            }
        },
        (5, handle) if alone => handles.push(handle),
        (5, dropped) => drop(dropped),
        (_, handle) => handles.push(handle),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_handle_sees_what_another_writes(
        len in 0_usize..100,
        steps in prop::collection::vec((0_u8..6, any::<usize>(), any::<usize>()), 0..40),
    ) {
        let mut handles = vec![Handle::Write(region(len), vec![0; len])];
        for (action, which, at) in steps {
            step(&mut handles, action, which, at);
            handles.iter().for_each(Handle::check);
        }
    }
}
