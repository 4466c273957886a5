//! Tests of memcached's protocol: the same bytes are sent to memcached and to the engine.
//! `OVERSIDE_KV_MEMCACHED=HOST:PORT` names a server to use in place of the engine: one in any design, or
//! another memcached.

mod checks;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use overside_base::Random;
use overside_kv::KeyHasher;
use overside_kv::protocol::{MemcachedEngine, Ready, Session};

use crate::oracle::Oracle;
use crate::peers::memcached;
use crate::requests::corpus;
use crate::resp_client::TestServer;

/// A client of the engine.
struct Client {
    engine: MemcachedEngine,
    session: Session,
    server: TestServer,
    hasher: KeyHasher,
    input: Vec<u8>,
}

impl Client {
    fn new() -> Self {
        Self {
            engine: MemcachedEngine::default(),
            session: Session::new(1, true),
            server: TestServer::new(Box::<Oracle>::default()),
            hasher: KeyHasher::with_seeds([1, 2, 3, 4]),
            input: Vec::new(),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.input.extend_from_slice(bytes);
        let mut output = Vec::new();
        let mut ready = [Ready::new(&mut self.session, &self.input, &mut output)];
        (self.engine).process(&mut ready, &self.hasher, &mut self.server);
        let consumed = ready[0].consumed;
        self.input.drain(..consumed);
        output
    }
}

/// Replies without versions, which differ between servers.
fn without_versions(reply: &[u8]) -> String {
    let text = reply.escape_ascii().to_string();
    let mut words = Vec::new();
    for line in text.split("\\r\\n") {
        let mut line: Vec<&str> = line.split(' ').collect();
        if line[0] == "VALUE" && line.len() == 5 {
            line.pop();
        }
        line.retain(|word| {
            !(word.len() > 1 && word.starts_with('c') && word[1..].parse::<u64>().is_ok())
        });
        words.push(line.join(" "));
    }
    words.join("\n")
}

/// A random command; its reply is the same in every server. Numbers do not become shorter: memcached
/// would leave spaces behind them.
fn command(random: &mut Random) -> Vec<u8> {
    let keys = ["a", "b", "c", "counter", "missing"];
    let values = ["", "1", "41", "x", "text of some length", "7"];
    let key = keys[random.below(keys.len() as u64) as usize];
    let value = values[random.below(values.len() as u64) as usize];
    let flags = random.below(3);
    let quiet = if random.chance(0.2) { " noreply" } else { "" };
    let len = value.len();
    let text = match random.below(26) {
        0..=4 => format!("set {key} {flags} 0 {len}{quiet}\r\n{value}\r\n"),
        5 => format!("add {key} {flags} 0 {len}{quiet}\r\n{value}\r\n"),
        6 => format!("replace {key} {flags} 100 {len}{quiet}\r\n{value}\r\n"),
        7 => format!("append {key} 0 0 {len}{quiet}\r\n{value}\r\n"),
        8 => format!("prepend {key} 0 0 {len}{quiet}\r\n{value}\r\n"),
        9 => format!("get {key}\r\n"),
        10 => format!("get {key} a b missing\r\n"),
        11 => format!("gets {key} c\r\n"),
        12 => format!("incr {key} {}{quiet}\r\n", random.below(100)),
        13 => format!("delete {key}{quiet}\r\n"),
        14 => format!("touch {key} 1000{quiet}\r\n"),
        15 => format!("gat 1000 {key} a\r\n"),
        16 => format!("mg {key} v f k O7 t\r\n"),
        17 => format!("ms {key} {len} F{flags} T100 Ozz k\r\n{value}\r\n"),
        18 => format!("md {key} q\r\nmn\r\n"),
        19 => format!("ma {key} v D3 N0 J5\r\nma {key}x q\r\n"),
        20 => format!("ms {key} {len} ME q\r\n{value}\r\nmg {key} s v q\r\nmn\r\n"),
        21 => format!("ms {key} {len} MA\r\n{value}\r\nmg {key} v\r\n"),
        22 => format!("cas {key} 0 0 {len} 1\r\n{value}\r\n"),
        23 => format!("ms YSBi {len} b k c q\r\n{value}\r\nmg YSBi O1 b k v\r\n"),
        24 => "mg YSBj b k v\r\nmd YSBj b\r\nma YSBj b k\r\nmg YSBj b\r\n".to_owned(),
        _ => [
            "get\r\n",
            "set a b c d\r\n",
            "incr a x\r\n",
            "nonsense\r\n",
            "set a 0 0 3\r\nabcdef\r\n",
            "mg\r\n",
            "delete a 0\r\n",
            "set a 0 0 -1\r\n",
            "ms a x\r\n",
            "ms a\r\n",
            "ma a Mz\r\n",
            "ms a 1 Mz\r\nx\r\n",
            "verbosity 1\r\n",
            "touch a x\r\n",
            // Errors that the client takes no reply to.
            "set a b c d noreply\r\n",
            "set a 0 0 -1 noreply\r\n",
            "set a 0 0 noreply\r\n",
            "set a 0 noreply\r\n",
            "set noreply\r\n",
            "set a 0 0 3 noreply\r\nabcdef\r\n",
            "cas a 0 0 1 1 noreply\r\nx\r\n",
            "append missing 0 0 1 noreply\r\nx\r\n",
            "incr a x noreply\r\n",
            "incr a noreply\r\n",
            "incr noreply\r\n",
            "incr a 1 2 noreply\r\n",
            "delete a 1 noreply\r\n",
            "delete a 0 noreply\r\n",
            "delete a 0 0 noreply\r\n",
            "delete noreply\r\n",
            "touch a x noreply\r\n",
            "touch a noreply\r\n",
            "touch a 1 2 noreply\r\n",
            "flush_all 1 2 noreply\r\n",
            "verbosity x noreply\r\n",
            "verbosity 1 2 noreply\r\n",
            "nonsense noreply\r\n",
            "gat x k noreply\r\n",
            "ms a 1 c s t f k\r\nx\r\n",
            "md a s t c f k\r\n",
            "ma counter s f k\r\n",
        ][random.below(41) as usize]
            .to_owned(),
    };
    text.into_bytes()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// Sends `framed`, in which each group of commands ends with `mn`. Returns all replies up to the
/// last `MN`.
fn replies_until(stream: &mut TcpStream, framed: &[u8]) -> Vec<u8> {
    stream.write_all(framed).unwrap();
    let mut replies = Vec::new();
    let count = framed.windows(4).filter(|four| *four == b"mn\r\n").count();
    while replies.windows(4).filter(|four| *four == b"MN\r\n").count() < count {
        let mut buffer = [0; 4096];
        let len = stream.read(&mut buffer).unwrap();
        assert!(len > 0, "closed after {}", framed.escape_ascii());
        replies.extend_from_slice(&buffer[..len]);
    }
    replies
}

#[test]
fn replies_are_those_of_memcached() {
    let Some(peer) = memcached() else { return };
    let mut theirs = connect(&peer.address.to_string());
    let mut random = Random::new(1);
    let mut client = Client::new();
    let mut server = std::env::var("OVERSIDE_KV_MEMCACHED").ok().map(|at| connect(&at));
    if let Some(server) = &mut server {
        assert_eq!(replies_until(server, b"flush_all\r\nmn\r\n"), b"OK\r\nMN\r\n");
    }
    let mut history = Vec::new();
    for _ in 0..4000 {
        let bytes = command(&mut random);
        history.push(bytes.escape_ascii().to_string());
        // `mn` has a reply of its own, which ends what belongs to the command.
        let mut framed = bytes.clone();
        framed.extend_from_slice(b"mn\r\n");
        let theirs = replies_until(&mut theirs, &framed);
        let ours = match &mut server {
            None => client.send(&framed),
            Some(server) => replies_until(server, &framed),
        };
        let last = &history[history.len().saturating_sub(60)..];
        assert_eq!(without_versions(&ours), without_versions(&theirs), "{last:#?}");
    }
}

#[test]
fn bytes_that_come_in_parts_have_the_same_replies() {
    let mut random = Random::new(2);
    let bytes: Vec<u8> = (0..200).flat_map(|_| command(&mut random)).collect();
    let whole = Client::new().send(&bytes);
    for part in [1, 2, 7, 100] {
        let mut client = Client::new();
        let replies: Vec<u8> = bytes.chunks(part).flat_map(|chunk| client.send(chunk)).collect();
        assert_eq!(without_versions(&replies), without_versions(&whole));
    }
}

#[test]
fn versions_are_compared() {
    let mut client = Client::new();
    client.send(b"set k 5 0 1\r\na\r\n");
    let reply = String::from_utf8(client.send(b"gets k\r\n")).unwrap();
    let version = reply.lines().next().unwrap().split(' ').nth(4).unwrap().to_owned();
    let cas = format!("cas k 0 0 1 {version}\r\nb\r\n");
    assert_eq!(client.send(cas.as_bytes()), b"STORED\r\n");
    assert_eq!(client.send(cas.as_bytes()), b"EXISTS\r\n");
    let reply = String::from_utf8(client.send(b"mg k c v\r\n")).unwrap();
    let version = reply.split([' ', '\r']).nth(2).unwrap().strip_prefix('c').unwrap().to_owned();
    let delete = format!("md k C{version}\r\n");
    assert_eq!(client.send(b"md k C1\r\n"), b"EX\r\n");
    assert_eq!(client.send(delete.as_bytes()), b"HD\r\n");
    assert_eq!(client.send(b"mg k v\r\n"), b"EN\r\n");
}

#[test]
fn a_value_that_is_too_large_is_skipped() {
    let mut client = Client::new();
    let len = (64 << 20) + 1;
    let error: &[u8] = b"SERVER_ERROR object too large for cache\r\n";
    for (command, behind, expected) in
        [("set", "", error), ("set", " noreply", b""), ("ms", " q", error)]
    {
        assert_eq!(client.send(b"set k 0 0 1\r\nx\r\n"), b"STORED\r\n");
        let times = if command == "set" { " 0 0" } else { "" };
        let line = format!("{command} k{times} {len}{behind}\r\n");
        assert_eq!(client.send(line.as_bytes()), expected);
        for _ in 0..64 {
            assert_eq!(client.send(&vec![b'x'; 1 << 20]), b"");
            assert!(client.input.is_empty(), "nothing is kept");
        }
        let left = client.send(b"x\r\nmg k v\r\n");
        assert_eq!(left == b"EN\r\n", command == "set", "{left:?}");
    }
    assert_eq!(
        client.send(b"set k 0 0 99999999999999999999\r\n"),
        b"CLIENT_ERROR bad command line format\r\n"
    );
    let endless = client.send(&vec![b'x'; 64 << 10]);
    assert_eq!(endless, b"CLIENT_ERROR line too long\r\n");
    assert!(client.session.is_closing());
}

#[test]
fn how_much_is_missing_is_known() {
    let mut client = Client::new();
    client.send(b"set k 0 0 1000000\r\nabc");
    assert_eq!(client.session.missing_bytes(), 1_000_000 - 3 + 2);
}

#[test]
fn keys_in_base64_may_have_any_bytes() {
    let mut client = Client::new();
    // "a b"
    assert_eq!(client.send(b"ms YSBi 1 b\r\nx\r\n"), b"HD\r\n");
    assert_eq!(client.send(b"mg YSBi b k v\r\n"), b"VA 1 kYSBi b\r\nx\r\n");
    assert_eq!(client.send(b"mg !! b v\r\n"), b"CLIENT_ERROR bad command line format\r\n");
    assert_eq!(client.send(b"mg k h v\r\n"), b"CLIENT_ERROR unsupported flag\r\n");
    assert_eq!(client.send(b"flush_all noreply\r\nmg YSBi b v\r\n"), b"EN\r\n");
}

#[test]
fn the_binary_protocol_is_answered_with_its_error() {
    let mut client = Client::new();
    let request = b"\x80\x00\x00\x01\0\0\0\0\0\0\0\x01\x01\x02\x03\x04\0\0\0\0\0\0\0\0k";
    assert_eq!(client.send(&request[..23]), b"");
    let reply = client.send(&request[23..]);
    let header = b"\x81\x00\0\0\0\0\0\x81\0\0\0\x0f\x01\x02\x03\x04\0\0\0\0\0\0\0\0";
    assert_eq!(reply, [&header[..], b"Unknown command"].concat());
    assert!(client.session.is_closing());
}

#[test]
fn statistics_are_there() {
    let mut client = Client::new();
    client.send(b"set k 0 0 1\r\na\r\nget k\r\nget l\r\n");
    let reply = String::from_utf8(client.send(b"stats\r\n")).unwrap();
    for line in ["STAT curr_items 1", "STAT get_hits 1", "STAT get_misses 1"] {
        assert!(reply.contains(line), "{reply}");
    }
    assert!(reply.ends_with("END\r\n"));
    client.send(b"quit\r\n");
    assert!(client.session.is_closing());
}

#[test]
fn long_replies_of_many_clients_are_made_in_turns() {
    let mut server = TestServer::new(Box::<Oracle>::default());
    let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
    let mut engine = MemcachedEngine::default();
    let len = 40 << 20;
    let mut set = format!("set k 0 0 {len}\r\n").into_bytes();
    set.resize(set.len() + len, b'v');
    set.extend_from_slice(b"\r\n");
    let (mut session, mut output) = (Session::new(1, true), Vec::new());
    let mut ready = [Ready::new(&mut session, &set, &mut output)];
    engine.process(&mut ready, &hasher, &mut server);
    assert!(!ready[0].has_more);
    assert_eq!(output, b"STORED\r\n");
    let mut sessions: Vec<_> = (0..8).map(|id| Session::new(id, true)).collect();
    let mut waiting: Vec<usize> = (0..8).collect();
    let mut turns = 0;
    while !waiting.is_empty() {
        let mut outputs = vec![Vec::new(); sessions.len()];
        let clients = sessions.iter_mut().zip(&mut outputs).enumerate();
        let clients = clients.filter(|(client, _)| waiting.contains(client));
        let mut ready: Vec<_> = clients
            .map(|(_, (session, output))| Ready::new(session, b"get k\r\n", output))
            .collect();
        engine.process(&mut ready, &hasher, &mut server);
        let left = waiting.iter().zip(&ready);
        let left = left.filter(|(_, ready)| ready.has_more && ready.consumed == 0);
        waiting = left.map(|(client, _)| *client).collect();
        let total: usize = outputs.iter().map(Vec::len).sum();
        assert!((len..3 * len).contains(&total), "{total}");
        assert!(sessions.iter().all(|session| !session.is_closing()));
        turns += 1;
    }
    assert!(turns >= 4, "{turns}");
}

#[test]
fn the_corpus_of_the_fuzz_target_is_answered_the_same_in_pieces() {
    let files = corpus("kv_memcached", 5);
    files.iter().for_each(|(_, bytes)| checks::run(bytes));
}
