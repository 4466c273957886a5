//! Checks that must pass for any stream that comes from a primary. The fuzz target uses them too.

use overside_kv::persistence::Replicable;
use overside_kv::persistence::frame::{FrameWriter, Kind};
use overside_kv::replica::{ReceivedFrame, StreamError, StreamParser};
use overside_kv::server::Memory;
use overside_kv::store::{MEMORY_MIN_BYTES, StoreOptions};
use overside_kv::{KeyHasher, ProcessingEngine, Store};

const NOW_MS: u64 = 1_700_000_000_000;
const KINDS: [Kind; 8] = [
    Kind::Requests,
    Kind::Copy,
    Kind::Flush,
    Kind::Time,
    Kind::CopyBegin,
    Kind::CopyEnd,
    Kind::End,
    Kind::Followed,
];

/// Checks that bytes are frames or refused, the same in any pieces, and that frames with right checksums are
/// executed or refused within the store's memory.
pub(super) fn stream(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else {
        return;
    };
    let Some((&identity, rest)) = data.split_first_chunk() else {
        return;
    };
    let made;
    let bytes = match choice & 1 {
        0 => rest,
        _ => {
            made = frames_of(identity, rest);
            &made
        }
    };
    let whole = parse(identity, &[bytes]);
    let at = bytes.len() * usize::from(choice >> 1) / 128;
    let (front, back) = bytes.split_at(at);
    assert_eq!(parse(identity, &[front, back]), whole);
    let payloads: usize = whole.0.iter().map(|frame| frame.payload.len()).sum();
    assert!(payloads <= bytes.len());
    execute(&whole.0);
}

fn parse(identity: [u8; 8], pieces: &[&[u8]]) -> (Vec<ReceivedFrame>, Option<StreamError>) {
    let mut parser = StreamParser::new(identity, 1);
    let mut frames = Vec::new();
    for piece in pieces {
        parser.push(piece);
        loop {
            match parser.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

/// Makes frames from a sequence of kind (a byte), payload length (two bytes) and payload.
fn frames_of(identity: [u8; 8], mut rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut history = FrameWriter::stream(identity);
    let mut copy = FrameWriter::stream(identity);
    while let Some((&[kind, low, high], tail)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes([low, high])).min(tail.len());
        let (payload, tail) = tail.split_at(len);
        rest = tail;
        let kind = KINDS[usize::from(kind) % KINDS.len()];
        let writer = match kind {
            Kind::CopyBegin | Kind::Copy | Kind::CopyEnd => &mut copy,
            _ => &mut history,
        };
        writer.append(kind, NOW_MS, payload, &mut bytes);
    }
    bytes
}

fn execute(frames: &[ReceivedFrame]) {
    let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
    let options = StoreOptions::new(MEMORY_MIN_BYTES, &hasher);
    let mut memory = Memory::new(Store::new(options).unwrap(), NOW_MS);
    for frame in frames {
        if frame.kind == Kind::CopyBegin {
            memory.begin_copy().unwrap();
        }
        // What cannot be executed has the replica ask for a copy.
        let _ = memory.replay(&frame.payload, frame.now_ms, None, &hasher);
        let statistics = memory.statistics();
        assert!(statistics.memory_bytes <= statistics.memory_limit_bytes);
    }
}
