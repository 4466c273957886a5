//! Placements, and the reports on them.

use serde_json::Value;

use super::*;

/// Runs a line with `--stats json` and returns the figures.
fn stats(directory: &Directory, line: &str) -> Value {
    let output = directory.run(&format!("{line} --stats json"));
    assert_eq!(code(&output), 0, "{}", err(&output));
    serde_json::from_str(&err(&output)).unwrap()
}

#[test]
fn every_placement_gives_the_same_bytes_back() {
    let bytes = mixed();
    let directory = Directory::with("a", &bytes);
    for placement in ["cpu", "device", "split:40", "adaptive"] {
        let options = format!("--device emulated:bf2 --placement {placement}");
        directory.write("b.gz", &directory.quietly(&format!("compress -c {options} a")));
        assert!(directory.other("gzip -dc b.gz") == bytes, "{placement}");
        assert!(directory.quietly(&format!("decompress -c {options} b.gz")) == bytes);
    }
}

#[test]
fn figures_say_where_it_ran() {
    let directory = Directory::with("a", &words(4 * MIB, 1));
    let line = "compress -k --device emulated:bf2 --placement split:50 a";
    let all = stats(&directory, line);
    assert_eq!(
        (&all["verb"], &all["input"], &all["output"]),
        (&"compress".into(), &"a".into(), &"a.gz".into())
    );
    let summary = &all["summary"];
    assert_eq!(summary["bytes_in"], 4 * MIB);
    assert_eq!(summary["bytes_out"], directory.read("a.gz").len());
    let (cpu, device) = (&summary["report"]["cpu"], &summary["report"]["devices"][0]);
    assert_eq!((&cpu["chunks"], &device["chunks"]), (&2.into(), &2.into()));
    assert_eq!(cpu["applied"]["provenance"], "measured");
    assert_eq!(device["applied"]["provenance"], "emulated");

    let all = stats(&directory, "decompress -t --device emulated:bf3 --placement device a.gz");
    assert!(all["output"].is_null());
    assert_eq!(all["summary"]["report"]["devices"][0]["destination_bytes"], 4 * MIB);
}

#[test]
fn one_line_a_file_says_how_short_and_where() {
    let directory = Directory::with("a", &words(2 * MIB, 1));
    let output = directory.run("compress -kv a");
    let text = err(&output);
    assert!(text.starts_with("a -> a.gz: 2 MiB to "), "{text}");
    assert_contains(&text, "ISA-L");
    assert!(text.ends_with(" on cpu\n"), "{text}");
    let output = directory.run("compress -fv --device emulated:bf2 --placement split:50 a");
    let text = err(&output);
    assert_contains(&text, "50.0 % by ISA-L");
    assert_contains(&text, "on emulated:bf2 (emulated");
    let text = err(&directory.run("decompress -tv a.gz"));
    assert!(text.starts_with("a.gz: OK: "), "{text}");
    let text = err(&directory.run("decompress -v --stats text a.gz"));
    assert!(text.contains("\n  gzip: 2 members, 0 stored"), "{text}");
}

#[test]
fn the_adaptive_placement_is_explained_in_numbers() {
    let directory = Directory::with("a", &words(4 * MIB, 1));
    let text = err(&directory.run("compress -k --explain --device emulated:bf2 a"));
    assert!(text.starts_with("a: placement adaptive\n"), "{text}");
    assert!(text.contains(" % to the device: cpu alone"), "{text}");
    let text = err(&directory.run("compress -kf --explain a"));
    assert_eq!(text, "a: placement cpu, nothing to decide\n");
}

#[test]
fn a_device_that_cannot_do_it_is_told_and_does_no_harm() {
    // BlueField-3 has no engine that compresses DEFLATE.
    let directory = Directory::with("a", &words(2 * MIB, 1));
    let output = directory.run("compress -k --device emulated:bf3 a");
    let text = err(&output);
    assert_eq!(code(&output), 0, "{text}");
    assert_contains(&text, "emulated:bf3 cannot compress-deflate");
    let all = stats(&directory, "compress -kf --device emulated:bf3 a");
    let report = &all["summary"]["report"];
    assert_eq!(report["cpu"]["chunks"], 2);
    assert_eq!(report["events"][0]["kind"], "unsupported");
    // The placement `device` does not fall back to the CPU.
    let output = directory.run("compress -f --device emulated:bf3 --placement device a");
    assert_eq!(code(&output), 1);
    assert_contains(err(&output), "cannot compress-deflate; `overside devices`");
    assert_eq!(directory.names(), "a a.gz");
    let output =
        directory.run("compress -c --format zlib --device emulated:bf3 --placement device a");
    assert_contains(err(&output), "cannot compress-deflate-part; `overside devices`");
}

#[test]
fn streams_that_a_device_ends_are_joined_to_one_of_zlib() {
    let content = words(2 * MIB, 1);
    let directory = Directory::with("a", &content);
    let all = stats(
        &directory,
        "compress --format zlib --device emulated:bf2 --placement device --chunk 256KiB a",
    );
    assert_eq!(all["summary"]["joining"]["chunks"], 8);
    assert!(all["summary"]["joining"]["cpu_ns"].as_u64().unwrap() > 0);
    let output = directory.run("decompress -c a.zz");
    assert!(output.stdout == content, "{}", err(&output));
}

#[test]
fn no_more_than_the_window_is_in_flight() {
    let directory = Directory::with("a", &words(8 * MIB, 1));
    for (submitters, window, most) in [(1, 700, 512), (2, 1024, 1024), (3, 1, 768)] {
        let all = stats(
            &directory,
            &format!(
                "compress -kf -9 --threads 8 --chunk 256KiB --submitters {submitters} --window {window}KiB a"
            ),
        );
        let found = all["summary"]["in_flight_bytes_max"].as_u64().unwrap();
        assert!((256 << 10..=most << 10).contains(&found), "{found} of {window} KiB");
    }
}

const BY_SIZE: &str = r#"
schema = "placement/1"
[[rule]]
operation = "compress-deflate"
from_bytes = 1048576
placement = "split:50"
device = "emulated:bf2"
chunk_bytes = 524288
[[rule]]
operation = "decompress-deflate"
placement = "device"
device = "emulated:bf2"
"#;

#[test]
fn a_placement_file_says_where_each_file_runs() {
    let directory = Directory::with("long", &words(4 * MIB, 1));
    directory.write("short", &words(MIB / 2, 2));
    directory.write("p.toml", BY_SIZE.as_bytes());
    let all = stats(&directory, "compress -k --placement-file p.toml long");
    let report = &all["summary"]["report"];
    assert_eq!(report["cpu"]["chunks"], 4);
    assert_eq!(report["devices"][0]["chunks"], 4);
    // No rule applies to shorter files or to other formats.
    for line in ["short", "--format lz4 long"] {
        let line = format!("compress -k --placement-file p.toml {line}");
        let report = &stats(&directory, &line)["summary"]["report"];
        assert!(report["devices"][0].is_null(), "{report}");
    }
    // Options of the command line have priority.
    let line = "compress -kf --chunk 2MiB --placement-file p.toml long";
    let report = &stats(&directory, line)["summary"]["report"];
    assert_eq!(report["devices"][0]["chunks"], 1);
    // The format is detected by the content.
    fs::rename(directory.path("long.gz"), directory.path("packed")).unwrap();
    let report =
        &stats(&directory, "decompress -t --placement-file p.toml packed")["summary"]["report"];
    assert_eq!(report["devices"][0]["chunks"], 2);
}

#[test]
fn a_hostile_placement_file_is_refused_before_anything_is_done() {
    let directory = Directory::with("a", &words(MIB, 1));
    for (text, said) in [
        ("", "schema"),
        ("schema = \"placement/1\"\n[[rule]]", "operation"),
        (&BY_SIZE.replace("split:50", "split:500"), "rule.0.placement"),
        (&BY_SIZE.replace("524288", "1e300"), "chunk_bytes"),
        (&BY_SIZE.replace("emulated:bf2", "cpu"), "rule.0.device"),
        (&"[".repeat(100_000), "p.toml"),
        (&"#".repeat(300_000), "longer than 262144 bytes"),
        ("\u{0}", "p.toml"),
    ] {
        directory.write("p.toml", text.as_bytes());
        let output = directory.run("compress --placement-file p.toml a");
        assert_eq!(code(&output), 1, "{said}");
        let error = err(&output);
        assert!(error.contains(said) && error.len() < 2000, "{said}: {error}");
        assert_eq!(directory.names(), "a p.toml");
    }
    let output = directory.run("compress --placement-file /dev/zero a");
    assert_contains(err(&output), "not a regular file");
    let output = directory.run("compress --placement-file none a");
    assert_contains(err(&output), "No such file");
    // A missing device is reported, and the file stays.
    directory.write("p.toml", BY_SIZE.replace("emulated:bf2", "emulated:bf9").as_bytes());
    let output = directory.run("compress --placement-file p.toml a");
    assert_eq!(code(&output), 1);
    assert_contains(err(&output), "bf9");
    assert_eq!(directory.names(), "a p.toml");
}
