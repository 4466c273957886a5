//! Benchmark of the gain from a second submitting thread.
//!
//! `cargo bench -p overside-compress --bench submitters`. One and two submitters in turns in this
//! process, on the same bytes and the same device, DPDK's `compress_zlib`: it computes on the
//! thread that submits, so the submitter is the limit and not the device. Printed are the median
//! ratio of the rates over the turns, its range, and the ratio of the two sides' fastest slices;
//! the aim is at least 1.6 on two idle cores.

#[allow(dead_code)]
#[path = "../../../../benches/data.rs"]
mod data;
#[path = "../../../../benches/turns.rs"]
mod turns;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use overside_compress::{Container, Options, Policy, Verify, compress};
use overside_device::Device;
use turns::{Side, take_turns, told};

const DEVICE: &str = "dpdk:compress_zlib";
/// One chunk of the device: mbufs count with 16 bits.
const CHUNK_BYTES: usize = 65_535;
const CHUNKS: usize = 128;

fn main() {
    let (_, is_bench) = turns::arguments();
    let device = match overside_backends::open(DEVICE, &overside_backends::Options::default()) {
        Ok(device) => device,
        Err(error) => return println!("submitters: {error}"),
    };
    let input = data::plain(CHUNK_BYTES, CHUNKS).concat();
    println!("two submitters / one, {DEVICE}");
    for container in [Container::Gzip, Container::Zlib] {
        let turned = take_turns(is_bench, |side| match side {
            Side::First => seconds_a_chunk(&device, container, 1, &input),
            Side::Second => seconds_a_chunk(&device, container, 2, &input),
        });
        let aim = match container {
            Container::Gzip => "aim: at least 1.6",
            _ => "for comparison: one thread joins the chunks",
        };
        println!("  {:8} {}; {aim}", container.to_string(), told(&turned));
    }
}

fn seconds_a_chunk(
    device: &Arc<dyn Device>,
    container: Container,
    submitters: usize,
    input: &[u8],
) -> f64 {
    let options = Options {
        container: Some(container),
        policy: Policy::Device,
        devices: vec![Arc::clone(device)],
        submitters: NonZeroUsize::new(submitters).expect("at least one"),
        verify: Verify::None,
        ..Options::default()
    };
    let begin = Instant::now();
    let summary = compress(input, std::io::sink(), &options).expect("it can do that");
    let seconds = begin.elapsed().as_secs_f64();
    let report = summary.report.expect("an executor");
    assert_eq!(report.events, [], "the device did it all");
    seconds / CHUNKS as f64
}
