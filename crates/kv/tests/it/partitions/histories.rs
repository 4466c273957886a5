//! What concurrent clients of a server see is linearizable, key by key.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use overside_base::Random;
use overside_kv::server::{Backing, Memory, Settings};
use overside_kv::store::{Semantics, StoreOptions};
use overside_kv::{Answer, KeyHasher, Operation, ProcessingEngine, Request, Store, forward_to};

use crate::linearizability::{Event, Record, check};
use crate::server::running::{PATIENCE, Running, settings};

const CLIENTS: u64 = 5;
const TURNS: usize = 300;
const KEYS: u64 = 4;
/// Most commands of a pipeline.
const PIPELINE: u64 = 3;

/// A client that notes what it does.
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
            2 => (
                format!("SET k{key} {value} NX"),
                Event::SetIfAbsent { value, done },
            ),
            3 => {
                let found = None;
                (
                    format!("SET k{key} {value} GET"),
                    Event::Swap { value, found },
                )
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
        self.records.push(Record {
            key: key as usize,
            called,
            returned,
            event,
        });
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

/// What clients of the server did and saw.
fn history(server: &Running, seed: u64) -> Vec<Record> {
    let clock = AtomicU64::new(0);
    thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|number| {
            let stream = TcpStream::connect(server.address()).unwrap();
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
        clients
            .into_iter()
            .flat_map(|c| c.join().unwrap())
            .collect()
    })
}

fn server(workers: usize, is_broken: bool) -> Running {
    let settings = Settings {
        workers,
        ..settings()
    };
    Running::start_with(settings, move |hasher, now_ms| {
        let store = Store::new(StoreOptions {
            memory_bytes: 4 << 20,
            semantics: Semantics::Store,
            hasher: hasher.clone(),
            huge_pages: false,
        });
        let engine = Stale {
            store: store.unwrap(),
            hasher: hasher.clone(),
            is_broken,
            reads: 0,
            remembered: None,
        };
        Box::new(Memory::new(engine, now_ms)) as Box<dyn Backing + Send>
    })
}

#[test]
fn every_key_is_one_register_whoever_serves() {
    for workers in [1, 2, 3] {
        for seed in 0..4 {
            let server = server(workers, false);
            let records = history(&server, seed);
            let wrong = check(&records).err();
            assert!(
                wrong.is_none(),
                "{workers} workers, seed {seed}: {wrong:#?}"
            );
        }
    }
}

#[test]
fn a_store_that_answers_with_what_was_before_is_found_out() {
    for workers in [1, 2] {
        let server = server(workers, true);
        assert!(check(&history(&server, 9)).is_err(), "{workers} workers");
    }
}

/// A store that, if it is broken, answers a read with what the key held before, now and then.
struct Stale {
    store: Store,
    hasher: KeyHasher,
    is_broken: bool,
    reads: u64,
    remembered: Option<(Vec<u8>, Vec<u8>)>,
}

impl ProcessingEngine for Stale {
    forward_to!(store: execute_transaction, scan, expire_some, flush, statistics);

    fn execute(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        if !self.is_broken {
            return self.store.execute(batch, now_ms, answers);
        }
        for (index, request) in batch.iter().enumerate() {
            assert_eq!(request.hash, self.hasher.hash(request.key));
            let (reads, remembered) = (&mut self.reads, &mut self.remembered);
            let one = std::slice::from_ref(request);
            self.store.execute(one, now_ms, &mut |_, answer| {
                let Answer::Value(mut value) = answer else {
                    return answers(index, answer);
                };
                if request.operation != Operation::Get {
                    return answers(index, answer);
                }
                *reads += 1;
                let before = remembered.take_if(|(key, _)| *reads > 100 && **key == *request.key);
                if let Some((_, before)) = &before {
                    value.data = before;
                    return answers(index, Answer::Value(value));
                }
                if reads.is_multiple_of(20) {
                    *remembered = Some((request.key.to_vec(), value.data.to_vec()));
                }
                answers(index, answer);
            });
        }
    }
}
