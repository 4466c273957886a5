//! What must hold of any bytes that come from memcached's clients. The fuzz target has it too.

#[path = "../twin_servers.rs"]
mod twin_servers;

use overside_kv::KeyHasher;
use overside_kv::protocol::datagram::AnswerDatagrams;
use overside_kv::protocol::{
    MemcachedDatagramEngine, MemcachedEngine, PacketEngine, Ready, Session,
};
use twin_servers::{OpenServer, twin_servers};

/// Longest datagram of a reply, and most bytes of all of them.
const DATAGRAM_BYTES: usize = 1400;
const REPLY_BYTES: usize = (1 << 20) + (64 << 10);

/// The first byte says where what follows is divided, and whether it is a stream or datagrams. A stream is
/// answered the same however it is divided. Datagrams, each with its length in two bytes before it, are
/// answered within bounds, the same together and one by one.
pub fn run(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
    let [one, other] = twin_servers(&hasher);
    match choice & 1 {
        0 => {
            let at = data.len() * usize::from(choice >> 1) / 128;
            let (front, back) = data.split_at(at);
            let whole = stream(&[data], one, &hasher);
            assert_eq!(whole, stream(&[front, back], other, &hasher));
        }
        _ => {
            let packets = packets(data);
            let together = datagrams(&packets, packets.len().max(1), one, &hasher);
            assert_eq!(together, datagrams(&packets, 1, other, &hasher));
        }
    }
}

fn stream(pieces: &[&[u8]], mut server: OpenServer, hasher: &KeyHasher) -> Vec<u8> {
    let mut engine = MemcachedEngine::default();
    let mut session = Session::new(1, true);
    let (mut input, mut output) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        let mut ready = [Ready::new(&mut session, &input, &mut output)];
        engine.process(&mut ready, hasher, &mut server);
        let consumed = ready[0].consumed;
        input.drain(..consumed);
    }
    assert_eq!(session.memory_bytes(), 0);
    output
}

fn packets(data: &[u8]) -> Vec<&[u8]> {
    let (mut packets, mut rest) = (Vec::new(), data);
    while let Some((len, after)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
        packets.push(&after[..len]);
        rest = &after[len..];
    }
    packets
}

/// Numbers of packets, and the replies to each.
fn datagrams(
    packets: &[&[u8]],
    at_once: usize,
    mut server: OpenServer,
    hasher: &KeyHasher,
) -> Vec<(usize, Vec<u8>)> {
    let mut engine = MemcachedDatagramEngine::default();
    let mut all = Vec::new();
    let mut done = 0;
    while done < packets.len() {
        let some = &packets[done..packets.len().min(done + at_once)];
        let mut answers = AnswerDatagrams::default();
        let more = engine.process(some, &mut answers, hasher, &mut server);
        assert!(more > 0);
        for (packet, reply) in answers.iter() {
            assert!(reply.len() <= DATAGRAM_BYTES);
            assert_eq!(reply[..2], some[packet][..2], "the id of its request");
            all.push((done + packet, reply.to_vec()));
        }
        let each = |number| all.iter().filter(move |(packet, _)| *packet == number);
        for number in done..done + more {
            let bytes: usize = each(number).map(|(_, reply)| reply.len()).sum();
            assert!(bytes <= REPLY_BYTES);
        }
        done += more;
    }
    all
}
