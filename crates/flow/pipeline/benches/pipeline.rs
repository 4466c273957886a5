//! Overhead of pipelines compared with calling the stages one after the other.
//!
//!     cargo bench -p overside-flow --bench pipeline
//!
//! Sides run in alternating order; a figure is the median.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use overside_base::median;
use overside_flow::Error;
use overside_flow::generate::Generated;
use overside_flow::pack::CodecPool;
use overside_flow::{Definition, Node, NodeDefinition, PartitionedBatch, Pipeline, StageRunner};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes no arguments and only checks that it runs.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    overhead(is_bench);
}

fn definition(stages: &str) -> Definition {
    let text = format!(
        "schema = \"flow-pipeline/1\"\nname = \"bench\"\nthreads = 1\nmemory = \"256 MiB\"\nstreams = 1\n\
         {stages}\n[outputs.all]\nto = \"out\"\n"
    );
    Definition::parse("bench", &text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

fn no_nodes(name: &str, _: &NodeDefinition) -> Result<Arc<dyn Node>, Error> {
    panic!("{name} is not in-process")
}

/// Measures batches of 65,536 rows through three stages, on one thread.
fn overhead(is_bench: bool) {
    let (turns, count) = if is_bench { (15, 200) } else { (1, 2) };
    let batch = Generated::Particles.snapshots(64 << 10, 1).next().expect("a batch");
    let cases = [
        ("three that pass batches on", ["select = \"*\""; 3]),
        ("three filters", ["filter = \"x > -10\"", "filter = \"y > -10\"", "filter = \"z > -10\""]),
    ];
    for (name, stages) in cases {
        let text = stages.map(|stage| format!("[[stages]]\n{stage}\n")).concat();
        let definition = definition(&text);
        let direct = || {
            let mut runners: Vec<StageRunner> = (definition.stages.iter())
                .map(|stage| StageRunner::new(stage, batch.schema_ref()).expect("a stage"))
                .collect();
            let begin = Instant::now();
            for _ in 0..count {
                let mut pieces = vec![PartitionedBatch::new(batch.clone())];
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
        let [direct, engine] =
            [directs, engines].map(|times| 1e6 * median(times).unwrap_or_default());
        println!(
            "overhead {name:<28} {direct:8.1} µs a batch called directly, {engine:8.1} µs by the engine: \
             {:.1} µs more a batch and stage",
            (engine - direct) / 3.0
        );
    }
}
