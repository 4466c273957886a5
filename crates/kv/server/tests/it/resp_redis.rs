//! Random commands are answered as Redis answers them, byte for byte.
//!
//! Not compared: the order of a hash's fields and of keys, and memory. Times may differ by the time between both
//! servers. `OVERSIDE_KV_COMMANDS` is the number of commands, and `OVERSIDE_KV_SERVER=HOST:PORT` names a server that is
//! asked in place of the engines of this process: one in any design, or another Redis.

mod cases;

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use overside_base::Random;
use overside_kv::ProcessingEngine;
use overside_kv::store::Semantics;

use crate::oracle::Oracle;
use crate::peers::{self, Peer};
use crate::resp_client::{Bench, Client, command};
use crate::store::store;

/// Commands that are mostly well formed, with bars between them. Words in angle brackets are chosen.
const COMMANDS: &str = "GET <k>|SET <k> <v>|SET <k> <v> NX|SET <k> <v> XX GET|SET <k> <v> EX <t>|SET <k> <v> PXAT <t> GET|\
    SET <k> <v> KEEPTTL|SET <k> <v> NX GET PX <t>|GETSET <k> <v>|GETDEL <k>|GETEX <k>|GETEX <k> EX <t>|\
    GETEX <k> PERSIST|GETEX <k> EXAT <t>|SETNX <k> <v>|SETEX <k> <t> <v>|PSETEX <k> <t> <v>|MGET <k> <k> <k>|\
    MSET <k> <v> <k> <v>|MSETNX <k> <v> <k> <v>|APPEND <k> <v>|STRLEN <k>|GETRANGE <k> <n> <n>|SUBSTR <k> <n> <n>|\
    SETRANGE <k> <n> <v>|INCR <c>|DECR <c>|INCRBY <c> <n>|DECRBY <c> <n>|INCRBYFLOAT <e> <d>|SET <c> <n>|INCR <k>|\
    DEL <k> <k>|UNLINK <k>|EXISTS <k> <k> <k>|TYPE <k>|TTL <k>|PTTL <k>|EXPIRETIME <k>|PEXPIRETIME <k>|\
    EXPIRE <k> <t>|PEXPIRE <k> <t>|EXPIREAT <k> <t>|PEXPIREAT <k> <t>|EXPIRE <k> <t> NX|EXPIRE <k> <t> XX|\
    EXPIREAT <k> <t> GT|PEXPIREAT <k> <t> LT|EXPIREAT <k> <t> XX LT|PERSIST <k>|GETDEL <e>|TOUCH <k> <k>|\
    SCAN 0 COUNT 1000|SCAN 0 MATCH <p> COUNT 1000|SCAN 0 COUNT 1000 TYPE <y>|KEYS <p>|DBSIZE|MEMORY USAGE <k>|\
    PING|PING <v>|ECHO <v>|SELECT 0|HSET <h> <f> <v>|HSET <h> <f> <v> <f> <v>|HMSET <h> <f> <v> <f> <v>|\
    HGET <h> <f>|HMGET <h> <f> <f>|HGETALL <h>|HKEYS <h>|HVALS <h>|HLEN <h>|HEXISTS <h> <f>|HDEL <h> <f> <f>|\
    ZADD <z> <s> <f>|ZADD <z> <s> <f> <s> <f>|ZADD <z> NX <s> <f>|ZADD <z> XX CH <s> <f>|ZADD <z> GT CH <s> <f>|\
    ZADD <z> LT <s> <f>|ZADD <z> INCR <s> <f>|ZADD <z> XX INCR <s> <f>|ZADD <z> GT INCR <s> <f>|\
    ZINCRBY <z> <s> <f>|ZREM <z> <f> <f>|ZCARD <z>|ZRANGE <z> <n> <n>|ZRANGE <z> <n> <n> REV WITHSCORES|\
    ZRANGE <z> <b> <b> BYSCORE|ZRANGE <z> <b> <b> BYSCORE REV LIMIT <n> <n> WITHSCORES|ZRANGE <q> <l> <l> BYLEX|\
    ZRANGE <q> <l> <l> BYLEX REV LIMIT <n> <n>|ZREVRANGE <z> <n> <n>|ZRANGEBYSCORE <z> <b> <b> WITHSCORES|\
    ZRANGEBYSCORE <z> -inf +inf LIMIT <n> <n>|ZREVRANGEBYSCORE <z> <b> <b>|ZRANGEBYLEX <q> <l> <l>|\
    ZREVRANGEBYLEX <q> <l> <l>|ZSCORE <z> <f>|ZMSCORE <z> <f> <f>|ZRANK <z> <f>|ZREVRANK <z> <f>|ZCOUNT <z> <b> <b>|\
    ZLEXCOUNT <q> <l> <l>|ZREMRANGEBYRANK <z> <n> <n>|ZREMRANGEBYSCORE <z> <b> <b>|ZREMRANGEBYLEX <q> <l> <l>|\
    ZPOPMIN <z>|ZPOPMAX <z>|ZPOPMIN <z> <n>|ZPOPMAX <z> <n>|ZRANDMEMBER <z>|ZRANDMEMBER <z> <r>|\
    ZRANDMEMBER <z> <r> WITHSCORES|ZSCAN <z> 0 COUNT 1000|ZSCAN <z> 0 MATCH <p> COUNT 1000|HSETNX <h> <f> <v>|HSTRLEN <h> <f>|\
    HINCRBY <h> <f> <n>|HINCRBYFLOAT <g> <f> <d>|HRANDFIELD <h>|HRANDFIELD <h> <r>|HRANDFIELD <h> <r> WITHVALUES|\
    HSCAN <h> 0 COUNT 1000|HSCAN <h> 0 COUNT 1000 MATCH <p>|SADD <x> <f>|SADD <x> <f> <f> <v>|SREM <x> <f> <f>|SISMEMBER <x> <f>|\
    SMISMEMBER <x> <f> <f>|SMEMBERS <x>|SCARD <x>|SPOP <x> 100|SRANDMEMBER <x>|SRANDMEMBER <x> <r>|SSCAN <x> 0 COUNT 1000|\
    SSCAN <x> 0 COUNT 1000 MATCH <p>|SUNION <x> <x>|SINTER <x> <x> <x>|SDIFF <x> <x>|SINTERCARD 2 <x> <x>|\
    SINTERCARD 2 <x> <x> LIMIT <n>|SUNIONSTORE <x> <x> <x>|SINTERSTORE <x> <x> <x>|SDIFFSTORE <x> <x> <x>|\
    SMOVE <x> <x> <f>|RANDOMKEY|RENAME <k> <k>|RENAMENX <k> <k>|COPY <k> <k>|COPY <k> <x> REPLACE|\
    COPY <h> <k>|COPY <z> <x> REPLACE|RENAME <x> <h>|DISCARD|EXEC|UNWATCH|FLUSHALL|AUTH <v>|AUTH <v> <v>|SELECT <i>|CLIENT GETNAME|\
    CLIENT SETNAME <f>|CLIENT <v>|MEMORY <v>|CONFIG <v>|ZADD <q> 0 <f> 0 <f>|ZREM <q> <f>|<v> <v> <v>|HELLO x|\
    CLIENT NO-EVICT <v>|CLIENT KILL ID <v>|CLIENT KILL <v>|CLIENT LIST TYPE <v>|CLIENT LIST ID <f>|ASKING|\
    READONLY|READWRITE|CLUSTER <v>|CLUSTER INFO|CLUSTER NODES|CLUSTER SLOTS|CLUSTER SHARDS|CLUSTER MYID|\
    CLUSTER KEYSLOT <k>|CLUSTER COUNTKEYSINSLOT <n>|CLUSTER GETKEYSINSLOT <n> <n>";

/// Words that fit nowhere or somewhere else, with bars between them.
const JUNK: &str = "|-1|0|1000000|5000000000000|9223372036854775807|-9223372036854775808|x|NX|XX|GT|LT|EX|PX|EXAT|KEEPTTL|\
    GET|1.5|(1|inf|-inf|nan|[a|-|+|LIMIT|WITHSCORES|BYSCORE|BYLEX|REV|INCR|CH|MATCH|COUNT|TYPE|PERSIST|+1|01| 1|\
    0x10|-0X.8p1|0x1p|3.0e-320|1e400|1e-400|.5|(inf|Infinity|-0|a b|\r\n";

/// An argument longer than most buffers.
const LONG: &str = match std::str::from_utf8(&[b'l'; 60_000]) {
    Ok(text) => text,
    Err(_) => "",
};

/// Returns how the replies to a command are compared with those of Redis: byte by byte, with a few
/// exceptions.
fn comparison(name: &str) -> Comparison {
    match name {
        "TTL" | "EXPIRETIME" => Comparison::Number { tolerance: 2 },
        "PTTL" | "PEXPIRETIME" => Comparison::Number { tolerance: 2000 },
        // Redis counts keys that have expired until it happens to remove them.
        "DBSIZE" => Comparison::Number { tolerance: 8 },
        "MEMORY" => Comparison::Memory,
        "HELLO" => Comparison::Kind,
        "CLIENT" => Comparison::Text,
        "GETEX" => Comparison::ArgumentsFirst,
        "RANDOMKEY" | "SRANDMEMBER" | "HRANDFIELD" | "ZRANDMEMBER" => Comparison::Length,
        "HGETALL" => Comparison::Pairs,
        "HKEYS" | "HVALS" | "KEYS" | "SCAN" | "HSCAN" | "SSCAN" | "ZSCAN" | "SMEMBERS" | "SPOP"
        | "SUNION" | "SINTER" | "SDIFF" => Comparison::Sorted,
        _ => Comparison::Bytes,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Comparison {
    Bytes,
    Number {
        tolerance: i64,
    },
    /// Redis replies with a number, even if the key has expired, and the tested server with
    /// anything but an error.
    Memory,
    Kind,
    /// Elements are not compared, their number is.
    Length,
    /// Texts are not compared, errors are.
    Text,
    Pairs,
    Sorted,
    /// Redis looks at some arguments after it has looked for the key.
    ArgumentsFirst,
}

impl Comparison {
    fn are_same(self, ours: &[u8], theirs: &[u8]) -> bool {
        // Longer ones are not tried on every key.
        let is_bounded = ours == b"-ERR pattern is longer than 1024 bytes\r\n";
        if ours == theirs || is_bounded && theirs.starts_with(b"*") {
            return true;
        }
        let kinds = (ours.first(), theirs.first());
        match self {
            Self::Number { tolerance } if kinds == (Some(&b':'), Some(&b':')) => {
                let (ours, theirs) = (number(ours), number(theirs));
                ours.min(theirs) >= 0 && (ours - theirs).abs() <= tolerance
            }
            Self::ArgumentsFirst => {
                ours.starts_with(b"-ERR")
                    && (theirs.starts_with(b"-WRONGTYPE")
                        || [b"$-1\r\n".as_slice(), b"_\r\n"].contains(&theirs))
            }
            Self::Memory => kinds.1 == Some(&b':') && kinds.0 != Some(&b'-'),
            Self::Kind => kinds.0 == kinds.1,
            Self::Length => {
                let are_arrays = kinds == (Some(&b'*'), Some(&b'*'));
                let is_text = kinds == (Some(&b'$'), Some(&b'$'));
                let are_nulls = [ours, theirs].map(|reply| reply == b"$-1\r\n");
                (is_text && are_nulls[0] == are_nulls[1])
                    || (are_arrays && elements(ours).len() == elements(theirs).len())
            }
            Self::Text => kinds.0 == kinds.1 && kinds.0 != Some(&b'-'),
            Self::Pairs | Self::Sorted => self.sorted(ours) == self.sorted(theirs),
            _ => false,
        }
    }

    /// The elements of an array in order. An array in an array is one element.
    fn sorted(self, reply: &[u8]) -> Vec<Vec<u8>> {
        let (mut elements, width) = match self {
            Self::Pairs => (elements(reply), 2),
            _ => (elements(reply), 1),
        };
        // A cursor and an array of keys.
        if let [_, keys] = elements.as_slice()
            && keys.starts_with(b"*")
        {
            elements = self.sorted(keys);
        }
        let mut groups: Vec<_> = elements.chunks(width).map(<[Vec<u8>]>::concat).collect();
        groups.sort();
        // Errors, and what kind of array it is.
        groups.push(reply.split(|b| *b == b'\r').next().unwrap().to_vec());
        groups
    }
}

fn number(reply: &[u8]) -> i64 {
    let line = reply[1..].split(|b| *b == b'\r').next().unwrap();
    std::str::from_utf8(line).unwrap().parse().unwrap()
}

fn elements(reply: &[u8]) -> Vec<Vec<u8>> {
    if !matches!(reply[0], b'*' | b'%' | b'~') {
        return Vec::new();
    }
    let mut rest = &reply[line_len(reply).unwrap()..];
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let (element, after) = rest.split_at(reply_len(rest).unwrap());
        elements.push(element.to_vec());
        rest = after;
    }
    elements
}

fn line_len(bytes: &[u8]) -> Option<usize> {
    Some(bytes.iter().position(|b| *b == b'\n')? + 1)
}

/// Returns the length in bytes of the first reply in `bytes`; `None` if it is incomplete.
fn reply_len(bytes: &[u8]) -> Option<usize> {
    let mut len = line_len(bytes)?;
    match bytes[0] {
        b'$' | b'=' if number(bytes) >= 0 => len += number(bytes) as usize + 2,
        kind @ (b'*' | b'%' | b'~') if number(bytes) > 0 => {
            let width = if kind == b'%' { 2 } else { 1 };
            for _ in 0..number(bytes) * width {
                len += reply_len(bytes.get(len..)?)?;
            }
        }
        _ => {}
    }
    (len <= bytes.len()).then_some(len)
}

/// Chooses commands.
struct Commands {
    random: Random,
}

impl Commands {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.random.below(from.len() as u64) as usize]
    }

    fn junk(&mut self) -> &'static str {
        let words: Vec<_> = JUNK.split('|').chain([LONG]).collect();
        self.pick(&words)
    }

    fn word(&mut self, kind: &str) -> &'static str {
        match kind {
            "<k>" => self.pick(&["a", "b", "c", "n", "h", "z", "", "key:7"]),
            "<c>" => self.pick(&["n", "m"]),
            "<e>" => "f",
            "<h>" => self.pick(&["h", "h", "h2", "a"]),
            "<x>" => self.pick(&["x", "x", "x2", "x3", "a", "z"]),
            "<g>" => self.pick(&["g", "h3"]),
            "<r>" => self.pick(&["0", "1", "3", "100", "-1", "-5", "x"]),
            "<z>" => self.pick(&["z", "z", "z2", "a"]),
            "<q>" => self.pick(&["q", "q2"]),
            "<f>" => self.pick(&["a", "b", "c", "d", "e", ""]),
            "<v>" => self.pick(&["", "1", "v", "-7", "2.5", "some text", "\r\n", LONG]),
            "<t>" => self.pick(&["100", "1000000", "3000000", "5000000000000", "0", "-1", "x"]),
            "<n>" => self.pick(&["0", "1", "2", "-1", "-2", "100", "-100", "x"]),
            "<i>" => self.pick(&["0", "-1", "100", "x", "5000000000000"]),
            "<d>" => self
                .pick(&["0.5", "-1.25", "3", "1e2", "x", "0x10", "-0x.8", "3.0e-320", "inf", " 1"]),
            "<s>" => self.pick(&[
                "0", "1", "-1.5", "0.1", "1e20", "inf", "-inf", "x", "0x10", "3.0e-320", "1e400",
                "(inf",
            ]),
            "<b>" => self.pick(&[
                "0", "1", "(1", "(-1.5", "-inf", "+inf", "(inf", "x", "(0x10", "3.0e-320",
                "-1e400", "(", " 1",
            ]),
            "<l>" => self.pick(&["-", "+", "[a", "(a", "[c", "(d", "[", "x"]),
            "<p>" => self.pick(&["*", "?", "[a-c]", "[^a]", "key:*", "\\a", "k*7", "[abc", ""]),
            "<y>" => self.pick(&["string", "hash", "zset", "set", "HASH", "list"]),
            _ => unreachable!("{kind}"),
        }
    }

    fn next(&mut self) -> Vec<&'static str> {
        let template = self.pick(&COMMANDS.split('|').collect::<Vec<_>>());
        // Redis orders members by bytes only where all scores are equal, takes any cursor, knows
        // options of ZADD in ZINCRBY, and rounds long sums differently.
        let is_sound = template.contains("<q>")
            || template.contains("SCAN ")
            || template.starts_with("ZINCRBY")
            || template.starts_with("INCRBYFLOAT")
            || template.starts_with("HINCRBYFLOAT")
            // As many elements as a word of no sense wants would be sent.
            || template.contains("<r>")
            // Which members are taken is random.
            || template.starts_with("SPOP");
        let has_junk = !is_sound && self.random.chance(0.15);
        let mut words = Vec::new();
        for word in template.split(' ') {
            let word =
                if word.starts_with('<') && word.ends_with('>') { self.word(word) } else { word };
            let is_time = template.contains("<t>");
            if has_junk && !words.is_empty() && self.random.chance(0.3) {
                // A short time would end while both servers are compared.
                words.push(self.junk());
            } else if has_junk && !words.is_empty() && !is_time && self.random.chance(0.1) {
                continue;
            } else {
                words.push(word);
            }
        }
        if has_junk && self.random.chance(0.3) {
            words.push(self.junk());
        }
        // Which of two times from now on is later depends on the clock.
        if ["EXPIRE", "PEXPIRE"].contains(&words[0]) {
            words.retain(|word| !["GT", "LT"].contains(word));
        }
        // Names of clients are bounded.
        if words.starts_with(&["CLIENT", "SETNAME"]) {
            words.retain(|word| *word != LONG);
        }
        // Milliseconds that pass soon.
        let lasts = ["PX", "PEXPIRE", "PSETEX"];
        if words.iter().any(|word| lasts.contains(word)) {
            words.iter_mut().filter(|word| **word == "100").for_each(|word| *word = "1000000");
        }
        words
    }

    fn plain(&mut self) -> Vec<&'static str> {
        loop {
            let words = self.next();
            if comparison(words[0]) == Comparison::Bytes {
                return words;
            }
        }
    }

    /// Commands that are sent at once: some by themselves, or a transaction.
    fn pipeline(&mut self) -> Vec<Vec<&'static str>> {
        let mut commands = Vec::new();
        if self.random.chance(0.3) {
            if self.random.chance(0.4) {
                commands.push(vec!["WATCH", self.word("<k>"), self.word("<k>")]);
                // Of commands that change nothing, some count as a change here and not in Redis.
                let key = self.word("<k>");
                let between =
                    [vec!["GET", key], vec!["DEL", key], vec!["INCR", key], vec!["FLUSHALL"]];
                let chosen = self.random.below(2 * between.len() as u64) as usize;
                commands.extend(between.into_iter().nth(chosen));
            }
            commands.push(vec!["MULTI"]);
            commands.extend((0..self.random.below(6)).map(|_| self.plain()).collect::<Vec<_>>());
            commands.push(vec![self.pick(&["EXEC", "EXEC", "EXEC", "DISCARD"])]);
        } else {
            commands
                .extend((0..1 + self.random.below(30)).map(|_| self.next()).collect::<Vec<_>>());
        }
        commands
    }
}

/// A server by its connection.
struct Remote {
    stream: TcpStream,
    received: Vec<u8>,
}

/// Server that is compared with Redis: an engine in this process, or a server reached over TCP.
enum Ours {
    Here(Box<Bench>, Client, Vec<u8>),
    There(Remote),
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis() as u64
}

impl Ours {
    fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Here(bench, client, replies) => {
                bench.server.now_ms = now_ms();
                replies.extend(bench.send(client, bytes));
            }
            Self::There(remote) => remote.stream.write_all(bytes).unwrap(),
        }
    }

    fn reply(&mut self) -> Vec<u8> {
        match self {
            Self::Here(_, _, replies) => {
                let len = reply_len(replies).unwrap_or(replies.len());
                replies.drain(..len).collect()
            }
            Self::There(remote) => remote.reply(),
        }
    }

    fn has_more(&self) -> bool {
        match self {
            Self::Here(_, _, replies) => !replies.is_empty(),
            Self::There(remote) => !remote.received.is_empty(),
        }
    }
}

impl Remote {
    fn connect(address: impl ToSocketAddrs) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    fn reply(&mut self) -> Vec<u8> {
        self.next_reply().expect("a reply of the server")
    }

    /// Returns the next reply; `None` if the server does not reply or has closed the connection.
    fn next_reply(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(len) = reply_len(&self.received) {
                return Some(self.received.drain(..len).collect());
            }
            let mut bytes = [0; 65536];
            let len = self.stream.read(&mut bytes).ok().filter(|len| *len > 0)?;
            self.received.extend_from_slice(&bytes[..len]);
        }
    }
}

/// Shortens a long argument for people, to the number of its letters.
fn shortened(mut text: String) -> String {
    while let Some(begin) = text.find(&LONG[..100]) {
        let len = text[begin..].bytes().take_while(|byte| *byte == b'l').count();
        text.replace_range(begin..begin + len, &format!("({len} letters)"));
    }
    text
}

fn compare(peer: &Peer, mut ours: Ours, (seed, version): (u64, &str)) {
    let mut redis = Remote::connect(peer.address);
    let mut commands = Commands { random: Random::new(seed) };
    let hello = command(&["HELLO", version]);
    redis.stream.write_all(&hello).unwrap();
    redis.reply();
    ours.send(&hello);
    ours.reply();
    let (mut done, count) = (0, count());
    let mut differences = Vec::new();
    let mut previous = Vec::new();
    while done < count {
        let pipeline = commands.pipeline();
        let bytes: Vec<u8> = pipeline.iter().flat_map(|words| command(words)).collect();
        redis.stream.write_all(&bytes).unwrap();
        ours.send(&bytes);
        for words in &pipeline {
            let theirs = redis.reply();
            let reply = ours.reply();
            if !comparison(words[0]).are_same(&reply, &theirs) {
                differences.push(format!(
                    "{} (seed {seed}, command {done})\n  ours:   {}\n  theirs: {}\n",
                    shortened(format!("{words:?}")),
                    shortened(reply.escape_ascii().to_string()),
                    shortened(theirs.escape_ascii().to_string()),
                ));
            }
            done += 1;
        }
        assert!(!ours.has_more());
        assert!(
            differences.is_empty(),
            "{}in {}\nafter {}",
            differences.concat(),
            shortened(format!("{pipeline:?}")),
            shortened(format!("{previous:?}"))
        );
        previous = pipeline;
    }
}

fn oracle() -> Box<dyn ProcessingEngine> {
    Box::<Oracle>::default()
}

fn own_store() -> Box<dyn ProcessingEngine> {
    Box::new(store(Semantics::Store, 64 << 20))
}

fn count() -> u64 {
    let count = std::env::var("OVERSIDE_KV_COMMANDS").ok();
    count.map_or(20_000, |count| count.parse().expect("OVERSIDE_KV_COMMANDS is a number"))
}

#[test]
fn random_commands_are_answered_as_by_redis() {
    for engine in [oracle, own_store] {
        for random in [(1, "2"), (2, "3")] {
            // Its own server, of whose state nothing is left.
            let Some(peer) = peers::redis() else {
                return;
            };
            let ours = match std::env::var("OVERSIDE_KV_SERVER") {
                Err(_) => Ours::Here(Box::new(Bench::with(engine())), Client::new(1), Vec::new()),
                Ok(address) => {
                    let mut remote = Remote::connect(address);
                    remote.stream.write_all(b"FLUSHALL\r\n").unwrap();
                    assert_eq!(remote.reply(), b"+OK\r\n");
                    Ours::There(remote)
                }
            };
            compare(&peer, ours, random);
        }
    }
}
