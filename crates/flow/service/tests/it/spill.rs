//! Records on disk, through crashes and damage.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use overside_flow_service::spill::{Spill, SpillError, SpillLocation, SpillOptions, SpillSpace};

pub(crate) fn options(directory: &Path, limit_bytes: u64) -> SpillOptions {
    SpillOptions {
        directory: directory.into(),
        name: "input".into(),
        syncs: false,
        space: Arc::new(SpillSpace::new(limit_bytes)),
    }
}

fn open(directory: &Path) -> (Spill, Vec<Vec<u8>>) {
    let (spill, places) = Spill::open(options(directory, 1 << 30)).unwrap();
    let records = places.iter().map(SpillLocation::read);
    let records = records.collect::<Result<_, _>>().unwrap();
    (spill, records)
}

fn record(number: usize) -> Vec<u8> {
    format!("record {number}").into_bytes()
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn what_is_not_released_is_there_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spill, found) = open(directory.path());
    assert!(found.is_empty());
    let places: Vec<_> = (0..10).map(|n| spill.append(&record(n)).unwrap()).collect();
    assert_eq!(places[7].read().unwrap(), record(7));
    spill.release(4);
    drop(spill);
    let (mut spill, found) = open(directory.path());
    assert_eq!(found, (4..10).map(record).collect::<Vec<_>>());
    spill.append(&record(10)).unwrap();
    spill.release(5);
    drop(spill);
    let (mut spill, found) = open(directory.path());
    assert_eq!(found, [record(9), record(10)]);
    spill.release(2);
    assert!(segments(directory.path()).is_empty());
    assert_eq!(spill.bytes(), 0);
}

#[test]
fn a_record_that_was_not_finished_is_cut_off_and_damage_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spill, _) = open(directory.path());
    for number in 0..3 {
        spill.append(&record(number)).unwrap();
    }
    drop(spill);
    let [segment] = &segments(directory.path())[..] else {
        panic!("one segment");
    };
    let len = segment.metadata().unwrap().len();
    let file = OpenOptions::new().write(true).open(segment).unwrap();
    file.set_len(len - 1).unwrap();
    let (_, found) = open(directory.path());
    assert_eq!(found, [record(0), record(1)]);
    // The beginning of the file.
    file.write_all_at(b"x", 0).unwrap();
    let damaged = Spill::open(options(directory.path(), 1 << 30)).unwrap_err();
    assert!(
        matches!(&damaged, SpillError::Damaged { path, offset: 0 } if path == segment),
        "{damaged}"
    );
}

#[test]
fn space_is_bounded_and_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), 1000);
    let space = Arc::clone(&options.space);
    let (mut spill, _) = Spill::open(options).unwrap();
    let long = vec![7; 300];
    spill.append(&long).unwrap();
    spill.append(&long).unwrap();
    assert!(matches!(spill.append(&long), Err(SpillError::Full(1000))));
    spill.release(2);
    assert_eq!(space.used_bytes(), 0);
    spill.append(&long).unwrap();
}

#[test]
fn a_segment_is_followed_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spill, _) = open(directory.path());
    let long = vec![1; 24 << 20];
    for _ in 0..7 {
        spill.append(&long).unwrap();
    }
    assert_eq!(segments(directory.path()).len(), 3);
    spill.release(3);
    assert_eq!(segments(directory.path()).len(), 2);
    drop(spill);
    let (_, found) = open(directory.path());
    assert_eq!(found.len(), 4);
}
