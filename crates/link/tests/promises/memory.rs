//! Exported and imported memory, and work that is refused.

use super::driver::{Link, post_one, region, slice, write};
use crate::Factory;
use overside_link::verbs::{
    Access, ExportError, ImportError, OutOfBounds, PostError, Refusal, Token, Verb, Work,
};

/// Empty work, work that its memory is not exported for, and messages that are too long are
/// refused; ranges outside of a region cannot be made.
pub fn work_that_cannot_be_is_refused(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let import = |access| {
        let exported = link.ends[1].export(100, access).expect("an export");
        let remote = link.ends[0].import(exported.token()).expect("an import");
        (exported, remote)
    };
    let (_kept, readable) = import(Access::Read);
    let (_kept, writable) = import(Access::Write);
    let of = 100;
    for (start, end) in [(0, 101), (100, 101), (u64::MAX - 1, u64::MAX)] {
        let len = end - start;
        let outside = readable.slice(start..end).err();
        assert_eq!(outside, Some(OutOfBounds { start, len, of }));
    }
    let four = slice(&link.ends[0], &[1; 4]);
    let none = slice(&link.ends[0], &[]);
    let long = slice(&link.ends[0], &[1; 4097]);
    let into = || region(&link.ends[0], &[0; 4]);
    let from = writable.slice(0..4).expect("within");
    let cases = [
        (write(1, four, &readable, 0), Refusal::Access("written")),
        (
            Work::new(1, Verb::Read { from, into: into() }),
            Refusal::Access("read"),
        ),
        (
            write(1, none.clone(), &writable, 0),
            Refusal::Empty("write"),
        ),
        (
            Work::new(1, Verb::Send { from: none }),
            Refusal::Empty("send"),
        ),
        (
            Work::new(1, Verb::Send { from: long }),
            Refusal::TooLong {
                verb: "send",
                len: 4097,
                max: 4096,
            },
        ),
    ];
    for (work, refusal) in cases {
        let refused = Err(PostError::Refused { tag: 1, refusal });
        assert_eq!(post_one(&mut *link.pairs[0], work), refused);
    }
}

/// A region imported by one link is nothing to another.
pub fn another_links_memory_is_refused(factory: Factory<'_>) {
    let (link, mut other) = (Link::new(factory), Link::new(factory));
    let exported = link.ends[1]
        .export(64, Access::ReadWrite)
        .expect("an export");
    let remote = link.ends[0].import(exported.token()).expect("an import");
    let from = slice(&other.ends[0], &[1; 8]);
    let refusal = Refusal::Foreign;
    let outcome = post_one(&mut *other.pairs[0], write(4, from, &remote, 0));
    assert_eq!(outcome, Err(PostError::Refused { tag: 4, refusal }));
}

/// Garbage, changed tokens, one's own and another link's are refused, and harm nobody.
pub fn tokens_that_are_none_are_refused(factory: Factory<'_>) {
    let link = Link::new(factory);
    let other = Link::new(factory);
    assert!(Token::from_bytes(&[]).is_err());
    assert!(Token::from_bytes(&[0; Token::MAX_BYTES + 1]).is_err());
    for garbage in [&[0][..], &[0xff; 40], &[7; Token::MAX_BYTES]] {
        let token = Token::from_bytes(garbage).expect("short enough");
        assert!(link.ends[0].import(&token).is_err());
    }
    let exported = link.ends[1].export(64, Access::Read).expect("an export");
    let bytes = exported.token().as_bytes();
    for at in 0..bytes.len() {
        let mut changed = bytes.to_vec();
        changed[at] ^= 0x10;
        let token = Token::from_bytes(&changed).expect("short enough");
        // A byte that means nothing may change, but the region stays what it is.
        if let Ok(remote) = link.ends[0].import(&token) {
            assert_eq!((remote.len(), remote.access()), (64, Access::Read));
        }
        let short = Token::from_bytes(&bytes[..at.max(1)]).expect("short enough");
        assert!(link.ends[0].import(&short).is_err());
    }
    assert!(link.ends[1].import(exported.token()).is_err(), "one's own");
    assert!(other.ends[0].import(exported.token()).is_err());
    assert!(link.ends[0].import(exported.token()).is_ok());
}

/// What is no longer exported is not imported any more.
pub fn withdrawn_memory_is_not_imported(factory: Factory<'_>) {
    let link = Link::new(factory);
    let exported = link.ends[1].export(64, Access::Read).expect("an export");
    let token = exported.token().clone();
    drop(exported);
    let outcome = link.ends[0].import(&token).err();
    assert_eq!(outcome, Some(ImportError::Unknown));
}

/// No more of the peer's memory is imported than this end is willing to; what is let go counts no
/// more.
pub fn imports_are_bounded(factory: Factory<'_>) {
    let link = Link::with(factory, |config| config.max_import_bytes = 10_000);
    let exports: Vec<_> = (0..3)
        .map(|_| link.ends[1].export(4096, Access::Read).expect("an export"))
        .collect();
    let import = |at: usize| link.ends[0].import(exports[at].token());
    let first = import(0).expect("an import");
    let _second = import(1).expect("an import");
    let too_much = ImportError::TooMuch {
        len: 4096,
        max: 10_000,
    };
    assert_eq!(import(2).err(), Some(too_much));
    drop(first);
    assert!(import(2).is_ok());
}

/// Empty regions, regions that are too long and too many of them are refused.
pub fn exports_are_bounded(factory: Factory<'_>) {
    let link = Link::new(factory);
    let end = &link.ends[0];
    let max = end.capabilities().max_export_bytes;
    assert_eq!(
        end.export(0, Access::Read).err(),
        Some(ExportError::Length { len: 0, max })
    );
    let len = usize::try_from(max).map_or(usize::MAX, |max| max.saturating_add(1));
    assert_eq!(
        end.export(len, Access::Read).err(),
        Some(ExportError::Length { len, max })
    );
    let max = end.capabilities().max_exports;
    let mut exports = Vec::new();
    let refused = loop {
        match end.export(16, Access::Read) {
            Ok(exported) => exports.push(exported),
            Err(error) => break error,
        }
        // The other end takes note of them, now and then.
        let last = exports.last().expect("just pushed");
        assert!(link.ends[1].import(last.token()).is_ok());
        assert!(exports.len() <= max);
    };
    assert_eq!(
        (exports.len(), refused),
        (max, ExportError::TooMany { max })
    );
    exports.pop();
    assert!(end.export(16, Access::Read).is_ok());
}

/// The handle of exported memory copies, stores and loads within it, and not beyond.
pub fn exported_memory_is_seen_by_both(factory: Factory<'_>) {
    let link = Link::new(factory);
    let exported = link.ends[0].export(24, Access::Write).expect("an export");
    assert_eq!((exported.len(), exported.access()), (24, Access::Write));
    let mut bytes = [1; 24];
    exported.read(0, &mut bytes).expect("within");
    assert_eq!(bytes, [0; 24], "it begins as zeroes");
    exported.store(16, 0x0807_0605_0403_0201).expect("within");
    assert_eq!(exported.load(16), Ok(0x0807_0605_0403_0201));
    exported.read(16, &mut bytes[..8]).expect("within");
    assert_eq!(
        u64::from_ne_bytes(bytes[..8].try_into().expect("eight")),
        0x0807_0605_0403_0201
    );
    assert!(exported.load(4).is_err() && exported.load(24).is_err());
    assert!(exported.read(17, &mut [0; 8]).is_err());
    assert!(exported.write(usize::MAX, &[0]).is_err());
    assert!(exported.write(24, &[]).is_ok());
}
