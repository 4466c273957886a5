//! `overside agent` and `overside agents`, run as by a user with two machines.

use overside_base::Random;
use overside_testkit::assert_contains;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const COMMAND: &str = env!("CARGO_BIN_EXE_overside");

/// User with a directory of their own.
pub(crate) struct User(tempfile::TempDir);

impl User {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(COMMAND);
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env("OVERSIDE_AGENTS", self.path("agents.toml"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed, and returns its stdout.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must end with the exit code `code`, and returns its stderr.
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", err(&output));
        err(&output)
    }

    pub(crate) fn keys(&self) -> String {
        let directory = self.path("keys");
        let directory = directory.to_str().unwrap();
        if !Path::new(directory).exists() {
            self.done(&["agent", "keys", directory]);
        }
        directory.into()
    }
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Running agent with its address.
pub(crate) struct Running {
    pub process: Child,
    pub address: String,
}

impl Running {
    pub(crate) fn start(user: &User, arguments: &[&str]) -> Self {
        let common = ["agent", "--listen", "127.0.0.1:0", "--json"];
        let mut process = user
            .command(&[&common[..], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = process.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut text = String::new();
            process.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("{text}");
        });
        let address = said["address"].as_str().unwrap().into();
        Self { process, address }
    }

    /// Sends SIGTERM and returns the exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let begin = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The output of a command that lists devices, which has this one. Agents have less than a second to
/// answer, which on a busy machine is not always enough.
fn listed(user: &User, arguments: &[&str], device: &str) -> String {
    let mut outputs = (0..20).map(|_| user.done(arguments));
    let found = outputs.find(|text| text.contains(device));
    found.unwrap_or_else(|| panic!("{arguments:?} never has {device}"))
}

#[test]
fn a_file_is_compressed_on_an_agent_and_comes_back() {
    let user = User::new();
    let keys = user.keys();
    let mut agent = Running::start(&user, &["--keys", &keys, "--device", "cpu"]);
    let add = ["agents", "add", "dpu0", &agent.address, "--keys", &keys];
    listed(&user, &add, "dpu0/cpu");

    let listed = listed(&user, &["agents", "list"], "dpu0/cpu");
    assert_contains(&listed, "dpu0: 127.0.0.1:");
    let listed = self::listed(&user, &["agents", "list", "--json"], "dpu0/cpu");
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["schema"], "agents/1");
    assert_eq!(listed["agents"][0]["devices"][0], "dpu0/cpu");
    self::listed(&user, &["devices"], "dpu0/cpu: on dpu0: ");

    let text = "what is said three times is true\n".repeat(20_000);
    std::fs::write(user.path("text"), &text).unwrap();
    let far = ["--device", "dpu0/cpu", "--placement", "device"];
    let said = user.run(&[&["compress", "-k", "--stats", "json", "text"][..], &far].concat());
    assert!(said.status.success(), "{}", err(&said));
    assert_contains(err(&said), "dpu0/cpu");
    std::fs::remove_file(user.path("text")).unwrap();
    user.done(&[&["decompress", "text.gz"][..], &far].concat());
    assert_eq!(std::fs::read_to_string(user.path("text")).unwrap(), text);
    let count = user.done(&[&["match", "-c", "three", "text"][..], &far].concat());
    assert_eq!(count, "20000\n");
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn an_agent_offers_no_software_in_place_of_a_card_unless_asked() {
    let user = User::new();
    let agent = Running::start(&user, &["--insecure"]);
    user.done(&["agents", "add", "dpu0", &agent.address]);
    let listed = listed(&user, &["agents", "list", "--json"], "dpu0/cpu");
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let expected = serde_json::json!(["dpu0/cpu"]);
    assert_eq!(listed["agents"][0]["devices"], expected);
}

#[test]
fn an_agent_that_is_not_there_is_said_to_be_so_soon_and_stops_nobody_else() {
    let user = User::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_at = silent.local_addr().unwrap().to_string();
    user.done(&["agents", "add", "quiet", &silent_at]);
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone_at = gone.local_addr().unwrap().to_string();
    drop(gone);
    user.done(&["agents", "add", "gone", &gone_at]);
    let agent = Running::start(&user, &["--insecure", "--device", "emulated:bf2"]);
    user.done(&["agents", "add", "dpu0", &agent.address]);

    let listed = listed(&user, &["agents", "list"], "dpu0/emulated:bf2");
    let line = |name: &str| {
        let mut lines = listed.lines();
        lines.find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{listed}")).to_owned()
    };
    assert!(line("quiet").contains("within 900"), "{listed}");
    assert!(line("gone").contains("is `overside agent` running?"), "{listed}");
    assert!(line("dpu0").contains("dpu0/emulated:bf2"), "{listed}");
    let devices = self::listed(&user, &["devices"], "dpu0/emulated:bf2: on dpu0: ");
    assert!(devices.contains("gone/*: not available: "), "{devices}");
    assert!(devices.starts_with("cpu: "), "{devices}");
}

#[test]
fn agents_that_are_added_and_removed_at_once_are_all_added_and_removed() {
    let user = User::new();
    let start = |arguments: &[&str]| user.command(arguments).spawn().unwrap();
    let end = |mut process: Child| assert!(process.wait().unwrap().success());
    let names: Vec<String> = (0..30).map(|number| format!("dpu{number}")).collect();
    let adding = names.iter().map(|name| start(&["agents", "add", name, "127.0.0.1:7433"]));
    adding.collect::<Vec<_>>().into_iter().for_each(end);
    let (gone, kept) = names.split_at(15);
    let removing = gone.iter().map(|name| start(&["agents", "remove", name]));
    removing.collect::<Vec<_>>().into_iter().for_each(end);
    let text = std::fs::read_to_string(user.path("agents.toml")).unwrap();
    assert_eq!(text.matches("[agents.").count(), kept.len(), "{text}");
    for name in kept {
        assert_contains(&text, &format!("[agents.{name}]"));
    }
}

#[test]
fn what_is_done_is_written_while_the_input_is_slow() {
    const CHUNK: usize = 64 << 10;
    let user = User::new();
    let agent = Running::start(&user, &["--insecure", "--device", "cpu"]);
    user.done(&["agents", "add", "dpu0", &agent.address]);
    let far = ["--device", "dpu0/cpu", "--placement", "device"];
    for device in [&[][..], &far] {
        let words = [&["compress", "-c", "--chunk", "64k"], device].concat();
        let mut host =
            user.command(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = host.stdout.take().unwrap();
        let (some, came) = mpsc::channel();
        let reading = std::thread::spawn(move || {
            let read = output.read_exact(&mut vec![0; 8 * CHUNK]);
            some.send(()).unwrap();
            read.and_then(|()| output.read_to_end(&mut Vec::new())).unwrap();
        });
        let mut input = host.stdin.take().unwrap();
        // Random bytes are incompressible.
        let bytes = Random::new(1).bytes(8 * CHUNK);
        input.write_all(&bytes).unwrap();
        // The first output arrives before the input ends.
        let came = came.recv_timeout(Duration::from_secs(60));
        drop(input);
        assert!(host.wait().unwrap().success());
        reading.join().unwrap();
        assert!(came.is_ok(), "{words:?}: nothing before the end");
    }
}

#[test]
fn host_cores_a_cards_cores_and_its_engine_share_a_file_and_outlive_the_card() {
    const CHUNK: usize = 64 << 10;
    let user = User::new();
    let devices = ["--device", "cpu", "--device", "emulated:bf2"];
    let agent = Running::start(&user, &[&["--insecure"], &devices[..]].concat());
    user.done(&["agents", "add", "dpu0", &agent.address]);
    let words = ["three times is true\n", "said once\n", "never\n"];
    let mut random = Random::new(1);
    let text: String =
        std::iter::repeat_with(|| words[random.below(3) as usize]).take(400_000).collect();
    let options = "compress -c --chunk 64KiB --device dpu0/cpu+dpu0/emulated:bf2 --stats json";
    let compress = |placement: &str, killed: Option<Running>| {
        let mut host = user
            .command(&options.split(' ').collect::<Vec<_>>())
            .args(["--placement", placement])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = host.stdin.take().unwrap();
        let (half, rest) = text.as_bytes().split_at(text.len() / 2);
        let (half, rest) = (half.to_vec(), rest.to_vec());
        let feeding = std::thread::spawn(move || {
            input.write_all(&half).unwrap();
            drop(killed);
            input.write_all(&rest).unwrap();
        });
        let output = host.wait_with_output().unwrap();
        feeding.join().unwrap();
        let said = err(&output);
        let stats = said.lines().find(|line| line.starts_with('{')).unwrap();
        let stats: serde_json::Value = serde_json::from_str(stats).unwrap();
        std::fs::write(user.path("out.gz"), &output.stdout).unwrap();
        assert!(user.done(&["decompress", "-c", "out.gz"]) == text, "{said}");
        stats["summary"]["report"].clone()
    };
    let chunks = |report: &serde_json::Value| {
        let of = |target: &serde_json::Value| target["chunks"].as_u64().unwrap();
        let [own, engine] = [&report["devices"][0], &report["devices"][1]];
        [of(&report["cpu"]), of(own), of(engine)]
    };
    let all = text.len().div_ceil(CHUNK) as u64;
    let whole = chunks(&compress("split:30+40", None));
    assert_eq!(whole.iter().sum::<u64>(), all, "{whole:?}");
    assert!(whole.iter().all(|count| count * 5 > all), "{whole:?}");
    // If a card is lost, both of its targets are.
    let rest = chunks(&compress("split:30+40", Some(agent)));
    assert!(rest[0] > whole[0], "{rest:?}");
    assert_eq!(rest.iter().sum::<u64>(), all, "{rest:?}");
}

#[test]
fn names_that_lead_nowhere_say_where_to_go() {
    let user = User::new();
    let agent = Running::start(&user, &["--insecure", "--device", "cpu"]);
    user.done(&["agents", "add", "dpu0", &agent.address]);
    std::fs::write(user.path("text"), "text").unwrap();
    let compress = |device: &str| user.fails(1, &["compress", "-k", "--device", device, "text"]);
    assert!(compress("dpu1/cpu").contains("did you mean \"dpu0\"?"));
    assert!(compress("elsewhere/cpu").contains("overside agents add elsewhere HOST:PORT"));
    assert!(compress("dpu0/cpus").contains("did you mean \"dpu0/cpu\"?"));
    assert!(compress("dpu0/emulated:bf2").contains("there are: dpu0/cpu"));
}

#[test]
fn the_unit_starts_an_agent_and_stops_it() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/overside-agent.service");
    let text = std::fs::read_to_string(unit).unwrap();
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(key));
        lines.next().unwrap_or_else(|| panic!("{key}")).to_owned()
    };
    let user = User::new();
    let keys = user.keys();
    let listen = value("Environment=OVERSIDE_LISTEN=");
    assert_eq!(listen, "127.0.0.1:7433", "nowhere but on this machine");
    // Values are inserted as by systemd; another port avoids a conflict with other servers.
    let command = value("ExecStart=/usr/local/bin/overside agent ")
        .replace("${OVERSIDE_LISTEN}", "127.0.0.1:0")
        .replace("/etc/overside/keys", &keys)
        .replace("$OVERSIDE_OPTIONS", "--drain 5 --device cpu");
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut agent = Running::start(&user, &words);
    assert_eq!(agent.end(), Some(0));
    let stop: u64 = value("TimeoutStopSec=").parse().unwrap();
    assert!(stop > 30, "longer than the agent lets hosts fetch what is done for them");
}

#[test]
fn nobody_is_let_in_by_mistake() {
    let user = User::new();
    let keys = user.keys();
    let refused: [(&[&str], &str); 7] = [
        (&["agent"], "--insecure"),
        (&["agent", "--listen", "0.0.0.0:0"], "so --keys DIR is required"),
        (&["agent", "--listen", "0.0.0.0:0", "--insecure"], "so --keys DIR is required"),
        (&["agent", "--keys", &keys, "--insecure"], "contradict"),
        (&["agent", "--listen", "nowhere"], "192.168.100.2:7433"),
        (&["agent", "--insecur"], "'--insecure'"),
        (&["agent", "--insecure", "--role", "king"], "[possible values: dpu, host]"),
    ];
    for (arguments, expected) in refused {
        let said = user.fails(2, arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let said = user.fails(2, &["agents", "add", "dpu0", "192.0.2.1"]);
    assert_contains(&said, "192.0.2.1:7433 is not this machine, so it takes --keys DIR");
    user.done(&["agents", "add", "dpu0", "192.0.2.1", "--keys", &keys]);
    let said = user.fails(3, &["agent", "--insecure", "--device", "gpu"]);
    assert_contains(&said, "gpu cannot be offered: no device is called");
}

#[test]
fn keys_are_for_their_owner_and_are_not_made_twice() {
    let user = User::new();
    let keys = PathBuf::from(user.keys());
    for name in ["ca.pem", "ca.key", "agent.pem", "agent.key", "host.pem", "host.key"] {
        let mode = std::fs::metadata(keys.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o700);
    let again = user.fails(2, &["agent", "keys", keys.to_str().unwrap()]);
    assert!(again.contains("is there already"), "{again}");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(keys.join("agent.key"), open).unwrap();
    let said = user.fails(3, &["agent", "--keys", keys.to_str().unwrap()]);
    assert!(said.contains("chmod 600"), "{said}");
}

#[test]
fn the_inventory_can_be_written_by_hand() {
    let user = User::new();
    let keys = user.keys();
    let agent = Running::start(&user, &["--keys", &keys, "--device", "cpu"]);
    // A relative path is relative to the file that contains it.
    let text = format!("[agents.dpu0]\naddress = \"{}\"\nkeys = \"keys\"\n", agent.address);
    std::fs::write(user.path("agents.toml"), text).unwrap();
    listed(&user, &["agents", "list"], "dpu0/cpu");
    user.done(&["agents", "remove", "dpu0"]);
    assert_eq!(user.done(&["agents", "list"]), "");
    assert!(user.fails(3, &["agents", "remove", "dpu0"]).contains("there is none"));
    for (text, expected) in [
        ("[agents.dpu0]\n", "agents.dpu0.address: missing"),
        ("[agents.dpu0]\naddress = \"a:1\"\nkye = \"x\"\n", "agents.dpu0.kye: no such key"),
        ("[agents.\"dpu 0\"]\naddress = \"a:1\"\n", "is no name for an agent"),
        ("[agents.dpu0]\naddress = \"somewhere\"\n", "write HOST:PORT"),
    ] {
        std::fs::write(user.path("agents.toml"), text).unwrap();
        let said = user.fails(2, &["agents", "list"]);
        assert_contains(&said, expected);
        assert_contains(&said, "agents.toml");
    }
    // An unreadable inventory is reported and hides no other device.
    let devices = user.done(&["devices"]);
    assert!(devices.starts_with("cpu: ") && devices.contains("agents.toml"), "{devices}");
}

#[test]
fn what_is_asked_for_wrongly_is_told_with_what_there_is() {
    let user = User::new();
    assert!(user.fails(2, &["agents"]).contains("Usage:"));
    assert!(user.fails(2, &["agents", "list", "--jsno"]).contains("'--json'"));
    assert!(user.fails(2, &["agent", "keys"]).contains("<DIR>"));
}
