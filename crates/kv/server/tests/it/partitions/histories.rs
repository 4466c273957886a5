//! Tests that the histories of a server's concurrent clients are linearizable, key by key.

use overside_kv::server::{Memory, Settings, StorageBackend};
use overside_kv::store::StoreOptions;
use overside_kv::{
    Answer, Answers, KeyHasher, Operation, ProcessingEngine, Request, Store, forward_to,
};

use overside_testkit::linearizability::{check, history};

use crate::server::running::{Running, settings};

fn server(workers: usize, is_broken: bool) -> Running {
    let settings = Settings { workers, ..settings() };
    Running::start_with(settings, move |hasher, now_ms| {
        let store = Store::new(StoreOptions::new(4 << 20, hasher));
        let engine = Stale {
            store: store.unwrap(),
            hasher: hasher.clone(),
            is_broken,
            reads: 0,
            remembered: None,
        };
        Box::new(Memory::new(engine, now_ms)) as Box<dyn StorageBackend + Send>
    })
}

#[test]
fn every_key_is_one_register_whoever_serves() {
    for workers in [1, 2, 3] {
        for seed in 0..4 {
            let server = server(workers, false);
            let records = history(&[server.address().to_string()], seed);
            let wrong = check(&records).err();
            assert!(wrong.is_none(), "{workers} workers, seed {seed}: {wrong:#?}");
        }
    }
}

#[test]
fn a_store_that_answers_with_what_was_before_is_found_out() {
    for workers in [1, 2] {
        let server = server(workers, true);
        assert!(check(&history(&[server.address().to_string()], 9)).is_err(), "{workers} workers");
    }
}

/// A store that, if it is broken, answers some reads with the key's previous value.
struct Stale {
    store: Store,
    hasher: KeyHasher,
    is_broken: bool,
    reads: u64,
    remembered: Option<(Vec<u8>, Vec<u8>)>,
}

impl ProcessingEngine for Stale {
    forward_to!(store: execute_transaction, scan, expire_some, flush, statistics);

    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
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
