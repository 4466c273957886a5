//! Measurement of the time that the cores of both sides need to pass a request over a link.
//!
//! A batch goes through memory that both sides share, all on the calling thread, so that the times contain no
//! waits: it is begun ([`RemoteEngine::begin`]), answered ([`Responder::poll`]), and its answers are fetched
//! ([`RemoteEngine::poll`]). The engine's time for the same batch without a link is subtracted. The times do
//! not include the transfer of cache lines from another core; a message has few of them.

use std::hint::black_box;
use std::time::Instant;

use super::{Batching, Channel, ChannelOptions, OffloadError, RemoteEngine, Responder};
use crate::store::{Store, StoreError, StoreOptions};
use crate::{KeyHasher, Operation, ProcessingEngine, Request};
use overside_base::median;
use overside_kv::server::Memory;

/// Batches that are timed.
const BATCHES: usize = 4000;
/// Batches before them.
const WARM_UP: usize = 400;
/// Keys, few enough to stay in the cache.
const KEYS: usize = 4096;
/// Maximum number of requests of a batch: a message has no more.
pub(super) const BATCH_MAX: usize = 64;
/// Longest values that are measured; longer ones are fetched apart.
pub(super) const VALUE_MAX: usize = 1024;

/// Nanoseconds for one request, each a median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCost {
    /// Requests of a batch.
    pub batch: usize,
    /// Time of a request on the side of the communication engine.
    pub communication_ns: f64,
    /// Time of a request on the side of the processing engine.
    pub processing_ns: f64,
}

/// Reason why the cost cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum LinkCostError {
    /// Shared memory cannot be allocated, or the link of this process is lost.
    #[error(transparent)]
    Link(#[from] OffloadError),
    /// Memory for keys cannot be allocated.
    #[error("no store: {0}")]
    Store(#[from] StoreError),
}

/// Measures it for batches of `batch` requests, of which the share `reads` are reads, with keys and values
/// of these sizes. Takes some tens of milliseconds. Sizes are cut off at [`BATCH_MAX`] and [`VALUE_MAX`].
///
/// # Errors
/// [`LinkCostError`].
pub fn link_cost(
    key_bytes: usize,
    value_bytes: usize,
    reads: f64,
    batch: usize,
) -> Result<LinkCost, LinkCostError> {
    let batch = batch.clamp(1, BATCH_MAX);
    let hasher = KeyHasher::random();
    let value = vec![b'v'; value_bytes.min(VALUE_MAX)];
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|number| key(number, key_bytes)).collect();
    let store = Store::new(StoreOptions::new(
        2 * KEYS * (key_bytes + VALUE_MAX + 128) + (16 << 20),
        &hasher,
    ))?;
    let mut engine = Memory::new(store, 0);
    let get = |number: usize| Request::new(&keys[number], &hasher, Operation::Get);
    let set = |number: usize| Request { operation: Operation::set(&value), ..get(number) };
    for number in 0..KEYS {
        engine.execute(&[set(number)], 0, &mut |_, _| ());
    }
    let [asking, answering] = Channel::pairs(1, ChannelOptions::default())?
        .pop()
        .ok_or(OffloadError::Violation("no channel"))?;
    let mut remote = RemoteEngine::new(asking, Batching::Batch);
    let mut responder = Responder::new(answering, hasher.clone());
    let (mut communication, mut processing) = (Vec::new(), Vec::new());
    let mut next = 0;
    for round in 0..WARM_UP + BATCHES {
        let requests: Vec<Request<'_>> = (0..batch)
            .map(|index| {
                // Neighbors in the index come far apart.
                next = (next + 1531) % KEYS;
                match (index as f64 + 0.5) / batch as f64 <= reads {
                    true => get(next),
                    false => set(next),
                }
            })
            .collect();
        let [begun, answered, taken] =
            through(&mut remote, &mut responder, &mut engine, &requests)?;
        let begin = Instant::now();
        engine.execute(&requests, 0, &mut |_, answer| {
            black_box(answer);
        });
        let direct = begin.elapsed().as_nanos() as f64;
        if round >= WARM_UP {
            communication.push((begun + taken) / batch as f64);
            processing.push((answered - direct) / batch as f64);
        }
    }
    Ok(LinkCost {
        batch,
        communication_ns: median(communication).unwrap_or_default(),
        processing_ns: median(processing).unwrap_or_default().max(0.0),
    })
}

/// Times of beginning a batch, answering it and taking the answers.
fn through(
    remote: &mut RemoteEngine,
    responder: &mut Responder,
    engine: &mut Memory<Store>,
    requests: &[Request<'_>],
) -> Result<[f64; 3], OffloadError> {
    let begin = Instant::now();
    remote.begin(requests, 0);
    let begun = begin.elapsed();
    let (mut answering, mut taking) = (0.0, 0.0);
    // More than one turn if the answers do not fit into a message.
    loop {
        let begin = Instant::now();
        responder.poll(engine, 0)?;
        let answered = begin.elapsed();
        let is_done = remote.poll(requests, &mut |_, answer| {
            black_box(answer);
        });
        answering += answered.as_nanos() as f64;
        taking += (begin.elapsed() - answered).as_nanos() as f64;
        if remote.failure().is_some() {
            return Err(OffloadError::Violation("no answer"));
        }
        if is_done {
            return Ok([begun.as_nanos() as f64, answering, taking]);
        }
    }
}

fn key(number: usize, bytes: usize) -> Vec<u8> {
    let mut key = vec![b'k'; bytes.max(1)];
    let digits = format!("{number:x}");
    let len = digits.len().min(key.len());
    let end = key.len() - len;
    key[end..].copy_from_slice(&digits.as_bytes()[digits.len() - len..]);
    key
}
