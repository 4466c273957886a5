//! One-sided work: the right bytes, in the right direction, and nowhere else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::Factory;
use super::driver::{Link, PATIENCE, Pair, config, foreign, import, pattern, range, room, source};
use overside_link::verbs::{Access, Endpoint, LinkConfig, PostError, Refusal, Verb, Work};

/// Lengths around the thresholds of transports.
const LENGTHS: [usize; 10] = [1, 2, 7, 63, 64, 65, 4096, 4097, 65_537, 1 << 20];
/// A region that all of them fit into, each at a place of its own.
const REGION: usize = (1 << 20) + 1024;

/// Capabilities and description are whole.
pub fn describes_itself(make: Factory<'_>) {
    let link = Link::new(make);
    for end in [&link.host, &link.dpu] {
        let (capabilities, info) = (end.capabilities(), end.info());
        assert!(!info.name.is_empty() && !info.driver.is_empty() && !info.peer.is_empty());
        assert!(!info.description.is_empty());
        assert_eq!(capabilities.queue_pairs, 1);
        assert_eq!(capabilities.max_depth, 16);
        assert!(capabilities.max_exports > 0 && capabilities.max_export_bytes > 0);
        let verbs = [&capabilities.read, &capabilities.write, &capabilities.send];
        assert!(verbs.into_iter().all(|limits| limits.max_bytes > 0));
        let queue_pair = end.open(0).expect("a queue pair");
        let applied = queue_pair.applied();
        assert_eq!(applied.provenance, info.provenance);
        assert!(!applied.device.is_empty() && !applied.library.is_empty());
        assert_eq!((queue_pair.in_flight(), queue_pair.quarantined()), (0, 0));
    }
    assert_ne!(link.host.id(), link.dpu.id());
}

/// Checks that written bytes arrive in the peer's region and that nothing beside them changes, from
/// either end.
pub fn writes_go_to_the_peer(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    writes_go_there(&mut host, &*link.host, &*link.dpu);
    writes_go_there(&mut dpu, &*link.dpu, &*link.host);
}

fn writes_go_there(pair: &mut Pair, ours: &dyn Endpoint, theirs: &dyn Endpoint) {
    let exported = theirs.export(REGION, Access::ReadWrite).expect("memory");
    let remote = import(ours, exported.token());
    assert_eq!(remote.len(), REGION as u64);
    let mut expected = pattern(99, REGION);
    exported.write(0, &expected).expect("all of it");
    for (index, len) in LENGTHS.into_iter().enumerate() {
        let at = 17 * index + 1;
        let bytes = pattern(index as u64, len);
        let from = match index % 2 {
            0 => source(ours, &bytes),
            _ => foreign(ours, &bytes),
        };
        pair.write(from.clone(), range(&remote, at, len));
        assert_eq!(&from[..], bytes, "the source was changed");
        expected[at..at + len].copy_from_slice(&bytes);
        let mut there = vec![0; REGION];
        exported.read(0, &mut there).expect("within it");
        assert!(there == expected, "{len} bytes written at {at}");
    }
}

/// Checks that a read returns the contents of the peer's region and does not change the region,
/// from either end.
pub fn reads_come_from_the_peer(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    reads_come_from_there(&mut host, &*link.host, &*link.dpu);
    reads_come_from_there(&mut dpu, &*link.dpu, &*link.host);
}

fn reads_come_from_there(pair: &mut Pair, ours: &dyn Endpoint, theirs: &dyn Endpoint) {
    let bytes = pattern(3, REGION);
    let exported = theirs.export(bytes.len(), Access::Read).expect("memory");
    exported.write(0, &bytes).expect("all of it");
    let remote = import(ours, exported.token());
    for (index, len) in LENGTHS.into_iter().enumerate() {
        let at = 31 * index;
        let into = room(ours, len);
        let from = range(&remote, at, len);
        let completion = pair.run(Verb::Read { from, into });
        assert_eq!(completion.result, Ok(len as u64));
        assert!(completion.source.is_none());
        let into = completion.destination.expect("handed back");
        assert!(into[..] == bytes[at..at + len], "{len} bytes read at {at}");
    }
    let mut there = vec![0; bytes.len()];
    exported.read(0, &mut there).expect("all of it");
    assert!(there == bytes, "reading has written");
}

/// Several reads at a time may have one destination without an owner; in the end it holds the bytes
/// that all of them read.
pub fn reads_may_share_a_destination(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, _dpu) = link.pairs();
    let bytes = pattern(5, 4096);
    let exported = link.dpu.export(bytes.len(), Access::Read).expect("memory");
    exported.write(0, &bytes).expect("all of it");
    let remote = import(&*link.host, exported.token());
    let ours = Arc::new(link.host.export(8192, Access::Write).expect("memory"));
    let posted = link.host.capabilities().max_depth.min(6);
    for tag in 0..posted as u64 {
        let from = range(&remote, 0, bytes.len());
        let into = ours.slice(1000..1000 + bytes.len()).expect("within it");
        host.post(tag, Verb::ReadShared { from, into });
    }
    for completion in host.complete(posted) {
        assert_eq!(completion.result, Ok(bytes.len() as u64));
        assert!(completion.source.is_none() && completion.destination.is_none());
    }
    let mut there = vec![1; 8192];
    ours.read(0, &mut there).expect("all of it");
    assert!(there[1000..1000 + bytes.len()] == bytes);
    let untouched = there[..1000].iter().chain(&there[1000 + bytes.len()..]);
    assert!(untouched.copied().all(|byte| byte == 0));
    assert!(ours.slice(8000..8193).is_err());
}

/// The other end can do the same at the same time.
pub fn either_end_initiates(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, mut dpu) = link.pairs();
    let of_host = link.host.export(256, Access::ReadWrite).expect("memory");
    let of_dpu = link.dpu.export(256, Access::ReadWrite).expect("memory");
    let (to_dpu, to_host) =
        (import(&*link.host, of_dpu.token()), import(&*link.dpu, of_host.token()));
    let (from_host, from_dpu) = (pattern(1, 256), pattern(2, 256));
    host.post(1, Verb::Write { from: source(&*link.host, &from_host), to: to_dpu.all() });
    dpu.post(2, Verb::Write { from: source(&*link.dpu, &from_dpu), to: to_host.all() });
    assert_eq!(host.complete(1)[0].tag, 1);
    assert_eq!(dpu.complete(1)[0].tag, 2);
    let mut there = [0; 256];
    of_dpu.read(0, &mut there).expect("all of it");
    assert_eq!(there[..], from_host);
    of_host.read(0, &mut there).expect("all of it");
    assert_eq!(there[..], from_dpu);
}

/// Checks that a peer that learns from a message that a write has completed finds the bytes of that
/// write, also on a thread of its own.
pub fn a_write_is_there_once_a_message_says_so(make: Factory<'_>) {
    let link = Link::new(make);
    const LEN: usize = 1 << 16;
    let (mut host, mut dpu) = link.pairs();
    let exported = link.dpu.export(LEN, Access::ReadWrite).expect("memory");
    let remote = import(&*link.host, exported.token());
    let end = &*link.host;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for round in 0..50u64 {
                host.write(source(end, &pattern(round, LEN)), remote.all());
                host.send(&round.to_le_bytes());
                // The peer looks before the next write.
                assert_eq!(host.receive(1), [round.to_le_bytes()]);
            }
        });
        let mut there = vec![0; LEN];
        for round in 0..50u64 {
            assert_eq!(dpu.receive(1), [round.to_le_bytes()]);
            exported.read(0, &mut there).expect("all of it");
            assert!(there == pattern(round, LEN), "round {round}");
            dpu.send(&round.to_le_bytes());
        }
    });
}

/// Reads and writes complete although the peer's owner does nothing, not even open its queue pair; they still
/// complete after it has used and dropped it.
pub fn one_sided_verbs_need_no_owner(make: Factory<'_>) {
    let link = Link::new(make);
    let mut host = Pair::open(&*link.host, 0);
    let exported = link.dpu.export(64, Access::ReadWrite).expect("memory");
    let remote = import(&*link.host, exported.token());
    let once = |host: &mut Pair, seed| {
        let bytes = pattern(seed, 64);
        host.write(source(&*link.host, &bytes), remote.all());
        let into = room(&*link.host, 64);
        let read = host.run(Verb::Read { from: remote.all(), into });
        assert_eq!(read.destination.expect("handed back")[..], bytes);
    };
    once(&mut host, 1);
    let mut dpu = Pair::open(&*link.dpu, 0);
    for seed in 2..20 {
        let nothing = dpu.0.poll(&mut Vec::new(), 1).expect("a live link");
        assert_eq!(nothing, 0);
        once(&mut host, seed);
    }
}

/// A source is handed back, and may be in several pieces of work at once.
pub fn sources_come_back_and_can_be_shared(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, _dpu) = link.pairs();
    let exported = link.dpu.export(1000, Access::Write).expect("memory");
    let remote = import(&*link.host, exported.token());
    let bytes = pattern(9, 100);
    let from = source(&*link.host, &bytes);
    for tag in 0..10 {
        let to = range(&remote, 100 * tag, 100);
        let from = from.clone();
        host.post(tag as u64, Verb::Write { from, to });
    }
    let completions = host.complete(10);
    let mut tags: Vec<u64> = completions.iter().map(|one| one.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..10).collect::<Vec<_>>());
    for completion in completions {
        let back = completion.source.expect("handed back");
        assert_eq!(back.as_ptr(), from.as_ptr());
        assert!(completion.destination.is_none());
    }
    let mut there = vec![0; 1000];
    exported.read(0, &mut there).expect("all of it");
    assert_eq!(there, bytes.repeat(10));
    assert!(from.reclaim().is_ok(), "the link still holds the source");
}

/// Checks that as much work as the depth allows can be posted at one doorbell.
pub fn many_pieces_at_one_doorbell(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, _dpu) = link.pairs();
    let depth = link.host.capabilities().max_depth;
    let exported = link.dpu.export(depth * 8, Access::Write).expect("memory");
    let remote = import(&*link.host, exported.token());
    for count in 1..=depth {
        let words: Vec<u64> = (0..count as u64).map(|tag| tag * 1000 + count as u64).collect();
        let mut work: VecDeque<Work> = words
            .iter()
            .enumerate()
            .map(|(tag, word)| {
                let from = source(&*link.host, &word.to_le_bytes());
                let to = range(&remote, tag * 8, 8);
                Work::new(tag as u64, Verb::Write { from, to })
            })
            .collect();
        let taken = host.0.post(&mut work).expect("work that is taken");
        assert_eq!((taken, work.len()), (count, 0), "an empty queue pair takes its depth");
        assert_eq!(host.0.in_flight(), count);
        host.complete(count);
        assert_eq!(host.0.in_flight(), 0);
        for (tag, word) in words.iter().enumerate() {
            assert_eq!(exported.load(tag * 8), Ok(u64::from_le(*word)));
        }
    }
}

/// More than the depth is not taken, and is once something has been fetched.
pub fn back_pressure_beyond_the_depth(make: Factory<'_>) {
    let link = Link::new(make);
    let (mut host, _dpu) = link.pairs();
    let depth = link.host.capabilities().max_depth;
    let exported = link.dpu.export(64, Access::Write).expect("memory");
    let remote = import(&*link.host, exported.token());
    let from = source(&*link.host, &pattern(1, 64));
    let total = depth * 5 + 3;
    let mut work: VecDeque<Work> = (0..total as u64)
        .map(|tag| {
            let (from, to) = (from.clone(), remote.all());
            Work::new(tag, Verb::Write { from, to })
        })
        .collect();
    let taken = host.0.post(&mut work).expect("work that is taken");
    assert_eq!(taken, depth);
    assert_eq!(host.0.post(&mut work).expect("a live link"), 0);
    let mut posted = taken;
    let (mut tags, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while tags.len() < total {
        assert!(Instant::now() < deadline, "{} completions", tags.len());
        let mut out = Vec::new();
        let polled = host.0.poll(&mut out, 3).expect("a live link");
        assert!(polled == out.len() && polled <= 3, "more than asked for");
        tags.extend(out.iter().map(|one| one.tag));
        posted += host.0.post(&mut work).expect("a live link");
        // What was not taken stays where it was.
        let next = work.front().map(|work| work.tag);
        assert_eq!(next, (posted < total).then_some(posted as u64));
        assert!(host.0.in_flight() <= depth);
        assert_eq!(host.0.in_flight(), posted - tags.len());
    }
    tags.sort_unstable();
    assert_eq!(tags, (0..total as u64).collect::<Vec<_>>());
}

/// Some megabytes at once, several times in flight, in both directions.
pub fn large_payloads(make: Factory<'_>) {
    let link = Link::new(make);
    let len = 5 << 20;
    let (mut host, _dpu) = link.pairs();
    let exported = link.dpu.export(2 * len, Access::ReadWrite).expect("memory");
    let remote = import(&*link.host, exported.token());
    let bytes = [pattern(1, len), pattern(2, len)];
    for (index, bytes) in bytes.iter().enumerate() {
        let from = source(&*link.host, bytes);
        let to = range(&remote, index * len, len);
        host.post(index as u64, Verb::Write { from, to });
    }
    for completion in host.complete(2) {
        assert_eq!(completion.result, Ok(len as u64));
    }
    for index in 0..2 {
        let into = room(&*link.host, len);
        let from = range(&remote, index * len, len);
        host.post(index as u64, Verb::Read { from, into });
    }
    for completion in host.complete(2) {
        assert_eq!(completion.result, Ok(len as u64));
        let there = completion.destination.expect("handed back");
        assert!(there[..] == bytes[completion.tag as usize], "{}", completion.tag);
    }
}

/// Payloads that are copied at the doorbell, up to the limit and not beyond it.
pub fn inline_payloads(make: Factory<'_>) {
    let link = Link::new(make);
    let max = link.host.capabilities().max_inline_bytes as usize;
    let (mut host, _dpu) = link.pairs();
    let exported = (link.dpu.export(max + 1, Access::ReadWrite)).expect("memory");
    let remote = import(&*link.host, exported.token());
    for len in [1, max.min(8), max] {
        let bytes = pattern(len as u64, len);
        let work = Work {
            tag: 1,
            verb: Verb::Write { from: source(&*link.host, &bytes), to: range(&remote, 0, len) },
            inline: true,
        };
        host.post_work(work);
        let done = host.complete(1).remove(0);
        assert_eq!(done.result, Ok(len as u64));
        assert!(done.source.is_some());
        let mut there = vec![0; len];
        exported.read(0, &mut there).expect("within it");
        assert!(there == bytes, "{len} bytes inline");
    }
    let mut refused = |verb| {
        let inline = true;
        let mut work = VecDeque::from([Work { tag: 5, verb, inline }]);
        match host.0.post(&mut work) {
            Err(PostError::Refused { tag: 5, refusal }) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    };
    let too_long =
        refused(Verb::Write { from: source(&*link.host, &pattern(1, max + 1)), to: remote.all() });
    let (len, max) = (max as u64 + 1, max as u64);
    assert_eq!(too_long, Refusal::NotInline { len, max });
    let read = refused(Verb::Read { from: range(&remote, 0, 1), into: room(&*link.host, 1) });
    assert!(matches!(read, Refusal::Unsupported(_)), "{read:?}");
}

/// A long sequence of everything, by a plan that depends on nothing but its seed, from both ends at
/// once; in the end both ends are equal to a plain array.
pub fn work_of_all_kinds_at_once(make: Factory<'_>) {
    let link = Link::with(make, &LinkConfig { depth: 8, ..config() });
    // The first to be done stays until the other is: closing would end both.
    let _pairs: Vec<Pair> = std::thread::scope(|scope| {
        let ends = [(&link.host, &link.dpu, 1), (&link.dpu, &link.host, 2)];
        let busy =
            ends.map(|(ours, theirs, seed)| scope.spawn(move || busy(&**ours, &**theirs, seed)));
        let done = busy.map(|thread| thread.join().expect("no wrong byte"));
        done.into()
    });
}

/// Works on a region of the peer's for a number of steps that `seed` decides.
fn busy(ours: &dyn Endpoint, theirs: &dyn Endpoint, seed: u64) -> Pair {
    const SLOTS: usize = 8;
    const SLOT: usize = 40_000;
    let mut pair = Pair::open(ours, 0);
    let exported = theirs.export(SLOTS * SLOT, Access::ReadWrite).expect("memory");
    let remote = import(ours, exported.token());
    let mut expected = vec![0; SLOTS * SLOT];
    let mut dice = pattern(seed, 4 * 400).into_iter().map(usize::from);
    for round in 0..100 {
        // One piece a slot at most: two over the same bytes would have no defined result.
        let mut posted = 0;
        for slot in 0..SLOTS {
            let (what, len) = (dice.next(), dice.next());
            let (Some(what), Some(len)) = (what, len) else {
                break;
            };
            let (at, len) = (slot * SLOT, 1 + len * 150);
            if what % 2 == 0 {
                let bytes = pattern(round * 100 + slot as u64, len);
                expected[at..at + len].copy_from_slice(&bytes);
                let (from, to) = (source(ours, &bytes), range(&remote, at, len));
                pair.post(slot as u64, Verb::Write { from, to });
            } else {
                let (from, into) = (range(&remote, at, len), room(ours, len));
                pair.post(slot as u64, Verb::Read { from, into });
            }
            posted += 1;
        }
        for completion in pair.complete(posted) {
            let len = completion.result.expect("done") as usize;
            if let Some(there) = completion.destination {
                let at = completion.tag as usize * SLOT;
                assert!(there[..] == expected[at..at + len], "seed {seed}, round {round}");
            }
        }
    }
    let mut there = vec![0; SLOTS * SLOT];
    exported.read(0, &mut there).expect("all of it");
    assert!(there == expected, "seed {seed}");
    pair
}
