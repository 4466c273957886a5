//! Reads and writes.

use std::collections::VecDeque;
use std::time::Instant;

use super::driver::{Link, ROLES, patience, pattern, read, region, run, run_one, slice, write};
use crate::Factory;
use overside_link::verbs::{Access, PostError, Refusal, Verb, Work};

/// Capabilities and description make sense.
pub fn describes_itself(factory: Factory<'_>) {
    let link = Link::new(factory);
    for end in &link.ends {
        let (info, capabilities) = (end.info(), end.capabilities());
        assert!(!info.name.is_empty() && !info.driver.is_empty() && !info.description.is_empty());
        assert!(capabilities.max_depth == 8 && capabilities.queue_pairs == 1);
        assert!(capabilities.max_exports > 0 && capabilities.max_export_bytes > 0);
        for verb in [&capabilities.read, &capabilities.write, &capabilities.send] {
            assert!(verb.as_ref().is_none_or(|limits| limits.max_bytes > 0));
        }
    }
    for pair in &link.pairs {
        assert!(!pair.applied().library.is_empty());
        assert_eq!((pair.in_flight(), pair.quarantined()), (0, 0));
    }
}

/// Lengths at which transports change their ways, and odd ones.
const LENGTHS: [usize; 9] = [1, 2, 7, 63, 64, 65, 4096, 65_537, 1 << 20];
/// Where they begin.
const AT: usize = 3;

/// A write puts exactly its payload where it says, whichever end initiates it.
pub fn a_write_arrives_and_nothing_else(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    for (initiator, target) in ROLES {
        for len in LENGTHS {
            let exported = link.ends[target]
                .export(len + 2 * AT, Access::Write)
                .expect("an export");
            let before = vec![0x5a; len + 2 * AT];
            exported.write(0, &before).expect("within");
            let remote = link.ends[initiator]
                .import(exported.token())
                .expect("an import");
            let payload = pattern(len, 1);
            let from = slice(&link.ends[initiator], &payload);
            let pair = &mut *link.pairs[initiator];
            let done = run_one(pair, write(9, from, &remote, AT as u64));
            assert_eq!((done.tag, done.result), (9, Ok(len as u64)));
            assert_eq!(done.source.as_deref(), Some(&payload[..]), "{len}");
            assert!(done.destination.is_none());
            let mut expected = before;
            expected[AT..AT + len].copy_from_slice(&payload);
            let mut after = vec![0; len + 2 * AT];
            exported.read(0, &mut after).expect("within");
            assert!(after == expected, "{len} bytes from end {initiator}");
        }
    }
}

/// A read fetches exactly what is there, whichever end initiates it, and changes nothing there.
pub fn a_read_fetches_and_nothing_else(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    for (initiator, target) in ROLES {
        for len in LENGTHS {
            let exported = link.ends[target]
                .export(len + AT, Access::Read)
                .expect("an export");
            let there = pattern(len + AT, 2);
            exported.write(0, &there).expect("within");
            let remote = link.ends[initiator]
                .import(exported.token())
                .expect("an import");
            let into = region(&link.ends[initiator], &vec![0xff; len]);
            let pair = &mut *link.pairs[initiator];
            let done = run_one(pair, read(3, &remote, AT as u64, into));
            assert_eq!((done.tag, done.result), (3, Ok(len as u64)));
            assert!(done.source.is_none());
            let got = done.destination.expect("handed back");
            assert!(got[..] == there[AT..], "{len} bytes to end {initiator}");
            let mut after = vec![0; len + AT];
            exported.read(0, &mut after).expect("within");
            assert!(after == there, "{len}");
        }
    }
}

/// Inline work does what other work does, up to the limit; a byte more is refused.
pub fn inline_is_like_any_other(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let max = link.ends[0].capabilities().max_inline_bytes;
    if max == 0 {
        return;
    }
    let exported = link.ends[1]
        .export(max as usize + 16, Access::ReadWrite)
        .expect("an export");
    let remote = link.ends[0].import(exported.token()).expect("an import");
    let inline = |work: Work| Work {
        inline: true,
        ..work
    };
    for len in [1, max] {
        let payload = pattern(len as usize, 5);
        let from = slice(&link.ends[0], &payload);
        let done = run_one(&mut *link.pairs[0], inline(write(1, from, &remote, 8)));
        assert_eq!(done.result, Ok(len));
        assert!(done.source.is_some());
        let mut there = vec![0; len as usize];
        exported.read(8, &mut there).expect("within");
        assert_eq!(there, payload);
    }
    let from = slice(&link.ends[0], &pattern(max as usize + 1, 5));
    let mut work = VecDeque::from([inline(write(7, from, &remote, 0))]);
    let len = max + 1;
    let refusal = Refusal::NotInline { len, max };
    let refused = Err(PostError::Refused { tag: 7, refusal });
    assert_eq!(link.pairs[0].post(&mut work), refused);
    let into = region(&link.ends[0], &[0]);
    let mut work = VecDeque::from([inline(read(8, &remote, 0, into))]);
    let outcome = link.pairs[0].post(&mut work);
    let unsupported = |refusal: &Refusal| matches!(refusal, Refusal::Unsupported(_));
    assert!(
        matches!(&outcome, Err(PostError::Refused { tag: 8, refusal }) if unsupported(refusal)),
        "{outcome:?}"
    );
}

/// Of many reads and writes each completes once, and has done what it says.
pub fn every_tag_comes_back_once(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let exported = link.ends[1]
        .export(64 * 128, Access::ReadWrite)
        .expect("an export");
    let remote = link.ends[0].import(exported.token()).expect("an import");
    let writes: Vec<Work> = (0..64u64)
        .map(|tag| {
            let from = slice(&link.ends[0], &pattern(128, tag as u8));
            write(tag, from, &remote, 128 * tag)
        })
        .collect();
    let mut tags: Vec<u64> = run(&mut *link.pairs[0], writes)
        .into_iter()
        .map(|done| {
            assert_eq!(done.result, Ok(128));
            done.tag
        })
        .collect();
    tags.sort_unstable();
    assert!(tags.iter().copied().eq(0..64));
    let reads: Vec<Work> = (0..64u64)
        .map(|tag| read(tag, &remote, 128 * tag, region(&link.ends[0], &[0; 128])))
        .collect();
    for done in run(&mut *link.pairs[0], reads) {
        let got = done.destination.expect("handed back");
        assert_eq!(got[..], pattern(128, done.tag as u8));
    }
}

/// No more is taken than the depth, and what is not taken stays where it was.
pub fn depth_is_bounded(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let exported = link.ends[1]
        .export(4096, Access::ReadWrite)
        .expect("an export");
    let remote = link.ends[0].import(exported.token()).expect("an import");
    let from = slice(&link.ends[0], &[1; 64]);
    let mut work: VecDeque<Work> = (0..100)
        .map(|tag| write(tag, from.clone(), &remote, 0))
        .collect();
    let pair = &mut *link.pairs[0];
    let (mut posted, mut done) = (0, Vec::new());
    let begin = Instant::now();
    while done.len() < 100 {
        posted += pair.post(&mut work).expect("the link takes it");
        assert!(pair.in_flight() <= 8, "{} in flight", pair.in_flight());
        assert_eq!(
            work.front().map(|work| work.tag),
            (posted < 100).then_some(posted as u64)
        );
        let before = done.len();
        let polled = pair.poll(&mut done, 3).expect("the link lives");
        assert!(polled <= 3 && done.len() == before + polled);
        assert_eq!(pair.in_flight(), posted - done.len());
        patience(begin);
    }
}

/// A batch with a bad piece is taken up to it; the bad piece stays in front and is named.
pub fn a_refused_piece_stays_and_those_before_it_go(factory: Factory<'_>) {
    let mut link = Link::new(factory);
    let exported = link.ends[1]
        .export(4096, Access::ReadWrite)
        .expect("an export");
    let remote = link.ends[0].import(exported.token()).expect("an import");
    let from = slice(&link.ends[0], &[1; 64]);
    let bad = Work::new(
        2,
        Verb::Write {
            from: from.clone(),
            to: remote.slice(0..63).expect("within"),
        },
    );
    let good = |tag| write(tag, from.clone(), &remote, 0);
    let mut work = VecDeque::from([good(0), good(1), bad, good(3)]);
    let pair = &mut *link.pairs[0];
    assert_eq!(pair.post(&mut work), Ok(2));
    let refusal = Refusal::Lengths {
        local: 64,
        remote: 63,
    };
    let refused = Err(PostError::Refused { tag: 2, refusal });
    assert_eq!(pair.post(&mut work), refused);
    assert_eq!(work.len(), 2);
    work.pop_front();
    assert_eq!(pair.post(&mut work), Ok(1));
    let (mut done, begin) = (Vec::new(), Instant::now());
    while done.len() < 3 {
        pair.poll(&mut done, 8).expect("the link lives");
        patience(begin);
    }
    let mut tags: Vec<u64> = done.iter().map(|done| done.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, [0, 1, 3]);
}
