//! `overside kv serve --design`, with an agent in a process of its own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use overside_testkit::assert_contains;
use overside_testkit::linearizability::{check, history};
use serde_json::Value;

use crate::agent::{Running, User, err};
use crate::kv::{PATIENCE, Serving, ask, keys_of_server, redis_cli, refused, run, words};

/// Designs whose keys are all on the host, with several cores if they support that.
const KEYS_HERE: [(&str, &str); 5] = [
    ("lat", ""),
    ("lat", "--cores 3"),
    ("sav", "--dpu-cores 3"),
    ("dual", "--cores 2 --dpu-cores 2 --dpu-listen 127.0.0.1:0"),
    ("dual", "--cores 3 --dpu-cores 2 --dpu-listen 127.0.0.1:0"),
];
/// Designs in which the DPU has keys.
const KEYS_THERE: [(&str, &str); 8] = [
    ("shrd", "--dpu-listen 127.0.0.1:0"),
    ("shrd", "--cores 2 --dpu-cores 3 --dpu-listen 127.0.0.1:0"),
    ("proc", ""),
    ("proc", "--cores 2"),
    ("proc", "--cores 3 --dpu-cores 2"),
    ("proc", "--dpu-cores 2"),
    ("dpu-only", ""),
    ("dpu-only", "--dpu-cores 2"),
];

fn agent(user: &User, address: &str) -> Running {
    agent_with(user, &format!("--listen {address}"))
}

fn agent_with(user: &User, options: &str) -> Running {
    let agent = Running::start(user, &words(&format!("--insecure {options}")));
    user.done(&["agents", "add", "dpu0", &agent.address]);
    agent
}

fn start(user: &User, design: &str, options: &str) -> Serving {
    let all = format!("--design {design} --dpu dpu0 --listen 127.0.0.1:0 {options}");
    Serving::start(user, &words(&all))
}

/// Returns the addresses for clients on both sides.
fn endpoints(serving: &Serving) -> Vec<String> {
    let listed = |kind| serving.said[kind].as_array().into_iter().flatten();
    let all = listed("listen").chain(listed("dpu_listen"));
    all.map(|address| address.as_str().unwrap().to_owned()).collect()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends `commands` and returns all that the server sends until it closes the connection.
fn talk(address: &str, commands: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(commands.as_bytes()).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    heard
}

fn value_of<'t>(info: &'t str, field: &str) -> &'t str {
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in {info}"))
}

#[test]
fn every_endpoint_of_every_design_serves_all_keys() {
    let user = User::new();
    let _agent = agent(&user, "127.0.0.1:0");
    for (design, options) in KEYS_HERE.into_iter().chain(KEYS_THERE) {
        serves_all_keys(&user, design, options);
    }
}

#[test]
fn a_link_over_ucx_serves_all_keys() {
    let user = User::new();
    let listed: Value = serde_json::from_str(&user.done(&["devices", "--json"])).unwrap();
    let mut devices = listed["devices"].as_array().unwrap().iter();
    let link = devices.find(|device| device["name"] == "ucx").unwrap();
    if let Some(reason) = link["unavailable"].as_str() {
        eprintln!("skipped: {reason}");
        return;
    }
    let _agent = agent(&user, "127.0.0.1:0");
    serves_all_keys(&user, "lat", "--cores 2 --link ucx");
    serves_all_keys(&user, "sav", "--dpu-cores 2 --link ucx");
}

fn serves_all_keys(user: &User, design: &str, options: &str) {
    let long = "x".repeat(200_000);
    let mut serving = start(user, design, options);
    assert_eq!(serving.said["dpu"], "dpu0");
    let endpoints = endpoints(&serving);
    let has_both = ["dual", "shrd"].contains(&design);
    assert_eq!(endpoints.len(), if has_both { 2 } else { 1 }, "{design}");
    for (number, writer) in endpoints.iter().enumerate() {
        let sets: String = (0..40).map(|key| format!("SET {number}:{key} {key}\r\n")).collect();
        ask(connect(writer), &sets, &"+OK\r\n".repeat(40));
        let set = format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n$200000\r\n{long}\r\n");
        ask(connect(writer), &set, "+OK\r\n");
        for reader in &endpoints {
            let gets: String = (0..40).map(|key| format!("GET {number}:{key}\r\n")).collect();
            let values: String = (0..40)
                .map(|key: u32| format!("${}\r\n{key}\r\n", key.to_string().len()))
                .collect();
            // Several connections, because the system distributes them over the threads.
            for _ in 0..4 {
                ask(connect(reader), &gets, &values);
            }
            let value = format!("$200000\r\n{long}\r\n");
            ask(connect(reader), "GET long\r\n", &value);
            let together = "MULTI\r\nINCR {t}a\r\nINCR {t}a\r\nEXEC\r\nDEL {t}a\r\n";
            let replies = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n:1\r\n";
            ask(connect(reader), together, replies);
        }
    }
    for endpoint in &endpoints {
        let said = talk(endpoint, "DBSIZE\r\nINFO\r\nQUIT\r\n");
        assert_eq!(value_of(&said, "design"), design);
        let keys = 40 * endpoints.len() + 1;
        assert!(said.starts_with(&format!(":{keys}\r\n")), "{design}: {said}");
    }
    assert_eq!(serving.end("-TERM"), Some(0), "{design}");
}

#[test]
fn requests_of_all_cores_of_a_dpu_are_counted_and_share_writes() {
    let user = User::new();
    let _agent = agent(&user, "127.0.0.1:0");
    let serving = start(&user, "sav", "--dpu-cores 3");
    let endpoint = &endpoints(&serving)[0];
    for _ in 0..12 {
        ask(connect(endpoint), &"SET key value\r\n".repeat(50), &"+OK\r\n".repeat(50));
    }
    let said = talk(endpoint, "INFO\r\nQUIT\r\n");
    assert_eq!(value_of(&said, "offload_requests"), "600");
    let writes: u64 = value_of(&said, "offload_link_writes").parse().unwrap();
    // A batch is one write, and each core reads the counts periodically.
    assert!((12..200).contains(&writes), "{writes} writes");
}

#[test]
fn bytes_over_the_link_are_counted_both_ways() {
    let user = User::new();
    let _agent = agent(&user, "127.0.0.1:0");
    let long = "x".repeat(100_000);
    for (design, options) in [KEYS_HERE[0], KEYS_HERE[1]] {
        let serving = start(&user, design, options);
        let endpoint = &endpoints(&serving)[0];
        let set = format!("*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n$100000\r\n{long}\r\n");
        ask(connect(endpoint), &set, "+OK\r\n");
        let info = || talk(endpoint, "INFO\r\nQUIT\r\n");
        let counts = |info: &str| -> [u64; 2] {
            let fields = ["offload_link_sent_bytes", "offload_link_received_bytes"];
            fields.map(|field| value_of(info, field).parse().unwrap())
        };
        let [sent, received] = counts(&info());
        assert!(sent > 100_000 && received < 10_000, "{design}: {sent}, {received}");
        let value = format!("$100000\r\n{long}\r\n");
        ask(connect(endpoint), &"GET long\r\n".repeat(3), &value.repeat(3));
        let [sent_after, received_after] = counts(&info());
        assert!(received_after - received > 300_000, "{design}: {received_after}");
        assert!(sent_after - sent < 10_000, "{design}: {sent_after} after {sent}");
    }
}

#[test]
fn datagrams_come_to_the_core_of_the_dpu_that_is_paired_with_their_partition() {
    let user = User::new();
    let _agent = agent(&user, "127.0.0.1:0");
    let serving = start(&user, "lat", "--cores 2 --datagram 127.0.0.1:0");
    let address = serving.said["datagram"][0].as_str().unwrap();
    let load = "--json --records 2000 --seconds 0.3 --warm-up 0.1 -c 4 -P 64 --workload a";
    user.done(&words(&format!("kv bench datagram://{address} {load}")));
    let said = talk(&endpoints(&serving)[0], "INFO\r\nQUIT\r\n");
    let count = |field| value_of(&said, field).parse::<u64>().unwrap();
    let (own, others) = (count("requests_at_owner"), count("requests_forwarded"));
    // The first datagrams of a client do not know yet how many partitions there are.
    assert!(own > 2000 && others * 20 < own, "{own}, {others}");
}

#[test]
fn nothing_acknowledged_is_lost_with_the_agent_where_the_host_has_the_store() {
    let user = User::new();
    for (design, options) in &KEYS_HERE[1..] {
        let running = agent(&user, "127.0.0.1:0");
        let address = running.address.clone();
        let mut serving = start(&user, design, options);
        let endpoints = endpoints(&serving);
        let dpu = endpoints.last().unwrap();
        // A client counts until the server is gone.
        let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let counting = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(mut stream) = TcpStream::connect(dpu) else {
                        std::thread::sleep(Duration::from_millis(2));
                        continue;
                    };
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    let mut heard = [0; 64];
                    while !is_over.load(Ordering::Relaxed) {
                        let asked = stream.write_all(b"INCR counter\r\n");
                        let Ok(len) = asked.and_then(|()| stream.read(&mut heard)) else {
                            break;
                        };
                        let text = String::from_utf8_lossy(&heard[..len]);
                        let Some(number) = text.strip_prefix(':') else {
                            break;
                        };
                        let number: u64 = number.trim().parse().unwrap();
                        let before = acknowledged.swap(number, Ordering::Relaxed);
                        assert!(number > before, "{number} after {before}");
                    }
                }
            });
            let begin = Instant::now();
            while acknowledged.load(Ordering::Relaxed) < 100 {
                assert!(begin.elapsed() < PATIENCE, "{design}: nothing is answered");
                std::thread::sleep(Duration::from_millis(2));
            }
            drop(running);
            if *design == "dual" {
                // Clients of the host are not affected.
                ask(connect(&endpoints[0]), "SET key value\r\n", "+OK\r\n");
            }
            let _again = agent(&user, &address);
            let begin = Instant::now();
            while TcpStream::connect(dpu).is_err() {
                assert!(begin.elapsed() < PATIENCE, "it does not come back");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(100));
            is_over.store(true, Ordering::Relaxed);
            counting.join().unwrap();
            let acknowledged = acknowledged.load(Ordering::Relaxed);
            let said = talk(dpu, "GET counter\r\nQUIT\r\n");
            let kept: u64 = said.lines().nth(1).unwrap().parse().unwrap();
            // Commands that were executed but not acknowledged may be kept.
            assert!(kept >= acknowledged, "{design}: {kept} of {acknowledged}");
            assert_eq!(serving.end("-TERM"), Some(0), "{design}");
        });
    }
}

/// Counts with several keys, so that each partition has some, until the server is gone.
/// `acknowledged` gets the last acknowledged counts.
fn count_until_lost(address: &str, acknowledged: &mut [u64], on_way: &AtomicBool) {
    let mut stream = connect(address);
    let mut heard = [0; 64];
    for turn in 0.. {
        let key = turn % acknowledged.len();
        let asked = stream.write_all(format!("INCR {key}\r\n").as_bytes());
        let Ok(len @ 1..) = asked.and_then(|()| stream.read(&mut heard)) else {
            return;
        };
        let text = String::from_utf8_lossy(&heard[..len]);
        let Some(number) = text.strip_prefix(':') else {
            // Partitions come back one after the other.
            if on_way.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        acknowledged[key] = number.trim().parse().unwrap();
        on_way.store(turn > 200, Ordering::Relaxed);
    }
}

/// Sends a request until there is a reply, like clients that retry.
fn wait_for(address: &str) {
    let begin = Instant::now();
    let mut heard = [0; 64];
    loop {
        let asked = TcpStream::connect(address).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET 0\r\n")?;
            stream.read(&mut heard)
        });
        if asked.is_ok_and(|_| heard[0] == b'$') {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{address} does not come back");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nothing_acknowledged_is_lost_with_an_agent_that_keeps_its_keys() {
    let user = User::new();
    let keeps = "--kv-dir kept";
    for (number, (design, options)) in KEYS_THERE.iter().enumerate() {
        let state = format!("state-{number}");
        let durable = format!("{options} --dir {state} --sync always");
        let mut acknowledged = [0u64; 20];
        let mut running = agent_with(&user, keeps);
        let mut serving = start(&user, design, &durable);
        let endpoints = endpoints(&serving);
        let check = |acknowledged: &[u64]| {
            for endpoint in &endpoints {
                for (key, acknowledged) in acknowledged.iter().enumerate() {
                    let said = talk(endpoint, &format!("GET {key}\r\nQUIT\r\n"));
                    let kept: u64 = said.lines().nth(1).unwrap().parse().unwrap();
                    // Commands that were executed but not acknowledged may be kept.
                    assert!(kept >= *acknowledged, "{design}: {kept} of {acknowledged}");
                }
            }
        };
        for _ in 0..2 {
            let address = running.address.clone();
            let on_way = AtomicBool::new(false);
            let endpoint = endpoints.last().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| count_until_lost(endpoint, &mut acknowledged, &on_way));
                let begin = Instant::now();
                while !on_way.load(Ordering::Relaxed) {
                    assert!(begin.elapsed() < PATIENCE, "{design}: nothing is answered");
                    std::thread::sleep(Duration::from_millis(2));
                }
                drop(running);
            });
            running = agent_with(&user, &format!("{keeps} --listen {address}"));
            endpoints.iter().for_each(|endpoint| wait_for(endpoint));
            check(&acknowledged);
        }
        assert_eq!(serving.end("-KILL"), None, "{design}");
        assert_contains(serving.errors(), "are kept there: trying again");
        // Neither side accepts the keys of another partition layout.
        let other = format!("--listen 127.0.0.1:0 --cores 4 --dir {state}");
        let other = run(&user, &words(&other));
        assert_eq!(other.status.code(), Some(3));
        assert_contains(err(&other), "on a DPU, one a core");
        let mut again = start(&user, design, &durable);
        let said = talk(&self::endpoints(&again)[0], "GET 0\r\nQUIT\r\n");
        assert!(said.lines().nth(1).unwrap().parse::<u64>().unwrap() >= acknowledged[0]);
        assert_eq!(again.end("-TERM"), Some(0), "{design}");
    }
}

#[test]
fn an_agent_gives_hosts_only_what_its_owner_says() {
    let user = User::new();
    let _agent = agent(&user, "127.0.0.1:0");
    let asked = |more: &str| {
        let output = run(&user, &words(&format!("--design lat --dpu dpu0 {more}")));
        assert_eq!(output.status.code(), Some(3));
        err(&output)
    };
    assert_contains(asked("--tls-listen 127.0.0.1:0"), "--kv-tls-keys DIR");
    let port = "--dpdk-port net_memif0 --dpdk-address 10.9.0.2 --dpdk-trusted";
    assert_contains(asked(port), "--kv-dpdk-port net_memif0");
}

#[test]
fn an_agent_keeps_what_it_is_told_to_where_its_owner_says() {
    let user = User::new();
    let durable = words("--design proc --dpu dpu0 --listen 127.0.0.1:0 --memory 16MiB --dir state");
    let refused = |durable: &[&str]| {
        let output = run(&user, durable);
        assert_eq!(output.status.code(), Some(3));
        err(&output)
    };
    {
        let _agent = agent(&user, "127.0.0.1:0");
        assert_contains(refused(&durable), "start it with --kv-dir DIR");
    }
    let _agent = agent_with(&user, "--kv-dir kept");
    let serving = start(&user, "proc", "--dir state");
    ask(connect(&endpoints(&serving)[0]), "SET key value\r\n", "+OK\r\n");
    // One server at a time.
    assert_contains(refused(&durable), "is in use by another server");
    drop(serving);
    let _other = agent_with(&user, "--kv-dir elsewhere");
    assert_contains(refused(&durable), "the agent has no store");
}

#[test]
fn what_a_client_saves_is_there_after_everything_was_killed() {
    let user = User::new();
    // The clients' side has all keys, some of them, or none.
    let some = [KEYS_HERE[0], KEYS_HERE[1], KEYS_HERE[4], KEYS_THERE[1], KEYS_THERE[4]];
    for (number, (design, options)) in some.iter().enumerate() {
        let state = format!("state-{number}");
        let durable = format!("--dir {state} --sync snapshots {options}");
        let running = agent_with(&user, "--kv-dir kept");
        let mut serving = start(&user, design, &durable);
        let endpoint = endpoints(&serving).pop().unwrap();
        let sets: String = (0..40).map(|key| format!("SET {key} {key}\r\n")).collect();
        ask(connect(&endpoint), &sets, &"+OK\r\n".repeat(40));
        assert_eq!(talk(&endpoint, "SAVE\r\nQUIT\r\n"), "+OK\r\n+OK\r\n", "{design}");
        let said = talk(&endpoint, "LASTSAVE\r\nINFO persistence\r\nQUIT\r\n");
        let saved_s: u64 = said[1..].lines().next().unwrap().parse().unwrap();
        assert!(saved_s > 1_700_000_000, "{design}: {saved_s}");
        assert_eq!(value_of(&said, "rdb_last_bgsave_status"), "ok", "{design}");
        assert_eq!(value_of(&said, "rdb_changes_since_last_save"), "0", "{design}");
        ask(connect(&endpoint), "SET late x\r\n", "+OK\r\n");
        assert_eq!(serving.end("-KILL"), None);
        drop(running);
        let _again = agent_with(&user, "--kv-dir kept");
        let again = start(&user, design, &durable);
        for endpoint in endpoints(&again) {
            let gets: String = (0..40).map(|key| format!("GET {key}\r\n")).collect();
            let values: String = (0..40)
                .map(|key: u32| format!("${}\r\n{key}\r\n", key.to_string().len()))
                .collect();
            ask(connect(&endpoint), &gets, &values);
        }
    }
    // Without a directory there is no place for snapshots, on either side.
    let _agent = agent(&user, "127.0.0.1:0");
    let serving = start(&user, "lat", "");
    let said = talk(&endpoints(&serving)[0], "BGSAVE\r\nQUIT\r\n");
    assert_contains(said, "without a directory");
}

#[test]
fn every_key_is_one_register_in_every_design() {
    let user = User::new();
    let _agent = agent(&user, "127.0.0.1:0");
    for (seed, (design, options)) in KEYS_HERE.iter().chain(&KEYS_THERE).enumerate() {
        let serving = start(&user, design, options);
        let records = history(&endpoints(&serving), seed as u64);
        let wrong = check(&records).err();
        assert!(wrong.is_none(), "{design} {options:?}: {wrong:#?}");
    }
}

#[test]
fn clients_of_every_protocol_come_to_the_dpu() {
    let user = User::new();
    let keys = user.keys();
    keys_of_server(Path::new(&keys));
    let _agent = agent_with(&user, &format!("--kv-tls-keys {keys}"));
    let all = "--memcached 127.0.0.1:0 --metrics 127.0.0.1:0 --tls-listen 127.0.0.1:0 --tls-clients required";
    let here = start(&user, "lat", all);
    check_protocols(&here.said, &keys);
    let there = ["memcached=", "metrics=", "tls=", ""];
    let there = there.map(|protocol| format!("--dpu-listen {protocol}127.0.0.1:0 "));
    let both = start(&user, "shrd", &there.concat());
    assert_eq!(both.said["memcached"], Value::Array(Vec::new()));
    check_protocols(&both.said["dpu_endpoints"], &keys);
}

/// Checks that a value can be stored by memcached's protocol, that TLS clients are served, and that
/// the metrics count the value.
fn check_protocols(said: &Value, keys: &str) {
    let address = said["memcached"][0].as_str().unwrap();
    ask(
        connect(address),
        "set key 0 0 5\r\nvalue\r\nget key\r\n",
        "STORED\r\nVALUE key 0 5\r\nvalue\r\nEND\r\n",
    );
    let (_, port) = said["tls"][0].as_str().unwrap().rsplit_once(':').unwrap();
    match redis_cli(Path::new(keys), port, true) {
        Some(reply) => assert_eq!(reply, "PONG\n"),
        None => eprintln!("skipped: redis-cli is not installed"),
    }
    let address = said["metrics"].as_str().unwrap();
    let metrics = talk(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert_contains(metrics, "\noverside_kv_items 1\n");
}

#[test]
fn a_server_ends_with_the_keys_that_the_agent_had() {
    let user = User::new();
    for (design, options) in [KEYS_THERE[0], KEYS_THERE[2], KEYS_THERE[4], KEYS_THERE[6]] {
        let running = agent(&user, "127.0.0.1:0");
        let mut serving = start(&user, design, options);
        ask(connect(&endpoints(&serving)[0]), "SET key value\r\n", "+OK\r\n");
        drop(running);
        assert_eq!(serving.wait(), Some(3), "{design}");
        assert_contains(serving.errors(), "and with it the keys that it had");
    }
}

#[test]
fn a_client_of_a_dpu_that_has_everything_ends_the_server() {
    let user = User::new();
    let _agent = agent(&user, "127.0.0.1:0");
    let mut serving = start(&user, "dpu-only", "");
    connect(&endpoints(&serving)[0]).write_all(b"SHUTDOWN\r\n").unwrap();
    assert_eq!(serving.wait(), Some(3));
    assert_contains(serving.errors(), "a client has ended it");
    // Also if the server can start with an empty store.
    let _agent = agent_with(&user, "--kv-dir kept");
    for (design, options) in [KEYS_THERE[0], KEYS_THERE[6]] {
        let durable = format!("{options} --dir {design}");
        let mut serving = start(&user, design, &durable);
        connect(&endpoints(&serving).pop().unwrap()).write_all(b"SHUTDOWN\r\n").unwrap();
        assert_eq!(serving.wait(), Some(3), "{design}");
        assert_contains(serving.errors(), "start this server again");
    }
}

#[test]
fn a_dry_run_says_what_each_side_would_take() {
    let user = User::new();
    let plan = |arguments: &str| {
        let all = format!("--dry-run --dpu dpu0 --memory 1GiB --design {arguments}");
        let output = run(&user, &words(&all));
        assert!(output.status.success(), "{}", err(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    insta::assert_snapshot!(plan("sav --dpu-cores 4"), @r"
    design: sav
      on the host: 1 core, with the keys
      on dpu0: 4 cores, each with clients
      links between them: 4
    listens on the DPU at: 127.0.0.1:6379
    keeps nothing when it ends (--dir DIR does)
    memory of the host, at most: 1056 MiB
      store, index included: 1024 MiB
      links: 32 MiB
    memory of the DPU, at most: 288 MiB
      connections: 256 MiB
      links: 32 MiB
    ");
    let text = plan("shrd --dpu-listen 127.0.0.1:7000");
    assert_contains(&text, "listens at: 127.0.0.1:6379, on the DPU at 127.0.0.1:7000\n");
    let side = "  store, index included: 512 MiB\n  connections: 256 MiB\n  links: 16 MiB\n";
    assert_eq!(text.matches(side).count(), 2, "{text}");
    let text = plan("lat --cores 8");
    assert_contains(&text, "on the host: 8 cores, each with a part of the keys\n");
    assert_contains(&text, "on dpu0: 8 cores, each with clients\n  links between them: 8\n");
    let text = plan("shrd --cores 8 --dpu-cores 8 --dpu-listen 127.0.0.1:7000");
    assert_contains(&text, "links between them: 16\n");
    let kept = plan("proc --dir state");
    assert_contains(&kept, "keeps everything in: state, and on the DPU\n");
    let json = plan("dual --cores 3 --dpu-listen 127.0.0.1:7000 --json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["threads"]["host"]["complete"], 2);
    assert_eq!(json["threads"]["host"]["processing"], 1);
    assert_eq!(json["threads"]["dpu"]["communication"], 1);
    assert_eq!(json["memory_bytes"]["host"]["store"], (1 << 30) / 3 * 3);
    assert_eq!(json["memory_bytes"]["dpu"]["store"], 0);
    // Without --memory the store's limit is the free memory of the DPU.
    let output = run(&user, &words("--dry-run --json --dpu dpu0 --design dpu-only"));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["memory_bytes"]["dpu"]["total"], 2u64 << 30);
}

#[test]
fn a_design_that_cannot_run_is_refused_with_a_remedy() {
    let user = User::new();
    for (arguments, says) in [
        ("lat --client-memory 2GiB", "connections 2048 MiB, links 8 MiB"),
        ("lat --client-memory 2GiB", "less --client-memory"),
        ("proc --memory 3GiB", "less --memory"),
        ("dual --dpu-listen ::1", "--cores 2 or more"),
        ("shrd", "--dpu-listen ADDRESS is required"),
        ("shrd --dpu-listen 192.0.2.1", "--password-file"),
        ("lat --dpu-cores 2", "as many --cores as --dpu-cores, not 1 and 2"),
        ("lat --dpu-listen ::1", "without --dpu-listen"),
        ("cpu-only", "no use for --dpu"),
        ("shrd --dpu-listen ftp=::1", "memcached"),
        ("shrd --dpu-listen memcached=192.0.2.1", "memcached's protocol has no password"),
        ("lat --unix socket", "no paths"),
        ("lat --tls-listen ::1 --tls-keys keys", "--kv-tls-keys"),
        ("lat --card bf9", "bf2:separated"),
    ] {
        let all = format!("--dpu dpu0 --design {arguments}");
        assert_contains(refused(&user, &words(&all)), says);
    }
    assert_contains(refused(&user, &["--design", "sav"]), "--dpu NODE");
    // The limits of an agent's card are only known after connecting to it.
    let both = "--dry-run --design dual --cores 2 --dpu-listen ::1 --dpu dpu0 --card";
    let output = run(&user, &words(&format!("{both} bf3")));
    assert_eq!(output.status.code(), Some(3));
    assert_contains(err(&output), "no such mode (dpukv.hw.bf3");
    let output = run(&user, &words(&format!("{both} bf2:separated")));
    assert!(output.status.success(), "{}", err(&output));
}
