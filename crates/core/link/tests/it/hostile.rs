//! A peer over shared memory that breaks the rules is refused with an error that names the
//! violation, in bounded time, and nothing outside of the shared memory is touched.

#[path = "common/hostile.rs"]
mod attacker;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use attacker::{
    CLOSED, EXPORT, HEAD, HELLO, MAGIC, Peer, RING, TAIL, VERSION, WELCOME, WISH, config, deadline,
    send, send_bytes, victim,
};
use overside_link::shm::{self, ShmOptions};
use overside_link::verbs::{
    ConnectError, Endpoint, ImportError, LinkError, LinkErrorKind, Messages, PostError, RecvBatch,
    Token, Verb, Work,
};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags};

use crate::peer_process::until_lost;

fn protocol(lost: &LinkError) -> bool {
    matches!(lost.cause, LinkErrorKind::Protocol(_))
}

/// Makes memory of `len` bytes, with or without the seals of the protocol.
fn memory(len: u64, sealed: bool) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("test", flags).expect("memory");
    rustix::fs::ftruncate(&file, len).expect("a length");
    if sealed {
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).expect("seals");
    }
    file
}

#[test]
fn cursors_and_lengths_that_cannot_be() {
    let header = |each: u64, count: u64| count << 32 | each;
    let cases = [
        // Beyond the ring; before its beginning; not even a header.
        (4097, 0),
        (u64::MAX, 0),
        (u64::MAX - 4095, header(1, 1)),
        (4, header(1, 1)),
        // A run of nothing, of messages that are too long, and beyond what was published.
        (64, header(0, 1)),
        (64, header(1, 0)),
        (4096, header(257, 1)),
        (64, header(64, 1)),
        (128, header(32, 4)),
        (4096, header(256, 16)),
        (4096, header(u64::from(u32::MAX), u64::from(u32::MAX))),
        (4096, u64::MAX),
    ];
    for (tail, header) in cases {
        let (end, peer) = victim();
        let mut pair = end.open(0).expect("a queue pair");
        peer.put_word(RING, header);
        peer.put_word(TAIL, tail);
        let mut batch = RecvBatch::new();
        let lost = pair.receive(&mut batch, 1000).expect_err("refused");
        assert!(protocol(&lost), "{tail:#x} {header:#x}: {lost}");
        assert!(batch.is_empty());
        // The link is over for everything else as well.
        let message = Messages::one(&[1]).expect("a byte");
        assert!(matches!(pair.send(message), Err(PostError::Lost(lost)) if protocol(&lost)));
        assert!(end.export(64, overside_link::verbs::Access::Read).is_err());
    }
}

#[test]
fn a_posted_receive_meets_a_length_that_cannot_be() {
    let (end, peer) = victim();
    let mut pair = end.open(0).expect("a queue pair");
    let into = end.alloc(64, 8).expect("memory");
    let work = Work::new(3, Verb::Receive { into });
    assert_eq!(pair.post(&mut VecDeque::from([work])), Ok(1));
    peer.put_word(RING, 1 << 32 | 5000);
    peer.put_word(TAIL, 4096);
    let lost = pair.poll(&mut Vec::new(), 8).expect_err("refused");
    assert!(protocol(&lost), "{lost}");
    assert_eq!(lost.tags, [3]);
}

#[test]
fn room_that_cannot_be() {
    for head in [1, 64, 5000, 1 << 63] {
        let (end, peer) = victim();
        let mut pair = end.open(0).expect("a queue pair");
        let bytes = [1; 256];
        let message = Messages::one(&bytes).expect("not empty");
        let mut sent = 0;
        while pair.send(message).expect("still alive") > 0 {
            sent += 1;
        }
        assert!(sent > 0);
        // More was read than was ever sent.
        peer.put_word(HEAD, head + 320 * sent);
        let refused = pair.send(message);
        assert!(
            matches!(&refused, Err(PostError::Lost(lost)) if protocol(lost)),
            "{head:#x}: {refused:?}"
        );
    }
    // Less was read than before.
    let (end, peer) = victim();
    let mut pair = end.open(0).expect("a queue pair");
    let message = Messages::one(&[1]).expect("a byte");
    let refused = (0..1000).find_map(|sent: u64| {
        peer.put_word(HEAD, if sent < 100 { 64 * sent } else { 0 });
        pair.send(message).err()
    });
    assert!(matches!(&refused, Some(PostError::Lost(lost)) if protocol(lost)), "{refused:?}");
}

#[test]
fn a_message_that_changes_while_it_is_read_is_one_or_the_other() {
    let (end, peer) = victim();
    let mut pair = end.open(0).expect("a queue pair");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for header in [1u64 << 32 | 8, 1 << 32 | 200, 7 << 32 | 8, u64::MAX] {
                    peer.put_word(RING, header);
                }
            }
        });
        let mut batch = RecvBatch::new();
        peer.put_word(TAIL, 4096);
        let received = pair.receive(&mut batch, 1000).unwrap_or(0);
        assert_eq!(received, batch.len());
        assert!(batch.iter().all(|message| message.len() <= 256));
        assert!(batch.as_bytes().len() <= 4096);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// The peer always requests wake-ups and never reads; it signals without end.
#[test]
fn bells_never_make_the_victim_wait() {
    let (end, peer) = victim();
    let mut pair = end.open(0).expect("a queue pair");
    let message = Messages::one(&[1; 8]).expect("eight bytes");
    let begin = Instant::now();
    for sent in 0..20_000u64 {
        peer.put(WISH, &1u32.to_le_bytes());
        peer.put_word(HEAD, sent * 64);
        let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
        let _ = rustix::net::send(&peer.bells[0], &[0; 512], flags);
        assert_eq!(pair.send(message), Ok(1));
        if sent % 100 == 0 {
            let _ = pair.arm().expect("alive");
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(60));
}

/// An end that is asleep when its peer dies is woken, even if the peer had already taken the wish
/// to be woken and never rings the doorbell.
#[test]
fn a_peer_that_dies_with_the_doorbell_in_its_hand() {
    let (end, peer) = victim();
    let mut pair = end.open(0).expect("a queue pair");
    assert!(!pair.arm().expect("alive"), "nothing is there");
    peer.put(TAIL + WISH, &0u32.to_le_bytes());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(peer);
        });
        let descriptor = pair.event_fd().expect("a descriptor");
        let timeout = Duration::from_secs(60).try_into().expect("a short time");
        let flags = rustix::event::PollFlags::IN;
        let mut set = [rustix::event::PollFd::new(&descriptor, flags)];
        assert_eq!(rustix::event::poll(&mut set, Some(&timeout)), Ok(1));
    });
    let lost = until_lost(&mut *pair);
    assert!(matches!(lost.cause, LinkErrorKind::Gone(_)), "{lost}");
}

#[test]
fn what_was_published_before_death_arrives() {
    let (end, peer) = victim();
    let mut pair = end.open(0).expect("a queue pair");
    peer.put_word(RING, 2 << 32 | 4);
    peer.put(RING + 8, b"lastword");
    peer.put_word(TAIL, 64);
    // Half a message more, never published.
    peer.put_word(RING + 64, 1 << 32 | 200);
    peer.put(CLOSED, &1u32.to_le_bytes());
    drop(peer);
    let mut batch = RecvBatch::new();
    assert_eq!(pair.receive(&mut batch, 100), Ok(2));
    assert!(batch.iter().eq([b"last", b"word"]));
    let lost = pair.receive(&mut batch, 100).expect_err("over");
    assert_eq!(lost.cause, LinkErrorKind::Closed);
}

/// Offers of regions that make no sense end the link; those that cannot be mapped safely are
/// refused when they are imported.
#[test]
fn regions_that_cannot_be() {
    let offer = |id: u64, len: u64, access: u64| [MAGIC, VERSION, EXPORT, id, len, access];
    let good = memory(4096, true);
    let file = std::fs::File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let file = OwnedFd::from(file.expect("a file"));
    let (unsealed, short) = (memory(4096, false), memory(100, true));
    let refused = [(&file, 64), (&unsealed, 4096), (&short, 4096), (&good, 0)];
    for (at, (file, len)) in refused.into_iter().enumerate() {
        let (end, peer) = victim();
        send(&peer.socket, &offer(7, len, 3), &[file.as_fd()]);
        let outcome = end.import(&token(&end, 7, len, 3)).err();
        assert!(matches!(outcome, Some(ImportError::Refused(_))), "{at}: {outcome:?}");
    }
    let (end, peer) = victim();
    send(&peer.socket, &offer(1, 1 << 40, 3), &[good.as_fd()]);
    let outcome = end.import(&token(&end, 1, 1 << 40, 3)).err();
    assert!(matches!(outcome, Some(ImportError::TooMuch { .. })), "{outcome:?}");
    send(&peer.socket, &offer(2, 64, 3), &[good.as_fd()]);
    let outcome = end.import(&token(&end, 2, 128, 3)).err();
    assert!(matches!(outcome, Some(ImportError::Refused(_))), "{outcome:?}");

    let nonsense: [(&[u64], &[BorrowedFd<'_>]); 7] = [
        (&offer(1, 64, 0), &[good.as_fd()]),
        (&offer(1, 64, 4), &[good.as_fd()]),
        (&offer(1, 64, 3), &[]),
        (&offer(1, 64, 3), &[good.as_fd(), good.as_fd()]),
        (&[MAGIC, VERSION, 5, 99], &[]),
        (&[MAGIC, VERSION, 77], &[]),
        (&[1, 2, 3], &[]),
    ];
    for (words, descriptors) in nonsense {
        let (end, peer) = victim();
        send(&peer.socket, words, descriptors);
        ends_by_protocol(&end, &peer);
    }
    for bytes in [&b"seven b"[..], &[0; 4096]] {
        let (end, peer) = victim();
        send_bytes(&peer.socket, bytes, &[]);
        ends_by_protocol(&end, &peer);
    }
    let (end, peer) = victim();
    let any = token(&end, 999, 64, 3);
    for id in 0..257 {
        send(&peer.socket, &offer(id, 64, 3), &[good.as_fd()]);
        // Taken in before the socket is full.
        let _ = end.import(&any);
    }
    ends_by_protocol(&end, &peer);
}

/// The peer's token for a region, made from one of the victim's, whose first word is the link's.
fn token(end: &shm::ShmEndpoint, id: u64, len: u64, access: u64) -> Token {
    let own = end.export(64, overside_link::verbs::Access::Read);
    let own = own.expect("an export");
    let nonce = &own.token().as_bytes()[..8];
    let rest = [0, id, len, access].map(u64::to_le_bytes);
    Token::from_bytes(&[nonce, rest.as_flattened()].concat()).expect("short enough")
}

fn ends_by_protocol(end: &shm::ShmEndpoint, _peer: &Peer) {
    let mut pair = end.open(0).expect("a queue pair");
    let lost = until_lost(&mut *pair);
    assert!(protocol(&lost), "{lost}");
}

/// Greetings: garbage, another version, a silent peer, one that hangs up.
#[test]
fn callers_that_are_none() {
    let options = ShmOptions::default();
    let greet = |bytes: &[u8]| {
        let [ours, theirs] = shm::sockets().expect("sockets");
        send_bytes(&theirs, bytes, &[]);
        let error = shm::serve(ours, &config(), &options, deadline()).expect_err("refused");
        drop(theirs);
        error
    };
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 8], &[0xff; 96], &[0; 4000]] {
        let error = greet(garbage);
        assert!(matches!(error, ConnectError::Protocol { .. }), "{error}");
    }
    let words =
        |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let error = greet(&words(&[MAGIC, 9, HELLO, 1, 0]));
    let versions = ConnectError::Version { peer: "this process".into(), theirs: 9, ours: 2 };
    assert_eq!(error.to_string(), versions.to_string());
    for wrong in [[MAGIC, VERSION, WELCOME, 1, 0], [MAGIC, VERSION, HELLO, 1, 2]] {
        let error = greet(&words(&wrong));
        assert!(matches!(error, ConnectError::Protocol { .. }), "{error}");
    }
    let [ours, theirs] = shm::sockets().expect("sockets");
    let soon = Instant::now() + Duration::from_millis(50);
    let error = shm::serve(ours, &config(), &options, soon).expect_err("nobody speaks");
    assert!(matches!(error, ConnectError::Timeout { .. }), "{error}");
    drop(theirs);
    let [ours, theirs] = shm::sockets().expect("sockets");
    drop(theirs);
    let error = shm::join(ours, &config(), &options, deadline()).expect_err("nobody is there");
    assert!(!matches!(error, ConnectError::Timeout { .. }), "{error}");
}

/// An end that listens and lies about the queues it offers.
#[test]
fn queues_that_cannot_be() {
    let options = ShmOptions::default();
    let good_len = 4096 + 2 * 4096;
    let bell = || shm::sockets().expect("sockets");
    let offer = |numbers: [u64; 3], file: &OwnedFd, bells: usize| {
        let [ours, theirs] = shm::sockets().expect("sockets");
        let [pairs, depth, longest] = numbers;
        let words = [MAGIC, VERSION, WELCOME, 0, 0, pairs, depth, longest, 42];
        let all: Vec<_> = (0..bells).map(|_| bell()).collect();
        let descriptors: Vec<_> =
            std::iter::once(file.as_fd()).chain(all.iter().map(|bell| bell[0].as_fd())).collect();
        send(&theirs, &words, &descriptors);
        shm::join(ours, &config(), &options, deadline()).map(|end| (end, theirs))
    };
    let good = memory(good_len, true);
    assert!(offer([1, 4, 256], &good, 1).is_ok());
    let (unsealed, short) = (memory(good_len, false), memory(good_len - 1, true));
    let socket = shm::sockets().expect("sockets");
    let cases = [
        ([0, 4, 256], &good, 0),
        ([65, 4, 256], &good, 1),
        ([u64::MAX, 4, 256], &good, 1),
        ([1, 0, 256], &good, 1),
        ([1, 1 << 40, 256], &good, 1),
        ([1, 4, 0], &good, 1),
        ([1, 4, u64::MAX], &good, 1),
        ([2, 4, 256], &good, 2),
        ([1, 4, 256], &good, 0),
        ([1, 4, 256], &good, 2),
        ([1, 4, 256], &unsealed, 1),
        ([1, 4, 256], &short, 1),
        ([1, 4, 256], &socket[0], 1),
    ];
    for (at, (numbers, file, bells)) in cases.into_iter().enumerate() {
        let error = offer(numbers, file, bells).expect_err("refused");
        assert!(matches!(error, ConnectError::Protocol { .. }), "{at}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Tests random actions of a hostile peer, in any order.
    #[test]
    fn anything(data in proptest::collection::vec(any::<u8>(), 0..600)) {
        attacker::session(&data);
    }
}

/// Runs every input of the fuzzer's corpus.
#[test]
fn the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/link_shm");
    let mut seen = 0;
    for entry in std::fs::read_dir(corpus).expect("a corpus") {
        let data = std::fs::read(entry.expect("an entry").path()).expect("a file");
        attacker::session(&data);
        seen += 1;
    }
    assert!(seen > 0);
}
