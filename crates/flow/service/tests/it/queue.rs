//! Batches that wait, in memory and on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{Int64Array, RecordBatch};
use overside_flow_service::batch::Batch;
use overside_flow_service::queue::{Ack, Queue, QueueError};
use tokio::runtime::{Builder, Runtime};

use crate::spill::options;

/// Counts acknowledged batches.
struct Counted(Arc<AtomicUsize>);

impl Ack for Counted {
    fn committed(self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().build().unwrap()
}

/// A batch of about 9 KiB.
fn batch(sequence: u64) -> Batch {
    let column = Int64Array::from_iter_values((0..1000).map(|n| n + sequence as i64));
    Batch {
        producer: "p".into(),
        sequence,
        partition: Some(sequence as u32 % 3),
        data: RecordBatch::try_from_iter([("id", Arc::new(column) as _)]).unwrap(),
    }
}

#[test]
fn a_full_queue_waits_until_something_is_released() {
    runtime().block_on(async {
        let (queue, ..) = Queue::open(20 << 10, None).unwrap();
        let safe = Arc::new(AtomicUsize::new(0));
        let receipt = || Counted(Arc::clone(&safe));
        queue.push(batch(0), receipt()).await.unwrap();
        queue.push(batch(1), receipt()).await.unwrap();
        let third = queue.push(batch(2), receipt());
        tokio::pin!(third);
        let soon = Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, &mut third).await.is_err());
        assert!(queue.is_full());
        let first = queue.next(0).await.unwrap().unwrap();
        assert_eq!((first.position, &*first.batch), (0, &batch(0)));
        queue.release(0);
        third.await.unwrap();
        assert_eq!(safe.load(Ordering::Relaxed), 1);
        // A reader that begins again gets what is not released.
        assert_eq!(queue.first(), 1);
        let again = queue.next(0).await.unwrap().unwrap();
        assert_eq!(again.batch.sequence, 1);
        let status = queue.status();
        assert_eq!((status.backlog_batches, status.counts.rows), (2, 3000));
        // What is not needed any more does not wait, although it is behind what does.
        queue.release(2);
        assert_eq!((queue.status().backlog_batches, queue.first()), (1, 1));
        queue.close();
        assert!(matches!(queue.push(batch(3), receipt()).await, Err(QueueError::Closed)));
        assert_eq!(queue.next(1).await.unwrap().unwrap().batch.sequence, 1);
        assert!(queue.next(2).await.unwrap().is_none());
    });
}

#[test]
fn what_does_not_fit_is_on_disk_without_gaps() {
    let directory = tempfile::tempdir().unwrap();
    let safe = Arc::new(AtomicUsize::new(0));
    runtime().block_on(async {
        let spill = options(directory.path(), 1 << 30);
        let (queue, ..) = Queue::open(40 << 10, Some(spill)).unwrap();
        for sequence in 0..4 {
            queue.push(batch(sequence), Counted(Arc::clone(&safe))).await.unwrap();
        }
        assert_eq!(safe.load(Ordering::Relaxed), 0);
        assert_eq!((queue.saved_until(0..u64::MAX), queue.end()), (None, 4));
        for sequence in 4..20 {
            queue.push(batch(sequence), Counted(Arc::clone(&safe))).await.unwrap();
        }
        // Also those that came first: a start finds all or none of them.
        assert_eq!(safe.load(Ordering::Relaxed), 20);
        assert_eq!(queue.unsafe_batches(), 0);
        assert_eq!((queue.saved_until(0..u64::MAX), queue.end()), (Some(20), 20));
        assert_eq!(queue.saved_until(0..7), Some(7));
        for position in 0..5 {
            let queued = queue.next(position).await.unwrap().unwrap();
            assert_eq!(*queued.batch, batch(position));
            queue.release(position);
        }
        // What is released is delivered.
        assert_eq!((queue.saved_until(0..5), queue.saved_until(0..6)), (None, Some(6)));
        let queued = queue.next(17).await.unwrap().unwrap();
        assert_eq!(*queued.batch, batch(17));
    });
    runtime().block_on(async {
        let spill = options(directory.path(), 1 << 30);
        let (queue, recovered, _) = Queue::<Counted>::open(40 << 10, Some(spill)).unwrap();
        let sequences: Vec<u64> = recovered.iter().map(|batch| batch.sequence).collect();
        assert_eq!(sequences, (5..20).collect::<Vec<_>>());
        for position in 0..15 {
            let queued = queue.next(position).await.unwrap().unwrap();
            assert_eq!(*queued.batch, batch(position + 5));
            queue.release(position);
        }
        // In memory again.
        queue.push(batch(20), Counted(Arc::clone(&safe))).await.unwrap();
        assert_eq!((queue.status().spilled_bytes, queue.unsafe_batches()), (0, 1));
    });
}

#[test]
fn without_room_on_disk_it_waits_too() {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let (queue, ..) = Queue::open(20 << 10, Some(options(directory.path(), 60 << 10))).unwrap();
        let queue = Arc::new(queue);
        let safe = Arc::new(AtomicUsize::new(0));
        let pushing = {
            let (queue, safe) = (Arc::clone(&queue), Arc::clone(&safe));
            tokio::spawn(async move {
                for sequence in 0..50 {
                    queue.push(batch(sequence), Counted(Arc::clone(&safe))).await.unwrap();
                }
            })
        };
        for position in 0..50 {
            let queued = queue.next(position).await.unwrap().unwrap();
            assert_eq!(*queued.batch, batch(position));
            let peak = queue.status();
            assert!(peak.memory_bytes <= 30 << 10 && peak.spilled_bytes <= 64 << 10, "{peak:?}");
            queue.release(position);
        }
        pushing.await.unwrap();
        assert_eq!(safe.load(Ordering::Relaxed), 50);
    });
}
