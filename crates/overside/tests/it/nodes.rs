//! Tests that another node measures: a host's worker process and an agent, as in a run.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_agent::{Agent, Limits, Settings};
use overside_backends::Options;
use overside_backends::agents::{Entry, RemoteProbe};
use overside_base::Random;
use overside_link::agent::{Preamble, Reply, Welcome, control};
use overside_link::codec::Message;
use overside_measure::node::{
    CoreOwner, DataCache, Digest, FileContent, KIND, MeasureProbe, NodeReply, NodeRequest,
    WORKER_VERB, WorkerCommand,
};
use overside_measure::{FailureKind, Sample, Status};
use overside_testkit::assert_contains;
use serde_json::{Value, json};

use crate::agent::{Running, User};

/// Worker process of a host with the user's inventory of agents.
struct Worker {
    process: Child,
    socket: BufReader<UnixStream>,
}

impl Worker {
    fn start(user: &User) -> Self {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let process = user
            .command(&[WORKER_VERB])
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, socket: BufReader::new(socket) }
    }

    fn tell(&mut self, test: &Value) {
        let line = format!("{test}\n");
        self.socket.get_mut().write_all(line.as_bytes()).unwrap();
    }

    fn sample(&mut self) -> Sample {
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn measure(&mut self, test: &Value) -> Sample {
        self.tell(test);
        self.sample()
    }

    fn failed(&mut self, test: &Value) -> (FailureKind, String) {
        let sample = self.measure(test);
        assert_eq!(sample.status, Status::Failed, "{sample:?}");
        assert_eq!(sample.node.as_deref(), Some("dpu0"));
        let error = sample.error.unwrap();
        (error.kind, error.message)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts an agent with its data in the directory `data`, and adds it as `dpu0`.
fn agent(user: &User, more: &[&str]) -> Running {
    let keys = user.keys();
    let data = user.path("data");
    let data = data.to_str().unwrap();
    let own = ["--keys", &keys, "--device", "cpu", "--data-dir", data];
    let agent = Running::start(user, &[&own[..], more].concat());
    user.done(&["agents", "add", "dpu0", &agent.address, "--keys", &keys]);
    agent
}

/// Makes a data set of `bytes` bytes with a content of its own.
fn data(user: &User, name: &str, bytes: usize) -> PathBuf {
    let mut random = Random::new(bytes as u64);
    let path = user.path(name);
    let text: String =
        (0..bytes / 8).map(|_| format!("{:08x}", random.next_u64() as u32)).collect();
    fs::write(&path, text).unwrap();
    path
}

fn compress(node: &str, file: &Path) -> Value {
    json!({
        "node": node,
        "device": "cpu",
        "operation": "compress-lz4-block",
        "buffer_size": 4096,
        "data": {"name": "made", "files": [file], "sample_bytes": 1 << 20},
        "warmup_s": 0.0,
        "sample_s": 0.01,
        "timeout_s": 30.0,
    })
}

/// Returns the ids of an agent's worker processes.
fn workers(agent: &Running) -> Vec<u32> {
    let id = agent.process.id();
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(children.split_whitespace().map(|id| id.parse::<u32>().unwrap()));
    }
    found
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kept(user: &User) -> Vec<String> {
    let entries = fs::read_dir(user.path("data")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_test_is_measured_on_a_node_as_it_is_here_and_its_data_are_sent_once() {
    let user = User::new();
    let agent = agent(&user, &[]);
    let file = data(&user, "input", 3 << 20);
    let (digest, bytes) = Digest::of_file(&file).unwrap();
    let mut worker = Worker::start(&user);
    let here = worker.measure(&compress("local", &file));
    let there = worker.measure(&compress("dpu0", &file));
    for sample in [&here, &there] {
        assert_eq!(sample.status, Status::Ok, "{sample:?}");
        assert!(sample.metrics["throughput"] > 0.0);
    }
    assert_eq!((here.node, there.node.as_deref()), (None, Some("dpu0")));
    // The outputs are the same on a device of that machine and on its cores.
    assert_eq!(here.check, there.check);
    assert_eq!(here.provenance, there.provenance);
    assert_eq!(there.applied.unwrap().device, "cpu");
    let cpu = there.cpu.unwrap();
    assert!(cpu.host_s == 0.0 && cpu.dpu_s > 0.0, "{cpu:?}");

    let file_there = user.path("data").join(digest.as_str());
    let written = || fs::metadata(&file_there).unwrap();
    assert_eq!(written().len(), bytes);
    let before = written().modified().unwrap();
    let again = worker.measure(&compress("dpu0", &file));
    assert_eq!((again.status, again.check), (Status::Ok, here.check));
    assert_eq!(written().modified().unwrap(), before);
    assert_eq!(kept(&user).len(), 1);
    // Tests without data.
    let memory = json!({
        "kind": "memory", "node": "dpu0", "pattern": "stream", "kernel": "copy",
        "buffer_size": 65536, "threads": "all", "warmup_s": 0.0, "sample_s": 0.01, "timeout_s": 20.0,
    });
    let sample = worker.measure(&memory);
    assert_eq!(sample.status, Status::Ok, "{sample:?}");
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(sample.threads, Some(cores));
    drop(worker);
    eventually("the host has gone and the worker with it", || workers(&agent).is_empty());
}

#[cfg(not(feature = "flow"))]
#[test]
fn tests_of_tables_are_skipped_where_tables_are_not_built_in() {
    let user = User::new();
    let _agent = agent(&user, &[]);
    let table = user.path("table.parquet");
    fs::write(&table, [b"PAR1", &[0; 8192][..]].concat()).unwrap();
    let partition = json!({
        "kind": "partition", "node": "dpu0", "data": {"name": "made", "files": [table]},
        "algorithm": "none", "compression": "none", "device": "cpu", "threads": 1, "passes": 1,
        "warmup_s": 0.0, "sample_s": 0.1, "timeout_s": 30.0,
    });
    let mut pieces = compress("dpu0", &table);
    pieces["sizes"] = "own".into();
    let mut worker = Worker::start(&user);
    for test in [partition, pieces] {
        let sample = worker.measure(&test);
        assert_eq!(sample.status, Status::Skipped, "{sample:?}");
        assert_contains(format!("{sample:?}"), "built without");
    }
    // The content decides, not the name of the test.
    fs::write(&table, [b"text", &[0; 8192][..]].concat()).unwrap();
    let mut pieces = compress("dpu0", &table);
    pieces["sizes"] = "own".into();
    assert_eq!(worker.measure(&pieces).status, Status::Ok);
}

#[cfg(feature = "flow")]
#[test]
fn a_table_is_partitioned_by_the_command_of_the_node() {
    let user = User::new();
    let _agent = agent(&user, &[]);
    let table = user.path("table.arrow");
    let rows = ["--rows", "5000", table.to_str().unwrap()];
    user.done(&[&["flow", "generate", "particles"][..], &rows].concat());
    // An agent does not know the programs of a host.
    let sample = Worker::start(&user).measure(&json!({
        "kind": "partition", "node": "dpu0", "program": "/bin/false",
        "data": {"name": "made", "files": [table]}, "algorithm": "one-pass", "method": "hash",
        "partitions": 3, "key": "id", "compression": "zstd", "device": "cpu", "threads": "all",
        "passes": 1, "warmup_s": 0.0, "sample_s": 0.1, "timeout_s": 30.0, "seed": 1,
    }));
    assert_eq!(sample.status, Status::Ok, "{sample:?}");
    assert_eq!(sample.work.unwrap().bytes, 5000 * 80);
    assert!(sample.threads.is_some() && sample.metrics["imbalance"] >= 1.0);
    let cpu = sample.cpu.unwrap();
    assert!(cpu.host_s == 0.0 && cpu.dpu_s > 0.0, "{cpu:?}");
}

#[test]
fn all_threads_are_those_of_this_machine_where_nothing_else_is_said() {
    let user = User::new();
    let file = data(&user, "input", 1 << 20);
    let mut test = compress("local", &file);
    test["threads"] = "all".into();
    test["depth"] = "all".into();
    let sample = Worker::start(&user).measure(&test);
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!((sample.status, sample.threads), (Status::Ok, Some(cores)));
}

#[test]
fn a_worker_that_dies_is_a_failed_sample_and_the_next_test_has_another() {
    let user = User::new();
    let agent = agent(&user, &[]);
    let file = data(&user, "input", 1 << 20);
    let mut worker = Worker::start(&user);
    let mut long = compress("dpu0", &file);
    long["sample_s"] = 20.into();
    worker.tell(&long);
    eventually("a worker runs", || !workers(&agent).is_empty());
    let id = workers(&agent)[0].to_string();
    assert!(Command::new("kill").args(["-KILL", &id]).status().unwrap().success());
    let sample = worker.sample();
    assert_eq!(sample.status, Status::Failed);
    let error = sample.error.unwrap();
    assert_eq!(error.kind, FailureKind::Lost);
    assert_contains(error.message, "was ended by signal 9");
    let sample = worker.measure(&compress("dpu0", &file));
    assert_eq!(sample.status, Status::Ok, "{sample:?}");
}

#[test]
fn a_test_that_hangs_is_ended_in_time_and_an_agent_measures_one_at_a_time() {
    let user = User::new();
    let agent = agent(&user, &[]);
    let file = data(&user, "input", 1 << 20);
    let (mut first, mut second) = (Worker::start(&user), Worker::start(&user));
    let mut long = compress("dpu0", &file);
    long["sample_s"] = 600.into();
    long["timeout_s"] = 20.into();
    first.tell(&long);
    eventually("a worker runs", || workers(&agent).len() == 1);
    // A stopped process does not even check the time.
    let id = workers(&agent)[0].to_string();
    assert!(Command::new("kill").args(["-STOP", &id]).status().unwrap().success());
    let mut short = compress("dpu0", &file);
    short["timeout_s"] = 3.into();
    let (kind, message) = second.failed(&short);
    assert_eq!(kind, FailureKind::Timeout);
    assert_contains(message, "measures other tests");
    let sample = first.sample();
    let error = sample.error.unwrap();
    assert_eq!(error.kind, FailureKind::Timeout, "{error}");
    let sample = second.measure(&compress("dpu0", &file));
    assert_eq!(sample.status, Status::Ok, "{sample:?}");
}

/// Connects to an agent like a host that may send wrong data.
fn host(user: &User, agent: &Running) -> RemoteProbe {
    let entry = Entry { address: agent.address.clone(), keys: Some(user.keys().into()) };
    RemoteProbe::open("dpu0", &entry, KIND, Default::default()).unwrap()
}

fn asked(host: &mut RemoteProbe, question: &[u8]) -> NodeReply {
    let deadline = Instant::now() + Duration::from_secs(60);
    NodeReply::decode(&host.ask(question, deadline).unwrap()).unwrap()
}

fn refused(host: &mut RemoteProbe, question: &[u8]) -> String {
    match asked(host, question) {
        NodeReply::Failed(failure) => {
            assert_eq!(failure.kind, FailureKind::Data, "{failure}");
            failure.message
        }
        other => panic!("it was not refused: {other:?}"),
    }
}

#[test]
fn a_digest_that_lies_a_length_and_a_name_that_do_are_refused() {
    let user = User::new();
    let agent = agent(&user, &[]);
    let mut host = host(&user, &agent);
    let digest: Digest = "a".repeat(64).try_into().unwrap();
    let announced =
        |bytes| NodeRequest::File(FileContent { digest: digest.clone(), bytes }).encode();
    assert!(matches!(asked(&mut host, &announced(4)), NodeReply::Taken));
    assert_contains(refused(&mut host, b"\0data"), "were announced");
    assert!(matches!(asked(&mut host, &announced(4)), NodeReply::Taken));
    assert_contains(refused(&mut host, b"\0too long"), "more came");
    assert_contains(refused(&mut host, b"\0late"), "a part of no file");
    assert_eq!(kept(&user).len(), 0);
    // Files are named by digests, and only received ones can be used.
    for name in [digest.as_str(), "/etc/passwd", "../data"] {
        let test = compress("", Path::new(name));
        let Value::Object(mut test) = test else { unreachable!() };
        test.remove("node");
        let message = refused(&mut host, &NodeRequest::Measure(test).encode());
        assert_contains(message, "the data were not sent");
    }
    for strange in [&b"{\"file\":{\"digest\":\"../x\",\"bytes\":1}}"[..], b"[]", b"\xff"] {
        assert!(matches!(asked(&mut host, strange), NodeReply::Failed(_)));
    }
    // The agent continues to serve all hosts, including this one.
    let file = data(&user, "input", 1 << 20);
    let sample = Worker::start(&user).measure(&compress("dpu0", &file));
    assert_eq!(sample.status, Status::Ok, "{sample:?}");
    let environment = asked(&mut host, &NodeRequest::Environment.encode());
    let NodeReply::Environment(environment) = environment else { panic!("{environment:?}") };
    assert_eq!(environment["software"]["overside"], env!("CARGO_PKG_VERSION"));
    assert!(environment["cpu"]["online"].as_u64() > Some(0), "{environment:?}");
    assert!(environment["memory"]["total_bytes"].as_u64() > Some(0));
}

#[test]
fn another_node_runs_jobs_beside_traffic() {
    let user = User::new();
    let _agent = agent(&user, &[]);
    let file = data(&user, "some", 1 << 16);
    let mut worker = Worker::start(&user);
    let mut beside = compress("dpu0", &file);
    for key in ["warmup_s", "sample_s", "timeout_s"] {
        beside.as_object_mut().unwrap().remove(key);
    }
    let traffic = |beside: &Value| {
        json!({
            "kind": "network", "pattern": "stream", "protocol": "udp", "message_size": 64,
            "rate": 1000.0, "slice_s": 0.01, "beside": beside,
            "warmup_s": 0.0, "sample_s": 0.3, "timeout_s": 30.0,
        })
    };
    let dma = json!({
        "kind": "dma", "node": "dpu0", "device": "shm", "initiator": "host", "operation": "write",
        "completion": "event", "buffer_size": 4096,
    });
    for beside in [&beside, &dma] {
        let sample = worker.measure(&traffic(beside));
        assert_eq!(sample.status, Status::Ok, "{:?}", sample.error);
        assert_eq!(sample.work.unwrap().jobs as f64 + sample.metrics["lost"], 300.0);
        let [begin, end] = sample.series.as_ref().unwrap().jobs_s.unwrap();
        assert!(begin >= 0.09 && end - begin >= 0.099, "{begin} to {end}");
        assert!(sample.metrics["job_throughput_alone"] > 0.0);
        // The agent's cores are a card's.
        assert!(sample.cpu.unwrap().dpu_s > 0.0);
        assert!(sample.warnings.iter().all(|one| one.kind != "not-a-card"));
    }
    // A refused test has no figures, and its error names the node.
    let mut unknown = beside.clone();
    unknown["device"] = "emulated:nothing".into();
    let mut refused = |beside: &Value| {
        let sample = worker.measure(&traffic(beside));
        assert!(sample.metrics.is_empty(), "{sample:?}");
        let failed = sample.error.map(|error| error.message);
        sample.reason.or(failed).unwrap()
    };
    assert_contains(refused(&unknown), "the jobs beside: no device");
    unknown["node"] = "nobody".into();
    assert_contains(refused(&unknown), "nobody");
    // The worker on the agent continues: it measures the next test.
    assert_eq!(worker.measure(&compress("dpu0", &file)).status, Status::Ok);
}

#[test]
fn a_host_that_does_not_go_on_with_its_data_loses_its_connection() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let worker = WorkerCommand {
        program: env!("CARGO_BIN_EXE_overside").into(),
        arguments: vec![WORKER_VERB.into()],
    };
    let cache = DataCache::new(data.clone(), 1 << 20);
    let settings = Settings {
        probes: vec![Arc::new(MeasureProbe::new(worker, cache, 1, CoreOwner::Dpu))],
        limits: Limits { stall: Duration::from_millis(300), ..Limits::default() },
        ..Settings::new("127.0.0.1:0".parse().unwrap(), None)
    };
    let open = |name: &str| overside_backends::open(name, &Options::default());
    let agent = Agent::start(settings, &["cpu".into()], open).unwrap();
    let entry = Entry { address: agent.address().to_string(), keys: None };
    let host = || RemoteProbe::open("dpu0", &entry, KIND, Default::default()).unwrap();
    let mut idle = host();
    let file = FileContent { digest: "a".repeat(64).try_into().unwrap(), bytes: 4 };
    let begin = NodeRequest::File(file).encode();
    // On a busy machine its time may be over before anybody has looked.
    let half_there = (0..20).find_map(|_| {
        let mut silent = host();
        assert!(matches!(asked(&mut silent, &begin), NodeReply::Taken));
        (fs::read_dir(&data).unwrap().count() == 1).then_some(silent)
    });
    // The worker sends heartbeats but no result, which is not sufficient.
    let lost = half_there.unwrap().watch(Instant::now() + Duration::from_secs(60));
    assert_contains(lost.unwrap_err(), "nothing came for 300ms");
    eventually("what was half there is gone", || fs::read_dir(&data).unwrap().count() == 0);
    // Between tests a host may be silent.
    let environment = asked(&mut idle, &NodeRequest::Environment.encode());
    assert!(matches!(environment, NodeReply::Environment(_)));
}

#[test]
fn data_beyond_the_room_for_them_are_a_failed_sample_and_the_oldest_go_first() {
    let user = User::new();
    let _agent = agent(&user, &["--data-size", "1MiB"]);
    let mut worker = Worker::start(&user);
    let large = data(&user, "large", 2 << 20);
    let (kind, message) = worker.failed(&compress("dpu0", &large));
    assert_eq!(kind, FailureKind::Data);
    assert_contains(message, "--data-size");
    for number in 0..3 {
        let file = data(&user, &format!("small{number}"), (700 << 10) + 8 * number);
        let sample = worker.measure(&compress("dpu0", &file));
        assert_eq!(sample.status, Status::Ok, "{sample:?}");
        assert_eq!(kept(&user).len(), 1);
    }
}

#[test]
fn a_disk_that_is_full_is_a_failed_sample_and_the_agent_goes_on() {
    let user = User::new();
    fs::create_dir(user.path("data")).unwrap();
    // The agent's files are limited to 1 MiB: like on a full disk, further writes fail.
    let keys = user.keys();
    let mut agent = Command::new("sh");
    agent
        .args(["-c", "ulimit -f 2048; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_overside")])
        .args(["agent", "--listen", "127.0.0.1:0", "--json", "--device", "cpu"])
        .args(["--keys", &keys, "--data-dir", user.path("data").to_str().unwrap()])
        .env("OVERSIDE_AGENTS", user.path("agents.toml"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut process = agent.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(process.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let address = said["address"].as_str().unwrap().to_owned();
    let _agent = Running { process, address: address.clone() };
    user.done(&["agents", "add", "dpu0", &address, "--keys", &keys]);
    let mut worker = Worker::start(&user);
    let large = data(&user, "large", 2 << 20);
    let (kind, message) = worker.failed(&compress("dpu0", &large));
    assert_eq!(kind, FailureKind::Data);
    assert_contains(message, "dpu0: data cannot be written");
    assert_eq!(kept(&user).len(), 0);
    let small = data(&user, "small", 512 << 10);
    let sample = worker.measure(&compress("dpu0", &small));
    assert_eq!(sample.status, Status::Ok, "{sample:?}");
}

#[test]
fn an_agent_of_another_release_is_told_apart_before_anything_is_asked_of_it() {
    let user = User::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = std::thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut preamble = [0; Preamble::BYTES];
            if stream.read_exact(&mut preamble).is_err() {
                continue;
            }
            let welcome = Reply::Welcome(Welcome { release: "99.1.2".into(), devices: Vec::new() });
            stream.write_all(&Preamble::ours()).unwrap();
            stream.write_all(&control(&welcome)).unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            assert!(rest.is_empty(), "it was asked for something");
        }
    });
    user.done(&["agents", "add", "dpu0", &address]);
    let file = data(&user, "input", 1 << 20);
    let sample = Worker::start(&user).measure(&compress("dpu0", &file));
    assert_eq!(sample.status, Status::Skipped, "{sample:?}");
    let reason = sample.reason.unwrap();
    assert_contains(&reason, "99.1.2");
    assert_contains(&reason, env!("CARGO_PKG_VERSION"));
    assert_contains(&reason, "the same release");
    drop(other);
}

#[test]
fn a_node_that_there_is_not_is_said_to_be_so() {
    let user = User::new();
    let file = data(&user, "input", 1 << 20);
    let sample = Worker::start(&user).measure(&compress("dpu7", &file));
    assert_eq!(sample.status, Status::Skipped);
    assert_contains(sample.reason.unwrap(), "no agent is called \"dpu7\"");
    let away = agent(&user, &[]);
    drop(away);
    let sample = Worker::start(&user).measure(&compress("dpu0", &file));
    assert_eq!(sample.status, Status::Skipped);
    assert_contains(sample.reason.unwrap(), "cannot be reached");
}
