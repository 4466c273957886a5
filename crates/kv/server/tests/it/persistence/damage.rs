//! Damaged directories: each is refused, with the name of a file, or loses nothing.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use overside_base::Random;
use overside_frames::{FrameKind, FrameReader, FrameWriter, Next, previous};
use overside_kv::persistence::frame::Kind;
use overside_kv::persistence::{PersistenceError, SyncPolicy};
use overside_kv::server::StorageBackend;

use super::{Items, files, open, open_with, round, state};
use crate::requests::Requests;

/// A directory with a snapshot and three logs, of a server that was not killed; and its state.
fn directory() -> (tempfile::TempDir, Items) {
    let directory = tempfile::tempdir().unwrap();
    let mut requests = Requests::new(8);
    let always = Some(SyncPolicy::Always);
    let mut expected = Items::default();
    for start in 0..3 {
        let (mut engine, _) = open_with(directory.path(), always, 1000).unwrap();
        (0..10).for_each(|_| round(&mut engine, &mut requests, 1000));
        if start == 0 {
            engine.save(false).unwrap();
        }
        (0..10).for_each(|_| round(&mut engine, &mut requests, 1000));
        engine.finish().unwrap();
        expected = state(&engine, 1000);
    }
    (directory, expected)
}

/// Follows the advice of the message about a log, after which the server starts.
fn follow(error: &PersistenceError, directory: &Path) {
    let (path, len) = match error {
        PersistenceError::Damaged { path, offset } => (path, *offset),
        PersistenceError::Missing { path } => (path, 0),
        _ => return,
    };
    let name = path.file_name().unwrap().to_str().unwrap();
    let Some(number) = name.strip_prefix("log-") else {
        return;
    };
    fs::write(path, &fs::read(path).unwrap_or_default()[..len as usize]).unwrap();
    for other in files(directory, "") {
        let other_name = other.file_name().unwrap().to_str().unwrap();
        let is_greater = other_name.rsplit('-').next().is_some_and(|other| other > number);
        if is_greater {
            fs::remove_file(other).unwrap();
        }
    }
    // `lock` is greater than any number.
    assert!(
        error.with_remedy().contains("remove `lock`") && open(directory, 2000).is_ok(),
        "{error}"
    );
}

/// Opens a copy of the directory with these files, of which one was damaged.
fn check(contents: &[(PathBuf, Vec<u8>)], expected: &Items, damage: &str) {
    let copy = tempfile::tempdir().unwrap();
    for (path, bytes) in contents {
        fs::write(copy.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    match open(copy.path(), 2000) {
        Ok((engine, _)) => assert_eq!(state(&engine, 2000), *expected, "{damage}"),
        Err(error) => {
            let named = copy.path().to_str().unwrap();
            assert!(error.with_remedy().contains(named), "{damage}: {error}");
            assert!(error.with_remedy().contains("; "), "{damage}: {error}");
            for (path, bytes) in contents {
                let path = copy.path().join(path.file_name().unwrap());
                assert_eq!(fs::read(path).unwrap(), *bytes, "{damage}: {error}");
            }
            follow(&error, copy.path());
        }
    }
}

#[test]
fn damage_is_refused_by_name_or_loses_nothing() {
    let ((directory, mut expected), (another, _)) = (directory(), directory());
    (expected.0).retain(|(_, item)| item.expires_at_ms.is_none_or(|at| at > 2000));
    let contents: Vec<_> = (files(directory.path(), "").into_iter())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    assert_eq!(contents.len(), 5, "a lock, three logs and a snapshot");
    check(&contents, &expected, "none");
    let mut random = Random::new(1);
    for (index, (path, bytes)) in contents.iter().enumerate() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let with = |damaged: Vec<u8>, damage: &str| {
            let mut contents = contents.clone();
            contents[index].1 = damaged;
            check(&contents, &expected, &format!("{name} {damage}"));
        };
        let frames = bytes.windows(4).enumerate().filter(|(_, four)| *four == b"OvKv");
        let mut ends: Vec<usize> = frames.map(|(at, _)| at).step_by(3).collect();
        let len = bytes.len() as u64;
        ends.extend((0..10).map(|_| random.below(len) as usize));
        for end in ends {
            with(bytes[..end].to_vec(), &format!("cut at {end}"));
            let mut zeros = bytes.clone();
            let most = random.below(len) as usize;
            zeros[end..].iter_mut().take(most).for_each(|byte| *byte = 0);
            with(zeros, &format!("{most} zeros at {end}"));
        }
        with(vec![0; bytes.len()], "zeros");
        for at in (0..bytes.len()).step_by(1 + bytes.len() / 40) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << random.below(8);
            with(flipped, &format!("flipped at {at}"));
        }
        let mut without = contents.clone();
        without.remove(index);
        check(&without, &expected, &format!("{name} removed"));
        fs::remove_file(path).unwrap();
        match open(directory.path(), 2000) {
            Err(PersistenceError::Missing { path: missing }) => assert_eq!(missing, *path),
            other => assert!(name == "lock" && other.is_ok(), "{name}"),
        }
        fs::write(path, bytes).unwrap();
        let same = another.path().join(path.file_name().unwrap());
        with(fs::read(same).unwrap(), "of another server");
        let others = contents.iter().map(|(path, _)| path.clone());
        let new =
            ["log-0000000001", "log-0000000009", "snapshot-0000000003", "snapshot-0000000009"];
        for to in others.chain(new.map(PathBuf::from)) {
            let mut doubled = contents.clone();
            doubled.retain(|(path, _)| path.file_name() != to.file_name());
            doubled.push((to.clone(), bytes.clone()));
            check(&doubled, &expected, &format!("{name} copied to {}", to.display()));
        }
    }
}

/// Frames as the version before wrote them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Former(Kind);

impl FrameKind for Former {
    const MAGIC: [u8; 4] = Kind::MAGIC;
    const FORMATS: RangeInclusive<u8> = 2..=2;
    const BEGIN: Self = Self(Kind::Begin);

    fn byte(self) -> u8 {
        self.0.byte()
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Kind::from_byte(byte).map(Self)
    }
}

/// Writes a file as the version before did.
fn rewrite(path: &Path) {
    let mut reader = FrameReader::<Kind>::open(path).unwrap();
    let mut out = Vec::new();
    let mut writer = None;
    while let Next::Frame(frame) = reader.next().unwrap() {
        let now_ms = frame.now_ms;
        match &mut writer {
            None => {
                let identity = *frame.payload.first_chunk().unwrap();
                let previous = previous(frame.payload).unwrap();
                let begun = FrameWriter::begin(identity, previous, &[], now_ms, &mut out);
                writer = Some(begun);
            }
            Some(writer) => {
                FrameWriter::append(writer, Former(frame.kind), now_ms, frame.payload, &mut out);
            }
        }
    }
    fs::write(path, out).unwrap();
}

#[test]
fn directories_of_the_version_before_are_read_and_gone_on_with() {
    let (directory, mut expected) = directory();
    let all = [files(directory.path(), "log-"), files(directory.path(), "snapshot-")].concat();
    all.iter().for_each(|path| rewrite(path));
    fs::write(directory.path().join("lock"), "").unwrap();
    let mut requests = Requests::new(9);
    for _ in 0..3 {
        let (mut engine, recovered) = open(directory.path(), 1000).unwrap();
        assert_eq!((state(&engine, 1000), recovered.cut_bytes), (expected, 0));
        (0..10).for_each(|_| round(&mut engine, &mut requests, 1000));
        expected = state(&engine, 1000);
    }
    // A gap is found there too.
    fs::remove_file(&all[1]).unwrap();
    let error = open(directory.path(), 1000).unwrap_err();
    assert!(matches!(error, PersistenceError::Missing { .. }), "{error}");
}
