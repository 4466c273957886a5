//! The client and the server over a network that loses, copies and delays, in virtual time.

use std::collections::{BTreeMap, HashMap};

use overside_base::Random;
use overside_kv::client::datagram::{Exchange, ExchangeOptions};
use overside_kv::protocol::datagram::{AnswerDatagrams, DatagramEngine, Reply};
use overside_kv::{Answer, KeyHasher, Operation, Request};

use super::{get, request, set};
use crate::oracle::Oracle;
use crate::resp_client::TestServer;

/// Datagrams under way, by the time at which they arrive: to the server or to the client.
struct Network {
    random: Random,
    loss: f64,
    /// Share of those that take far longer than a client waits.
    late: f64,
    underway: BTreeMap<(u64, u64), (bool, Vec<u8>)>,
    count: u64,
}

impl Network {
    fn put(&mut self, now_ns: u64, to_server: bool, datagram: &[u8]) {
        while !self.random.chance(self.loss) {
            let reach = if self.random.chance(self.late) { 400_000_000 } else { 2_000_000 };
            let at_ns = now_ns + 100_000 + self.random.below(reach);
            self.count += 1;
            (self.underway).insert((at_ns, self.count), (to_server, datagram.to_vec()));
            if !self.random.chance(0.2) {
                break;
            }
        }
    }
}

struct Simulation {
    now_ns: u64,
    network: Network,
    exchange: Exchange,
    engine: DatagramEngine,
    server: TestServer,
    hasher: KeyHasher,
}

impl Simulation {
    fn new(seed: u64, loss: f64) -> Self {
        let options = ExchangeOptions { requests: 8, tries: 30, ..ExchangeOptions::default() };
        Self {
            now_ns: 0,
            network: Network {
                random: Random::new(seed),
                loss,
                late: 0.05,
                underway: BTreeMap::new(),
                count: 0,
            },
            exchange: Exchange::new(options),
            engine: DatagramEngine::default(),
            server: TestServer::new(Box::<Oracle>::default()),
            hasher: KeyHasher::with_seeds([1, 2, 3, 4]),
        }
    }

    /// Sends requests, and waits until all are answered or given up. Returns the replies as text.
    fn execute(&mut self, requests: &[Request<'_>]) -> Vec<Option<String>> {
        let mut texts: HashMap<u64, Option<String>> = HashMap::new();
        let mut done = |token, reply: Option<Reply<'_>>| {
            let text = reply.map(|reply| format!("{reply:?}"));
            assert!(texts.insert(token, text).is_none(), "once for each");
        };
        for (token, request) in (0..).zip(requests) {
            self.exchange.ask(request, token).unwrap();
        }
        self.exchange.flush();
        while !self.exchange.is_idle() {
            let (bytes, ends) = self.exchange.transmit(self.now_ns);
            let mut begin = 0;
            for (_, end) in ends {
                self.network.put(self.now_ns, true, &bytes[begin..*end]);
                begin = *end;
            }
            let arrival = self.network.underway.first_key_value().map(|(key, _)| key.0);
            let deadline = self.exchange.deadline_ns();
            self.now_ns = arrival.into_iter().chain(deadline).min().unwrap().max(self.now_ns);
            while let Some(entry) = self.network.underway.first_entry()
                && entry.key().0 <= self.now_ns
            {
                match entry.remove() {
                    (true, datagram) => self.serve(&datagram),
                    (false, datagram) => {
                        let now_ns = self.now_ns;
                        self.exchange.receive(&datagram, now_ns, &mut done).unwrap();
                    }
                }
            }
            self.exchange.time_out(self.now_ns, &mut done);
        }
        (0..requests.len() as u64).map(|token| texts.remove(&token).unwrap()).collect()
    }

    fn serve(&mut self, datagram: &[u8]) {
        let mut answers = AnswerDatagrams::default();
        self.server.now_ms = 1_700_000_000_000 + self.now_ns / 1_000_000;
        (self.engine).process(&[datagram], &mut answers, &self.hasher, &mut self.server);
        for (_, answer) in answers.iter() {
            self.network.put(self.now_ns, false, answer);
        }
    }
}

#[test]
fn nothing_answered_is_lost_or_undone_by_a_late_copy() {
    for seed in 0..20 {
        let mut simulation = Simulation::new(seed, 0.2);
        for round in 0..30_u64 {
            let keys: Vec<String> = (0..40).map(|key| format!("key:{key}")).collect();
            let value = round.to_string();
            let sets = keys.iter().map(|key| set(key.as_bytes(), value.as_bytes()));
            let stored = simulation.execute(&sets.collect::<Vec<_>>());
            assert!(stored.iter().all(|text| {
                let text = text.as_deref().unwrap();
                text.contains("Stored") || text == "Repeated"
            }));
            let gets: Vec<_> = keys.iter().map(|key| get(key.as_bytes())).collect();
            let expected = format!("data: {:?}", value.as_bytes());
            for text in simulation.execute(&gets) {
                let text = text.unwrap();
                assert!(text.contains(&expected), "seed {seed} round {round}: {text}");
            }
        }
        assert!(simulation.exchange.figures().again > 0);
    }
}

#[test]
fn what_must_not_be_done_twice_is_not_sent_twice() {
    let mut simulation = Simulation::new(5, 0.3);
    let add = request(b"n", Operation::Increment { delta: 1 });
    let adds = vec![add; 500];
    let replies = simulation.execute(&adds);
    let answered = replies.iter().flatten().filter(|text| text.contains("Number"));
    let answered = answered.count();
    assert!(answered > 100 && replies.iter().any(Option::is_none));
    assert_eq!(simulation.exchange.figures().again, 0);
    // Copies that were under way for long.
    simulation.now_ns += 1_000_000_000;
    let found = simulation.execute(&[get(b"n")]);
    let text = found[0].as_deref().unwrap();
    let digits = text.split(['[', ']']).nth(1).unwrap().split(", ");
    let digits = digits.map(|byte| byte.parse::<u8>().unwrap() - b'0');
    let count = digits.fold(0, |sum, digit| 10 * sum + usize::from(digit));
    assert!((answered..=500).contains(&count), "{answered} of {count}");
}

#[test]
fn the_rate_follows_loss() {
    let sizes = [0.0, 0.01, 0.3].map(|loss| {
        let mut simulation = Simulation::new(9, loss);
        simulation.network.late = 0.0;
        let gets = vec![get(b"a"); 8000];
        let replies = simulation.execute(&gets);
        let expected = format!("{:?}", Reply::Answer(Answer::Missing));
        assert!(replies.iter().all(|text| text.as_ref() == Some(&expected)));
        simulation.exchange.window().size()
    });
    assert!(sizes[0] > 2 * sizes[1] && sizes[1] > 2 * sizes[2], "{sizes:?}");
}

#[test]
fn answers_of_others_are_ignored() {
    let mut simulation = Simulation::new(1, 0.0);
    let exchange = &mut simulation.exchange;
    exchange.ask(&get(b"a"), 1).unwrap();
    exchange.flush();
    let (bytes, _) = exchange.transmit(0);
    let mut forged = bytes.to_vec();
    let mut done = |_, _: Option<Reply<'_>>| panic!("it was not answered");
    for (at, byte) in [(0, 0), (3, 0), (8, forged[8] ^ 1), (16, 9)] {
        forged[3] = 1;
        let old = std::mem::replace(&mut forged[at], byte);
        exchange.receive(&forged, 1, &mut done).unwrap();
        forged[at] = old;
    }
    forged.truncate(20);
    exchange.receive(&forged, 1, &mut done).unwrap();
    assert!(!exchange.is_idle());
}
