//! `overside kv serve` as users call it.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use overside_testkit::assert_contains;
use serde_json::Value;

use crate::agent::{Running, User, err};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Running server with its announcement.
pub(crate) struct Serving {
    process: Child,
    pub said: Value,
}

/// The words of a command line.
pub(crate) fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

impl Serving {
    pub(crate) fn start(user: &User, arguments: &[&str]) -> Self {
        let common = ["kv", "serve", "--json", "--memory", "16MiB"];
        let mut process = user
            .command(&[&common[..], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let said = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut text = String::new();
            let mut errors = process.stderr.take().unwrap();
            errors.read_to_string(&mut text).unwrap();
            panic!("{text}");
        });
        Self { process, said }
    }

    /// Returns the two addresses of a kind.
    pub(crate) fn endpoints(&self, kind: &str) -> [String; 2] {
        [0, 1].map(|number| self.said[kind][number].as_str().unwrap().to_owned())
    }

    pub(crate) fn port(&self, kind: &str) -> String {
        let address = self.said[kind][0].as_str().unwrap();
        address.rsplit_once(':').unwrap().1.to_owned()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.said["listen"][0].as_str().unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a signal. Returns the exit code.
    pub(crate) fn end(&mut self, signal: &str) -> Option<i32> {
        let id = self.process.id().to_string();
        let kill = Command::new("kill").args([signal, &id]).status().unwrap();
        assert!(kill.success());
        self.wait()
    }

    /// Waits until the server has ended. Returns the exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns all that the server has written to stderr. Waits until it has ended.
    pub(crate) fn errors(&mut self) -> String {
        let mut text = String::new();
        let mut errors = self.process.stderr.take().unwrap();
        errors.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) fn ask(mut stream: impl Read + Write, commands: &str, replies: &str) {
    stream.write_all(commands.as_bytes()).unwrap();
    let mut heard = vec![0; replies.len()];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(String::from_utf8_lossy(&heard), replies);
}

pub(crate) fn run(user: &User, arguments: &[&str]) -> Output {
    let all = [&["kv", "serve"], arguments].concat();
    user.command(&all).output().unwrap()
}

/// Returns the error message of `kv serve`, which must refuse these options.
pub(crate) fn refused(user: &User, arguments: &[&str]) -> String {
    let output = run(user, arguments);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    err(&output)
}

#[test]
fn clients_store_and_read_and_a_signal_ends_it_in_order() {
    let user = User::new();
    for signal in ["-TERM", "-INT"] {
        let mut serving =
            Serving::start(&user, &["--listen", "127.0.0.1:0", "--unix", "socket", "--core", "0"]);
        let mut stream = serving.connect();
        ask(&stream, "SET key value\r\nGET key\r\n", "+OK\r\n$5\r\nvalue\r\n");
        let unix = UnixStream::connect(user.path("socket")).unwrap();
        ask(&unix, "GET key\r\n", "$5\r\nvalue\r\n");
        stream.write_all(b"GET key\r\n").unwrap();
        assert_eq!(serving.end(signal), Some(0));
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "$5\r\nvalue\r\n");
        assert!(!user.path("socket").exists());
    }
}

#[test]
fn nobody_is_admitted_by_mistake() {
    let user = User::new();
    let tls = "--tls-listen 192.0.2.1:7000";
    for (arguments, says) in [
        ("--listen 0.0.0.0", &["other machines can reach 0.0.0.0:6379"][..]),
        (&format!("{tls} --tls-keys keys"), &["--tls-clients required"]),
        (tls, &["--tls-keys"]),
        ("--memcached 0.0.0.0", &["other machines can reach 0.0.0.0:11211", "has no password"]),
        (
            "--datagram 192.0.2.1:7000",
            &[
                "other machines can reach 192.0.2.1:7000",
                "datagrams have no password",
                "--dpdk-trusted",
            ],
        ),
    ] {
        let text = refused(&user, &words(arguments));
        says.iter().for_each(|part| assert_contains(&text, part));
    }
    std::fs::write(user.path("password"), "secret\n").unwrap();
    let set_mode = |mode| {
        let permissions = Permissions::from_mode(mode);
        std::fs::set_permissions(user.path("password"), permissions).unwrap();
    };
    set_mode(0o644);
    let arguments = ["--listen", "127.0.0.1:0", "--password-file", "password"];
    let output = run(&user, &arguments);
    assert_eq!(output.status.code(), Some(3));
    assert_contains(err(&output), "chmod 600");
    set_mode(0o600);
    let serving = Serving::start(&user, &arguments);
    let commands = "GET key\r\nAUTH wrong\r\n";
    ask(serving.connect(), commands, "-NOAUTH Authentication required.\r\n-WRONGPASS ");
    ask(serving.connect(), "AUTH secret\r\nGET key\r\n", "+OK\r\n$-1\r\n");
}

#[test]
fn on_this_machine_no_password_is_needed() {
    let user = User::new();
    let serving = Serving::start(&user, &["--listen", "127.0.0.1:0"]);
    ask(serving.connect(), "SET key value\r\n", "+OK\r\n");
    for (arguments, address) in [
        (&["--dry-run"][..], "listens at: 127.0.0.1:6379\n"),
        (&["--dry-run", "--memcached", "::1"], "listens at: [::1]:11211 (memcached)\n"),
        (
            &["--dry-run", "--datagram", "127.0.0.1", "--rx-queue", "128"],
            "listens at: 127.0.0.1:6379 (datagrams)\n",
        ),
    ] {
        let output = run(&user, arguments);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert_contains(String::from_utf8(output.stdout).unwrap(), address);
    }
}

#[test]
fn an_address_that_is_taken_is_named_with_a_remedy() {
    let user = User::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&user, &["--listen", &address]);
    assert_eq!(output.status.code(), Some(3));
    assert_contains(err(&output), &address);
    assert_contains(err(&output), "give another address");
}

#[test]
fn cores_that_are_not_there_are_refused_before_it_says_that_it_listens() {
    let user = User::new();
    for cores in [["--core", "1000"], ["--cores", "0,1000"]] {
        let output = run(&user, &[&["--listen", "127.0.0.1:0"], &cores[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(output.stdout.is_empty());
        assert!(err(&output).contains("take those that nproc counts"));
    }
}

#[test]
fn a_dry_run_says_what_it_would_take() {
    let user = User::new();
    let common = ["--dry-run", "--memory", "1GiB", "--metrics", "127.0.0.1:9"];
    let output = run(&user, &common);
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    design: cpu-only
      on the host: 1 core, with clients and a part of the keys
    listens at: 127.0.0.1:6379, http://127.0.0.1:9/metrics
    keeps nothing when it ends (--dir DIR does)
    memory of the host, at most: 1344 MiB
      store, index included: 1024 MiB
      connections: 256 MiB
      changes for replicas: 64 MiB
    ");
    let output = run(&user, &[&common[..], &["--json"]].concat());
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["design"], "cpu-only");
    assert_eq!(plan["listen"][0], "127.0.0.1:6379");
    assert_eq!(plan["memory_bytes"]["host"]["store"], 1 << 30);
}

#[test]
fn a_dry_run_counts_request_regions() {
    let user = User::new();
    let memory = |arguments: &[&str]| {
        let common = ["--dry-run", "--json", "--memory", "1GiB"];
        let output = run(&user, &[&common[..], arguments].concat());
        let mut plan: Value = serde_json::from_slice(&output.stdout).unwrap();
        plan["memory_bytes"]["host"].take()
    };
    let plain = memory(&[]);
    assert_eq!(plain["request_regions"], 0);
    let of = |memory: &Value, part: &str| memory[part].as_u64().unwrap();
    let more = memory(&["--herd", "herd"]);
    let regions = of(&more, "request_regions");
    // 256 clients with 32 slots of 2 KiB each.
    assert!((16 << 20..32 << 20).contains(&regions), "{regions}");
    assert_eq!(of(&more, "total"), of(&plain, "total") + regions);
    let two = memory(&["--herd", "herd", "--cores", "2"]);
    assert_eq!(of(&two, "request_regions"), 2 * regions);
}

#[test]
fn what_was_stored_is_there_after_a_restart() {
    let user = User::new();
    for sync in ["always", "everysec", "no", "snapshots"] {
        let arguments = ["--listen", "127.0.0.1:0", "--dir", sync, "--sync", sync];
        let mut serving = Serving::start(&user, &arguments);
        ask(serving.connect(), "SET key value\r\n", "+OK\r\n");
        let output = run(&user, &arguments);
        assert_eq!(output.status.code(), Some(3));
        assert_contains(err(&output), "in use by another server; end that server");
        assert_eq!(serving.end("-TERM"), Some(0));
        let mut serving = Serving::start(&user, &arguments);
        let log = if sync == "snapshots" { "no" } else { "yes" };
        let policy = if sync == "snapshots" { "no" } else { sync };
        ask(
            serving.connect(),
            "GET key\r\nCONFIG GET appendonly\r\nCONFIG GET appendfsync\r\nBGREWRITEAOF\r\n",
            &format!(
                "$5\r\nvalue\r\n*2\r\n$10\r\nappendonly\r\n${}\r\n{log}\r\n\
                 *2\r\n$11\r\nappendfsync\r\n${}\r\n{policy}\r\n+Background append only file ",
                log.len(),
                policy.len()
            ),
        );
        assert_eq!(serving.end("-TERM"), Some(0));
        assert_contains(serving.errors(), "recovered");
    }
}

#[test]
fn a_damaged_directory_is_named_with_a_remedy() {
    let user = User::new();
    std::fs::create_dir(user.path("state")).unwrap();
    std::fs::write(user.path("state/snapshot-0000000001"), "no snapshot").unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--dir", "state"];
    // A dry run does not access the directory.
    let plan = run(&user, &[&arguments[..], &["--dry-run"]].concat());
    assert!(plan.status.success());
    assert_contains(String::from_utf8(plan.stdout).unwrap(), "keeps everything in: state");
    let output = run(&user, &arguments);
    assert_eq!(output.status.code(), Some(3));
    assert_contains(err(&output), "snapshot-0000000001 is damaged");
    assert_contains(err(&output), "restore the file from a copy");
    std::fs::write(user.path("file"), "").unwrap();
    let output = run(&user, &["--listen", "127.0.0.1:0", "--dir", "file"]);
    assert_eq!(output.status.code(), Some(3));
    assert_contains(err(&output), "file: ");
    assert_contains(refused(&user, &["--sync", "always"]), "--dir");
}

/// Returns the output of `redis-cli PING` over TLS; `None` if redis-cli is not installed.
pub(crate) fn redis_cli(directory: &Path, port: &str, certificate: bool) -> Option<String> {
    let mut command = Command::new("redis-cli");
    command.current_dir(directory).args(["--tls", "--cacert", "ca.pem", "-p", port]);
    if certificate {
        command.args(["--cert", "host.pem", "--key", "host.key"]);
    }
    let output = command.arg("PING").stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Renames an agent's keys to those of a server.
pub(crate) fn keys_of_server(directory: &Path) {
    for (from, to) in [("agent.pem", "server.pem"), ("agent.key", "server.key")] {
        std::fs::copy(directory.join(from), directory.join(to)).unwrap();
    }
}

#[test]
fn clients_with_a_certificate_of_the_authority_are_admitted() {
    let user = User::new();
    let keys = user.keys();
    let directory = Path::new(&keys);
    keys_of_server(directory);
    let arguments = format!("--tls-listen 127.0.0.1:0 --tls-keys {keys} --tls-clients required");
    let serving = Serving::start(&user, &words(&arguments));
    assert_eq!(serving.said["listen"], Value::Array(Vec::new()));
    let port = serving.port("tls");
    let Some(reply) = redis_cli(directory, &port, true) else {
        eprintln!("skipped: redis-cli is not installed");
        return;
    };
    assert_eq!(reply, "PONG\n");
    assert!(!redis_cli(directory, &port, false).unwrap().contains("PONG"));
}

#[test]
fn a_cache_has_no_log() {
    let user = User::new();
    let said = refused(&user, &["--semantics", "cache", "--dir", "state"]);
    assert_contains(said, "--sync snapshots");
}

#[test]
fn the_communication_engine_runs_on_an_agent_and_may_be_lost() {
    let user = User::new();
    let agent = Running::start(&user, &["--insecure", "--device", "cpu"]);
    let address = agent.address.clone();
    user.done(&["agents", "add", "dpu0", &address]);
    let lat = words("--design lat --dpu dpu0 --listen 127.0.0.1:0");
    let mut serving = Serving::start(&user, &lat);
    assert_eq!(serving.said["dpu"], "dpu0");
    let value = "x".repeat(200_000);
    ask(
        serving.connect(),
        &format!("SET key value\r\n*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n$200000\r\n{value}\r\n"),
        "+OK\r\n+OK\r\n",
    );
    let replies = format!("$5\r\nvalue\r\n$200000\r\n{value}\r\n");
    ask(serving.connect(), "GET key\r\nGET long\r\n", &replies);
    let mut stream = serving.connect();
    stream.write_all(b"INFO Overside\r\nQUIT\r\n").unwrap();
    let mut info = String::new();
    stream.read_to_string(&mut info).unwrap();
    assert_contains(&info, "design:lat");
    // The server is killed and started again at the same address: the host has all keys.
    drop(agent);
    let again = ["--insecure", "--device", "cpu", "--listen", &address];
    let _agent = Running::start(&user, &again);
    let begin = Instant::now();
    while TcpStream::connect(serving.said["listen"][0].as_str().unwrap()).is_err() {
        assert!(begin.elapsed() < PATIENCE, "it does not come back");
        std::thread::sleep(Duration::from_millis(20));
    }
    ask(serving.connect(), "GET key\r\n", "$5\r\nvalue\r\n");
    assert_eq!(serving.end("-TERM"), Some(0));
    let unknown = run(&user, &["--design", "lat", "--dpu", "nobody"]);
    assert_eq!(unknown.status.code(), Some(3));
    assert_contains(err(&unknown), "overside agents add nobody");
    assert_contains(refused(&user, &["--design", "lat"]), "--dpu NODE");
}
