//! The datagram protocol without sockets.

mod lossy;

use overside_base::Random;
use overside_kv::protocol::datagram::{
    ANSWER, AnswerDatagrams, CLIENTS_MAX, DATAGRAM_MAX_BYTES, DatagramEngine, HEADER_BYTES, Header,
    REQUESTS_MAX, Reply, RequestDatagram, replies,
};
use overside_kv::{Answer, Operation, ProcessingEngine, Refusal, Request};
use proptest::prelude::{ProptestConfig, any, proptest};

use crate::oracle::Oracle;
use crate::requests::{Requests, corpus, get, request, set};
use crate::resp_client::TestServer;

struct Peer {
    engine: DatagramEngine,
    server: TestServer,
    requests: Requests,
    /// Longest datagram of the transport.
    longest: usize,
}

impl Peer {
    fn new() -> Self {
        Self {
            longest: DATAGRAM_MAX_BYTES,
            engine: DatagramEngine::default(),
            server: TestServer::new(Box::<Oracle>::default()),
            requests: Requests::new(7),
        }
    }

    /// Sends packets to the server. Returns its answers: the number of the packet that each one
    /// answers, and the datagram.
    fn send(&mut self, packets: &[Vec<u8>]) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        let mut answers = AnswerDatagrams::default();
        answers.set_longest(self.longest);
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let mut done = 0;
        while done < packets.len() {
            answers.clear();
            let hasher = &self.requests.hasher;
            let rest = &packets[done..];
            let more = (self.engine).process(rest, &mut answers, hasher, &mut self.server);
            assert!(more > 0);
            let answers = answers.iter();
            all.extend(answers.map(|(packet, bytes)| (done + packet, bytes.to_vec())));
            done += more;
        }
        all
    }

    /// The replies to one packet, as text.
    fn ask(&mut self, packet: &[u8]) -> Vec<String> {
        let (request, _) = Header::read(packet).unwrap();
        let datagrams = self.send(&[packet.to_vec()]);
        let mut texts = Vec::new();
        for (_, datagram) in datagrams {
            let (header, records) = Header::read(&datagram).unwrap();
            assert!(header.is_answer());
            assert_eq!(header.client, request.client);
            assert_eq!(header.sequence, request.sequence);
            assert_eq!(header.timestamp, request.timestamp);
            assert_eq!(usize::from(header.limit), texts.len());
            let replies =
                replies(header.count, records).map(|reply| format!("{:?}", reply.unwrap()));
            texts.extend(replies);
        }
        texts
    }
}

fn header(sequence: u64, limit: u16) -> Header {
    Header { client: 1, sequence, timestamp: sequence ^ 99, limit, ..Header::default() }
}

fn packet(header: &Header, requests: &[Request<'_>]) -> Vec<u8> {
    let mut datagram = RequestDatagram::default();
    datagram.begin(header);
    for request in requests {
        assert!(datagram.push(request, DATAGRAM_MAX_BYTES));
    }
    assert_eq!(datagram.count(), requests.len());
    datagram.bytes().to_vec()
}

#[test]
fn answers_are_those_of_the_store() {
    let (mut peer, mut oracle) = (Peer::new(), Oracle::default());
    let mut random = Random::new(1);
    for sequence in 1..2000 {
        let now_ms = peer.server.now_ms;
        let count = 1 + random.below(40);
        let requests: Vec<_> = (0..count).map(|_| peer.requests.next(now_ms)).collect();
        let limit = [512, 1400, 60_000][random.below(3) as usize];
        let texts = peer.ask(&packet(&header(sequence, limit), &requests));
        let mut expected = Vec::new();
        oracle.execute(&requests, now_ms, &mut |_, answer| {
            expected.push(format!("{:?}", Reply::Answer(answer)));
        });
        assert_eq!(texts.len(), expected.len());
        for (text, expected) in texts.iter().zip(&expected) {
            assert!(text == expected || text == "TooLong" && expected.len() > 400);
        }
        peer.server.now_ms += random.below(100);
    }
}

#[test]
fn long_answers_are_divided_and_the_longest_are_named() {
    let mut peer = Peer::new();
    let values = [vec![1; 200], vec![2; 30_000], vec![3; 300]];
    let sets: Vec<_> = values.iter().map(|value| set(&value[..1], value)).collect();
    peer.ask(&packet(&header(1, 512), &sets));
    let gets = [get(&[1]), get(&[1]), get(&[1]), get(&[2]), get(&[3])];
    let question = packet(&header(2, 512), &gets);
    let neighbors = packet(&header(3, 512), &[get(&[1])]);
    let datagrams = peer.send(&[question, neighbors]);
    let mut firsts = Vec::new();
    for (_, datagram) in &datagrams {
        let (header, _) = Header::read(datagram).unwrap();
        assert!(datagram.len() <= 512);
        firsts.push((header.sequence, header.limit, header.count));
    }
    assert_eq!(firsts, [(2, 0, 2), (2, 2, 2), (2, 4, 1), (3, 0, 1)]);
    let texts = peer.ask(&packet(&header(4, 60_000), &gets));
    assert!(texts.iter().all(|text| text.starts_with("Answer(Value")));
    assert_eq!(peer.ask(&packet(&header(5, 0), &gets))[3], "TooLong");
}

#[test]
fn answers_are_as_long_as_the_transport_carries_whatever_clients_would_take() {
    let mut peer = Peer::new();
    let values = [vec![1; 700], vec![2; 2_000]];
    let sets: Vec<_> = values.iter().map(|value| set(&value[..1], value)).collect();
    peer.ask(&packet(&header(1, 60_000), &sets));
    peer.longest = 1_472;
    let gets = [get(&[1]), get(&[1]), get(&[1]), get(&[2])];
    let datagrams = peer.send(&[packet(&header(2, 60_000), &gets)]);
    assert_eq!(datagrams.len(), 2);
    assert!(datagrams.iter().all(|(_, datagram)| datagram.len() <= 1_472));
    let texts = peer.ask(&packet(&header(3, 60_000), &gets));
    assert_eq!(texts[3], "TooLong");
    assert!(texts[2].starts_with("Answer(Value"));
    // None is so short that nothing can be said.
    peer.longest = 0;
    assert_eq!(peer.ask(&packet(&header(4, 60_000), &[get(b"none")])), ["Answer(Missing)"]);
}

#[test]
fn a_copy_of_a_datagram_changes_nothing() {
    let mut peer = Peer::new();
    let add = request(b"n", Operation::Increment { delta: 1 });
    let first = packet(&header(10, 1400), &[add.clone(), get(b"n"), add.clone()]);
    let answers = peer.ask(&first);
    assert_eq!(answers[2], "Answer(Number(2))");
    for _ in 0..3 {
        let again = peer.ask(&first);
        assert_eq!(again[0], "Repeated");
        assert!(again[1].contains("data: [50]"), "{again:?}");
        assert_eq!(again[2], "Repeated");
    }
    let late = packet(&header(9, 1400), std::slice::from_ref(&add));
    assert_eq!(peer.ask(&late), ["Answer(Number(3))"]);
    assert_eq!(peer.ask(&late), ["Repeated"]);
    // Reads are no matter of sequence numbers.
    let read = packet(&header(10, 1400), &[get(b"n")]);
    assert_eq!(peer.ask(&read), peer.ask(&read));
    assert_eq!(peer.engine.counts().repeated, 4);
}

#[test]
fn who_cannot_be_remembered_cannot_write() {
    let mut peer = Peer::new();
    let write = |client| {
        let header = Header { client, ..header(1, 1400) };
        packet(&header, &[set(b"a", b"b"), get(b"a")])
    };
    let clients = 0..CLIENTS_MAX as u64;
    let answers = peer.send(&clients.map(write).collect::<Vec<_>>());
    assert_eq!(answers.len(), CLIENTS_MAX);
    let refused = peer.ask(&write(1 << 40));
    assert_eq!(refused[0], "Busy");
    assert!(refused[1].starts_with("Answer(Value"));
}

#[test]
fn what_is_malformed_is_dropped_as_a_whole() {
    let mut peer = Peer::new();
    let good = packet(&header(1, 1400), &[set(b"a", b"1"), get(b"a")]);
    for len in 0..good.len() {
        assert!(peer.send(&[good[..len].to_vec()]).is_empty(), "{len}");
    }
    let change = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    // Magic, unknown flags, an answer, no requests, too many, more than there are, an unknown operation.
    let bad = [(0, b'k'), (3, 4), (3, ANSWER), (6, 0), (7, 2), (6, 3), (HEADER_BYTES, 99)];
    for (at, byte) in bad {
        assert!(peer.send(&[change(at, byte)]).is_empty(), "{at}");
    }
    let counted = (good.len() + bad.len()) as u64;
    assert_eq!(peer.engine.counts().invalid, counted);
    assert_eq!(peer.ask(&good).len(), 2, "nothing had been executed");
    // Padding is none of it.
    let mut padded = packet(&header(2, 1400), &[get(b"a")]);
    padded.extend([0xff; 100]);
    assert_eq!(peer.ask(&padded).len(), 1);
}

#[test]
fn another_version_is_told_which_one_is_spoken() {
    let mut peer = Peer::new();
    let mut question = packet(&header(1, 1400), &[get(b"a")]);
    question[2] = 9;
    let answers = peer.send(std::slice::from_ref(&question));
    let (answer, _) = Header::read(&answers[0].1).unwrap();
    assert!(answer.is_answer() && answer.count == 0);
    assert!(answers[0].1.len() <= question.len());
    question[3] = ANSWER;
    assert!(peer.send(&[question]).is_empty());
}

#[test]
fn refusals_are_answers() {
    let mut peer = Peer::new();
    peer.ask(&packet(&header(1, 1400), &[set(b"a", b"text")]));
    let add = request(b"a", Operation::Increment { delta: 1 });
    let texts = peer.ask(&packet(&header(2, 1400), &[add]));
    let expected = Reply::Answer(Answer::Refused(Refusal::NotAnInteger));
    assert_eq!(texts, [format!("{expected:?}")]);
}

#[test]
fn a_datagram_has_no_more_requests_than_fit() {
    let mut datagram = RequestDatagram::default();
    datagram.begin(&header(1, 1400));
    while datagram.push(&get(b"12345678"), 1452) {}
    assert_eq!(datagram.count(), (1452 - HEADER_BYTES) / 10);
    datagram.begin(&header(2, 1400));
    while datagram.push(&get(b"12345678"), DATAGRAM_MAX_BYTES) {}
    assert_eq!(datagram.count(), REQUESTS_MAX);
    assert_eq!(Peer::new().ask(datagram.bytes()).len(), REQUESTS_MAX);
}

#[test]
fn what_was_found_by_fuzzing_stays_found() {
    for (_, bytes) in corpus("kv_datagram", 5) {
        let (mut packets, mut rest) = (Vec::new(), &bytes[..]);
        while let Some((len, after)) = rest.split_first_chunk() {
            let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
            packets.push(after[..len].to_vec());
            rest = &after[len..];
        }
        for (_, datagram) in Peer::new().send(&packets) {
            let (header, records) = Header::read(&datagram).unwrap();
            let read: Vec<_> = replies(header.count, records).map(Result::unwrap).collect();
            assert_eq!(read.len(), usize::from(header.count));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_are_answered_within_bounds(
        seed in any::<u64>(),
        damage in proptest::collection::vec((0_usize..2000, any::<u8>()), 0..8),
    ) {
        let mut peer = Peer::new();
        let mut random = Random::new(seed);
        let now_ms = peer.server.now_ms;
        let mut packets: Vec<Vec<u8>> = Vec::new();
        for sequence in 0..20 {
            let requests: Vec<_> = (0..1 + random.below(8)).map(|_| peer.requests.next(now_ms)).collect();
            packets.push(packet(&header(sequence, 1400), &requests));
        }
        for (at, byte) in damage {
            let packet = &mut packets[at % 20];
            let at = at % packet.len();
            packet[at] = byte;
        }
        for (number, datagram) in peer.send(&packets) {
            let (question, _) = Header::read(&packets[number]).unwrap_or_default();
            let (header, records) = Header::read(&datagram).unwrap();
            let limit = usize::from(question.limit).clamp(512, DATAGRAM_MAX_BYTES);
            assert!(datagram.len() <= limit);
            assert_eq!(header.sequence, question.sequence);
            let read: Vec<_> = replies(header.count, records).map(Result::unwrap).collect();
            assert_eq!(read.len(), usize::from(header.count));
            assert!(header.count <= question.count);
        }
    }
}

#[test]
fn who_asks_again_for_what_could_not_be_kept_is_not_answered() {
    let mut peer = Peer::new();
    let write = packet(&header(1, 1000), &[set(b"a", b"1")]);
    assert_eq!(peer.ask(&write).len(), 1);
    // The log could not be written, so that answer was not sent.
    peer.engine.doubt();
    assert_eq!(peer.send(&[write]), []);
    // Reads and later writes are answered as always.
    let read = packet(&header(2, 1000), &[request(b"a", Operation::Get)]);
    assert_eq!(peer.ask(&read).len(), 1);
    let later = packet(&header(3, 1000), &[set(b"a", b"2")]);
    assert!(peer.ask(&later)[0].contains("Stored"));
    assert!(peer.ask(&later)[0].contains("Repeated"));
}
