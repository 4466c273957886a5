//! `overside flow tree` as users call it.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use crate::flow::{Place, assert_contains, err, out};

/// Three snapshots of two ships and one without a number.
const SNAPSHOTS: [&str; 3] = [
    "ship,time,knots\n7,2022-01-03T00:00:00,1.5\n9,2022-01-03T00:00:01,2\n",
    "ship,time,knots\n9,2022-01-03T00:01:00,2.5\n7,2022-01-03T00:01:01,1\n,2022-01-03T00:01:02,0\n",
    "ship,time,knots\n7,2022-01-03T00:02:00,0.5\n",
];

#[test]
fn snapshots_become_tracks() {
    let place = Place::new();
    for snapshot in SNAPSHOTS {
        let add = "tree add tracks - --id ship --time time --json";
        let added = out(&place.run_with(add, snapshot.as_bytes()));
        let added: serde_json::Value = serde_json::from_str(&added).unwrap();
        assert_eq!(added["rows"], snapshot.lines().count() - 1, "{added}");
    }
    let query = |options: &str| place.done(&format!("tree query tracks {options}"));
    let track = "ship,time,knots\n7,2022-01-03T00:01:01,1\n7,2022-01-03T00:02:00,0.5\n";
    let found = || query("--id 7 --from 2022-01-03T00:01");
    assert_eq!(found(), track);
    assert_eq!(query("--select knots --to 2022-01-03T00:00:01"), "knots\n1.5\n");
    assert_eq!(query("--id 8"), "ship,time,knots\n");
    insta::assert_snapshot!("tree_show", place.done("tree show tracks"));
    insta::assert_snapshot!("tree_compact", place.done("tree compact tracks"));
    assert_eq!(found(), track);
    let shown = place.json("tree show tracks");
    assert_eq!(shown["levels"][2]["rows"], 6, "{shown}");
    query("-q -o all.parquet --format=parquet");
    let parts = place.json("partition all.parquet --key ship --bits 1 -o parts");
    assert_eq!((&parts["rows"], &parts["null_keys"]), (&6.into(), &1.into()));
}

#[test]
fn what_is_wrong_is_named() {
    let place = Place::new();
    place.write("one.csv", SNAPSHOTS[0]);
    let refused = |line: &str, parts: &[&str]| {
        assert_contains(&place.refused(&format!("tree {line}")), parts);
    };
    refused("add tracks one.csv", &["--id COLUMN", "--time COLUMN"]);
    refused("add tracks one.csv --id ship --time clock", &["one.csv", "\"clock\""]);
    refused("query tracks", &["tracks: there is no tree", "`overside flow tree add` makes one"]);
    let add = "one.csv --id ship --time time";
    refused(&format!("add one.csv {add}"), &["one.csv: Not a directory"]);
    place.done(&format!("tree add tracks {add}"));
    refused(&format!("add tracks {add} --levels 3"), &["was made by"]);
    refused("query tracks --id x", &["\"x\" is no id", "Int64"]);
    refused("query tracks --from noon", &["\"noon\" is no time", "2018-08-01T12:00:00"]);
}

#[test]
fn whoever_has_read_enough_of_a_query_ends_it() {
    let place = Place::new();
    let rows = (0..200_000).map(|n| format!("{n},{n}\n"));
    place.write("many.csv", "ship,time\n".to_owned() + &rows.collect::<String>());
    place.done("tree add tracks many.csv --id ship --time time");
    for format in ["csv", "arrow-stream"] {
        let mut query = place.command(&format!("tree query tracks --format {format}"));
        let mut query = query.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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
    let place = Place::new();
    place.done("generate ships ships.arrow --rows 200000 --objects 500");
    let add = "tree add tracks ships.arrow --id MMSI --time BaseDateTime --capacity 1MiB";
    let rows = || -> u64 {
        let shown = place.run_with("tree show tracks --json", b"").stdout;
        let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap_or_default();
        let levels = shown["levels"].as_array().cloned().unwrap_or_default();
        levels.iter().filter_map(|level| level["rows"].as_u64()).sum()
    };
    let found = || place.done("tree query tracks --select MMSI").lines().count() as u64 - 1;
    let mut killed = 0;
    for pause_ms in [0, 40, 90, 160, 250] {
        let before = rows();
        let mut child = place.command(add).stdout(Stdio::null()).spawn().unwrap();
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
    place.done(add);
    assert_eq!((rows(), found()), (before + 200_000, before + 200_000));
}
