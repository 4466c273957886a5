//! `overside flow run` as users call it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::agent::{Running, User};
use crate::flow::{COMMAND, Place, assert_contains, err};

const HEAD: &str = "schema = \"flow-pipeline/1\"\nname = \"test\"\nthreads = 2\n";

const NODE: &str = "[nodes.dpu0]\naddress = \"in-process\"\n";

impl Place {
    /// Writes a pipeline with a node in place of another machine.
    fn pipeline(&self, name: &str, rest: &str) {
        self.write(name, format!("{HEAD}{NODE}{rest}"));
    }

    fn with_ships() -> Self {
        let place = Self::new();
        place.done(SHIPS);
        place
    }
}

const SHIPS: &str = "generate ships ships.arrow --rows 200000 --seed 3";

/// Returns the number of jobs of a stage on a device.
fn jobs(stage: &Value, operation: &str, device: &str) -> u64 {
    let devices = stage["devices"].as_array().unwrap();
    let is_it = |one: &&Value| one["device"] == device && one["operation"] == operation;
    let of_device = devices.iter().find(is_it);
    of_device.unwrap_or_else(|| panic!("{stage}"))["jobs"].as_u64().unwrap()
}

#[test]
fn a_pipeline_writes_what_partition_writes_wherever_it_runs() {
    let place = Place::with_ships();
    let line = "partition ships.arrow --key MMSI --hash 3 --format csv --out expected";
    place.done(&format!(r#"{line} --filter "SOG > 5""#));
    for (number, placement) in ["host", "dpu0", "split:40", "adaptive"].into_iter().enumerate() {
        let node = if number > 1 { "node = \"dpu0\"\n" } else { "" };
        let stage = |text: &str| format!("[[stages]]\n{text}\nplacement = \"{placement}\"\n{node}");
        let filter = stage("filter = \"SOG > 5\"");
        let partition = stage("partition = { key = \"MMSI\", by = \"hash:3\" }");
        let outputs = "[outputs.some]\nto = \"some\"\nformat = \"csv\"\npartitions = \"0,null\"\n\
                       [outputs.all]\nto = \"all\"\nformat = \"csv\"\n";
        let input = "[input]\nfiles = [\"ships.arrow\"]\nrows = 10000\n";
        place.pipeline("p.toml", &format!("{input}{filter}{partition}{outputs}"));
        let report = place.json("run p.toml --force");
        assert_eq!((&report["schema"], &report["batches"]), (&"flow-run/1".into(), &20.into()));
        let is_host = placement == "host";
        let provenance = if is_host { "measured" } else { "emulated" };
        assert_eq!(report["provenance"], provenance, "{report}");
        for stage in report["stages"].as_array().unwrap() {
            let node = stage["node"]["batches"].as_u64().unwrap_or(0);
            assert_eq!(stage["host"]["batches"].as_u64().unwrap() + node, 20, "{stage}");
            assert!(stage["busy_ns"].as_u64().unwrap() > 0);
            assert_eq!(node == 0, is_host, "{stage}");
        }
        // A file is read, and rows of both outputs are written.
        let (unpack, repack) = (&report["unpack"], &report["repack"]);
        // The first line's time includes everything.
        for stage in [unpack, repack] {
            assert!(stage["busy_ns"].as_u64() <= report["elapsed_ns"].as_u64());
        }
        let rows = |stage: &Value| stage["rows_out"].as_u64().unwrap();
        assert_eq!(rows(unpack), 200_000);
        assert!(rows(repack) > rows(&report["stages"][1]), "{report}");
        for stage in [unpack, repack] {
            assert_eq!(stage["placement"], "host");
            assert!(stage["throughput_bytes_per_s"].as_f64().unwrap() > 0.0);
            assert!(stage["host"]["cpu_ns"].as_u64().unwrap() > 0);
        }
        for part in 0..3 {
            let read = |folder: &str| place.read(&format!("{folder}/part-{part}.csv"));
            let expected = read("expected");
            assert!(read("all") == expected, "{placement}, partition {part}");
            assert_eq!(place.path(&format!("some/part-{part}.csv")).exists(), part == 0);
        }
        let text = place.done("run p.toml --force -p 1");
        let parts =
            ["of 200,000 rows in", "unpack", "filter", "repack", "queue delay", "part-0.csv"];
        assert_contains(&text, &parts);
        assert_eq!(text.contains("say nothing about a DPU"), !is_host, "{text}");
    }
}

#[test]
fn a_device_packs_and_unpacks_and_the_report_says_so() {
    let place = Place::with_ships();
    let device = "placement = \"device\"\ndevice = \"emulated:bf2\"\n";
    let sort = "[[stages]]\nfilter = \"SOG > 5\"\n";
    let packed = format!("{sort}[outputs.all]\nto = \"packed\"\nouter = \"deflate\"\n");
    place.pipeline("pack.toml", &format!("[repack]\n{device}{packed}"));
    let plain = "[outputs.all]\nto = \"csv\"\nformat = \"csv\"\n";
    place.pipeline("unpack.toml", &format!("[unpack]\n{device}{plain}"));
    let report = place.json("run pack.toml ships.arrow");
    let repack = &report["repack"];
    assert!(jobs(repack, "compress-deflate", "emulated:bf2") > 0);
    assert_eq!(repack["placement"], "device");
    assert!(repack["bytes_out"].as_u64() < repack["bytes_in"].as_u64());
    assert_eq!(report["provenance"], "emulated", "{report}");
    assert_eq!(report["unpack"]["devices"], serde_json::json!([]));
    let report = place.json("run unpack.toml packed/part.arrow");
    assert!(jobs(&report["unpack"], "decompress-deflate", "emulated:bf2") > 0);
    assert_eq!(report["rows_in"], repack["rows_out"]);
    let expected = format!("{sort}{}", plain.replace("\"csv\"\nf", "\"expected\"\nf"));
    place.pipeline("plain.toml", &expected);
    place.json("run plain.toml ships.arrow");
    assert!(place.read("csv/part.csv") == place.read("expected/part.csv"));
    // Missing files are reported before anything runs.
    place.pipeline("none.toml", &format!("[unpack]\n{}{plain}", device.replace("bf2", "bf9")));
    let message = place.refused("run none.toml ships.arrow");
    assert_contains(&message, &["stage \"unpack\"", "bf9"]);
}

/// The node packs and unpacks through its agent; nothing listens at its own address.
#[test]
fn a_pipelines_node_packs_and_unpacks_by_its_agent() {
    let user = User::new();
    let place = user.path("");
    let agent =
        Running::start(&user, &["--insecure", "--device", "emulated:bf2", "--device", "cpu"]);
    user.done(&["agents", "add", "dpu0", &agent.address]);
    user.done(&["flow"].into_iter().chain(SHIPS.split(' ')).collect::<Vec<_>>());
    let node = "[nodes.dpu0]\naddress = \"grpc://127.0.0.1:1\"\n";
    let write = |name: &str, rest: &str| {
        fs::write(place.join(name), format!("{HEAD}{node}{rest}")).unwrap();
    };
    let run = |words: &[&str]| -> Value {
        let words = [&["flow", "run"], words, &["--json"]].concat();
        serde_json::from_str(&user.done(&words)).unwrap()
    };
    write("plain.toml", "[outputs.all]\nto = \"expected\"\n");
    run(&["plain.toml", "ships.arrow"]);
    let packed = "[outputs.all]\nto = \"packed\"\nouter = \"deflate\"\n";
    let unpacked = "[outputs.all]\nto = \"unpacked\"\n";
    for (codec, device) in [
        ("placement = \"dpu0\"\ndevice = \"emulated:bf2\"\n", "dpu0/emulated:bf2"),
        ("placement = \"device\"\ndevice = \"dpu0/emulated:bf2\"\n", "dpu0/emulated:bf2"),
        (
            "placement = \"split:50\"\nnode = \"dpu0\"\ndevice = \"emulated:bf2\"\n",
            "dpu0/emulated:bf2",
        ),
        // The node's cores.
        ("placement = \"dpu0\"\n", "dpu0/cpu"),
    ] {
        write("pack.toml", &format!("[repack]\n{codec}{packed}"));
        write("unpack.toml", &format!("[unpack]\n{codec}{unpacked}"));
        let report = run(&["pack.toml", "ships.arrow", "--force"]);
        assert!(jobs(&report["repack"], "compress-deflate", device) > 0, "{report}");
        let report = run(&["unpack.toml", "packed/part.arrow", "--force"]);
        assert!(jobs(&report["unpack"], "decompress-deflate", device) > 0, "{report}");
        assert_eq!(report["rows_in"], 200_000);
        let read = |folder: &str| fs::read(place.join(folder).join("part.arrow")).unwrap();
        assert!(read("unpacked") == read("expected"), "{codec}");
    }
    user.done(&["agents", "remove", "dpu0"]);
    let message = user.fails(2, &["flow", "run", "unpack.toml", "ships.arrow", "--force"]);
    assert_contains(&message, &["stage \"unpack\"", "overside agents add"]);
}

#[test]
fn one_table_without_partitions_has_one_file() {
    let place = Place::new();
    place.write("a.csv", "id,what\n5,a\n2,b\n");
    place.write("b.csv", "id,what\n7,c\n");
    let outputs = "[outputs.all]\nto = \"out\"\nformat = \"csv\"\n";
    place.pipeline("p.toml", &format!("[[stages]]\nselect = \"what\"\n{outputs}"));
    let text = place.done("run p.toml a.csv b.csv");
    assert_contains(&text, &["3 of 3 rows"]);
    assert_eq!(place.read("out/part.csv"), "what\na\nb\nc\n");
    // Existing output is not replaced without the option.
    let again = place.refused("run p.toml a.csv");
    assert_contains(&again, &["out/part.csv exists; --force replaces it"]);
    place.pipeline("none.toml", &format!("[[stages]]\nfilter = \"id > 100\"\n{outputs}"));
    place.done("run none.toml a.csv --force");
    assert_eq!(place.read("out/part.csv"), "");
}

#[test]
fn an_output_is_a_tree_that_each_run_adds_to() {
    let place = Place::with_ships();
    let outputs = "[outputs.tracks]\nto = \"tracks\"\npartitions = \"0,1\"\n\
                   tree = { id = \"MMSI\", time = \"BaseDateTime\", capacity = \"1 MiB\", levels = 1 }\n\
                   [outputs.others]\nto = \"others\"\npartitions = \"2..4,null\"\n\
                   tree = { id = \"MMSI\", time = \"BaseDateTime\" }\n";
    let stages = "[[stages]]\npartition = { key = \"MMSI\", by = \"bits:2\" }\n";
    let text = format!("[input]\nfiles = [\"ships.arrow\"]\n{stages}{outputs}");
    place.pipeline("p.toml", &text);
    let report = place.json("run p.toml");
    let files = report["files"].as_array().unwrap().iter();
    let rows: u64 = files.map(|file| file["rows"].as_u64().unwrap()).sum();
    assert_eq!(rows, 200_000, "{report}");
    let query = |select: &str| place.done(&format!("tree query tracks others --select {select}"));
    let all = "[[stages]]\nselect = \"MMSI, BaseDateTime\"\n[outputs.all]\nto = \"all\"\nformat = \"csv\"\n";
    place.pipeline("all.toml", all);
    place.done("run all.toml ships.arrow");
    let rows_of = |csv: String| {
        let rows = csv.lines().skip(1).map(|row| row.split_once(',').unwrap());
        let rows = rows.map(|(id, time)| (id.parse::<i64>().unwrap(), time.to_owned()));
        rows.collect::<Vec<_>>()
    };
    let (mut rows, mut all) =
        (rows_of(query("MMSI,BaseDateTime")), rows_of(place.read("all/part.csv")));
    assert!(rows.is_sorted());
    rows.sort_unstable();
    all.sort_unstable();
    assert!(rows == all);
    // A failed run appends nothing; a repeated successful one appends everything again.
    place.write("other.csv", "id\n5\n");
    let failed = place.refused("run p.toml ships.arrow other.csv");
    assert_contains(&failed, &["other.csv: the columns are not those of ships.arrow: "]);
    assert_eq!(query("MMSI").lines().count(), 200_001);
    place.done("run p.toml");
    assert_eq!(query("MMSI").lines().count(), 400_001);
    let others = place.json("tree show tracks");
    assert_eq!(others["levels"].as_array().unwrap().len(), 2, "{others}");
    // Missing columns are reported before anything runs.
    place.pipeline("wrong.toml", &text.replace("BaseDateTime", "clock"));
    let wrong = place.refused("run wrong.toml ships.arrow --check");
    assert_contains(&wrong, &["output \"others\": ", "clock"]);
}

#[test]
fn what_cannot_run_says_why_and_leaves_nothing() {
    let place = Place::new();
    place.write("a.csv", "id,what\n5,a\n2,b\n");
    place.write("other.csv", "id\n5\n");
    let outputs = "[outputs.all]\nto = \"out\"\n";
    let stage = |stage: &str| format!("[[stages]]\n{stage}\n{outputs}");
    let wrong_key = "p.toml:7:1: stages.0.filtre: no such key";
    let other_columns =
        "other.csv: the columns are not those of a.csv: there is no column \"what\"";
    for (rest, tables, expected) in [
        (stage("filtre = \"x\""), "a.csv", wrong_key),
        (stage("filter = \"nope > 1\""), "a.csv", "a.csv: stage \"filter\": "),
        (outputs.into(), "none.csv", "none.csv: No such file"),
        ("[outputs.all]\nto = \"a.csv\"\n".into(), "a.csv", "a.csv: a file; name a directory"),
        (String::new(), "a.csv", "outputs: there is none; add [outputs.NAME]"),
        (outputs.into(), "a.csv other.csv", other_columns),
        (stage("select = \"CAST(what AS int) AS n\""), "a.csv", "stage \"select\""),
        (outputs.replace("out\"", "subscribers\""), "a.csv", "only `overside flow serve`"),
        (outputs.into(), "", "no table"),
    ] {
        place.pipeline("p.toml", &rest);
        assert_contains(&place.refused(&format!("run p.toml {tables}")), &[expected]);
        assert_eq!(place.names("out"), [""; 0], "{expected}");
    }
    assert_eq!(place.done("run p.toml --check a.csv"), "OK\n");
}

#[test]
fn a_file_that_cannot_grow_fails_the_run_by_name() {
    let place = Place::with_ships();
    let rest = "[[stages]]\npartition = { key = \"MMSI\", by = \"hash:2\" }\n[outputs.all]\nto = \"out\"\n";
    place.pipeline("p.toml", rest);
    // Like a full disk: writes beyond the limit fail, here with an error instead of a signal.
    let script = format!("trap '' XFSZ; ulimit -f 500; exec {COMMAND} flow run p.toml ships.arrow");
    let mut command = Command::new("sh");
    let output = command.args(["-c", &script]).current_dir(place.path("")).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert_contains(&err(&output), &["out/part-", "File too large"]);
    assert_eq!(place.names("out"), [""; 0]);
}
