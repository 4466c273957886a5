//! `overside flow tree` as users call it.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::flow::{COMMAND, assert_contains, err, out, run, run_with};

/// Three snapshots of two ships and one without a number.
const SNAPSHOTS: [&str; 3] = [
    "ship,time,knots\n7,2022-01-03T00:00:00,1.5\n9,2022-01-03T00:00:01,2\n",
    "ship,time,knots\n9,2022-01-03T00:01:00,2.5\n7,2022-01-03T00:01:01,1\n,2022-01-03T00:01:02,0\n",
    "ship,time,knots\n7,2022-01-03T00:02:00,0.5\n",
];

fn absorb(place: &Path, text: &str) -> Value {
    let add = ["tree", "add", "tracks", "-", "--id", "ship", "--time", "time", "--json"];
    let output = run_with(place, &add, text.as_bytes());
    serde_json::from_str(&out(&output)).unwrap()
}

#[test]
fn snapshots_become_tracks() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    for snapshot in SNAPSHOTS {
        let added = absorb(place, snapshot);
        assert_eq!(added["rows"], snapshot.lines().count() - 1, "{added}");
    }
    let query = |options: &[&str]| {
        let arguments = [&["tree", "query", "tracks"][..], options].concat();
        out(&run(place, &arguments))
    };
    let track = "ship,time,knots\n7,2022-01-03T00:01:01,1\n7,2022-01-03T00:02:00,0.5\n";
    let found = || query(&["--id", "7", "--from", "2022-01-03T00:01"]);
    assert_eq!(found(), track);
    assert_eq!(query(&["--select", "knots", "--to", "2022-01-03T00:00:01"]), "knots\n1.5\n");
    assert_eq!(query(&["--id", "8"]), "ship,time,knots\n");
    insta::assert_snapshot!("tree_show", out(&run(place, &["tree", "show", "tracks"])));
    insta::assert_snapshot!("tree_compact", out(&run(place, &["tree", "compact", "tracks"])));
    assert_eq!(found(), track);
    let shown = out(&run(place, &["tree", "show", "tracks", "--json"]));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["levels"][2]["rows"], 6, "{shown}");
    out(&run(place, &["tree", "query", "tracks", "-q", "-o", "all.parquet", "--format=parquet"]));
    let parts =
        ["partition", "all.parquet", "--key", "ship", "--bits", "1", "-o", "parts", "--json"];
    let parts: Value = serde_json::from_str(&out(&run(place, &parts))).unwrap();
    assert_eq!((&parts["rows"], &parts["null_keys"]), (&6.into(), &1.into()));
}

#[test]
fn what_is_wrong_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    fs::write(place.join("one.csv"), SNAPSHOTS[0]).unwrap();
    let refused = |arguments: &[&str]| {
        let output = run(place, &[&["tree"][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        err(&output)
    };
    assert_contains(&refused(&["add", "tracks", "one.csv"]), &["--id COLUMN", "--time COLUMN"]);
    let add = ["add", "tracks", "one.csv", "--id", "ship", "--time", "time"];
    assert_contains(&refused(&[&add[..6], &["clock"]].concat()), &["one.csv", "\"clock\""]);
    assert_contains(
        &refused(&["query", "tracks"]),
        &["tracks: there is no tree", "`overside flow tree add` makes one"],
    );
    assert_contains(
        &refused(&[&["add", "one.csv"], &add[2..]].concat()),
        &["one.csv: Not a directory"],
    );
    out(&run(place, &[&["tree"][..], &add].concat()));
    assert_contains(&refused(&[&add[..], &["--levels", "3"]].concat()), &["was made by"]);
    assert_contains(&refused(&["query", "tracks", "--id", "x"]), &["\"x\" is no id", "Int64"]);
    let from = ["query", "tracks", "--from", "noon"];
    assert_contains(&refused(&from), &["\"noon\" is no time", "2018-08-01T12:00:00"]);
}

#[test]
fn whoever_has_read_enough_of_a_query_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let rows = (0..200_000).map(|n| format!("{n},{n}\n"));
    let rows = std::iter::once("ship,time\n".to_owned()).chain(rows);
    fs::write(place.join("many.csv"), rows.collect::<String>()).unwrap();
    let add = ["tree", "add", "tracks", "many.csv", "--id", "ship", "--time", "time"];
    out(&run(place, &add));
    for format in ["csv", "arrow-stream"] {
        let mut query = Command::new(COMMAND)
            .current_dir(place)
            .args(["flow", "tree", "query", "tracks", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut some = [0; 5];
        let mut stdout = query.stdout.take().unwrap();
        stdout.read_exact(&mut some).unwrap();
        drop(stdout);
        let ended = query.wait_with_output().unwrap();
        assert_eq!((err(&ended).as_str(), ended.status.code()), ("", Some(0)), "{format}");
    }
}

#[test]
fn a_killed_process_leaves_a_tree_that_can_be_read_and_added_to() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let ships = ["generate", "ships", "ships.arrow", "--rows", "200000", "--objects", "500"];
    out(&run(place, &ships));
    let add = ["tree", "add", "tracks", "ships.arrow", "--id", "MMSI", "--time", "BaseDateTime"];
    let rows = || -> u64 {
        let shown = run(place, &["tree", "show", "tracks", "--json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
        let levels = shown["levels"].as_array().cloned().unwrap_or_default();
        levels.iter().filter_map(|level| level["rows"].as_u64()).sum()
    };
    let found = || {
        let counted = ["tree", "query", "tracks", "--select", "MMSI"];
        out(&run(place, &counted)).lines().count() as u64 - 1
    };
    let mut killed = 0;
    for pause_ms in [0, 40, 90, 160, 250] {
        let before = rows();
        let mut child = Command::new(env!("CARGO_BIN_EXE_overside"))
            .arg("flow")
            .args(add)
            .args(["--capacity", "1MiB"])
            .current_dir(place)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(pause_ms));
        child.kill().unwrap();
        killed += u32::from(child.wait().unwrap().signal() == Some(9));
        let after = rows();
        assert!(after >= before && after <= before + 200_000, "{before} {after}");
        // Before the first commit there is no tree.
        assert!(after == 0 || found() == after);
    }
    assert!(killed > 0);
    let before = rows();
    out(&run(place, &[&add[..], &["--capacity", "1MiB"]].concat()));
    assert_eq!((rows(), found()), (before + 200_000, before + 200_000));
}
