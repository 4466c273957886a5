//! One processing engine with several communication engines, whose turns a seed decides.

use overside_base::Random;
use overside_kv::server::Memory;
use overside_kv::{ProcessingEngine, Request};
use overside_kv_offload::{Channel, ChannelOptions, Optimizations, RemoteEngine, Responder};

use crate::oracle::Oracle;
use crate::requests::Requests;

const NOW_MS: u64 = 1_000_000;
const OPTIONS: ChannelOptions = ChannelOptions { slot_bytes: 2 << 20, slots: 4 };

/// A communication engine, and its way to the store.
struct Asker<'b> {
    remote: RemoteEngine,
    responder: Responder,
    batch: Vec<Request<'b>>,
    expected: Vec<String>,
    received: Vec<String>,
}

impl<'b> Asker<'b> {
    fn all(count: usize) -> Vec<Self> {
        let hasher = Requests::new(0).hasher;
        let asker = |[asking, answering]: [Channel; 2]| Self {
            remote: RemoteEngine::with(asking, Optimizations::default()),
            responder: Responder::new(answering, hasher.clone()),
            batch: Vec::new(),
            expected: Vec::new(),
            received: Vec::new(),
        };
        let channels = Channel::pairs(count, OPTIONS).unwrap();
        channels.into_iter().map(asker).collect()
    }

    /// Takes the next step: sends requests, makes the store answer, or takes the answers.
    fn turn(&mut self, next: Vec<Request<'b>>, store: &mut Memory<Oracle>, model: &mut Oracle) {
        if self.batch.is_empty() {
            self.batch = next;
            self.remote.begin(&self.batch, NOW_MS);
        } else if self.expected.is_empty() {
            assert!(self.responder.poll(store, NOW_MS).unwrap());
            // The store executes it now, independently of other requests.
            let expected = &mut self.expected;
            model.execute(&self.batch, NOW_MS, &mut |_, answer| {
                expected.push(format!("{answer:?}"));
            });
        } else {
            let received = &mut self.received;
            let is_whole = self.remote.poll(&self.batch, &mut |index, answer| {
                assert_eq!(index, received.len(), "answers come in order");
                received.push(format!("{answer:?}"));
            });
            assert!(is_whole);
            assert_eq!(self.received, self.expected);
            self.batch.clear();
            self.expected.clear();
            self.received.clear();
        }
    }
}

#[test]
fn a_store_with_several_askers_answers_each_as_if_it_were_alone() {
    for (seed, count) in [(1, 2), (2, 3), (3, 8)] {
        let mut random = Random::new(seed);
        let mut requests = Requests::new(seed);
        let mut store = Memory::new(Oracle::default(), NOW_MS);
        let mut model = Oracle::default();
        let mut askers = Asker::all(count);
        for _ in 0..3000 {
            let chosen = random.below(count as u64) as usize;
            // A message that is not too long is executed at once.
            let len = 1 + random.below(16);
            let next = (0..len).map(|_| requests.next(NOW_MS)).collect();
            askers[chosen].turn(next, &mut store, &mut model);
        }
        assert!(askers.iter().all(|asker| asker.remote.failure().is_none()));
        assert_eq!(store.statistics(), model.statistics());
    }
}
