//! Tests of several submitting threads, a window in bytes, and asynchronous calls.

use crate::common;

use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use common::{compressed, decompressed, options, text};
use overside_backends::Options as DeviceOptions;
use overside_compress::{
    Container, Error, Options, Policy, compress_async, decompress, decompress_async,
};
use overside_device::{Device, ExternalBytes, Timing};

fn card() -> Arc<dyn Device> {
    let options = DeviceOptions { timing: Some(Timing::Functional), ..DeviceOptions::default() };
    overside_backends::open("emulated:bf2", &options).unwrap()
}

fn submitted_by(count: usize, base: Options) -> Options {
    Options { submitters: NonZeroUsize::new(count).unwrap(), chunk_bytes: 10_000, ..base }
}

#[test]
fn several_submitters_make_what_one_makes() {
    let content = text(700_001);
    for container in [Container::Gzip, Container::Zlib, Container::Lz4, Container::Zstd] {
        // A level that ISA-L has not: what its level 1 makes also depends on where it lies.
        let base = Options { level: Some(6), ..options(container) };
        let one = compressed(&content, &submitted_by(1, base.clone())).0;
        for count in [2, 3, 7] {
            let (several, summary) = compressed(&content, &submitted_by(count, base.clone()));
            assert!(several == one, "{container:?} {count}");
            let report = summary.report.unwrap();
            assert_eq!(report.cpu.unwrap().source_bytes, content.len() as u64);
            let mut back = Vec::new();
            decompress(&one[..], &mut back, &submitted_by(count, Options::default())).unwrap();
            assert!(back == content, "{container:?} {count}");
        }
    }
}

#[test]
fn several_submitters_share_several_devices() {
    let content = text(900_000);
    let base = Options {
        policy: "split:40+40".parse().unwrap(),
        devices: vec![card(), card()],
        ..options(Container::Gzip)
    };
    let (bytes, summary) = compressed(&content, &submitted_by(2, base));
    assert!(decompressed(&bytes).unwrap().0 == content);
    let report = summary.report.unwrap();
    let chunks: Vec<u64> = report.targets().map(|target| target.chunks).collect();
    assert_eq!(chunks, [18, 36, 36]);
    assert_eq!(report.verification.chunks, 72);
}

#[test]
fn no_more_than_the_window_is_in_flight() {
    for (submitters, window) in [(1, 25_000), (1, 5_000), (2, 45_000), (3, 25_000)] {
        let options = Options {
            window_bytes: Some(window),
            ..submitted_by(submitters, options(Container::Gzip))
        };
        let mut written = Vec::new();
        let content = text(300_000);
        let mut compressor = overside_compress::Compressor::new(&mut written, &options).unwrap();
        let mut chunks = 0;
        for part in content.chunks(10_000) {
            compressor.write(part).unwrap();
            chunks = chunks.max(compressor.in_flight());
        }
        let (_, summary) = compressor.finish().unwrap();
        let most = summary.in_flight_bytes_max.unwrap();
        // A chunk for each submitter may be, whatever the window.
        let may = window.max(submitters * 10_000);
        assert!(most <= may, "{most} of {may}");
        assert!(most >= chunks * 10_000, "{most}, {chunks} chunks");
        assert!(decompressed(&written).unwrap().0 == content);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The least that runs a future.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_call_that_goes_on_is_a_future() {
    let content = text(500_000);
    let calls: Vec<_> = (0..10)
        .map(|_| compress_async(ExternalBytes::new(content.clone()), options(Container::Zstd)))
        .collect();
    for call in calls {
        let (bytes, summary) = block_on(call).unwrap();
        assert_eq!(summary.bytes_out, bytes.len() as u64);
        let back = decompress_async(ExternalBytes::new(bytes), Options::default());
        assert!(back.wait().unwrap().0 == content);
    }
    let garbage = decompress_async(ExternalBytes::new(b"garbage".to_vec()), Options::default());
    assert!(matches!(block_on(garbage), Err(Error::Unrecognized)));
}

#[test]
fn a_call_that_is_cancelled_ends() {
    let content = text(60_000_000);
    let options =
        Options { level: Some(9), threads: 1, policy: Policy::Cpu, ..options(Container::Gzip) };
    let calls: Vec<_> = (0..4)
        .map(|_| compress_async(ExternalBytes::new(content.clone()), options.clone()))
        .collect();
    for call in &calls {
        call.cancel();
    }
    for call in calls {
        assert!(matches!(call.wait(), Err(Error::Cancelled)));
    }
}
