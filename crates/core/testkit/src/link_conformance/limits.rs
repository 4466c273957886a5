//! Tests of the work that a link refuses and which end refuses it. All other work must continue.

use std::collections::VecDeque;
use std::ops::Range;

use super::Factory;
use super::driver::{Link, Pair, config, import, pattern, range, room, source};
use overside_link::verbs::{
    Access, ConnectError, ExportError, ImportError, LinkConfig, Messages, OutOfBounds, PostError,
    Refusal, Side, Token, Verb, Work, WorkError,
};

/// Posts work that must be refused, and returns the refusal.
fn refusal(pair: &mut Pair, verb: Verb) -> Refusal {
    let mut work = VecDeque::from([Work::new(42, verb)]);
    match pair.0.post(&mut work) {
        Err(PostError::Refused { tag: 42, refusal }) => {
            assert_eq!(work.len(), 1, "refused work stays where it was");
            refusal
        }
        other => panic!("not refused: {other:?}"),
    }
}

/// Ranges outside of a region, lengths that differ, and nothing at all.
pub fn lengths_and_ranges_are_checked(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, _dpu) = link.pairs();
    let exported = link.dpu.export(100, Access::ReadWrite).expect("memory");
    let remote = import(&*link.host, exported.token());
    let of = 100;
    for (start, end) in [(0, 101), (100, 101), (u64::MAX - 1, u64::MAX)] {
        let len = end - start;
        let outside = remote.slice(start..end).err();
        assert_eq!(outside, Some(OutOfBounds { start, len, of }));
    }
    assert!(remote.slice(Range { start: 5, end: 4 }).is_err());
    assert!(exported.read(100, &mut [0]).is_err() && exported.write(99, &[0; 2]).is_err());
    let from = source(&*link.host, &pattern(1, 50));
    let refused = refusal(&mut host, Verb::Write { from: from.clone(), to: range(&remote, 0, 51) });
    assert_eq!(refused, Refusal::Lengths { local: 50, remote: 51 });
    let nothing = Verb::Write { from: from.slice(0..0), to: range(&remote, 3, 0) };
    assert_eq!(refusal(&mut host, nothing), Refusal::Empty("write"));
    let nothing = Verb::Send { from: from.slice(0..0) };
    assert_eq!(refusal(&mut host, nothing), Refusal::Empty("send"));
    host.write(from, range(&remote, 50, 50));
}

/// The peer can access exported regions only in the ways they were exported for.
pub fn access_is_checked(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, _dpu) = link.pairs();
    let readable = link.dpu.export(8, Access::Read).expect("memory");
    let writable = link.dpu.export(8, Access::Write).expect("memory");
    let to = import(&*link.host, readable.token());
    assert_eq!(to.access(), Access::Read);
    let from = source(&*link.host, &[1; 8]);
    let write = Verb::Write { from, to: to.all() };
    assert_eq!(refusal(&mut host, write), Refusal::Access("written"));
    let from = import(&*link.host, writable.token());
    let into = room(&*link.host, 8);
    let read = Verb::Read { from: from.all(), into };
    assert_eq!(refusal(&mut host, read), Refusal::Access("read"));
    assert_eq!(readable.load(0), Ok(0));
}

/// A region of one link cannot be used on another.
pub fn regions_of_other_links_are_refused(make: Factory<'_>) {
    let (link, other) = (Link::new(make), Link::new(make));
    let (mut host, _dpu) = link.pairs();
    let exported = other.dpu.export(8, Access::ReadWrite).expect("memory");
    let remote = import(&*other.host, exported.token());
    let from = source(&*link.host, &[1; 8]);
    let to = remote.all();
    assert_eq!(refusal(&mut host, Verb::Write { from, to }), Refusal::OtherLink);
    let unknown = link.host.import(exported.token());
    assert!(unknown.is_err(), "a token of another link: {unknown:?}");
}

/// Messages up to the limit, and not beyond it.
pub fn messages_that_are_too_long_are_refused(make: Factory<'_>) {
    let link = Link::new(make);
    let max = link.host.capabilities().send.max_bytes as usize;
    let (mut host, mut dpu) = link.pairs();
    let longest = pattern(1, max);
    host.send(&longest);
    assert!(dpu.receive(1)[0] == longest);
    let longer = pattern(2, max + 1);
    let too_long = Refusal::TooLong { verb: "send", len: max as u64 + 1, max: max as u64 };
    match host.0.send(Messages::one(&longer).expect("not empty")) {
        Err(PostError::Refused { tag: 0, refusal }) => assert_eq!(refusal, too_long),
        other => panic!("not refused: {other:?}"),
    }
    let from = source(&*link.host, &longer);
    assert_eq!(refusal(&mut host, Verb::Send { from }), too_long);
}

/// Checks that work that precedes a refused piece is taken and completed.
pub fn valid_work_before_a_refused_piece_is_taken(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, _dpu) = link.pairs();
    let exported = link.dpu.export(16, Access::Write).expect("memory");
    let remote = import(&*link.host, exported.token());
    let write = |tag, len, room| {
        let from = source(&*link.host, &[7; 16][..len]);
        let to = range(&remote, 0, room);
        Work::new(tag, Verb::Write { from, to })
    };
    let mut work = VecDeque::from([write(1, 8, 8), write(2, 8, 8), write(3, 8, 9), write(4, 8, 8)]);
    assert_eq!(host.0.post(&mut work).expect("the first two"), 2);
    match host.0.post(&mut work) {
        Err(PostError::Refused { tag: 3, .. }) => {}
        other => panic!("not refused: {other:?}"),
    }
    work.pop_front();
    assert_eq!(host.0.post(&mut work).expect("the last one"), 1);
    let mut tags: Vec<u64> = host.complete(3).iter().map(|one| one.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [1, 2, 4]);
}

/// Tokens that were never given out.
pub fn tokens_that_stand_for_nothing(make: Factory<'_>) {
    let link = Link::new(make);
    assert!(Token::from_bytes(&[]).is_err());
    assert!(Token::from_bytes(&[0; Token::MAX_BYTES + 1]).is_err());
    let exported = link.dpu.export(64, Access::ReadWrite).expect("memory");
    let good = exported.token().as_bytes();
    let mut wrong = vec![vec![0], vec![0xff; good.len()], pattern(1, Token::MAX_BYTES)];
    wrong.extend((0..good.len()).map(|cut| good[..cut].to_vec()).skip(1));
    wrong.push([good, &[0]].concat());
    let mut flipped = good.to_vec();
    *flipped.last_mut().expect("not empty") ^= 0x80;
    wrong.push(flipped);
    for bytes in wrong {
        let token = Token::from_bytes(&bytes).expect("a token's length");
        let imported = link.host.import(&token);
        assert!(imported.is_err(), "{bytes:?} is {imported:?}");
    }
    for at in 0..good.len() {
        let mut changed = good.to_vec();
        changed[at] ^= 0x10;
        let token = Token::from_bytes(&changed).expect("a token's length");
        // A byte that means nothing may change, but the region stays what it is.
        if let Ok(remote) = link.host.import(&token) {
            assert_eq!((remote.len(), remote.access()), (64, Access::ReadWrite));
        }
    }
    assert!(link.dpu.import(exported.token()).is_err(), "one's own");
    import(&*link.host, exported.token());
}

/// A region that its owner drops cannot be imported any more; a peer that has imported it reaches
/// only memory without another owner, or is refused.
pub fn withdrawn_regions(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, _dpu) = link.pairs();
    let exported = link.dpu.export(4096, Access::ReadWrite).expect("memory");
    let remote = import(&*link.host, exported.token());
    let token = exported.token().clone();
    host.write(source(&*link.host, &[1; 4096]), remote.all());
    drop(exported);
    match link.host.import(&token) {
        Err(ImportError::Unknown) => {}
        other => panic!("withdrawn, but {other:?}"),
    }
    let others: Vec<_> =
        (0..8).map(|_| link.dpu.export(4096, Access::ReadWrite).expect("memory")).collect();
    let from = source(&*link.host, &[2; 4096]);
    let to = remote.all();
    match host.run(Verb::Write { from, to }).result {
        Ok(4096) | Err(WorkError::RefusedByPeer(_)) => {}
        other => panic!("{other:?}"),
    }
    for other in &others {
        let mut bytes = [9; 4096];
        other.read(0, &mut bytes).expect("all of it");
        assert!(bytes == [0; 4096], "a withdrawn region was used for another");
    }
}

/// The limit of imported bytes of this end is kept.
pub fn import_limit(make: Factory<'_>) {
    let config = LinkConfig { max_import_bytes: 10_000, ..config() };
    let link = Link::with(make, &config);
    let exported = link.dpu.export(6000, Access::ReadWrite).expect("memory");
    let first = import(&*link.host, exported.token());
    let second = link.dpu.export(6000, Access::ReadWrite).expect("memory");
    match link.host.import(second.token()) {
        Err(ImportError::TooMuch { max: 10_000, .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(first);
    import(&*link.host, second.token());
}

/// Empty regions, regions that are too long and too many of them are refused; freed room can be used again.
pub fn exports_are_bounded(make: Factory<'_>) {
    let link = Link::new(make);
    let capabilities = link.host.capabilities();
    let max = capabilities.max_export_bytes;
    let too_long = usize::try_from(max).map_or(usize::MAX, |max| max.saturating_add(1));
    for len in [0, too_long] {
        let refused = link.host.export(len, Access::Read).err();
        assert_eq!(refused, Some(ExportError::Length { len, max }));
    }
    let max = capabilities.max_exports;
    let mut exports = Vec::new();
    let refused = loop {
        match link.host.export(16, Access::Read) {
            Ok(exported) => exports.push(exported),
            Err(error) => break error,
        }
        // The other end takes note of them, now and then.
        let last = exports.last().expect("just pushed");
        assert!(link.dpu.import(last.token()).is_ok());
        assert!(exports.len() <= max);
    };
    assert_eq!((exports.len(), refused), (max, ExportError::TooMany { max }));
    exports.pop();
    assert!(link.host.export(16, Access::Read).is_ok());
}

/// The handle of exported memory copies, stores and loads within it, and not beyond.
pub fn exported_memory_is_seen_through_its_handle(make: Factory<'_>) {
    let link = Link::new(make);
    let exported = link.host.export(24, Access::Write).expect("memory");
    assert_eq!((exported.len(), exported.access()), (24, Access::Write));
    let mut bytes = [1; 24];
    exported.read(0, &mut bytes).expect("within");
    assert_eq!(bytes, [0; 24], "it begins as zeroes");
    let word = 0x0807_0605_0403_0201;
    exported.store(16, word).expect("within");
    assert_eq!(exported.load(16), Ok(word));
    exported.read(16, &mut bytes[..8]).expect("within");
    assert_eq!(bytes[..8], word.to_ne_bytes());
    assert!(exported.load(4).is_err() && exported.load(24).is_err());
    assert!(exported.read(17, &mut [0; 8]).is_err());
    assert!(exported.write(usize::MAX, &[0]).is_err());
    assert!(exported.write(24, &[]).is_ok());
}

/// Each queue pair of either end once, and none that is not there; the end that listens decides how
/// many there are.
pub fn each_queue_pair_is_handed_out_once(make: Factory<'_>) {
    let two = LinkConfig { queue_pairs: 2, ..config() };
    let one = LinkConfig { side: Side::Dpu, ..config() };
    let (host, dpu) = make(&two, &one);
    for end in [host, dpu] {
        assert_eq!(end.capabilities().queue_pairs, 2);
        let _second = end.open(1).expect("the second");
        let _first = end.open(0).expect("the first");
        for index in [0, 1, 2, usize::MAX] {
            match end.open(index) {
                Err(ConnectError::QueuePair { count: 2, .. }) => {}
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("queue pair {index} once more"),
            }
        }
    }
}
