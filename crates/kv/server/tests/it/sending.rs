//! Tests of when replies leave, with a server without sockets. A seed decides its clients and their
//! requests.

use std::cell::Cell;
use std::rc::Rc;

use overside_base::Random;
use overside_kv::engine::BATCH_REQUESTS;
use overside_kv::protocol::Ready;
use overside_kv::{Answers, ProcessingEngine, Request, forward_to};

use crate::oracle::Oracle;
use crate::resp_client::{Bench, Client, command};

const CLIENTS: usize = 12;

/// Engine that requests batches of `wants` requests, and counts batches.
struct Counting {
    engine: Oracle,
    wants: usize,
    batches: Rc<Cell<usize>>,
    longest: Rc<Cell<usize>>,
}

impl ProcessingEngine for Counting {
    forward_to!(engine: execute_transaction, scan, expire_some, flush, statistics);

    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        self.batches.set(self.batches.get() + 1);
        self.longest.set(self.longest.get().max(batch.len()));
        self.engine.execute(batch, now_ms, answers);
    }

    fn batch_requests(&self) -> usize {
        self.wants
    }
}

/// Number of kinds of commands that only become requests. `ALL` also counts one that is executed by
/// itself.
const REQUESTS: u64 = 3;
const ALL: u64 = 4;

/// Simulates clients with random commands. Returns the replies of each client, the most batches
/// that were parsed before replies left, and the most requests of a batch.
fn simulate(
    seed: u64,
    kinds: u64,
    sends_early: bool,
    wants: usize,
) -> (Vec<Vec<u8>>, usize, usize) {
    let (batches, longest) = <(Rc<Cell<usize>>, Rc<Cell<usize>>)>::default();
    let mut bench = Bench::with(Box::new(Counting {
        engine: Oracle::default(),
        wants,
        batches: Rc::clone(&batches),
        longest: Rc::clone(&longest),
    }));
    bench.server.sends_early = sends_early;
    let mut random = Random::new(seed);
    let mut clients: Vec<_> = (0..CLIENTS as u64).map(Client::new).collect();
    let mut heard = vec![Vec::new(); CLIENTS];
    let mut most = 0;
    for turn in 0..40 {
        for (number, client) in clients.iter_mut().enumerate() {
            // Each has keys of its own: so the order among clients does not show.
            let count = if turn < 30 { random.below(150) } else { 0 };
            for _ in 0..count {
                let key = format!("{number}:{}", random.below(9));
                let bytes = match random.below(kinds) {
                    0 => command(&["SET", &key, &random.below(99).to_string()]),
                    1 => command(&["INCR", &key]),
                    2 => command(&["GET", &key]),
                    _ => command(&["PING"]),
                };
                client.input.extend_from_slice(&bytes);
            }
        }
        loop {
            batches.set(0);
            let mut outputs = vec![Vec::new(); CLIENTS];
            let all = clients.iter_mut().zip(&mut outputs);
            let all =
                all.map(|(client, output)| Ready::new(&mut client.session, &client.input, output));
            let mut ready: Vec<_> = all.collect();
            (bench.communication).process(&mut ready, &bench.hasher, &mut bench.server);
            let consumed: Vec<_> = ready.iter().map(|one| (one.consumed, one.has_more)).collect();
            most = most.max(batches.get());
            // They leave now.
            for (heard, output) in heard.iter_mut().zip(&outputs) {
                heard.extend_from_slice(output);
            }
            for (client, (consumed, _)) in clients.iter_mut().zip(&consumed) {
                client.input.drain(..consumed);
            }
            if !consumed.iter().any(|(_, has_more)| *has_more) {
                break;
            }
        }
        assert!(clients.iter().all(|client| client.input.is_empty()), "seed {seed}");
    }
    (heard, most, longest.get())
}

#[test]
fn early_no_reply_waits_until_a_later_batch_is_parsed() {
    for seed in 0..20 {
        let (late, batches, _) = simulate(seed, ALL, false, BATCH_REQUESTS);
        assert!(batches > 1, "seed {seed}: there is nothing to wait for");
        let (early, batches, _) = simulate(seed, ALL, true, 4 * BATCH_REQUESTS);
        assert_eq!(batches, 1, "seed {seed}");
        assert!(early == late, "seed {seed}: other replies");
    }
}

#[test]
fn an_engine_gets_as_many_requests_together_as_it_wants_unless_replies_leave_early() {
    for seed in 0..5 {
        let (few, _, longest) = simulate(seed, REQUESTS, false, BATCH_REQUESTS);
        assert!(longest <= BATCH_REQUESTS, "seed {seed}: {longest}");
        let (many, _, longest) = simulate(seed, REQUESTS, false, 4 * BATCH_REQUESTS);
        assert!(longest > BATCH_REQUESTS, "seed {seed}: {longest}");
        assert!(few == many, "seed {seed}: other replies");
        let (_, _, longest) = simulate(seed, REQUESTS, true, 4 * BATCH_REQUESTS);
        assert!(longest <= BATCH_REQUESTS, "seed {seed}: {longest}");
    }
}
