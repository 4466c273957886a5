//! `overside kv bench`, with load from agents.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use overside_testkit::assert_contains;
use serde_json::Value;

use crate::agent::{Running, User, err};
use crate::kv::{Serving, words};

fn known_agent(user: &User, name: &str) -> Running {
    let agent = Running::start(user, &["--insecure", "--device", "cpu"]);
    user.done(&["agents", "add", name, &agent.address]);
    agent
}

fn bench(user: &User, server: &str, arguments: &str) -> Value {
    let short = "--json --records 500 --seconds 0.2 --warm-up 0.05 -c 3 -P 4";
    let all = format!("kv bench {server} {short} {arguments}");
    serde_json::from_str(&user.done(&words(&all))).unwrap()
}

#[test]
fn figures_of_this_machine_stand_beside_results_that_it_made() {
    let user = User::new();
    let _agent = known_agent(&user, "one");
    let serving = Serving::start(&user, &["--listen", "127.0.0.1:0"]);
    let server = format!("redis://127.0.0.1:{}", serving.port("listen"));
    let has_several_cores = thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    // Two cores that others keep busy may not meet.
    let mut all = (0..20).map(|_| bench(&user, &server, ""));
    let is_whole = |found: &Value| !has_several_cores || !found["core_round_trip_cores"].is_null();
    let found = all.find(is_whole).expect("two cores meet once");
    assert!(found["hash_ns_per_key"].as_f64().unwrap() > 0.0);
    if has_several_cores {
        let cores = found["core_round_trip_cores"].as_array().unwrap();
        assert!(cores.len() == 2 && cores[0] != cores[1], "{cores:?}");
        assert!(found["core_round_trip_ns"].as_f64().unwrap() > 0.0);
    }
    for without in ["--no-calibration", "--from one"] {
        let found = bench(&user, &server, without);
        for name in ["hash_ns_per_key", "core_round_trip_ns"] {
            assert!(found[name].is_null(), "{without}: {name}");
        }
    }
}

#[test]
fn several_machines_load_one_server_with_requests_of_their_own() {
    let user = User::new();
    let _agents = [known_agent(&user, "one"), known_agent(&user, "two")];
    let serving = Serving::start(&user, &["--listen", "127.0.0.1:0"]);
    let server = format!("redis://127.0.0.1:{}", serving.port("listen"));
    for from in ["one", "one,two", "local,two"] {
        // Each generator only reads keys that it inserted itself, so all are found.
        let found = bench(&user, &server, &format!("--from {from} --workload d"));
        assert_eq!(found["from"].as_array().unwrap().len(), from.split(',').count());
        assert!(found["loaded_per_s"].as_f64().unwrap() > 0.0);
        let point = &found["points"][0];
        assert!(point["hits"].as_u64().unwrap() > 0, "{from}");
        assert_eq!(point["misses"], 0, "{from}");
        assert!(point["answered"].as_u64() >= point["hits"].as_u64());
    }
    let open = bench(&user, &server, "--from one,two --rate 2000");
    assert_eq!(open["points"][0]["mode"]["rate_per_s"], 2000.0);
    let requests = open["points"][0]["windows"].as_array().unwrap().iter();
    let requests: u64 = requests.map(|window| window["requests"].as_u64().unwrap()).sum();
    assert!((200..800).contains(&requests), "{requests} in 0.2 s at 2000 a second");
}

#[test]
fn connections_are_dealt_out_among_the_endpoints_of_a_server() {
    let user = User::new();
    let serving = Serving::start(&user, &words("--listen 127.0.0.1:0 --listen 127.0.0.1:0"));
    let servers = serving.endpoints("listen").map(|address| format!("redis://{address}"));
    let found = bench(&user, &servers[0], &servers[1]);
    let point = &found["points"][0];
    let counts: Vec<u64> = (point["requests_by_endpoint"].as_array().unwrap().iter())
        .map(|count| count.as_u64().unwrap())
        .collect();
    let windows = point["windows"].as_array().unwrap().iter();
    let requests: u64 = windows.map(|window| window["requests"].as_u64().unwrap()).sum();
    assert!(counts.len() == 2 && counts.iter().all(|count| *count > 0), "{found}");
    assert_eq!(counts.iter().sum::<u64>(), requests);
    let other = ["kv", "bench", &servers[0], "memcached://127.0.0.1:1"];
    assert_contains(user.fails(2, &other), "all endpoints of a server speak the same");
}

#[test]
fn a_client_of_request_regions_that_is_killed_harms_no_other() {
    let user = User::new();
    let listen = ["--listen", "127.0.0.1:0", "--herd", "herd"];
    let mut serving = Serving::start(&user, &listen);
    assert_eq!(serving.said["herd"], "herd");
    // It scans the whole server, which also has other records.
    let found = bench(&user, "herd:herd", "--workload a");
    assert_eq!(found["points"][0]["misses"], 0);
    let redis = format!("redis://127.0.0.1:{}", serving.port("listen"));
    let found = bench(&user, &redis, "--no-load");
    assert_eq!(found["points"][0]["misses"], 0);
    for _ in 0..3 {
        let long = "kv bench herd:herd --no-load --seconds 60 --records 500 -c 4 -P 64";
        let mut killed = user.command(&words(long)).spawn().unwrap();
        thread::sleep(Duration::from_millis(100));
        killed.kill().unwrap();
        killed.wait().unwrap();
        let found = bench(&user, "herd:herd", "--no-load");
        assert_eq!(found["points"][0]["misses"], 0);
    }
    // A killed server leaves its socket; the next one replaces it.
    assert_eq!(serving.end("-KILL"), None);
    let gone = ["kv", "bench", "herd:herd"];
    assert_contains(user.fails(3, &gone), "calling the peer at herd");
    let _again = Serving::start(&user, &listen);
    bench(&user, "herd:herd", "");
    let open = ["kv", "serve", "--herd", "127.0.0.1:0"];
    assert_contains(user.fails(2, &open), "a password is required: --password-file");
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is() {
    let user = User::new();
    let _agent = known_agent(&user, "one");
    const HUGE: &str = "-P 4096 -c 20000 --value-size 64MiB";
    for (code, arguments, reason) in [
        // Nobody listens there.
        (2, "redis://127.0.0.1:1 --rate 1000,0", "the rate must be 1 request a second or more"),
        (2, "redis://127.0.0.1:1 --seconds 0", "the time that counts must be longer than 0"),
        (2, "--from who", "overside agents add who"),
        (2, "--from local,local", "local is named twice"),
        // What an agent finds wrong is told here.
        (3, "redis://127.0.0.1:1 --from one", "one: 127.0.0.1:1: Connection refused"),
        (3, "redis:/tmp/socket --from one", "a Unix socket is reached from its own machine"),
        (3, &format!("redis://127.0.0.1:1 --from one {HUGE}"), "the agent has no memory for it"),
    ] {
        let asked = format!("kv bench {arguments}");
        assert_contains(user.fails(code, &words(&asked)), reason);
    }
}

#[test]
fn a_wrong_value_that_an_agent_finds_ends_with_the_code_of_wrong_values() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("redis://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let input = BufReader::new(stream.try_clone().unwrap());
                // Keys are not text.
                for line in input.split(b'\n').map_while(Result::ok) {
                    if line == b"GET\r" && stream.write_all(b"$9\r\nnot yours\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    let user = User::new();
    let _agent = known_agent(&user, "one");
    let command = ["kv", "bench", &server, "--from", "one", "--no-load"];
    let output = user.command(&command).output().unwrap();
    assert_eq!(output.status.code(), Some(101), "{}", err(&output));
    assert_contains(err(&output), "answered with another value than was stored");
}
