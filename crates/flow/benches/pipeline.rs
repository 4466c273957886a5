//! Pipelines: what the engine costs beside calling the stages one after the other, and how adaptive
//! placement copes with a node that becomes four times slower.
//!
//!     cargo bench -p overside-flow --bench pipeline [-- overhead | slowed]
//!
//! Sides take turns, forwards and backwards; a figure is the median. The node is a thread of this
//! process: the figures say how placements compare, not how fast a DPU is.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use overside_base::Random;
use overside_flow::Error;
use overside_flow::generate::Generated;
use overside_flow::pack::CodecPool;
use overside_flow::pipeline::{
    Definition, InProcessNode, Node, NodeDefinition, Piece, Pipeline, StageRunner,
};
use overside_ops::{Config, Format, Operation, prepare};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes nothing, and only tries it.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let chosen = |name: &str| {
        let mut words = arguments.iter().filter(|one| !one.starts_with('-'));
        words.clone().next().is_none() || words.any(|word| word == name)
    };
    if chosen("overhead") {
        overhead(is_bench);
    }
    if chosen("slowed") {
        slowed(is_bench);
    }
}

fn definition(stages: &str) -> Definition {
    let text = format!(
        "schema = \"flow-pipeline/1\"\nname = \"bench\"\nthreads = 1\nmemory = \"256 MiB\"\nstreams = 1\n\
         [nodes.dpu0]\naddress = \"in-process\"\n{stages}\n[outputs.all]\nto = \"out\"\n"
    );
    Definition::parse("bench", &text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn no_nodes(name: &str, _: &NodeDefinition) -> Result<Arc<dyn Node>, Error> {
    panic!("{name} is not in-process")
}

/// Batches of 65,536 rows through three stages, on one thread.
fn overhead(is_bench: bool) {
    let (turns, count) = if is_bench { (15, 200) } else { (1, 2) };
    let batch = Generated::Particles
        .snapshots(64 << 10, 1)
        .next()
        .expect("a batch");
    let cases = [
        ("three that pass batches on", ["select = \"*\""; 3]),
        (
            "three filters",
            [
                "filter = \"x > -10\"",
                "filter = \"y > -10\"",
                "filter = \"z > -10\"",
            ],
        ),
    ];
    for (name, stages) in cases {
        let text = stages
            .map(|stage| format!("[[stages]]\n{stage}\n"))
            .concat();
        let definition = definition(&text);
        let direct = || {
            let mut runners: Vec<StageRunner> = (definition.stages.iter())
                .map(|stage| StageRunner::new(stage, batch.schema_ref()).expect("a stage"))
                .collect();
            let begin = Instant::now();
            for _ in 0..count {
                let mut pieces = vec![Piece::new(batch.clone())];
                for runner in &mut runners {
                    pieces = runner.run(pieces).expect("runs");
                }
                std::hint::black_box(pieces);
            }
            begin.elapsed().as_secs_f64() / f64::from(count)
        };
        let engine = || {
            let pool = Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("a pool"));
            let pipeline =
                Pipeline::on_caller(definition.clone(), &pool, no_nodes).expect("a pipeline");
            let stream = pipeline.stream(batch.schema_ref()).expect("a stream");
            let begin = Instant::now();
            for tag in 0..count {
                stream.push(tag as u64, batch.clone()).expect("goes on");
                while let Some(done) = stream.try_pull() {
                    std::hint::black_box(done.expect("runs"));
                }
            }
            stream.finish();
            while let Some(done) = stream.pull() {
                std::hint::black_box(done.expect("runs"));
            }
            begin.elapsed().as_secs_f64() / f64::from(count)
        };
        let (mut directs, mut engines) = (Vec::new(), Vec::new());
        for turn in 0..turns {
            if turn % 2 == 0 {
                directs.push(direct());
                engines.push(engine());
            } else {
                engines.push(engine());
                directs.push(direct());
            }
        }
        let (direct, engine) = (median(directs) * 1e6, median(engines) * 1e6);
        println!(
            "overhead {name:<28} {direct:8.1} µs a batch called directly, {engine:8.1} µs by the engine: \
             {:.1} µs more a batch and stage",
            (engine - direct) / 3.0
        );
    }
}

/// Blocks of log lines, each compressed by itself.
fn logs(rows: usize) -> RecordBatch {
    let mut random = Random::new(1);
    let mut kernel = prepare(&Config::new(Operation::Compress(Format::Gzip)))
        .and_then(|prepared| prepared.kernel())
        .expect("gzip");
    let blocks: Vec<Vec<u8>> = (0..rows)
        .map(|_| {
            let mut text = String::new();
            while text.len() < 64 << 10 {
                let level = ["INFO", "DEBUG", "WARN", "ERROR"][random.below(4) as usize];
                let (request, millis) = (random.below(1 << 40), random.below(5000));
                text +=
                    &format!("2026-01-02T03:04:05Z {level} request {request:x} took {millis} ms\n");
            }
            let mut out = vec![0; text.len() + 1000];
            let output = kernel
                .run(&[text.as_bytes()], &mut out)
                .expect("compresses");
            out.truncate(output.written);
            out
        })
        .collect();
    let blocks: ArrayRef = Arc::new(BinaryArray::from_iter_values(blocks));
    RecordBatch::try_from_iter([("block", blocks)]).expect("a batch")
}

/// Decompress, match, compress on logs; after a second the node becomes four times slower. Bytes a
/// second from two seconds later on.
fn slowed(is_bench: bool) {
    let (turns, seconds) = if is_bench { (5, 6.0) } else { (1, 0.2) };
    let batch = logs(16);
    let placements = ["host", "dpu0", "split:20", "split:50", "adaptive"];
    let mut rates = vec![Vec::new(); placements.len()];
    for turn in 0..turns {
        for at in 0..placements.len() {
            let at = if turn % 2 == 0 {
                at
            } else {
                placements.len() - 1 - at
            };
            rates[at].push(rate(&batch, placements[at], seconds));
        }
    }
    let rates: Vec<f64> = rates.into_iter().map(median).collect();
    for (placement, rate) in placements.iter().zip(&rates) {
        println!("slowed {placement:<9} {rate:7.2} batches/s");
    }
    let best = rates[..placements.len() - 1]
        .iter()
        .copied()
        .fold(0.0, f64::max);
    let adaptive = rates[placements.len() - 1];
    println!(
        "slowed adaptive over the best static placement: {:.2}",
        adaptive / best
    );
}

fn rate(batch: &RecordBatch, placement: &str, seconds: f64) -> f64 {
    let node = match placement {
        "split:20" | "split:50" | "adaptive" => "node = \"dpu0\"",
        _ => "",
    };
    let stages = [
        "decompress = { column = \"block\", codec = \"gzip\", text = true }",
        "match = { column = \"block\", patterns = [\"ERROR\"], per = \"line\" }",
        "compress = { column = \"block\", codec = \"zstd:3\" }",
    ];
    let stages =
        stages.map(|stage| format!("[[stages]]\n{stage}\nplacement = \"{placement}\"\n{node}\n"));
    let stand_in = InProcessNode::new(NonZeroUsize::MIN).expect("a node");
    let faults = stand_in.faults();
    let pipeline = Pipeline::new(definition(&stages.concat()), |_, _| unreachable!());
    let pipeline = pipeline
        .expect("a pipeline")
        .with_node("dpu0", Arc::new(stand_in));
    let stream = pipeline.stream(batch.schema_ref()).expect("a stream");
    let done = AtomicU64::new(0);
    let begin = Instant::now();
    let sleep_until = |share: f64| {
        let until = Duration::from_secs_f64(seconds * share);
        std::thread::sleep(until.saturating_sub(begin.elapsed()));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut tag = 0;
            while begin.elapsed().as_secs_f64() < seconds {
                stream.push(tag, batch.clone()).expect("goes on");
                tag += 1;
            }
            stream.finish();
        });
        scope.spawn(|| {
            while let Some(one) = stream.pull() {
                std::hint::black_box(one.expect("runs"));
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        sleep_until(1.0 / 6.0);
        faults.slow_down(4.0);
        sleep_until(3.0 / 6.0);
        let (before, at) = (done.load(Ordering::Relaxed), Instant::now());
        sleep_until(1.0);
        let rate = (done.load(Ordering::Relaxed) - before) as f64 / at.elapsed().as_secs_f64();
        // What is left need not take four times as long.
        faults.slow_down(1.0);
        if std::env::var_os("REPORT").is_some() {
            println!("{placement}: {:#?}", stream.report());
        }
        rate
    })
}
