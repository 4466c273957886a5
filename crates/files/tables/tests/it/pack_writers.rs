//! Tests of slow and failing writers.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use overside_base::Random;
use overside_tables::Error;
use overside_tables::pack::{PackOptions, Packer};

use crate::pack::{pool, unpacked};
use crate::random::table;

/// Writer to a disk that is full after `self.0` bytes.
struct Disk(usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.min(bytes.len()) {
            0 => Err(ErrorKind::StorageFull.into()),
            written => {
                self.0 -= written;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_at_the_latest_at_the_end() {
    let batch = table(&mut Random::new(1), 2, 5000);
    for threads in [1, 3] {
        for room in [100, 30_000, 200_000] {
            let pool = pool(threads);
            let options = PackOptions::default();
            let packer = Packer::new(Disk(room), batch.schema(), options, &pool);
            let mut packer = packer.expect("room for the first bytes");
            let mut result = Ok(());
            for _ in 0..50 {
                result = packer.write(&batch);
                if result.is_err() {
                    assert!(matches!(packer.write(&batch), Err(Error::Spent)));
                    break;
                }
            }
            let error = result.and_then(|()| packer.finish().map(drop));
            match error {
                Err(Error::Io(error)) => assert_eq!(error.kind(), ErrorKind::StorageFull),
                other => panic!("{threads} threads, {room} bytes: {other:?}"),
            }
        }
    }
}

/// Writer that takes few bytes at a time, slowly.
struct Slow(Vec<u8>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        std::thread::sleep(Duration::from_micros(50));
        let taken = bytes.len().min(4096);
        self.0.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn slow_writers_get_everything_in_order() {
    let mut random = Random::new(2);
    let batches: Vec<_> = (0..20).map(|_| table(&mut random, 3, 500)).collect();
    let batches: Vec<_> =
        (batches.iter()).filter(|batch| batch.schema() == batches[0].schema()).collect();
    for threads in [1, 2, 4] {
        let pool = pool(threads);
        let mut packers: Vec<_> = (0..3)
            .map(|_| {
                let writer = Slow(Vec::new());
                Packer::new(writer, batches[0].schema(), PackOptions::default(), &pool)
                    .expect("a packer")
            })
            .collect();
        for batch in &batches {
            for packer in &mut packers {
                packer.write(batch).expect("a batch");
            }
        }
        for packer in packers {
            let (Slow(bytes), time) = packer.finish().expect("the end");
            assert_eq!(time.bytes_out, bytes.len() as u64);
            let read = unpacked(&bytes, &pool).expect("batches");
            let is_same = read.iter().eq(batches.iter().copied());
            assert!(is_same, "{threads} threads");
        }
    }
}
