//! Cases of Redis' own test suite, and some like them, are answered as Redis answers them, byte for byte.
//!
//! `cases.txt` has them, with an empty line between two: a title, and below it the commands, one a line. Each case
//! begins without keys. Words in quotes have the escapes of redis-cli, `<9*ab>` is `ab` nine times, and a line may begin
//! with
//!
//! | | |
//! |---|---|
//! | `2>` | the second client sends the command |
//! | `9x` | the command is sent nine times, with 0 to 8 in place of `<i>` |
//! | `raw` | the words are sent as they are, without a gap |
//! | `password` | clients that come later need the word as their password |

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;

use overside_kv::protocol::Session;

use super::{Comparison, Remote, comparison, now_ms, oracle, own_store, reply_len};
use crate::peers;
use crate::resp_client::{Bench, Client, command};

const CASES: &str = include_str!("cases.txt");

/// Returns the number at the front of a line, and the line behind it.
fn number<'a>(line: &'a str, end: &str) -> Option<(u64, &'a str)> {
    let (number, rest) = line.split_once(end)?;
    Some((number.parse().ok()?, rest))
}

/// Writes out the repetitions of a line.
fn expanded(line: &str, index: u64) -> String {
    let line = line.replace("<i>", &index.to_string());
    let parts = line.split('<').enumerate().map(|(at, part)| {
        let (repeated, rest) = part.split_at(if at > 0 { part.find('>').unwrap() } else { 0 });
        let (count, repeated) = number(repeated, "*").unwrap_or_default();
        repeated.repeat(count as usize) + rest.trim_start_matches('>')
    });
    parts.collect()
}

fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = vec![None::<Vec<u8>>];
    let mut is_quoted = false;
    let mut letters = line.bytes();
    while let Some(letter) = letters.next() {
        if letter == b' ' && !is_quoted {
            words.push(None);
            continue;
        }
        let word = words.last_mut().unwrap().get_or_insert_default();
        word.push(match letter {
            b'"' => {
                is_quoted = !is_quoted;
                continue;
            }
            b'\\' if is_quoted => match letters.next().unwrap() {
                b'n' => b'\n',
                b'r' => b'\r',
                b'x' => {
                    let digits = letters.by_ref().take(2).map(char::from);
                    u8::from_str_radix(&digits.collect::<String>(), 16).unwrap()
                }
                other => other,
            },
            other => other,
        });
    }
    words.into_iter().flatten().collect()
}

fn comparison_of(words: &[Vec<u8>]) -> Comparison {
    let upper = |word: &Vec<u8>| String::from_utf8_lossy(word).to_uppercase();
    let name = upper(&words[0]);
    match (&*name, &*words.get(1).map(upper).unwrap_or_default()) {
        ("HELLO", _) => Comparison::Text,
        // Keys of these cases do not expire by themselves.
        ("DBSIZE", _) | ("CLIENT", "GETNAME" | "SETNAME") => Comparison::Bytes,
        _ => comparison(&name),
    }
}

/// Client of both servers.
struct Pair {
    ours: Client,
    theirs: Remote,
    /// Replies of this server that are still to be compared, each with its line.
    replies: Vec<(String, Comparison, Vec<u8>)>,
}

impl Pair {
    /// Sends a line of a case to both servers.
    fn send(&mut self, bench: &mut Bench, line: &str) {
        let (count, line) = number(line, "x ").unwrap_or((1, line));
        let commands: Vec<_> = (0..count).map(|i| words(&expanded(line, i))).collect();
        let is_raw = commands[0][0] == b"raw";
        let bytes = match is_raw {
            true => commands[0][1..].concat(),
            false => commands.iter().flat_map(|words| command(words)).collect(),
        };
        // A server that has closed the connection does not reply, which is a difference.
        let _ = self.theirs.stream.write_all(&bytes);
        bench.server.now_ms = now_ms();
        let mut replies = bench.send(&mut self.ours, &bytes);
        let mut comparisons = commands.iter().map(|words| comparison_of(words));
        while let Some(comparison) = match is_raw {
            // The number of replies to bytes is that of this server.
            true => (!replies.is_empty()).then_some(Comparison::Bytes),
            false => comparisons.next(),
        } {
            let len = reply_len(&replies).unwrap_or(replies.len());
            let reply = replies.drain(..len).collect();
            self.replies.push((line.to_owned(), comparison, reply));
        }
    }

    /// Compares the replies with those of Redis.
    fn compare(&mut self) -> Result<(), String> {
        for (line, comparison, ours) in self.replies.drain(..) {
            let theirs = self.theirs.next_reply().unwrap_or_default();
            if theirs.is_empty() || !comparison.are_same(&ours, &theirs) {
                let [ours, theirs] = [ours, theirs].map(|reply| reply.escape_ascii().to_string());
                return Err(format!("{line}\n  ours:   {ours:.400}\n  theirs: {theirs:.400}"));
            }
        }
        Ok(())
    }

    /// Compares the last replies, and which of the servers has closed its connection.
    fn end(&mut self, bench: &mut Bench) -> Result<(), String> {
        if !self.ours.session.is_closing() {
            self.send(bench, "PING");
            return self.compare();
        }
        self.compare()?;
        match self.theirs.stream.read(&mut [0]) {
            Ok(0) => Ok(()),
            _ => Err("Redis does not close the connection".into()),
        }
    }
}

/// Both servers.
struct Servers {
    redis: SocketAddr,
    control: Remote,
    bench: Bench,
    version: &'static str,
}

impl Servers {
    fn connect(&mut self, id: u64) -> Pair {
        let mut ours = Client::new(id);
        ours.session = Session::new(id, self.bench.server.password.is_none());
        let mut pair = Pair { ours, theirs: Remote::connect(self.redis), replies: Vec::new() };
        pair.send(&mut self.bench, &format!("HELLO {}", self.version));
        pair
    }

    fn require(&mut self, password: &str) {
        let set = command(&["CONFIG", "SET", "requirepass", password]);
        self.control.stream.write_all(&set).unwrap();
        assert_eq!(self.control.reply(), b"+OK\r\n");
        let kept = (!password.is_empty()).then(|| &*password.to_owned().leak());
        self.bench.server.password = kept;
    }

    fn run(&mut self, lines: &[&str]) -> Result<(), String> {
        if self.bench.server.password.is_some() {
            self.require("");
        }
        let mut clients = BTreeMap::from([(1, self.connect(1))]);
        let mut last = 1;
        for line in ["FLUSHALL"].iter().chain(lines) {
            let (id, line) = number(line, "> ").unwrap_or((1, line));
            let password = line.strip_prefix("password ");
            if (id != last || password.is_some())
                && let Some(client) = clients.get_mut(&last)
            {
                client.compare()?;
            }
            last = id;
            if let Some(password) = password {
                self.require(str::from_utf8(&words(password)[0]).unwrap());
                clients.clear();
                continue;
            }
            let client = clients.entry(id).or_insert_with(|| self.connect(id));
            client.send(&mut self.bench, line);
        }
        let mut clients = clients.into_values();
        clients.try_for_each(|mut client| client.end(&mut self.bench))
    }
}

#[test]
fn cases_of_redis_are_answered_as_by_redis() {
    let Some(peer) = peers::redis() else {
        return;
    };
    let mut differences = Vec::new();
    let engines = [("oracle", oracle as fn() -> _), ("store", own_store)];
    for (name, engine) in engines {
        for version in ["2", "3"] {
            let mut servers = Servers {
                redis: peer.address,
                control: Remote::connect(peer.address),
                bench: Bench::with(engine()),
                version,
            };
            for case in CASES.split("\n\n") {
                let mut lines = case.lines().filter(|line| !line.starts_with('#'));
                let title = lines.next().expect("a case has a title");
                if let Err(difference) = servers.run(&lines.collect::<Vec<_>>()) {
                    differences.push(format!("{title} ({name}, RESP{version}): {difference}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}
