//! Any datagrams are answered within the bounds of the protocol, as if each had come alone, or dropped.

#![no_main]

#[path = "../../crates/kv/server/tests/it/twin_servers.rs"]
mod twin_servers;

use std::collections::{HashMap, HashSet};

use libfuzzer_sys::fuzz_target;
use overside_kv::KeyHasher;
use overside_kv::protocol::datagram::{
    ANSWER_LIMIT_MIN_BYTES, AnswerDatagrams, DATAGRAM_MAX_BYTES, DatagramEngine, Header, WINDOW,
    replies,
};
use twin_servers::{OpenServer, twin_servers};

/// Returns the answers of a new server: numbers of packets, and datagrams.
fn answers(
    packets: &[&[u8]],
    at_once: usize,
    mut server: OpenServer,
    hasher: &KeyHasher,
) -> Vec<(usize, Vec<u8>)> {
    let mut engine = DatagramEngine::default();
    let mut all = Vec::new();
    let mut done = 0;
    while done < packets.len() {
        let some = &packets[done..packets.len().min(done + at_once)];
        let mut answers = AnswerDatagrams::default();
        let more = engine.process(some, &mut answers, hasher, &mut server);
        assert!(more > 0);
        all.extend(answers.iter().map(|(packet, bytes)| (done + packet, bytes.to_vec())));
        done += more;
    }
    all.sort_by_key(|(packet, _)| *packet);
    all
}

// A length of two bytes before each datagram.
fuzz_target!(|data: &[u8]| {
    let (mut packets, mut rest) = (Vec::new(), data);
    while let Some((len, after)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
        packets.push(&after[..len]);
        rest = &after[len..];
    }
    let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
    let [one, other] = twin_servers(&hasher);
    let together = answers(&packets, usize::MAX / 2, one, &hasher);
    for (packet, datagram) in &together {
        let question = Header::read(packets[*packet]).map(|(header, _)| header);
        let question = question.unwrap_or_default();
        let limit = usize::from(question.limit).clamp(ANSWER_LIMIT_MIN_BYTES, DATAGRAM_MAX_BYTES);
        assert!(datagram.len() <= limit);
        let (header, records) = Header::read(datagram).unwrap();
        assert!(header.is_answer());
        let read = replies(header.count, records).map(|reply| reply.unwrap());
        assert_eq!(read.count(), usize::from(header.count));
    }
    // A batch executes in order, but for copies of datagrams and for old ones, which count as copies: their
    // reads come earlier.
    let (mut seen, mut greatest) = (HashSet::new(), HashMap::new());
    let is_new = |packet: &&[u8]| {
        Header::read(packet).is_ok_and(|(header, _)| {
            let Header { client, sequence, .. } = header;
            let greatest: &mut u64 = greatest.entry(client).or_default();
            *greatest = sequence.max(*greatest);
            *greatest - sequence < WINDOW && seen.insert((client, sequence))
        })
    };
    if packets.iter().all(is_new) {
        assert_eq!(together, answers(&packets, 1, other, &hasher));
    }
});
