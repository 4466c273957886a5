//! `overside kv profile` as users call it.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::time::Instant;

use overside_testkit::assert_contains;
use serde_json::Value;

use crate::agent::{Running, User, err};
use crate::kv::{Serving, words};

const STAGES: [&str; 6] = ["receive", "parse", "process", "persist", "respond", "other"];

fn profile(user: &User, arguments: &str) -> Output {
    let all = format!("kv profile --seconds 1 --warm-up 0.1 --records 1000 {arguments}");
    user.command(&words(&all)).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn parsed(output: &Output) -> Value {
    assert!(output.status.success(), "{}", err(output));
    serde_json::from_str(&out(output)).unwrap()
}

#[test]
fn stages_share_the_time_of_the_server() {
    let user = User::new();
    let begin = Instant::now();
    let said = parsed(&profile(&user, "--json -P 16 --workload a"));
    let passed_ns = begin.elapsed().as_nanos() as f64;
    let number = |name: &str| said[name].as_f64().unwrap_or_else(|| panic!("{name}: {said}"));
    let of_stages = |name: &str| -> f64 {
        let stages = said["stages"].as_object().unwrap();
        assert_eq!(stages.len(), STAGES.len());
        STAGES.map(|stage| stages[stage][name].as_f64().unwrap()).iter().sum()
    };
    assert_eq!(said["provenance"], "measured");
    assert!((of_stages("share") - 1.0).abs() < 1e-6, "{said}");
    assert!((of_stages("ns") - number("busy_ns")).abs() < 10.0, "{said}");
    let per_command = of_stages("ns_per_command") * number("commands");
    assert!((per_command / number("busy_ns") - 1.0).abs() < 1e-6);
    assert!(number("busy_ns") <= number("elapsed_ns"), "{said}");
    assert!(number("elapsed_ns") <= passed_ns, "{said} in {passed_ns} ns");
    assert!((0.0..1.0).contains(&number("idle")), "{said}");
    assert!(number("commands") >= number("batches") && number("batches") > 0.0);
    assert!(number("client_ns_per_command") > 0.0 && number("hash_ns_per_command") > 0.0);
    let link = &said["link"];
    assert!(link["batch"].as_f64().unwrap() <= number("commands_per_batch").round().max(1.0));
    assert!(link["communication_ns_per_command"].as_f64().unwrap() > 0.0, "{said}");
    assert!(link["processing_ns_per_command"].as_f64().unwrap() >= 0.0, "{said}");
    for stage in ["receive", "parse", "process", "respond"] {
        assert!(said["stages"][stage]["ns"].as_f64().unwrap() > 0.0, "{said}");
    }
}

#[test]
fn both_sides_of_a_design_are_told_apart() {
    let user = User::new();
    let agent = Running::start(&user, &["--insecure"]);
    user.done(&["agents", "add", "dpu0", &agent.address]);
    let design = "-- --design sav --dpu dpu0 --dpu-cores 2";
    let said = parsed(&profile(&user, &format!("--json -P 16 {design}")));
    for side in [&said, &said["keys"]] {
        let shares = STAGES.map(|stage| side["stages"][stage]["share"].as_f64().unwrap());
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{side}");
        assert!(side["stages"]["process"]["ns"].as_f64().unwrap() > 0.0, "{side}");
    }
    // Both sides count the same commands, except for those in flight when they are read.
    let [clients, keys] = [&said, &said["keys"]].map(|side| side["commands"].as_f64().unwrap());
    assert!((keys / clients - 1.0).abs() < 0.1, "{keys} of {clients}");
    let text = out(&profile(&user, design));
    assert_contains(&text, "clients     share");
    assert_contains(&text, "keys        share");
}

#[test]
fn a_server_that_runs_is_asked_with_its_password() {
    let user = User::new();
    let file = user.path("password");
    std::fs::write(&file, "secret\n").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let password = "--password-file password";
    let serving = format!("--listen 127.0.0.1:0 {password}");
    let serving = Serving::start(&user, &words(&serving));
    let server = format!("redis://127.0.0.1:{}", serving.port("listen"));
    let output = profile(&user, &format!("{server} -c 2 {password}"));
    assert!(output.status.success(), "{}", err(&output));
    let text = out(&output);
    assert_contains(&text, "ns/command");
    for stage in ["receive", "parse", "process", "respond", "all"] {
        assert_contains(&text, &format!("\n{stage} "));
    }
    assert_contains(&text, "commands a batch");
    let refused = profile(&user, &server);
    assert_eq!(refused.status.code(), Some(3));
    assert_contains(err(&refused), "NOAUTH");
}

#[test]
fn a_server_without_these_counters_is_refused() {
    let user = User::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("redis://{}", listener.local_addr().unwrap());
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 64];
        let len = stream.read(&mut asked).unwrap();
        stream.write_all(b"$10\r\n# Server\r\n\r\n+OK\r\n").unwrap();
        asked[..len].to_vec()
    });
    let refused = profile(&user, &server);
    assert_eq!(refused.status.code(), Some(3));
    assert_contains(err(&refused), "does not count stages");
    assert!(other.join().unwrap().starts_with(b"*1\r\n$4\r\nINFO\r\n"));
    let memcached = profile(&user, "memcached://127.0.0.1:11211");
    assert_eq!(memcached.status.code(), Some(2));
    let empty = profile(&user, "--no-load");
    assert_eq!(empty.status.code(), Some(2));
    assert_contains(err(&empty), "--no-load");
}
