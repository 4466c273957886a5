//! Tests of definitions: accepted ones, and refused ones with the positions of errors.

use std::path::Path;

use overside_base::Random;

use overside_flow::{Definition, Destination, StageDefinition, StagePlacement};

use crate::pipeline_checks;

const HEAD: &str = "schema = \"flow-pipeline/1\"\nname = \"logs\"\n";
const OUT: &str = "[outputs.all]\nto = \"out\"\n";

fn parse(text: &str) -> Result<Definition, String> {
    let definition = Definition::parse("p.toml", text, Path::new("/flows"));
    definition.map_err(|error| error.to_string())
}

#[test]
fn a_definition_is_what_it_says() {
    let definition = parse(
        r#"
        schema = "flow-pipeline/1"
        name = "logs"
        threads = 3
        memory = "64 MiB"

        [input]
        files = ["a.arrow", "/b.parquet"]

        [nodes.dpu0]
        address = "in-process"
        slowdown = 4.0
        queue_delay_max = "20 ms"

        [[stages]]
        decompress = { column = "block", codec = "gzip", text = true }
        placement = "split:50"
        node = "dpu0"

        [[stages]]
        name = "errors"
        match = { column = "block", patterns = ["ERROR"], per = "line" }
        placement = "dpu0"

        [[stages]]
        partition = { key = "id", by = "bits:2" }

        [outputs.even]
        to = "even"
        partitions = "0,2,null"
        format = "parquet"
        codec = "zstd:3"

        [outputs.odd]
        to = "grpc://127.0.0.1:4000/odd"
        partitions = "1,3"
        outer = "deflate:6"

        [repack]
        placement = "split:30"
        device = "emulated:bf2"
        "#,
    )
    .unwrap();
    assert_eq!(definition.threads().get(), 3);
    assert_eq!(definition.memory_bytes(), 64 << 20);
    let files = ["/flows/a.arrow", "/b.parquet"].map(std::path::PathBuf::from);
    assert_eq!(definition.input.files, files);
    let [decompress, errors, partition] = &definition.stages[..] else {
        panic!("three stages");
    };
    assert_eq!(decompress.placement(), &"split:50".parse::<StagePlacement>().unwrap());
    assert_eq!((decompress.name(), decompress.node()), ("decompress", Some("dpu0")));
    assert_eq!((errors.name(), errors.kind(), errors.node()), ("errors", "match", Some("dpu0")));
    assert_eq!(partition.partitions(), Some(4));
    let route = |partition| -> Vec<&str> {
        let routes = definition.routes(Some(partition));
        routes.map(|(name, _)| name).collect()
    };
    assert_eq!([0, 1, 2, 3, 4].map(route).concat(), ["even", "odd", "even", "odd", "even"]);
    let odd = definition.outputs["odd"].message_options();
    assert_eq!(odd.outer, Some("deflate:6".parse().unwrap()));
    let even = &definition.outputs["even"].to;
    assert_eq!(even, &Destination::Directory("/flows/even".into()));
}

#[test]
fn stages_travel_as_text() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("words"), "one\ntwo\n").unwrap();
    let stages = [
        "filter = \"x > 1\"",
        "select = \"a, b + 1 AS c\"",
        "sort = [\"id\", \"time desc\"]",
        "rechunk = { rows = 1000, bytes = \"1 MiB\" }",
        "partition = { key = \"id\", by = \"ranges:1,5\" }",
        "match = { column = \"a\", pattern_file = \"words\", invert = true }",
        "compress = { column = \"a\", codec = \"zstd:9\" }\nplacement = \"adaptive\"\nnode = \"n\"",
        "decompress = { column = \"a\", codec = \"lz4\", value_bytes_max = \"1 MiB\" }",
    ];
    assert_eq!(stages.len(), StageDefinition::KINDS.len());
    for stage in stages {
        let nodes = "[nodes.n]\naddress = \"grpc://h:1\"\n";
        let text = format!("{HEAD}[[stages]]\n{stage}\n{nodes}{OUT}");
        let definition = Definition::parse("p.toml", &text, directory.path()).unwrap();
        let there = StageDefinition::parse("host", &definition.stages[0].to_toml()).unwrap();
        assert_eq!(there, definition.stages[0], "{stage}");
    }
}

/// Stages, and parts of the messages with which they are refused.
const STAGES: &[(&str, &str)] = &[
    ("filtre = 'x'", "stages.0.filtre | no such key | did you mean \"filter\"?"),
    ("name = 'a'", "stages.0 | it does nothing | filter"),
    ("filter = 'x'\nselect = 'y'", "stages.0 | several | filter, select"),
    ("filter = 'x'\nplacement = 'dpu9'", "placement | \"dpu9\" | host"),
    ("filter = 'x'\nplacement = 'split:101'", "placement | 101 | percentage"),
    ("filter = 'x'\nplacement = 'adaptive'", "placement | nothing | node"),
    ("filter = 'x'\ndevice = 'cpu'", "device | no device does filter | leave"),
    ("match = { column = 'a' }", "match.patterns | 0 patterns | pattern_file"),
    ("match = { column = 'a', patterns = ['('] }", "patterns | compile | ("),
    ("match = { column = 'a', pattern_file = 'no' }", "pattern_file | /flows/no | readable"),
    ("partition = { key = 'a', by = 'hash:1' }", "partition.by | not 1 | 2"),
    ("decompress = { column = 'a', codec = 'brotli' }", "codec | brotli | zstd"),
    ("compress = { column = 'a', codec = 'zstd:99' }", "compress.codec | 99 | levels"),
    ("sort = []", "sort | 0 columns | 1 to 64"),
];

/// Text behind the output, and parts of the messages with which it is refused.
const OUTPUTS: &[(&str, &str)] = &[
    ("pace = 1", "p.toml:5:1 | no such key | to"),
    (
        "tree = { id = 'a', time = 't', levels = 11 }",
        "outputs.all.tree | too many leaves | from 1 to 10",
    ),
    (
        "tree = { id = 'a', time = 't' }\nformat = 'csv'",
        "outputs.all.format | a tree has files of its own kind | leave it out",
    ),
    ("partitions = '0'", "outputs.all.partitions | no stage | leave"),
    ("format = 'csv'\ncodec = 'lz4'", "outputs.all.format | csv | another"),
    ("[outputs.b]\nto = 'out'", "outputs.b.to | \"all\" writes there | its own"),
    (
        "tree = { id = 'a', time = 't', next = ['grpc://h:1/p'] }",
        "outputs.all.tree.next | 1 next nodes | power of two",
    ),
    (
        "tree = { id = 'a', time = 't', next = ['grpc://h:1/p', 'grpc://h:1/p'] }",
        "outputs.all.tree.next | is there twice | a tree for each",
    ),
    (
        "tree = { id = 'a', time = 't', bits = 1, next = ['grpc://h:1/p', 'grpc://h:2/p'] }",
        "outputs.all.tree.next | how it is split | leave out",
    ),
    (
        "tree = { id = 'a', time = 't', next = ['grpc://h:1/p', 'there'] }",
        "outputs.all.tree.next | \"there\" | grpc://HOST:PORT",
    ),
    ("[unpack]\nplacement = 'device'", "unpack.placement | no device | NAME"),
    ("[repack]\ndevice = 'emulated:bf2'", "repack.device | host | placement = \"device\""),
    ("[repack]\nplacement = 'dpu0'", "repack.placement | \"dpu0\" | adaptive"),
    (
        "[unpack]\nplacement = 'split:50'\nnode = 'dpu1'\n[nodes.dpu0]\naddress = 'grpc://h:1'",
        "unpack.node | \"dpu1\" | \"dpu0\"",
    ),
    (
        "[repack]\nplacement = 'dpu0'\ndevice = 'dpu0/emulated:bf2'\n\
         [nodes.dpu0]\naddress = 'grpc://h:1'",
        "repack.node | machine in its name | leave out",
    ),
    (
        "[repack]\nplacement = 'here'\n[nodes.here]\naddress = 'in-process'",
        "repack.node | no agent | without a node",
    ),
    ("[nodes.host]\naddress = 'in-process'", "nodes.host | placement | another"),
    ("[nodes.n]\naddress = 'in-process'\ncodec = 'lz4'", "nodes.n.codec | in-process | leave"),
    (
        "[nodes.n]\naddress = 'grpc://x:1'\ncodec = 'lz4'\nouter = 'gzip'",
        "nodes.n.outer | exclude | leave",
    ),
    ("[nodes.n]\naddress = 'tcp://x'", "nodes.n.address | not an | grpc://"),
    ("[nodes.n]\naddress = 'grpc://x:1'\nslowdown = 2", "slowdown | grpc | leave"),
    ("[nodes.n]\nwindow = 2", "nodes.n | no address | resources"),
    (
        "[nodes.n]\naddress = 'grpc://x:1'\nresources = { bf2 = 1 }",
        "nodes.n.resources | Ray | leave",
    ),
    ("[nodes.n]\nresources = { bf2 = 0 }", "nodes.n.resources | 0 of bf2 | above 0"),
    ("[nodes.n]\nresources = { CPU = 1 }", "nodes.n.resources | by itself | custom"),
    ("[nodes.n]\nresources = { 'a b' = 1 }", "nodes.n.resources | no name | letters"),
    (
        "[nodes.n]\nresources = { bf2 = 1 }\npassword_file = 'p'",
        "nodes.n.password_file | its own | leave",
    ),
    ("[nodes.n]\nresources = { bf2 = 1 }\nthreads = 2", "nodes.n.threads | Ray | leave"),
];

/// Text behind the head, and parts of the messages with which it is refused.
const DEFINITIONS: &[(&str, &str)] = &[
    ("", "outputs | there is none | add [outputs.NAME]"),
    ("memory = '1 KiB'\n[outputs.all]\nto = 'out'", "memory | out of range | 1 MiB"),
    (
        "[outputs.all]\nto = 's3://b/p'\ntree = { id = 'a', time = 't' }",
        "outputs.all.tree | no directory of this machine | service",
    ),
    (
        "[[stages]]\npartition = { key = 'a', by = 'bits:1' }\n\
         [outputs.all]\nto = 'out'\npartitions = '0'",
        "outputs | partition 1 goes nowhere | partitions",
    ),
    (
        "[outputs.s]\nto = 'subscribers'\ncodec = 'lz4'",
        "codec | no files | a subscriber asks for it",
    ),
    ("[outputs.s]\nto = 'grpc://h:1/p'\nformat = 'parquet'", "outputs.s.format | no files | leave"),
    ("[outputs.s]\nto = 'grpc://h:1/p'\nouter = 'zstd:99'", "outputs.s.outer | 99 | level"),
    ("[outputs.s]\nto = 'ftp://x'", "outputs.s.to | ftp | s3://"),
];

#[test]
fn what_is_wrong_is_said_with_its_place_and_a_remedy() {
    let schema = format!("schema = \"flow-pipeline/2\"\n{OUT}");
    let cases = (STAGES.iter())
        .map(|(text, parts)| (format!("{HEAD}[[stages]]\n{text}\n{OUT}"), *parts))
        .chain(OUTPUTS.iter().map(|(text, parts)| (format!("{HEAD}{OUT}{text}"), *parts)))
        .chain(DEFINITIONS.iter().map(|(text, parts)| (format!("{HEAD}{text}"), *parts)))
        .chain([(schema, "p.toml:1:1 | not known | flow-pipeline/1")]);
    for (text, parts) in cases {
        let message = parse(&text).expect_err("is refused");
        for part in parts.split(" | ") {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
}

/// Replays the corpus of the fuzz target, with changed bytes.
#[test]
fn any_text_is_a_definition_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/pipeline");
    let mut random = Random::new(5);
    for file in std::fs::read_dir(corpus).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        pipeline_checks::definition(&bytes);
        for _ in 0..1000 {
            let mut mutated = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(mutated.len() as u64) as usize;
                match random.below(3) {
                    0 => mutated[at] = random.next_u64() as u8,
                    1 => drop(mutated.remove(at)),
                    _ => mutated.insert(at, b" \"[]{}=,.\n-059ae"[random.below(16) as usize]),
                }
            }
            pipeline_checks::definition(&mutated);
        }
    }
}
