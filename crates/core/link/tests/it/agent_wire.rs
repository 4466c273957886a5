//! The wire format of an agent: written items are read back, and invalid ones are refused.

#[path = "common/agent_checks.rs"]
mod checks;

use std::io::IoSlice;

use overside_device::{
    ContextConfig, ExternalBytes, Lifecycle, OpenError, Operation, OperationConfig, Region, Slice,
    Source, Stages,
};
use overside_link::agent::{
    AnswerHead, Item, JobHead, MAX_BUFFER_BYTES, MAX_DEPTH, MAX_PROBE_BYTES, OpeningError, Outbox,
    Preamble, Reader, Reply, Request, Setup, Side, Status, Usage, Versions, Violation, plain_error,
    probe, typed_error,
};
use overside_link::codec::{Message, clean};
use overside_ops::{Error, Format};
use proptest::prelude::*;

fn sent(outbox: &mut Outbox) -> Vec<u8> {
    let mut all = Vec::new();
    while !outbox.is_empty() {
        let mut pieces = [IoSlice::new(&[]); 64];
        let count = outbox.gather(&mut pieces);
        let piece = |piece: &IoSlice<'_>| piece.to_vec();
        let bytes: Vec<u8> = pieces[..count].iter().flat_map(piece).collect();
        outbox.advance(bytes.len(), drop);
        all.extend(bytes);
    }
    all
}

/// All items, with their bodies.
fn received(side: Side, bytes: &[u8]) -> Result<Vec<(Item, Vec<u8>)>, Violation> {
    let mut reader = Reader::new(side);
    let (mut bytes, mut items) = (bytes, Vec::new());
    loop {
        while let Some(item) = reader.item()? {
            items.push((item, Vec::new()));
        }
        if let Some((_, body)) = items.last_mut() {
            let mut rest = vec![0; reader.body_left()];
            let count = reader.body(&mut rest);
            body.extend_from_slice(&rest[..count]);
            if count > 0 {
                continue;
            }
        }
        if bytes.is_empty() {
            return Ok(items);
        }
        let count = reader.room().len().min(bytes.len());
        reader.room()[..count].copy_from_slice(&bytes[..count]);
        reader.filled(count);
        bytes = &bytes[count..];
    }
}

fn slice(bytes: &[u8]) -> Slice {
    Slice::from_external(ExternalBytes::new(bytes.to_vec()), None)
}

#[test]
fn both_sides_speak_the_newest_version_that_both_know() {
    let with = |oldest, newest| Preamble(Versions { oldest, newest }).encode();
    assert_eq!(Preamble::agree(&Preamble::ours()), Ok(3));
    assert_eq!(Preamble::agree(&with(0, 7)), Ok(3));
    for other in [with(4, 5), with(1, 2), with(0, 0), with(5, 1)] {
        let error = Preamble::agree(&other).unwrap_err();
        assert!(matches!(error, Violation::Version { .. }), "{error}");
        assert!(error.to_string().contains("install the same release"), "{error}");
    }
    let http = Preamble::agree(b"GET / HTTP/1.1\r\n").unwrap_err();
    assert_eq!(http, Violation::Magic("GET / HTTP/1.1\\r\\n".into()));
    let mut reserved = Preamble::ours();
    reserved[15] = 1;
    assert_eq!(Preamble::agree(&reserved), Err(Violation::Reserved));
}

#[test]
fn jobs_travel_with_their_segments_as_one_source() {
    let mut outbox = Outbox::default();
    let head = JobHead { slot: 4095, capacity: 77 };
    let chain = Source::Chain([slice(b"some"), slice(b""), slice(b"thing")].into());
    outbox.job(head, &chain);
    outbox.ping(5);
    outbox.job(head, &slice(b"").into());
    let items = received(Side::Agent, &sent(&mut outbox)).unwrap();
    let expected = [
        (Item::Job(head, 9), b"something".to_vec()),
        (Item::Ping(5), Vec::new()),
        (Item::Job(head, 0), Vec::new()),
    ];
    assert_eq!(items, expected);
}

#[test]
fn answers_travel_with_what_the_device_said() {
    let head = AnswerHead {
        slot: 7,
        status: Status::Done,
        value: Some(3),
        stages: Stages {
            queueing_ns: Some(10),
            start_ns: None,
            transfer_ns: None,
            engine_ns: None,
            late: true,
            overdue_ns: 1 << 50,
        },
        held_ns: 99,
    };
    let failed =
        AnswerHead { status: Status::Corrupt, value: None, stages: Stages::default(), ..head };
    let mut region = Region::allocate(10, 1, None).unwrap();
    region.copy_from_slice(b"0123456789");
    let mut outbox = Outbox::default();
    outbox.usage(Usage { dpu_ns: 1, emulator_ns: 2 });
    outbox.result(head, region, 4);
    outbox.failure(failed, "no block begins like this");
    outbox.pong(8);
    let items = received(Side::Host, &sent(&mut outbox)).unwrap();
    assert_eq!(items[1], (Item::Answer(head, 4), b"0123".to_vec()));
    assert_eq!(items[2], (Item::Answer(failed, 25), b"no block begins like this".to_vec()));
    assert_eq!(items[3].0, Item::Pong(8));
    let error = received(Side::Agent, &{
        outbox.pong(8);
        sent(&mut outbox)
    });
    assert_eq!(error, Err(Violation::Kind(6)), "only the host is answered");
}

#[test]
fn questions_of_a_probe_travel_either_way_as_they_are() {
    let begun = Request::Probe { kind: "network".into() };
    assert_eq!(Request::decode(&begun.encode()), Ok(begun));
    let probing = Reply::Probing.encode();
    assert_eq!(Reply::decode(&probing), Ok(Reply::Probing));
    let long = vec![0xFE; MAX_PROBE_BYTES];
    for side in [Side::Host, Side::Agent] {
        let sent = [probe(b"\0?"), probe(&long)].concat();
        let items = received(side, &sent).unwrap();
        let expected = [b"\0?".to_vec(), long.clone()];
        assert_eq!(items, expected.map(|message| (Item::Probe(message), Vec::new())));
    }
    let unknown = Request::Probe { kind: "n".repeat(300) };
    let error = Request::decode(&unknown.encode()).unwrap_err();
    assert!(error.to_string().contains("a text of at most 256 bytes"), "{error}");
}

#[test]
fn lengths_and_fields_are_bounded() {
    let header = |len: u32, kind: u8| [&len.to_le_bytes()[..], &[kind, 0, 0, 0]].concat();
    for (len, kind) in [
        (15, 2),
        (MAX_BUFFER_BYTES as u32 + 17, 2),
        (u32::MAX, 2),
        (9, 5),
        (1, 1),
        ((8 << 20) + 1, 1),
        (0, 7),
        (MAX_PROBE_BYTES as u32 + 1, 7),
    ] {
        let error = received(Side::Agent, &header(len, kind)).unwrap_err();
        assert!(matches!(error, Violation::Length { .. }), "{len} {kind}: {error}");
    }
    let job = |slot: u32, capacity: u64| {
        let fields = [&slot.to_le_bytes()[..], &[0; 4], &capacity.to_le_bytes()].concat();
        received(Side::Agent, &[header(16, 2), fields].concat())
    };
    assert!(job(MAX_DEPTH as u32 - 1, MAX_BUFFER_BYTES as u64).is_ok());
    for bad in [job(MAX_DEPTH as u32, 0), job(0, MAX_BUFFER_BYTES as u64 + 1), job(0, u64::MAX)] {
        assert!(matches!(bad, Err(Violation::Field { .. })), "{bad:?}");
    }
}

#[test]
fn contexts_that_no_wire_carries_are_refused() {
    let config = ContextConfig {
        operation: OperationConfig::new(Operation::Copy),
        depth: 8,
        max_source_bytes: 10,
        max_destination_bytes: 10,
    };
    let setup = Setup::from(&config);
    assert_eq!(setup.clone().config(), Ok(config));
    let deep = Setup { depth: u64::MAX, ..setup.clone() };
    let error = deep.config().unwrap_err().to_string();
    assert!(error.contains("a context's depth is 18446744073709551615"), "{error}");
    let many = Setup { patterns: vec![String::new(); 1001], ..setup };
    let sent = Request::Reconfigure(many).encode();
    let error = Request::decode(&sent).unwrap_err().to_string();
    assert!(error.contains("a list of at most 1000 items"), "{error}");
    assert!(Request::decode(br#"{"open":{"device":"cpu"}}"#).is_err());
    assert!(Request::decode(br#"{"reboot":{}}"#).is_err());
    assert!(Reply::decode(b"\"drain\"").is_ok());
}

#[test]
fn errors_of_opening_are_the_same_on_the_other_side() {
    let asked = ContextConfig {
        operation: OperationConfig {
            level: Some(40),
            ..OperationConfig::new(Operation::Compress(Format::Gzip))
        },
        depth: 1,
        max_source_bytes: 1,
        max_destination_bytes: 1,
    };
    let device = || "dpu0/cpu".to_owned();
    let same = [
        OpenError::Unsupported { device: device(), operation: asked.operation.operation },
        OpenError::Limit { device: device(), what: "source bytes", limit: 3, asked: 4 },
        OpenError::Operation(Error::Level { variant: "zlib", level: 40, min: 0, max: 9 }),
        OpenError::Operation(Error::NoPattern),
        OpenError::Operation(Error::Pattern { pattern: "(".into(), reason: "unclosed".into() }),
        OpenError::Failed { device: device(), reason: "no queue is left".into() },
    ];
    for error in same {
        let reply = Reply::Refused(plain_error(&error)).encode();
        let Ok(Reply::Refused(sent)) = Reply::decode(&reply) else {
            panic!("{reply:?}");
        };
        assert_eq!(typed_error("dpu0/cpu", &asked, sent), error);
    }
    let foreign = OpeningError::NoLevels("a library of another time".into());
    let error = typed_error("dpu0/cpu", &asked, foreign).to_string();
    assert_eq!(error, "the library there has no levels");
}

#[test]
fn what_an_agent_says_cannot_command_a_terminal_or_claim_too_much() {
    let said = r#"{"lost":"bye\u001b[2J\nnow"}"#;
    assert_eq!(Reply::decode(said.as_bytes()), Ok(Reply::Lost("bye [2J now".into())));
    assert_eq!(clean("héé", 3), "hé");
    let device = |provenance: &str, depth: u64| {
        format!(
            r#"{{"welcome":{{"release":"1","devices":[{{"info":{{"name":"a","driver":"b","location":"c",
            "description":"d","provenance":"{provenance}","timing":"real"}},"capabilities":[{{
            "operation":"copy","variants":["x"],"max_source_bytes":18446744073709551615,
            "max_destination_bytes":5,"max_segments":1,"max_depth":{depth},"event":true,
            "memory":"any","missing":[]}}]}}]}}}}"#
        )
    };
    let Ok(Reply::Welcome(welcome)) = Reply::decode(device("measured", 1_000_000).as_bytes())
    else {
        panic!("it is a welcome");
    };
    let capability = &welcome.devices[0].capabilities[0];
    assert_eq!(capability.max_source_bytes, MAX_BUFFER_BYTES as u64);
    assert_eq!(capability.max_depth, MAX_DEPTH);
    assert!(Reply::decode(device("published", 1).as_bytes()).is_err());
    assert!(Reply::decode(device("measured", 0).as_bytes()).is_err());
    let closed = Reply::Closed(Lifecycle::default());
    assert_eq!(Reply::decode(&closed.encode()), Ok(closed));
}

#[test]
fn the_fuzz_corpus_is_read_without_panic() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus/agent_wire");
    let mut read = Vec::new();
    for entry in std::fs::read_dir(corpus).expect("the corpus is in the repository") {
        let path = entry.unwrap().path();
        if checks::agent_wire(&std::fs::read(&path).unwrap()) {
            read.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    read.sort();
    // What begins from a violation finds little.
    let right = [
        "answer-not-text",
        "answers",
        "close",
        "drain",
        "jobs",
        "leave",
        "lost",
        "open",
        "opened",
        "ping",
        "probe",
        "probing",
        "reconfigure",
        "refused",
        "welcome",
        "welcome-none",
    ];
    assert_eq!(read, right);
}

proptest! {
    #[test]
    fn any_bytes_are_items_or_a_violation(data in prop::collection::vec(any::<u8>(), 0..300)) {
        checks::agent_wire(&data);
    }

    /// Frames that are nearly right get further than noise.
    #[test]
    fn any_frames_are_items_or_a_violation(
        how in any::<u8>(),
        frames in prop::collection::vec(
            (0_u8..9, 0_u32..60, prop::collection::vec(any::<u8>(), 0..80)), 0..8),
    ) {
        let mut data = vec![how];
        for (kind, len, bytes) in frames {
            data.extend(len.to_le_bytes());
            data.extend([kind, 0, 0, 0]);
            data.extend(bytes);
        }
        checks::agent_wire(&data);
    }
}
