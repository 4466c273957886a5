//! A peer over TCP that breaks the rules is refused with an error that says so, in bounded time and
//! memory.

#[path = "common/tcp_hostile.rs"]
mod hostile;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use hostile::{config, exports, key, session, soon, use_up, victim};
use overside_link::Secret;
use overside_link::control::frame::{Carrier, Frame};
use overside_link::tcp::frame::{Header, Reason};
use overside_link::tcp::{self, Listener};
use overside_link::verbs::{Cause, ConnectError, Endpoint, ImportError, LinkConfig, Side, Token};

fn send(stream: &mut TcpStream, headers: &[Header], payload: &[u8]) {
    let headers: Vec<u8> = headers.iter().flat_map(Header::encode).collect();
    stream
        .write_all(&[&headers, payload].concat())
        .expect("the victim listens");
}

/// What the victim answers.
fn answer(stream: &mut TcpStream) -> Header {
    let mut bytes = [0; 32];
    stream.read_exact(&mut bytes).expect("an answer");
    Header::parse(&bytes).expect("a header")
}

#[test]
fn what_cannot_be_ends_the_link() {
    let cases: [(&[Header], &[u8]); 9] = [
        (&[Header::Data { len: 8 }], &[0; 8]),
        (&[Header::Written { count: 1 }], &[]),
        (&[Header::WriteRefused(Reason::Range)], &[]),
        (&[Header::ReadRefused(Reason::Range)], &[]),
        (&[Header::Credit { bytes: 1 }], &[]),
        (&[Header::Credit { bytes: u64::MAX }], &[]),
        (
            &[Header::Messages {
                len: 257,
                each: 257,
            }],
            &[0; 257],
        ),
        (
            &[Header::Messages {
                len: 1 << 30,
                each: 256,
            }],
            &[],
        ),
        (&[], b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
    ];
    for (headers, payload) in cases {
        let (end, mut peer) = victim();
        let mut pair = end.open(0).expect("a queue pair");
        send(&mut peer.data, headers, payload);
        let lost = use_up(&mut *pair).expect_err("a broken protocol");
        assert!(
            matches!(lost.cause, Cause::Protocol(_)),
            "{headers:?}: {lost}"
        );
    }
}

#[test]
fn memory_is_reached_with_its_key_and_within_its_bounds_only() {
    let (end, mut peer) = victim();
    let [readable, both, _] = exports(&end);
    let (of_readable, of_both) = (
        u64::from_le_bytes(key(&readable)),
        u64::from_le_bytes(key(&both)),
    );
    let write = |key, at| Header::Write { key, at, len: 8 };
    let read = |key, at| Header::Read { key, at, len: 8 };
    let cases = [
        (write(of_readable, 0), Header::WriteRefused(Reason::Access)),
        (write(of_both, 4089), Header::WriteRefused(Reason::Range)),
        (
            write(of_both, u64::MAX - 3),
            Header::WriteRefused(Reason::Range),
        ),
        (write(0, 0), Header::WriteRefused(Reason::Unknown)),
        (read(of_both, 4089), Header::ReadRefused(Reason::Range)),
        (read(of_both ^ 1, 0), Header::ReadRefused(Reason::Unknown)),
        (write(of_both, 4088), Header::Written { count: 1 }),
        (read(of_readable, 4088), Header::Data { len: 8 }),
    ];
    for (header, expected) in cases {
        let payload = vec![7; header.payload_bytes() as usize];
        send(&mut peer.data, &[header], &payload);
        assert_eq!(answer(&mut peer.data), expected, "{header:?}");
    }
    let mut there = [0; 4096];
    both.read(0, &mut there).expect("all of it");
    assert_eq!((there[4087], &there[4088..]), (0x5A, &[7; 8][..]));
}

/// Somebody who asks and does not listen is cut off before the answers take much memory.
#[test]
fn questions_without_listening_are_bounded() {
    let (end, mut peer) = victim();
    let mut pair = end.open(0).expect("a queue pair");
    let [_, both, _] = exports(&end);
    let (key, at, len) = (u64::from_le_bytes(key(&both)), 0, 4096);
    let questions = vec![Header::Read { key, at, len }; 4000];
    let bytes: Vec<u8> = questions.iter().flat_map(Header::encode).collect();
    let begin = Instant::now();
    let lost = loop {
        // It may have been cut off already.
        let _ = peer.data.write_all(&bytes);
        if let Err(lost) = use_up(&mut *pair) {
            break lost;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "it is not cut off"
        );
    };
    assert!(matches!(lost.cause, Cause::Protocol(_)), "{lost}");
}

#[test]
fn garbage_before_the_handshake_does_not_keep_the_peer_out() {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = listener.address();
    let mut strangers: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(address).expect("it listens"))
        .collect();
    strangers[0].write_all(b"SSH-2.0-x\r\n").expect("written");
    strangers[1]
        .write_all(b"OVSL\x01\0\xff\xff")
        .expect("written");
    drop(strangers.pop());
    let peer = std::thread::spawn(move || tcp::connect(address, &config(), soon()));
    let end = listener
        .accept(&config(), soon())
        .expect("the peer, in spite of them");
    peer.join().expect("no panic").expect("the other end");
    drop(end);
}

#[test]
fn other_versions_and_silence_are_named() {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let mut stranger = TcpStream::connect(listener.address()).expect("it listens");
    let mut hello = b"OVSL\x01\0\x0a\0".to_vec();
    hello.extend(9u32.to_le_bytes());
    hello.extend([1, 1, 0, 0, 0, 0]);
    stranger.write_all(&hello).expect("written");
    let deadline = Instant::now() + Duration::from_millis(300);
    match listener.accept(&config(), deadline) {
        Err(ConnectError::Version { theirs: 9, .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a link with a stranger"),
    }
    let deadline = Instant::now() + Duration::from_millis(100);
    let nobody = listener.accept(&config(), deadline);
    assert!(matches!(nobody, Err(ConnectError::Timeout { .. })));
}

#[test]
fn who_does_not_know_the_secret_is_turned_away() {
    let secret = Secret::random().expect("random bytes");
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let listener = listener.secret(secret);
    let address = listener.address();
    let come = move |secret: Option<Secret>| match secret {
        Some(secret) => tcp::connect_with_secret(address, &config(), secret, soon()),
        None => tcp::connect(address, &config(), soon()),
    };
    let peer = std::thread::spawn(move || {
        let other = Secret::random().expect("random bytes");
        for wrong in [None, Some(other)] {
            match come(wrong) {
                Err(ConnectError::Protocol { reason, .. }) => {
                    assert!(reason.contains("was told"), "{reason}");
                }
                Err(other) => panic!("{other}"),
                Ok(_) => panic!("a link without the secret"),
            }
        }
        come(Some(secret)).expect("the link")
    });
    let end = listener.accept(&config(), soon()).expect("the peer");
    drop(peer.join().expect("no panic"));
    drop(end);
}

#[test]
fn a_listener_that_decides_what_cannot_be_is_refused() {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let liar = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the victim");
        let _ = stream.read(&mut [0; 64]);
        let decision = overside_link::control::frame::Decision {
            link: [0; 16],
            queue_pairs: u32::MAX,
            depth: 1,
            max_message_bytes: 1,
        };
        let welcome = Frame::Welcome {
            carrier: Carrier::Tcp,
            side: Side::Dpu,
            patience_ms: 1000,
            decision,
        };
        hostile::say(&mut stream, &welcome);
    });
    match tcp::connect(address, &LinkConfig::new(Side::Host), soon()) {
        Err(ConnectError::Protocol { reason, .. }) => {
            assert!(reason.contains("queue_pairs"), "{reason}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("a link with a liar"),
    }
    liar.join().expect("no panic");
}

#[test]
fn a_peer_that_hangs_up_in_the_midst_of_a_question_is_lost() {
    let (end, peer) = victim();
    drop(peer);
    let token = Token::from_bytes(b"OVSR\x01\0\0\0\0\0\0\0").expect("a token's length");
    match end.import(&token) {
        Err(ImportError::Lost(_)) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/link_frames");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).expect("a corpus") {
        session(&std::fs::read(entry.expect("an entry").path()).expect("a file"));
        count += 1;
    }
    assert!(count > 5, "{count} inputs");
}
