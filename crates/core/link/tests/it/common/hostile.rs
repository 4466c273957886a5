//! A peer over shared memory that does as it likes, written only from the protocol: it has a
//! socket, the queues' memory as a file, and the doorbells.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use overside_link::shm::{self, ShmEndpoint, ShmOptions};
use overside_link::verbs::{
    Access, ConnectError, Endpoint, LinkConfig, Messages, RecvBatch, Side, Token, Verb, Work,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"OVERSIDE");
pub(super) const VERSION: u64 = 2;
pub(super) const HELLO: u64 = 1;
pub(super) const WELCOME: u64 = 2;
pub(super) const READY: u64 = 3;
pub(super) const EXPORT: u64 = 4;

/// Offsets at which the victim, which listened, reads what the peer has written. The second half of
/// the control page controls the direction to the victim, the first half the direction from it.
pub(super) const TAIL: u64 = 2048;
pub(super) const CLOSED: u64 = 2048 + 256;
pub(super) const HEAD: u64 = 128;
pub(super) const WISH: u64 = 384;
/// The bytes of each ring, and where the one to the victim begins.
pub(super) const RING_BYTES: u64 = 4096;
pub(super) const RING: u64 = 4096 + RING_BYTES;

pub(super) fn config() -> LinkConfig {
    LinkConfig {
        depth: 4,
        max_message_bytes: 256,
        event: true,
        max_import_bytes: 1 << 20,
        ..LinkConfig::new(Side::Host)
    }
}

pub(super) struct Peer {
    pub socket: OwnedFd,
    pub memory: OwnedFd,
    pub bells: Vec<OwnedFd>,
}

pub(super) fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

pub(super) fn send_bytes(socket: impl AsFd, bytes: &[u8], with: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(with)));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    // The victim may have hung up, or have enough of it.
    let _ = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags);
}

pub(super) fn send(socket: impl AsFd, words: &[u64], with: &[BorrowedFd<'_>]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    send_bytes(socket, &bytes, with);
}

/// A victim that listened and whose peer has kept to the protocol so far.
pub(super) fn victim() -> (ShmEndpoint, Peer) {
    let [ours, theirs] = shm::sockets().expect("sockets");
    send(&theirs, &[MAGIC, VERSION, HELLO, 1, 1], &[]);
    send(&theirs, &[MAGIC, VERSION, READY], &[]);
    let end = shm::serve(ours, &config(), &ShmOptions::default(), deadline()).expect("a link");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 256];
    let mut into = [IoSliceMut::new(&mut bytes)];
    recvmsg(&theirs, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC).expect("a welcome");
    let mut descriptors = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let memory = descriptors.next().expect("the queues' memory");
    let peer = Peer { memory, bells: descriptors.collect(), socket: theirs };
    (end, peer)
}

impl Peer {
    pub(super) fn put(&self, at: u64, bytes: &[u8]) {
        let _ = rustix::io::pwrite(&self.memory, bytes, at);
    }

    pub(super) fn put_word(&self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }
}

/// Takes bytes for small decisions from a fuzzer's input.
struct Feed<'a>(&'a [u8]);

impl Feed<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let count = (self.byte().unwrap_or(0) as usize).min(most).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken.to_vec()
    }

    fn place(&mut self) -> u64 {
        let [low, high] = [0; 2].map(|_: u8| u64::from(self.byte().unwrap_or(0)));
        // What controls the rings is worth more of the tries than what lies in them.
        const PLACES: [u64; 8] = [TAIL, HEAD, CLOSED, WISH, RING, TAIL + 384, TAIL + 512, 512];
        match high {
            0..128 => PLACES[(low % 8) as usize],
            _ => (low | high << 8) % (RING + RING_BYTES),
        }
    }
}

/// Runs a session with a hostile peer. `data` comes from a fuzzer and determines the actions of the peer and
/// those of the victim in between. No call of the victim may panic, wait, or return more than the rules
/// allow.
pub(super) fn session(data: &[u8]) {
    let mut feed = Feed(data);
    let Some(first) = feed.byte() else { return };
    if first >= 0xf0 {
        return greeting(first, feed.0);
    }
    let (end, peer) = victim();
    let mut pair = end.open(0).expect("a queue pair");
    let exported = end.export(512, Access::ReadWrite).expect("an export");
    let mut batch = RecvBatch::new();
    for _ in 0..200 {
        let Some(step) = feed.byte() else { break };
        match step % 12 {
            0 | 1 => {
                let at = feed.place();
                peer.put(at, &feed.bytes(64));
            }
            2 => {
                let bytes = feed.bytes(96);
                send_bytes(&peer.socket, &bytes, &[peer.memory.as_fd()]);
            }
            3 => {
                let mut words = vec![MAGIC, VERSION];
                words.extend(feed.bytes(5).into_iter().map(u64::from));
                let file = [peer.memory.as_fd()];
                send(&peer.socket, &words, if step < 128 { &file } else { &[] });
            }
            4 => {
                batch.clear();
                let received = pair.receive(&mut batch, usize::from(step));
                let count = received.unwrap_or(0);
                assert_eq!(count, batch.len());
                assert!(count <= usize::from(step) && batch.as_bytes().len() as u64 <= RING_BYTES);
                assert!(batch.iter().all(|message| (1..=256).contains(&message.len())));
            }
            5 => {
                let mut done = Vec::new();
                let _ = pair.poll(&mut done, 3);
                for done in done {
                    assert!(done.result.is_err() || done.result.is_ok_and(|len| len <= 4096));
                }
            }
            6 => {
                let bytes = feed.bytes(64);
                if let Some(message) = Messages::one(&bytes) {
                    let _ = pair.send(message);
                }
            }
            7 => {
                let region = end.alloc(100, 8).expect("memory");
                let verb = match step < 128 {
                    true => Verb::Receive { into: region },
                    false => Verb::Send { from: region.share() },
                };
                let _ = pair.post(&mut VecDeque::from([Work::new(1, verb)]));
                assert!(pair.in_flight() <= 4);
            }
            8 => drop(pair.arm()),
            9 => {
                let bell = &peer.bells[0];
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let _ = rustix::net::send(bell, &feed.bytes(32), flags);
            }
            10 => {
                let mut bytes = exported.token().as_bytes().to_vec();
                // The peer's own, as far as it may guess, or rubbish.
                bytes[8] ^= 1;
                for change in feed.bytes(4) {
                    bytes[usize::from(change) % 40] ^= change;
                }
                let token = Token::from_bytes(&bytes).expect("short enough");
                if let Ok(remote) = end.import(&token)
                    && remote.access().reads()
                {
                    let into = end.alloc(remote.len() as usize, 8).expect("memory");
                    let from = remote.all();
                    let work = Work::new(2, Verb::Read { from, into });
                    let _ = pair.post(&mut VecDeque::from([work]));
                }
            }
            _ => {
                let mut words = [MAGIC, VERSION, EXPORT, 0, 0, 0];
                for (word, byte) in words[3..].iter_mut().zip(feed.bytes(3)) {
                    *word = u64::from(byte) * 16;
                }
                words[5] = 1 + words[5] % 3;
                send(&peer.socket, &words, &[peer.memory.as_fd()]);
            }
        }
    }
    let begin = Instant::now();
    pair.close(begin + Duration::from_secs(1));
    assert!(begin.elapsed() < Duration::from_secs(60));
}

/// Garbage in place of a greeting, to the end that listens and to the one that calls.
fn greeting(kind: u8, data: &[u8]) {
    let [ours, theirs] = shm::sockets().expect("sockets");
    let (options, config) = (ShmOptions::default(), config());
    for chunk in data.chunks(1 + usize::from(kind & 7) * 16).take(8) {
        send_bytes(&theirs, chunk, &[theirs.as_fd()]);
    }
    drop(theirs);
    let outcome: Result<ShmEndpoint, ConnectError> = if kind & 8 == 0 {
        shm::serve(ours, &config, &options, deadline())
    } else {
        shm::join(ours, &config, &options, deadline())
    };
    if let Ok(end) = outcome {
        drop(end.open(0));
    }
}
