//! Clients of a key-value store that record operations and replies, by Redis's protocol.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use overside_base::Random;

use super::{Event, Record};

const CLIENTS: u64 = 5;
const TURNS: usize = 300;
const KEYS: u64 = 4;
/// Maximum number of commands of a pipeline.
const PIPELINE: u64 = 3;
/// Timeout that no answer reaches, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client that records its operations.
struct Client<'c> {
    stream: BufReader<TcpStream>,
    random: Random,
    clock: &'c AtomicU64,
    next_value: u64,
    records: Vec<Record>,
}

impl Client<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn say(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// A reply that is a number as a string, or null.
    fn value(&mut self) -> Option<u64> {
        match self.line().as_str() {
            "$-1" | "_" => None,
            head if head.starts_with('$') => Some(self.line().parse().unwrap()),
            other => panic!("{other}"),
        }
    }

    fn value_of_its_own(&mut self) -> u64 {
        self.next_value += CLIENTS;
        self.next_value
    }

    /// A command with its event, whose reply is to come.
    fn command(&mut self, key: u64) -> (String, Event) {
        let value = self.value_of_its_own();
        let done = false;
        match self.random.below(8) {
            0 | 1 => (format!("SET k{key} {value}"), Event::Set { value }),
            2 => (format!("SET k{key} {value} NX"), Event::SetIfAbsent { value, done }),
            3 => {
                let found = None;
                (format!("SET k{key} {value} GET"), Event::Swap { value, found })
            }
            4 => (format!("DEL k{key}"), Event::Delete { done }),
            _ => (format!("GET k{key}"), Event::Get { found: None }),
        }
    }

    fn hear(&mut self, event: Event) -> Event {
        match event {
            Event::Set { .. } => {
                assert_eq!(self.line(), "+OK");
                event
            }
            Event::SetIfAbsent { value, .. } => {
                let done = self.line() == "+OK";
                Event::SetIfAbsent { value, done }
            }
            Event::Swap { value, .. } => {
                let found = self.value();
                Event::Swap { value, found }
            }
            Event::Delete { .. } => {
                let done = self.line() == ":1";
                Event::Delete { done }
            }
            _ => {
                let found = self.value();
                Event::Get { found }
            }
        }
    }

    fn pipeline(&mut self) {
        let count = 1 + self.random.below(PIPELINE);
        let mut commands = Vec::new();
        let mut text = String::new();
        for _ in 0..count {
            let key = self.random.below(KEYS);
            let (command, event) = self.command(key);
            text += &format!("{command}\r\n");
            commands.push((key, event, self.now()));
        }
        self.say(&text);
        for (key, event, called) in commands {
            let event = self.hear(event);
            self.record(key, called, event);
        }
    }

    fn record(&mut self, key: u64, called: u64, event: Event) {
        let returned = self.now();
        self.records.push(Record { key: key as usize, called, returned, event });
    }

    /// Compares and sets, as clients of Redis do.
    fn transaction(&mut self) {
        let key = self.random.below(KEYS);
        let called = self.now();
        self.say(&format!("WATCH k{key}\r\nGET k{key}\r\n"));
        assert_eq!(self.line(), "+OK");
        let expected = self.value();
        let value = self.value_of_its_own();
        self.say(&format!("MULTI\r\nSET k{key} {value}\r\nEXEC\r\n"));
        assert_eq!((self.line(), self.line()), ("+OK".into(), "+QUEUED".into()));
        match self.line().as_str() {
            "*1" => {
                assert_eq!(self.line(), "+OK");
                self.record(key, called, Event::CompareAndSet { expected, value });
            }
            // It has changed meanwhile.
            "*-1" => {}
            other => panic!("{other}"),
        }
    }
}

/// Runs clients against a key-value store and returns their operations and the replies. The clients
/// connect to the endpoints in turn. `seed` determines their gets, conditional sets, deletes,
/// pipelines and transactions.
///
/// # Panics
/// If the store does not answer, or answers with an invalid reply.
#[must_use]
pub fn history(endpoints: &[String], seed: u64) -> Vec<Record> {
    let clock = AtomicU64::new(0);
    thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|number| {
            let endpoint = &endpoints[number as usize % endpoints.len()];
            let stream = TcpStream::connect(endpoint).unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut client = Client {
                stream: BufReader::new(stream),
                random: Random::new(seed * CLIENTS + number),
                clock: &clock,
                next_value: number,
                records: Vec::new(),
            };
            scope.spawn(move || {
                for _ in 0..TURNS {
                    match client.random.below(5) {
                        0 => client.transaction(),
                        _ => client.pipeline(),
                    }
                }
                client.records
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}
