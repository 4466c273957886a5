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
        accepts_loss: false,
        space: Arc::new(SpillSpace::new(limit_bytes)),
    }
}

fn open(directory: &Path) -> (Spill, Vec<SpillLocation>) {
    let (spill, found) = Spill::open(options(directory, 1 << 30)).unwrap();
    (spill, found.places)
}

fn read(places: &[SpillLocation]) -> Vec<Vec<u8>> {
    let records = places.iter().map(SpillLocation::read);
    records.collect::<Result<_, _>>().unwrap()
}

fn record(number: usize) -> Vec<u8> {
    format!("record {number}").into_bytes()
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "spill"));
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
    spill.release(&places[3]);
    drop(spill);
    let (mut spill, found) = open(directory.path());
    assert_eq!(read(&found), (4..10).map(record).collect::<Vec<_>>());
    spill.append(&record(10)).unwrap();
    spill.release(&found[4]);
    drop(spill);
    let (mut spill, found) = open(directory.path());
    assert_eq!(read(&found), [record(9), record(10)]);
    spill.release(&found[1]);
    assert!(segments(directory.path()).is_empty());
    assert_eq!(spill.bytes(), 0);
}

#[test]
fn a_record_that_was_not_finished_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spill, _) = open(directory.path());
    for number in 0..3 {
        spill.append(&record(number)).unwrap();
    }
    drop(spill);
    let segment = &segments(directory.path())[0];
    let whole = fs::read(segment).unwrap();
    // Killed within the next record, or as the file system left it.
    for rest in [&whole[whole.len() - 50..whole.len() - 9], &whole[57..90], &[0; 5000]] {
        fs::write(segment, [&whole, rest].concat()).unwrap();
        let (_, found) = open(directory.path());
        assert_eq!(read(&found), [record(0), record(1), record(2)]);
    }
    // The next process goes on behind it.
    for number in 3..6 {
        let (mut spill, found) = open(directory.path());
        assert_eq!(found.len(), number);
        spill.append(&record(number)).unwrap();
    }
}

#[test]
fn space_is_bounded_and_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), 1000);
    let space = Arc::clone(&options.space);
    let (mut spill, _) = Spill::open(options).unwrap();
    let long = vec![7; 300];
    spill.append(&long).unwrap();
    let second = spill.append(&long).unwrap();
    assert!(matches!(spill.append(&long), Err(SpillError::Full(1000))));
    spill.release(&second);
    assert_eq!(space.used_bytes(), 0);
    spill.append(&long).unwrap();
}

#[test]
fn a_segment_is_followed_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spill, _) = open(directory.path());
    let long = vec![1; 24 << 20];
    let places: Vec<_> = (0..7).map(|_| spill.append(&long).unwrap()).collect();
    assert_eq!(segments(directory.path()).len(), 3);
    spill.release(&places[2]);
    assert_eq!(segments(directory.path()).len(), 2);
    drop(spill);
    let (_, found) = open(directory.path());
    assert_eq!(found.len(), 4);
}

/// A kind of damage to a file.
type Damage = (&'static str, fn(&Path));

fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

fn cut(path: &Path, len: impl Fn(u64) -> u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len(file.metadata().unwrap().len())).unwrap();
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

const DAMAGES: [Damage; 9] = [
    ("removed", |path| fs::remove_file(path).unwrap()),
    ("emptied", |path| cut(path, |_| 0)),
    ("cut in a record", |path| cut(path, |len| len - 5)),
    ("cut behind a record", |path| cut(path, |len| len.saturating_sub(100))),
    ("zeroed at its end", |path| {
        let len = path.metadata().unwrap().len();
        write_at(path, len - 30, &[0; 30]);
    }),
    ("zeroed", |path| {
        let len = path.metadata().unwrap().len();
        fs::write(path, vec![0; len as usize]).unwrap();
    }),
    ("a bit of its beginning", |path| flip(path, 9)),
    ("a bit of a record", |path| {
        let len = path.metadata().unwrap().len();
        flip(path, len as usize - 20);
    }),
    ("replaced by another", |path| {
        let other = segments(path.parent().unwrap()).into_iter();
        let other = other.rev().find(|other| other != path).unwrap();
        fs::copy(other, path).unwrap();
    }),
];

/// Each damage of each file is named, and nothing of what is left is lost with `--accept-loss`.
#[test]
fn damage_is_named_and_can_be_accepted() {
    let long = |number: usize| format!("{number:052}").into_bytes();
    for (kind, damage) in DAMAGES {
        for index in 0..4 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            let small = |accepts_loss| SpillOptions { accepts_loss, ..options(path, 3200) };
            let (mut spill, _) = Spill::open(small(false)).unwrap();
            let places: Vec<_> = (0..18).map(|n| spill.append(&long(n)).unwrap()).collect();
            spill.release(&places[1]);
            drop(spill);
            let note = path.join("input.note");
            let mut files = segments(path);
            assert_eq!(files.len(), 5);
            let wanted: Vec<Vec<u8>> = (2..18).map(long).collect();
            let (file, is_note) = match index {
                3 => (note, true),
                // The first, one between, and the newest.
                _ => (files.swap_remove([0, 2, 4][index]), false),
            };
            damage(&file);
            let what = format!("{kind}, file {index}");
            let refused = Spill::open(small(false)).map(drop).unwrap_err().to_string();
            assert!(refused.starts_with(&file.display().to_string()), "{what}: {refused}");
            assert!(refused.contains("--accept-loss"), "{what}: {refused}");
            let (mut spill, found) = Spill::open(small(true)).unwrap();
            let left = read(&found.places);
            let lost = wanted.len() - left.len();
            match is_note {
                // Nothing says that the first are released.
                true => assert!(left.ends_with(&wanted), "{what}"),
                false => assert!((1..=4).contains(&lost), "{what}: {lost}"),
            }
            assert!(is_note || found.lost == lost as u64, "{what}: {} {lost}", found.lost);
            assert!(is_note || left.iter().all(|one| wanted.contains(one)), "{what}");
            let more = spill.append(&long(99)).unwrap();
            drop(spill);
            // From then on all is well.
            let (mut spill, found) = Spill::open(small(false)).unwrap();
            assert_eq!((found.places.len(), found.lost), (left.len() + 1, 0), "{what}");
            assert_eq!(read(&found.places)[..left.len()], left, "{what}");
            assert_eq!(found.places[left.len()].read().unwrap(), more.read().unwrap());
            spill.release(&found.places[left.len()]);
            assert!(segments(path).is_empty(), "{what}");
        }
    }
}
