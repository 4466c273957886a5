//! Tests of running pipelines: the output is the same wherever stages run, also when nodes fail.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use overside_base::Random;
use overside_device::{Provenance, Timing};
use overside_flow::Error;
use overside_flow::pack::CodecPool;
use overside_flow::{
    BatchResult, Completions, Definition, InProcessNode, Node, NodeError, NodeResult, NodeStage,
    PartitionedBatch, Pipeline, PipelineReport, StageDefinition, StageReport, StageRunner, Stream,
};
use overside_ops::{Config, Format, Operation, prepare};
use proptest::prelude::*;

const HEAD: &str = "schema = \"flow-pipeline/1\"\nname = \"test\"\nthreads = 2\n";
const OUT: &str = "[outputs.all]\nto = \"out\"\n";
const NODE: &str = "[nodes.dpu0]\naddress = \"in-process\"\n";

fn definition(stages: &str, nodes: &str) -> Definition {
    let text = format!("{HEAD}{stages}\n{nodes}\n{OUT}");
    Definition::parse("p.toml", &text, Path::new("")).unwrap_or_else(|error| panic!("{error}"))
}

fn no_nodes(name: &str, _: &overside_flow::NodeDefinition) -> Result<Arc<dyn Node>, Error> {
    panic!("{name} is not in-process")
}

fn started(stages: &str, nodes: &str) -> Pipeline {
    Pipeline::new(definition(stages, nodes), no_nodes).unwrap()
}

/// Pushes all batches from one thread and pulls on another.
fn run(stream: &Stream, batches: &[RecordBatch]) -> Result<Vec<BatchResult>, Error> {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (tag, batch) in batches.iter().enumerate() {
                if stream.push(tag as u64, batch.clone()).is_err() {
                    return;
                }
            }
            stream.finish();
        });
        std::iter::from_fn(|| stream.pull()).collect()
    })
}

fn ran(pipeline: &Pipeline, batches: &[RecordBatch]) -> (Vec<BatchResult>, PipelineReport) {
    let stream = pipeline.stream(batches[0].schema_ref()).unwrap();
    let done = run(&stream, batches).unwrap_or_else(|error| panic!("{error}"));
    (done, stream.report())
}

/// Runs the stages one after the other, each batch by itself. Returns the results that a pipeline must give.
fn oracle(definition: &Definition, batches: &[RecordBatch]) -> Vec<BatchResult> {
    let mut schema = batches[0].schema();
    let mut runners = Vec::new();
    for stage in &definition.stages {
        let runner = StageRunner::parse(&stage.to_toml(), &schema).unwrap();
        schema = runner.output_schema().clone();
        runners.push(runner);
    }
    let of_batch = |(tag, batch): (usize, &RecordBatch)| {
        let first = Some(PartitionedBatch::new(batch.clone())).filter(|_| batch.num_rows() > 0);
        let mut pieces: Vec<PartitionedBatch> = first.into_iter().collect();
        for runner in &mut runners {
            pieces = runner.run(pieces).unwrap();
        }
        let tag = tag as u64;
        BatchResult { tag, pieces }
    };
    batches.iter().enumerate().map(of_batch).collect()
}

/// Makes log lines like those of a service.
fn log_lines(random: &mut Random, lines: usize) -> String {
    let levels = ["INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR"];
    let mut text = String::new();
    for _ in 0..lines {
        let level = levels[random.below(6) as usize];
        let (request, millis) = (random.below(1 << 40), random.below(5000));
        text += &format!("2026-01-02T03:04:05Z {level} request {request:x} took {millis} ms\n");
    }
    text
}

fn compressed(format: Format, bytes: &[u8]) -> Vec<u8> {
    let config = Config::new(Operation::Compress(format));
    let mut out = vec![0; bytes.len() + 1000];
    let mut kernel = prepare(&config).unwrap().kernel().unwrap();
    let output = kernel.run(&[bytes], &mut out).unwrap();
    out.truncate(output.written);
    out
}

/// Makes batches of compressed blocks of log lines, some null; ids, some null.
fn logs(seed: u64, batches: usize, rows: usize) -> Vec<RecordBatch> {
    let mut random = Random::new(seed);
    let batch = |_| {
        let blocks: Vec<Option<Vec<u8>>> = (0..rows)
            .map(|_| {
                let lines = random.below(40) as usize;
                let text = log_lines(&mut random, lines);
                (random.below(20) > 0).then(|| compressed(Format::Gzip, text.as_bytes()))
            })
            .collect();
        let ids = (0..rows).map(|_| (random.below(10) > 0).then(|| random.below(100) as i64));
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(ids.collect::<Int64Array>())),
            ("block", Arc::new(BinaryArray::from_iter(blocks))),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
            .unwrap()
    };
    (0..batches).map(batch).collect()
}

/// Returns the stages decompress, match and compress with that placement.
fn log_stages(placement: &str) -> String {
    [
        "decompress = { column = \"block\", codec = \"gzip\", text = true }",
        "match = { column = \"block\", patterns = [\"ERROR\", \"took 4\\\\d+ ms\"], per = \"line\" }",
        "compress = { column = \"block\", codec = \"zstd:3\" }",
    ]
    .map(|stage| format!("[[stages]]\n{stage}\n{placement}\n"))
    .concat()
}

const PLACEMENTS: [&str; 4] = [
    "placement = \"host\"",
    "placement = \"dpu0\"",
    "placement = \"split:50\"\nnode = \"dpu0\"",
    "placement = \"adaptive\"\nnode = \"dpu0\"",
];

#[test]
fn logs_are_the_same_bytes_in_every_placement() {
    let batches = logs(1, 40, 30);
    let mut expected = None;
    for placement in PLACEMENTS {
        let stages = log_stages(placement);
        let pipeline = started(&stages, NODE);
        let (done, report) = ran(&pipeline, &batches);
        let expected = expected.get_or_insert_with(|| oracle(pipeline.definition(), &batches));
        assert_eq!(&done, expected, "{placement}");
        let of_stages = report.totals.stages.iter();
        let node: u64 = of_stages
            .clone()
            .filter_map(|stage| stage.node.as_ref())
            .map(|node| node.batches)
            .sum();
        let host: u64 = of_stages.map(|stage| stage.host.batches).sum();
        assert_eq!(node + host, 3 * 40, "{placement}: each batch counts once: {report:?}");
        match placement {
            "placement = \"host\"" => assert_eq!(node, 0),
            "placement = \"dpu0\"" => assert_eq!(host, 0),
            _ => assert!(node > 0, "{placement}"),
        }
        let measured = (Provenance::Measured, Timing::Real);
        let stand_in = (Provenance::Emulated, Timing::Functional);
        let expected = if node == 0 { measured } else { stand_in };
        assert_eq!((report.provenance, report.timing), expected);
    }
    let kept: usize = expected
        .unwrap()
        .iter()
        .flat_map(|done| &done.pieces)
        .map(|piece| piece.batch.num_rows())
        .sum();
    assert!(kept > 300, "{kept} of 1200 blocks have lines left");
}

#[test]
fn devices_take_part_and_the_report_says_what_their_times_are() {
    let batches = logs(14, 12, 12);
    let stages = |placement: &str| {
        let first = "[[stages]]\ndecompress = { column = \"block\", codec = \"gzip\" }\n";
        let placed = [
            "compress = { column = \"block\", codec = \"deflate\" }",
            "decompress = { column = \"block\", codec = \"deflate\", text = true }",
            "match = { column = \"block\", patterns = [\"ERROR\"], per = \"line\" }",
        ];
        first.to_owned() + &placed.map(|text| format!("[[stages]]\n{text}\n{placement}\n")).concat()
    };
    let expected = oracle(&definition(&stages(""), ""), &batches);
    for placement in ["device", "split:50", "adaptive"] {
        let placement = format!("placement = \"{placement}\"\ndevice = \"emulated:bf2\"");
        let pipeline = started(&stages(&placement), "");
        let (done, report) = ran(&pipeline, &batches);
        assert_eq!(done, expected, "{placement}");
        let of_card = |stage: &StageReport| {
            let card = stage.devices.iter().find(|device| device.device == "emulated:bf2");
            card.map_or(0, |card| card.jobs)
        };
        let jobs: u64 = report.totals.stages[1..].iter().map(of_card).sum();
        if jobs > 0 {
            let emulated = (Provenance::Emulated, Timing::Paced);
            assert_eq!((report.provenance, report.timing), emulated, "{placement}");
        }
        assert!(jobs > 0 || placement.contains("adaptive"), "{placement}: {report:?}");
    }
}

#[test]
fn what_is_kept_is_what_grep_keeps() {
    let text = "one\ntwo\nthree\n\nfour";
    let blocks = BinaryArray::from_iter([Some(text), None, Some(""), Some("two"), Some("x\ny\n")]);
    let batch =
        RecordBatch::try_from_iter_with_nullable([("block", Arc::new(blocks) as ArrayRef, true)])
            .unwrap();
    let kept = |options: &str| -> Vec<String> {
        let stage = format!("match = {{ column = \"block\", patterns = [\"o\"]{options} }}");
        let mut runner = StageRunner::parse(&stage, batch.schema_ref()).unwrap();
        let pieces = runner.run(vec![PartitionedBatch::new(batch.clone())]).unwrap();
        let column = pieces[0].batch.column(0).as_binary::<i32>();
        column.iter().flatten().map(|value| String::from_utf8(value.to_vec()).unwrap()).collect()
    };
    assert_eq!(kept(", per = \"line\""), ["one\ntwo\nfour\n", "two\n"]);
    assert_eq!(kept(", per = \"line\", invert = true"), ["three\n\n", "x\ny\n"]);
    assert_eq!(kept(""), [text, "two"]);
}

#[test]
fn rows_without_a_key_are_a_partition_of_their_own() {
    let batches = logs(2, 5, 50);
    let stages = "[[stages]]\npartition = { key = \"id\", by = \"hash:3\" }\n[[stages]]\nsort = [\"id desc\"]\n";
    let pipeline = started(stages, "");
    let (done, report) = ran(&pipeline, &batches);
    assert_eq!(done, oracle(pipeline.definition(), &batches));
    let pieces: Vec<&PartitionedBatch> = done.iter().flat_map(|done| &done.pieces).collect();
    for piece in &pieces {
        let nulls = piece.batch.column(0).null_count();
        let expected = if piece.partition == Some(3) { piece.batch.num_rows() } else { 0 };
        assert_eq!(nulls, expected);
    }
    assert!(pieces.iter().any(|piece| piece.partition == Some(3)));
    assert_eq!((report.totals.volume.rows_in, report.totals.volume.rows_out), (250, 250));
}

#[test]
fn a_node_that_dies_loses_nothing_and_doubles_nothing() {
    let batches = logs(3, 60, 10);
    let placements = &PLACEMENTS[1..];
    for (case, placement) in placements.iter().enumerate() {
        for lost_after in [0, 1, 7] {
            let node = format!("{NODE}threads = 2\nlost_after = {lost_after}\nslowdown = 2.0\n");
            let pipeline = started(&log_stages(placement), &node);
            let (done, report) = ran(&pipeline, &batches);
            assert_eq!(done, oracle(pipeline.definition(), &batches), "{placement}, {lost_after}");
            let losses: u64 = report
                .totals
                .stages
                .iter()
                .filter_map(|stage| stage.node.as_ref())
                .map(|node| node.losses)
                .sum();
            assert!(losses > 0 || case == 2, "{placement}: {report:?}");
            if losses > 0 {
                let events: Vec<&str> =
                    report.totals.events.kept.iter().map(|event| event.message.as_str()).collect();
                assert!(events.iter().any(|event| event.contains("set to be lost")), "{events:?}");
            }
        }
    }
}

#[test]
fn a_slow_node_gives_work_back_under_adaptive() {
    let batches = logs(4, 200, 10);
    let node = format!("{NODE}slowdown = 1000.0\nqueue_delay_max = \"2 ms\"\n");
    let pipeline = started(&log_stages(PLACEMENTS[3]), &node);
    let (done, report) = ran(&pipeline, &batches);
    assert_eq!(done, oracle(pipeline.definition(), &batches));
    let decompress = &report.totals.stages[0];
    let node = decompress.node.as_ref().unwrap();
    assert!(node.moves_back >= 1, "{report:?}");
    assert!(decompress.host.batches > node.batches, "{report:?}");
    assert!(
        report.totals.events.kept.iter().any(|event| event.message.contains("back to the host"))
    );
}

#[test]
fn a_stream_says_which_batch_failed() {
    // The first batch takes longer than the one behind it, which fails meanwhile.
    let pipeline = started("[[stages]]\nselect = \"CAST(what AS BIGINT) AS n\"", "");
    let batch = |texts: Vec<String>| {
        let texts: ArrayRef = Arc::new(StringArray::from(texts));
        RecordBatch::try_from_iter([("what", texts)]).unwrap()
    };
    let long = batch((0..500_000).map(|number| number.to_string()).collect());
    let batches = [long, batch(vec!["5".into()]), batch(vec!["five".into()])];
    let stream = pipeline.stream(batches[0].schema_ref()).unwrap();
    assert_eq!(stream.failed_batch(), None);
    let error = run(&stream, &batches).expect_err("one is no number");
    assert!(error.to_string().contains("five"), "{error}");
    assert_eq!(stream.failed_batch(), Some(2));
}

#[test]
fn a_stream_that_fails_leaves_others_alone() {
    let pipeline = started(&log_stages(PLACEMENTS[2]), NODE);
    let good = logs(5, 20, 20);
    let mut bad = logs(6, 20, 20);
    let broken = BinaryArray::from_iter_values((0..20).map(|_| b"no gzip at all"));
    bad[12] =
        RecordBatch::try_new(bad[0].schema(), vec![bad[12].column(0).clone(), Arc::new(broken)])
            .unwrap();
    let [good_stream, bad_stream] =
        [&good, &bad].map(|batches| pipeline.stream(batches[0].schema_ref()).unwrap());
    std::thread::scope(|scope| {
        let bad = scope.spawn(|| run(&bad_stream, &bad));
        let done = run(&good_stream, &good).unwrap();
        assert_eq!(done, oracle(pipeline.definition(), &good));
        let error = bad.join().unwrap().expect_err("is corrupt").to_string();
        for part in ["stage \"decompress\"", "\"block\"", "row 0"] {
            assert!(error.contains(part), "{error}");
        }
    });
    assert!(matches!(bad_stream.push(99, bad[0].clone()), Err(Error::Spent)));
    assert!(bad_stream.pull().is_none());
}

#[test]
fn another_schema_is_refused_and_the_stream_goes_on() {
    let pipeline = started("[[stages]]\nfilter = \"id > 50\"\n", "");
    let batches = logs(7, 2, 30);
    let stream = pipeline.stream(batches[0].schema_ref()).unwrap();
    stream.push(0, batches[0].clone()).unwrap();
    let other = batches[1].project(&[1]).unwrap();
    let error = stream.push(1, other).expect_err("another schema").to_string();
    assert!(error.contains("the schema changed"), "{error}");
    stream.push(2, batches[1].clone()).unwrap();
    stream.finish();
    let tags: Vec<u64> =
        std::iter::from_fn(|| stream.pull()).map(|done| done.unwrap().tag).collect();
    assert_eq!(tags, [0, 2]);
}

#[test]
fn stages_say_which_columns_they_cannot_take() {
    let batches = logs(8, 1, 1);
    for (stage, part) in [
        ("filter = \"nothing > 1\"", "nothing"),
        ("match = { column = \"id\", patterns = [\"x\"] }", "Int64"),
        ("compress = { column = \"nope\", codec = \"lz4\" }", "nope"),
        ("sort = [\"nope\"]", "nope"),
    ] {
        let pipeline = started(&format!("[[stages]]\nname = \"that\"\n{stage}\n"), "");
        let error = pipeline.stream(batches[0].schema_ref()).err().expect("is refused").to_string();
        assert!(error.contains("\"that\"") && error.contains(part), "{error}");
    }
}

#[test]
fn memory_is_bounded_and_back_pressure_reaches_the_input() {
    let stages = "memory = \"1 MiB\"\nstreams = 1\n\
                  [[stages]]\ndecompress = { column = \"block\", codec = \"gzip\" }\n";
    let pipeline = started(stages, "");
    // Each batch becomes 400 KB.
    let block = compressed(Format::Gzip, &vec![b'x'; 100_000]);
    let blocks = BinaryArray::from_iter_values((0..4).map(|_| &block));
    let batch = RecordBatch::try_from_iter([("block", Arc::new(blocks) as ArrayRef)]).unwrap();
    let stream = pipeline.stream(batch.schema_ref()).unwrap();
    // Nothing is pulled: from half of the memory on, no batch is taken. Batches taken before they grew may
    // fill more.
    let mut taken = 0;
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while std::time::Instant::now() < deadline {
        match stream.try_push(taken, batch.clone()).unwrap() {
            None => taken += 1,
            Some(_) if stream.report().totals.held_bytes > 1 << 19 => break,
            Some(_) => std::thread::yield_now(),
        }
    }
    let held = stream.report().totals.held_bytes_max;
    assert!((1 << 19..3 << 20).contains(&held), "{held} bytes held");
    assert!(pipeline.stream(batch.schema_ref()).is_err(), "one stream at a time");
    stream.finish();
    let done: Vec<BatchResult> = std::iter::from_fn(|| stream.pull()).map(Result::unwrap).collect();
    assert_eq!(done.len() as u64, taken);
    drop(stream);
    assert!(pipeline.stream(batch.schema_ref()).is_ok());
}

#[test]
fn a_pipeline_on_its_caller_needs_no_other_thread() {
    let batches = logs(9, 30, 20);
    let pool = Arc::new(CodecPool::new(NonZeroUsize::MIN).unwrap());
    let pipeline =
        Pipeline::on_caller(definition(&log_stages(PLACEMENTS[0]), ""), &pool, no_nodes).unwrap();
    let stream = pipeline.stream(batches[0].schema_ref()).unwrap();
    let mut done = Vec::new();
    for (tag, batch) in batches.iter().enumerate() {
        stream.push(tag as u64, batch.clone()).unwrap();
        while let Some(one) = stream.try_pull() {
            done.push(one.unwrap());
        }
    }
    stream.finish();
    done.extend(std::iter::from_fn(|| stream.pull()).map(Result::unwrap));
    assert_eq!(done, oracle(pipeline.definition(), &batches));
    let report = stream.report();
    assert!(report.totals.stages.iter().all(|stage| stage.host.cpu_ns > 0), "{report:?}");
}

/// Node that randomly answers twice or too late, or reports a failure.
struct Unreliable(Arc<InProcessNode>);

struct UnreliableStage {
    runner: StageRunner,
    completions: Completions,
    random: Random,
}

impl Node for Unreliable {
    fn open(
        &self,
        stage: &StageDefinition,
        schema: &arrow_schema::SchemaRef,
        completions: Completions,
    ) -> Result<Box<dyn NodeStage>, NodeError> {
        Ok(Box::new(UnreliableStage {
            runner: StageRunner::new(stage, schema).map_err(NodeError::new)?,
            completions,
            random: Random::new(11),
        }))
    }

    fn is_real(&self) -> bool {
        self.0.is_real()
    }
}

impl NodeStage for UnreliableStage {
    fn submit(&mut self, number: u64, pieces: Vec<PartitionedBatch>) -> Result<(), NodeError> {
        let result = || NodeResult::default();
        let pieces = self.runner.run(pieces).map_err(NodeError::new);
        let pieces = pieces.map(|pieces| NodeResult { pieces, ..result() });
        match self.random.below(6) {
            0 => self.completions.done(number, Err(NodeError::new("no memory"))),
            1 => {
                self.completions.done(number, pieces);
                // The second answer is empty: it must not count.
                self.completions.done(number, Ok(result()));
            }
            2 => {
                self.completions.lost(NodeError::new("gone"));
                self.completions.done(number, Ok(result()));
            }
            3 => {
                self.completions.done(number + 1000, Ok(result()));
                self.completions.done(number, pieces);
            }
            4 => return Err(NodeError::new("not taken")),
            _ => self.completions.done(number, pieces),
        }
        Ok(())
    }
}

#[test]
fn answers_that_make_no_sense_change_nothing() {
    let batches = logs(12, 100, 5);
    for placement in &PLACEMENTS[1..] {
        let node = Arc::new(InProcessNode::new(NonZeroUsize::MIN).unwrap());
        let pipeline = started(&log_stages(placement), NODE);
        let pipeline = pipeline.with_node("dpu0", Arc::new(Unreliable(node)));
        let (done, _) = ran(&pipeline, &batches);
        assert_eq!(done, oracle(pipeline.definition(), &batches), "{placement}");
    }
}

#[test]
fn a_stream_that_is_dropped_ends_what_it_has() {
    let batches = logs(13, 30, 20);
    for placement in PLACEMENTS {
        let pipeline = started(&log_stages(placement), &format!("{NODE}slowdown = 50.0\n"));
        let stream = pipeline.stream(batches[0].schema_ref()).unwrap();
        for (tag, batch) in batches.iter().enumerate().take(10) {
            stream.push(tag as u64, batch.clone()).unwrap();
        }
        drop(stream);
        assert_eq!(pipeline.report().totals.volume.batches, 10);
    }
}

/// Node that keeps its batches and answers only after the stream is pulled, with empty results.
#[derive(Default)]
struct Silent(Arc<Mutex<Vec<(Completions, u64)>>>);

struct SilentStage(Arc<Mutex<Vec<(Completions, u64)>>>, Completions);

impl Node for Silent {
    fn open(
        &self,
        _: &StageDefinition,
        _: &arrow_schema::SchemaRef,
        completions: Completions,
    ) -> Result<Box<dyn NodeStage>, NodeError> {
        Ok(Box::new(SilentStage(Arc::clone(&self.0), completions)))
    }
}

impl NodeStage for SilentStage {
    fn submit(&mut self, number: u64, _: Vec<PartitionedBatch>) -> Result<(), NodeError> {
        let mut kept = self.0.lock().unwrap();
        kept.push((self.1.clone(), number));
        Ok(())
    }
}

#[test]
fn under_adaptive_the_host_repeats_what_a_silent_node_has() {
    let batches = logs(14, 60, 5);
    let silent = Arc::new(Silent::default());
    // It does not count as lost, however long this takes.
    let node = format!("{NODE}timeout = \"1000 s\"\nqueue_delay_max = \"2 ms\"\n");
    let pipeline = started(&log_stages(PLACEMENTS[3]), &node);
    let pipeline = pipeline.with_node("dpu0", Arc::clone(&silent) as Arc<dyn Node>);
    let stream = pipeline.stream(batches[0].schema_ref()).unwrap();
    let done = run(&stream, &batches).unwrap_or_else(|error| panic!("{error}"));
    // Its answers now belong to batches that are already done.
    let kept = std::mem::take(&mut *silent.0.lock().unwrap());
    assert!(!kept.is_empty());
    for (completions, number) in kept {
        completions.done(number, Ok(NodeResult::default()));
    }
    let report = stream.report();
    assert_eq!(done, oracle(pipeline.definition(), &batches));
    for stage in &report.totals.stages {
        let node = stage.node.as_ref().unwrap();
        assert_eq!((node.batches, node.losses), (0, 0), "{report:?}");
        assert_eq!(stage.host.batches, 60, "{report:?}");
    }
}

#[test]
fn nodes_do_not_fill_memory_before_a_slower_one() {
    // Each batch becomes 64 KB on one node, and stays so long on the other that many wait.
    let stages = "memory = \"1 MiB\"\nstreams = 1\n\
                  [[stages]]\ndecompress = { column = \"block\", codec = \"gzip\" }\nplacement = \"quick\"\n\
                  [[stages]]\ncompress = { column = \"block\", codec = \"zstd\" }\nplacement = \"slow\"\n";
    let nodes = "[nodes.quick]\naddress = \"in-process\"\n[nodes.slow]\naddress = \"in-process\"\nslowdown = 50.0\n";
    let pipeline = started(stages, nodes);
    let block = compressed(Format::Gzip, &vec![b'x'; 64 << 10]);
    let blocks: ArrayRef = Arc::new(BinaryArray::from_iter_values([&block]));
    let batch = RecordBatch::try_from_iter([("block", blocks)]).unwrap();
    let (done, report) = ran(&pipeline, &vec![batch; 200]);
    assert_eq!(done.len(), 200);
    // The 8 batches that the node has when the memory is full grow further.
    let held = report.totals.held_bytes_max;
    assert!(held <= (1 << 20) + 10 * (65 << 10), "{held} bytes held");
}

fn any_stage() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "filter = \"id % 3 <> 1\"",
        "filter = \"id IS NULL OR id > 20\"",
        "select = \"id, text, id * 2 AS double\"",
        "sort = [\"id desc\", \"text\"]",
        "rechunk = { rows = 7 }",
        "match = { column = \"text\", patterns = [\"[a-c]\"] }",
        "match = { column = \"text\", patterns = [\"^$\", \"e\"], invert = true }",
        "match = { column = \"text\", patterns = [\"é\", \"b\"], per = \"line\" }",
    ])
}

fn any_pipeline() -> impl Strategy<Value = (Vec<(&'static str, usize)>, bool, u64, u64)> {
    let stages = prop::collection::vec((any_stage(), 0..PLACEMENTS.len()), 0..6);
    (stages, any::<bool>(), 0..4_u64, any::<u64>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_pipeline_does_what_its_stages_do((stages, partitions, faults, seed) in any_pipeline()) {
        let mut random = Random::new(seed);
        let batches: Vec<RecordBatch> = (0..random.below(30) + 1)
            .map(|_| {
                let rows = random.below(60) as usize;
                let word = |random: &mut Random| {
                    let letters = random.below(6);
                    let text: String = (0..letters)
                        .map(|_| ['a', 'b', 'c', 'd', 'é', '\n'][random.below(6) as usize])
                        .collect();
                    (random.below(8) > 0).then_some(text)
                };
                let ids = (0..rows).map(|_| (random.below(9) > 0).then(|| random.below(50) as i64));
                let ids: Int64Array = ids.collect();
                let words: StringArray = (0..rows).map(|_| word(&mut random)).collect();
                let columns: [(&str, ArrayRef, bool); 2] = [("id", Arc::new(ids), true), ("text", Arc::new(words), true)];
                RecordBatch::try_from_iter_with_nullable(columns).unwrap()
            })
            .collect();
        let mut text: Vec<String> = stages
            .iter()
            .map(|(stage, placement)| format!("[[stages]]\n{stage}\n{}\n", PLACEMENTS[*placement]))
            .collect();
        if partitions {
            let at = random.below(text.len() as u64 + 1) as usize;
            text.insert(at, "[[stages]]\npartition = { key = \"id\", by = \"bits:2\" }\n".into());
        }
        let node = match faults {
            0 => NODE.to_owned(),
            1 => format!("{NODE}lost_after = {}\n", random.below(40)),
            2 => format!("{NODE}slowdown = 20.0\nqueue_delay_max = \"1 ms\"\n"),
            _ => format!("{NODE}window = 1\nthreads = 3\n"),
        };
        let pipeline = started(&text.concat(), &node);
        let expected = oracle(pipeline.definition(), &batches);
        let (done, report) = ran(&pipeline, &batches);
        prop_assert_eq!(done, expected);
        prop_assert_eq!(report.totals.volume.batches, batches.len() as u64);
        for stage in &report.totals.stages {
            let node = stage.node.as_ref().map_or(0, |node| node.batches);
            prop_assert!(stage.host.batches + node <= stage.volume.batches);
        }
    }
}
