//! Decompress, match, compress on log lines, with a node that becomes four times slower after a second:
//! adaptive placement compared with placements that do not change.
//!
//!     cargo bench -p overside-flow-service --bench slowed [-- [--log FILE] [PLACEMENT...]]
//!
//! The node is a process of its own (`overside flow serve --node`, by Arrow Flight over loopback), on a core of its own
//! if there are two. A figure is batches per second from two seconds after it became slower, the median of turns in
//! alternating order. Every resulting batch is compared, byte for byte, with the output of the stages when they are
//! called one after the other, and none may be missing. FILE is a log, repeated as often as necessary; the default is
//! that of dpkg. The figures compare placements on one machine; they do not show the speed of a DPU.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use overside_base::median;
use overside_flow::pack::CodecPool;
use overside_flow::{Definition, Node, Packing, PartitionedBatch, Pipeline, StageRunner};
use overside_flow_service::{Limits, RemoteNodes, Server, Settings, Work};
use overside_ops::{Config, Format, Operation, prepare};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const PLACEMENTS: [&str; 5] = ["host", "dpu0", "split:20", "split:50", "adaptive"];
/// A log that most machines with Debian have.
const REAL_LOG: &str = "/var/log/dpkg.log";
const ROWS: usize = 16;
const BLOCK_BYTES: usize = 64 << 10;
const SLOWDOWN: f64 = 4.0;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` passes nothing, and only tries it.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let log = arguments.iter().position(|argument| argument == "--log");
    let log = log.and_then(|at| arguments.get(at + 1)).map_or(REAL_LOG, String::as_str);
    if let Some(at) = arguments.iter().position(|argument| argument == "node") {
        return serve_node(arguments.get(at + 1).and_then(|core| core.parse().ok()));
    }
    let named = PLACEMENTS.into_iter();
    let mut placements: Vec<&str> =
        named.filter(|placement| arguments.iter().any(|argument| argument == placement)).collect();
    if placements.is_empty() {
        placements.extend(PLACEMENTS);
    }
    compare(&placements, &logs(log), is_bench);
}

/// Blocks of log lines, each compressed by itself.
fn logs(file: &str) -> RecordBatch {
    let text = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert!(!text.is_empty(), "an empty log");
    let mut kernel = prepare(&Config::new(Operation::Compress(Format::Gzip)))
        .and_then(|prepared| prepared.kernel())
        .expect("gzip");
    let blocks = (0..ROWS).map(|row| {
        let endless = text.iter().copied().cycle();
        let block: Vec<u8> =
            endless.skip(row * BLOCK_BYTES % text.len()).take(BLOCK_BYTES).collect();
        let mut out = vec![0; block.len() + 1000];
        let output = kernel.run(&[&block], &mut out).expect("compresses");
        out.truncate(output.written);
        out
    });
    let blocks: ArrayRef = Arc::new(BinaryArray::from_iter_values(blocks));
    RecordBatch::try_from_iter([("block", blocks)]).expect("a batch")
}

fn definition(placement: &str) -> Definition {
    let node = match placement {
        "split:20" | "split:50" | "adaptive" => "node = \"dpu0\"",
        _ => "",
    };
    let stages = [
        "decompress = { column = \"block\", codec = \"gzip\", text = true }",
        "match = { column = \"block\", patterns = [\"ERROR\", \"status installed\"], per = \"line\" }",
        "compress = { column = \"block\", codec = \"zstd:3\" }",
    ];
    let stages =
        stages.map(|stage| format!("[[stages]]\n{stage}\nplacement = \"{placement}\"\n{node}\n"));
    let text = format!(
        "schema = \"flow-pipeline/1\"\nname = \"bench\"\nthreads = 1\nmemory = \"256 MiB\"\nstreams = 1\n\
         [nodes.dpu0]\naddress = \"in-process\"\n{}\n[outputs.all]\nto = \"out\"\n",
        stages.concat()
    );
    Definition::parse("bench", &text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the result of running the stages on a batch one after the other.
fn expected(batch: &RecordBatch) -> Vec<PartitionedBatch> {
    let mut pieces = vec![PartitionedBatch::new(batch.clone())];
    let mut schema = batch.schema();
    for stage in &definition("host").stages {
        let mut runner = StageRunner::new(stage, &schema).expect("a stage");
        schema = Arc::clone(runner.output_schema());
        pieces = runner.run(pieces).expect("runs");
    }
    assert!(!pieces.is_empty(), "no line of the log matches");
    pieces
}

fn compare(placements: &[&str], batch: &RecordBatch, is_bench: bool) {
    let (turns, seconds) = if is_bench { (5, 6.0) } else { (1, 0.3) };
    let core = leave_core();
    let expected = expected(batch);
    let mut rates = vec![Vec::new(); placements.len()];
    for turn in 0..turns {
        for at in 0..placements.len() {
            let at = if turn % 2 == 0 { at } else { placements.len() - 1 - at };
            let node = NodeProcess::start(core);
            rates[at].push(rate(batch, &expected, placements[at], &node, seconds));
        }
    }
    let rates: Vec<f64> = rates.into_iter().filter_map(median).collect();
    for (placement, rate) in placements.iter().zip(&rates) {
        println!("{placement:<9} {rate:7.2} batches/s");
    }
    let (adaptive, fixed) = rates.split_last().expect("several");
    let best = fixed.iter().copied().fold(0.0, f64::max);
    println!("adaptive over the best static placement: {:.2}", adaptive / best);
}

/// `overside flow serve --node`, which reads from stdin how slow it is to be.
struct NodeProcess {
    child: Child,
    orders: std::sync::Mutex<ChildStdin>,
    nodes: RemoteNodes,
    address: String,
}

impl NodeProcess {
    fn start(core: Option<usize>) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(program);
        command
            .arg("node")
            .args(core.map(|core| core.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("its address");
        let pool = Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("a pool"));
        Self {
            orders: child.stdin.take().expect("a pipe").into(),
            child,
            nodes: RemoteNodes::new(&Arc::new(Packing::of_pool(&pool))).expect("threads"),
            address: format!("grpc://{}", line.trim()),
        }
    }

    fn node(&self) -> Arc<dyn Node> {
        let mut node = definition("dpu0").nodes["dpu0"].clone();
        node.address.clone_from(&self.address);
        Arc::new(self.nodes.node(&node).expect("an address"))
    }

    fn slow_down(&self, factor: f64) {
        let mut orders = self.orders.lock().expect("nobody panicked");
        writeln!(orders, "{factor}").expect("it reads");
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve_node(core: Option<usize>) {
    if let Some(core) = core {
        let mut own = CpuSet::new();
        own.set(core);
        sched_setaffinity(None, &own).expect("the host may leave it");
    }
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        tls: None,
        password: None,
        metrics: None,
        threads: 1,
    };
    let work = Work::Node {
        streams: 8,
        pool: Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("no threads to start")),
    };
    let server = Server::bind(work, Limits::default(), settings).expect("it listens");
    println!("{}", server.address());
    let service = Arc::clone(server.service());
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let factor = line.ok().and_then(|line| line.parse().ok());
            service.faults.slow_down(factor.unwrap_or(1.0));
        }
        // The process that started it is gone.
        service.end();
    });
    server.run().expect("it serves");
}

/// Leaves the last of this process's cores to the node, if there are two: which one.
fn leave_core() -> Option<usize> {
    let mut cores = sched_getaffinity(None).ok()?;
    let last = (0..CpuSet::MAX_CPU).rfind(|core| cores.is_set(*core))?;
    cores.unset(last);
    let has_another = cores.count() > 0;
    // Where it is not allowed they share.
    (has_another && sched_setaffinity(None, &cores).is_ok()).then_some(last)
}

/// Batches a second from two seconds after the node became slower.
fn rate(
    batch: &RecordBatch,
    expected: &[PartitionedBatch],
    placement: &str,
    node: &NodeProcess,
    seconds: f64,
) -> f64 {
    let pipeline = Pipeline::new(definition(placement), |_, _| unreachable!());
    let pipeline = pipeline.expect("a pipeline").with_node("dpu0", node.node());
    let stream = pipeline.stream(batch.schema_ref()).expect("a stream");
    let (sent, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let begin = Instant::now();
    let sleep_until = |share: f64| {
        let until = Duration::from_secs_f64(seconds * share);
        std::thread::sleep(until.saturating_sub(begin.elapsed()));
    };
    let rate = std::thread::scope(|scope| {
        scope.spawn(|| {
            while begin.elapsed().as_secs_f64() < seconds {
                let tag = sent.fetch_add(1, Ordering::Relaxed);
                stream.push(tag, batch.clone()).expect("goes on");
            }
            stream.finish();
        });
        scope.spawn(|| {
            while let Some(one) = stream.pull() {
                let pieces = one.expect("runs").pieces;
                assert!(pieces == expected, "other bytes than on the host");
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        sleep_until(1.0 / 6.0);
        node.slow_down(SLOWDOWN);
        sleep_until(3.0 / 6.0);
        let (before, at) = (done.load(Ordering::Relaxed), Instant::now());
        sleep_until(1.0);
        let batches = (done.load(Ordering::Relaxed) - before) as f64;
        let rate = batches / at.elapsed().as_secs_f64();
        // What is left need not take four times as long.
        node.slow_down(1.0);
        rate
    });
    let (sent, done) = (sent.into_inner(), done.into_inner());
    assert_eq!(sent, done, "batches were lost");
    rate
}
