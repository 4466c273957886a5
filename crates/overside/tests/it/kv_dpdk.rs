//! `overside kv serve --dpdk-port`: over shared memory between two processes, and by packet sockets
//! at one end of a pair of network interfaces whose other end belongs to the kernel.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use overside_testkit::assert_contains;
use serde_json::Value;

use crate::agent::{Running, User, err};
use crate::kv::{PATIENCE, Serving, words};

const SERVER: &str = "datagram://10.9.0.2:6379";

/// Returns the reason to skip the test; `None` if this build has DPDK.
fn missing(user: &User, device: &str) -> Option<String> {
    let nobody = format!("kv bench {SERVER} --dpdk-port {device} --dpdk-address 224.0.0.1");
    let output = user.command(&words(&nobody)).output().unwrap();
    assert_contains(err(&output), "no address of a host");
    let devices = user.command(&["devices"]).output().unwrap();
    let all = String::from_utf8_lossy(&devices.stdout).into_owned() + &err(&devices);
    let has_dpdk = all.contains("dpdk:") && !all.contains("without DPDK");
    (!has_dpdk).then(|| "skipped: there is no DPDK".into())
}

/// Returns a function that reads fields of `INFO` from a server at `stream`.
fn info(mut stream: impl Read + Write) -> impl Fn(&str) -> String {
    stream.write_all(b"*1\r\n$4\r\nINFO\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let len: usize = line[1..].trim().parse().unwrap();
    let mut text = vec![0; len];
    reader.read_exact(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    move |name| {
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        let found = fields.find(|(field, _)| *field == name);
        found.unwrap_or_else(|| panic!("no {name}")).1.to_owned()
    }
}

fn count(field: &impl Fn(&str) -> String, name: &str) -> u64 {
    field(name).parse().unwrap()
}

/// Returns the percentage of requests that arrived at the core with their keys.
fn percent_at_owner(field: &impl Fn(&str) -> String) -> f64 {
    let (own, others) = (count(field, "requests_at_owner"), count(field, "requests_forwarded"));
    assert!(own > 0);
    100.0 * own as f64 / (own + others) as f64
}

const SHORT: &str = "--json --records 5000 --seconds 0.5 --warm-up 0.1 -c 4 -P 64 --workload a";

/// Options of a server at a port.
fn at_port(port: &str) -> String {
    format!("--dpdk-port {port} --dpdk-address 10.9.0.2 --dpdk-trusted")
}

/// A load through a port.
fn bench(port: &str, queues: &str) -> String {
    let at = format!("--dpdk-port {port} --dpdk-address 10.9.0.1 --dpdk-queues {queues}");
    format!("kv bench {SERVER} {at} {SHORT}")
}

#[test]
fn two_processes_over_shared_memory() {
    let user = User::new();
    if let Some(reason) = missing(&user, "net_memif0") {
        return println!("{reason}");
    }
    let socket = user.path("port");
    let port = |role: &str| format!("net_memif0,role={role},socket={}", socket.display());
    for (cores, queues, steering) in [("1", "1", "none"), ("2", "2", "software")] {
        let (server, client) = (port("server"), port("client"));
        let serve = format!("--listen 127.0.0.1:0 --cores {cores} {}", at_port(&server));
        let mut serving = Serving::start(&user, &words(&serve));
        assert_eq!(serving.said["datagram"][0], "10.9.0.2:6379");
        let bench = bench(&client, queues);
        // A client that connects again is served as well.
        for _ in 0..2 {
            let found: Value = serde_json::from_str(&user.done(&words(&bench))).unwrap();
            assert_eq!(found["points"][0]["misses"], 0);
            assert!(found["points"][0]["hits"].as_u64().unwrap() > 0);
        }
        let stream = TcpStream::connect(serving.said["listen"][0].as_str().unwrap()).unwrap();
        let field = info(stream);
        assert_eq!(field("steering"), steering);
        assert_eq!(field("datagrams_invalid"), "0");
        assert!(count(&field, "datagrams_received") > 0);
        if cores == "2" {
            // Each queue of the client belongs to one of the server, so requests are not forwarded.
            assert!(percent_at_owner(&field) >= 99.0);
            assert_eq!(field("frames_handed_over"), "0");
        }
        assert_eq!(serving.end("-TERM"), Some(0));
        assert!(!socket.exists());
    }
    // A killed server leaves its socket; the next one replaces it.
    let serve = at_port(&port("server"));
    assert_eq!(Serving::start(&user, &words(&serve)).end("-KILL"), None);
    assert!(socket.exists());
    let mut again = Serving::start(&user, &words(&serve));
    assert_eq!(again.end("-TERM"), Some(0));
}

#[test]
fn the_port_of_an_agent() {
    let user = User::new();
    if let Some(reason) = missing(&user, "net_memif0") {
        return println!("{reason}");
    }
    let socket = user.path("port");
    let port = |role: &str| format!("net_memif0,role={role},socket={}", socket.display());
    let (server, client) = (port("server"), port("client"));
    for (design, host_cores) in [("lat", 2), ("sav", 1), ("dual", 2), ("shrd", 2), ("dpu-only", 1)]
    {
        let agent = Running::start(&user, &["--insecure", "--kv-dpdk-port", &server]);
        user.done(&["agents", "add", "dpu0", &agent.address]);
        let cores = "2";
        let serve = format!(
            "--design {design} --dpu dpu0 --cores {host_cores} --dpu-cores {cores} --listen 127.0.0.1:0"
        );
        let (at, has_both) = (at_port(&server), ["dual", "shrd"].contains(&design));
        let serve = match has_both {
            true => format!(
                "{serve} --dpu-listen 127.0.0.1:0 {}",
                at.replace("--dpdk-port", "--dpu-dpdk-port")
                    .replace("--dpdk-address", "--dpu-dpdk-address")
            ),
            false => format!("{serve} {at}"),
        };
        let mut serving = Serving::start(&user, &words(&serve));
        let bench = bench(&client, cores);
        let found: Value = serde_json::from_str(&user.done(&words(&bench))).unwrap();
        assert_eq!(found["points"][0]["misses"], 0, "{design}");
        let listen = if has_both { "dpu_listen" } else { "listen" };
        let stream = TcpStream::connect(serving.said[listen][0].as_str().unwrap()).unwrap();
        let field = info(stream);
        assert!(count(&field, "datagrams_received") > 0);
        assert_eq!(field("frames_handed_over"), "0");
        if design == "lat" {
            // Frames come to the core that is paired with the one that has their keys.
            assert!(percent_at_owner(&field) >= 99.0);
        }
        assert_eq!(serving.end("-TERM"), Some(0));
    }
}

/// Server in a separate network namespace, at one of two interfaces; the kernel has the other, 10.9.0.1.
struct Network {
    process: Child,
    id: String,
    /// `true` if the server has a user namespace of its own.
    has_users: bool,
    said: Value,
}

impl Network {
    /// Starts a server with packet sockets. Returns `None` if networks cannot be created here.
    fn serve(user: &User, arguments: &[&str]) -> Option<Self> {
        Self::serve_by(user, "net_af_packet0", arguments)
    }

    /// Starts a server with another driver. AF_XDP loads a program into the kernel, for which root is needed.
    fn serve_by(user: &User, driver: &str, arguments: &[&str]) -> Option<Self> {
        let has_users = driver != "net_af_xdp0";
        let users = ["--user", "--map-root-user"].into_iter();
        let script = "ip link set lo up && ip link add kv0 type veth peer name kv1 && \
                      ip link set kv0 gso_max_segs 1 && ip addr add 10.9.0.1/24 dev kv0 && \
                      ip link set kv0 up && ip link set kv1 up && echo made && exec \"$0\" \"$@\"";
        let server = user.command(&[]);
        let serve = format!(
            "kv serve --json --memory 16MiB --listen 127.0.0.1:7379 --dpdk-port {driver},iface=kv1 --dpdk-address 10.9.0.2"
        );
        let mut process = Command::new("unshare")
            .args(users.filter(|_| has_users))
            .args(["--net", "sh", "-c", script])
            .arg(server.get_program())
            .args(words(&serve))
            .args(arguments)
            .current_dir(user.path(""))
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if line.trim() != "made" {
            process.wait().unwrap();
            return None;
        }
        line.clear();
        out.read_line(&mut line).unwrap();
        if line.is_empty() && !has_users {
            process.wait().unwrap();
            return None;
        }
        let said = serde_json::from_str(&line).unwrap_or_else(|_| panic!("it does not serve"));
        let id = process.id().to_string();
        Some(Self { process, id, has_users, said })
    }

    /// Returns a command that runs in that network on the kernel's side.
    fn command(&self, program: &std::ffi::OsStr, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.id, "--net", "--preserve-credentials"])
            .args(["--user"].into_iter().filter(|_| self.has_users))
            .arg(program)
            .args(arguments);
        command
    }

    fn overside(&self, user: &User, arguments: &[&str]) -> Output {
        let command = user.command(arguments);
        self.command(command.get_program(), arguments).output().unwrap()
    }

    /// Returns a function that reads fields of `INFO`, with the password unless it is empty.
    fn info(&self, password: &str) -> impl Fn(&str) -> String + use<> {
        let ask = "exec 3<>/dev/tcp/127.0.0.1/7379; \
                   [ -z \"$0\" ] || { printf 'AUTH %s\\r\\n' \"$0\" >&3; read -r -u 3 said; }; \
                   printf 'INFO\\r\\n' >&3; \
                   IFS= read -r -u 3 head; head -c \"$(printf %s \"${head#$}\" | tr -d '\\r')\" <&3";
        let output = self.command("bash".as_ref(), &["-c", ask, password]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("redis_version"), "{text}{}", err(&output));
        move |name| {
            let mut fields = text.lines().filter_map(|line| line.split_once(':'));
            let found = fields.find(|(field, _)| *field == name);
            found.unwrap_or_else(|| panic!("no {name}")).1.to_owned()
        }
    }

    fn signal(&self, signal: &str) {
        let kill = Command::new("kill").args([signal, &self.id]).status().unwrap();
        assert!(kill.success());
    }

    fn end(&mut self) -> Option<i32> {
        self.signal("-TERM");
        let begin = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status.code();
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn clients_of_the_kernel_reach_it_by_af_xdp() {
    let user = User::new();
    if let Some(reason) = missing(&user, "net_af_xdp0") {
        return println!("{reason}");
    }
    let Some(mut network) = Network::serve_by(&user, "net_af_xdp0", &["--dpdk-trusted"]) else {
        return println!("skipped: AF_XDP needs root, and a kernel that has it");
    };
    let output = network.overside(&user, &words(&format!("kv bench {SERVER} {SHORT}")));
    assert!(output.status.success(), "{}", err(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["points"][0]["misses"], 0);
    let field = network.info("");
    assert!(count(&field, "frames_questions") > 0);
    assert_eq!(field("frames_malformed"), "0");
    assert_eq!(network.end(), Some(0));
}

#[test]
fn clients_of_the_kernel_reach_it_by_an_interface() {
    let user = User::new();
    if let Some(reason) = missing(&user, "net_af_packet0") {
        return println!("{reason}");
    }
    let Some(mut network) = Network::serve(&user, &["--cores", "2", "--dpdk-trusted"]) else {
        return println!("skipped: networks cannot be made here");
    };
    assert_eq!(network.said["dpdk_port"], "net_af_packet0,iface=kv1");
    let output = network.overside(&user, &words(&format!("kv bench {SERVER} {SHORT}")));
    assert!(output.status.success(), "{}", err(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["points"][0]["misses"], 0);
    let field = network.info("");
    // Packet sockets have no steering rules: the kernel distributes senders, and the cores forward requests.
    assert_eq!(field("steering"), "software");
    assert!(percent_at_owner(&field) >= 99.0);
    assert!(count(&field, "frames_handed_over") > 0);
    assert_eq!(field("frames_handover_dropped"), "0");
    assert_eq!(field("frames_links"), "1");
    assert!(count(&field, "frames_questions") > 0, "the kernel asks for the address");
    assert_eq!(field("frames_malformed"), "0");
    assert_eq!(field("frames_checksum_errors"), "0");
    assert_eq!(network.end(), Some(0));
}

#[test]
fn what_finds_no_descriptor_is_dropped_and_counted() {
    let user = User::new();
    if let Some(reason) = missing(&user, "net_af_packet0") {
        return println!("{reason}");
    }
    const SENT: u64 = 1000;
    let mut answered = Vec::new();
    for descriptors in [128, 256] {
        let rx_queue = descriptors.to_string();
        let Some(network) = Network::serve(&user, &["--dpdk-trusted", "--rx-queue", &rx_queue])
        else {
            return println!("skipped: networks cannot be made here");
        };
        // One request, so that the kernel knows the hardware address; then many that no queue has room for.
        let send = |count: u64| {
            let header = "KV\\x01\\x00\\x00\\x00\\x01\\x00AAAAAAAA\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00BBBBBBBB\\xac\\x05";
            let script = format!(
                "exec 3<>/dev/udp/10.9.0.2/6379; for i in $(seq {count}); do printf '{header}\\x00\\x01a' >&3; done"
            );
            let output = network.command("bash".as_ref(), &["-c", &script]).output().unwrap();
            assert!(output.status.success(), "{}", err(&output));
        };
        let received = || {
            // A worker's figures are updated by its tick.
            std::thread::sleep(Duration::from_millis(300));
            let field = network.info("");
            (count(&field, "datagrams_received"), count(&field, "datagrams_dropped"))
        };
        send(1);
        let begin = Instant::now();
        while received() == (0, 0) && begin.elapsed() < PATIENCE {}
        assert_eq!(received(), (1, 0));
        network.signal("-STOP");
        send(SENT);
        network.signal("-CONT");
        let (mut found, mut dropped) = received();
        while found + dropped < SENT + 1 && begin.elapsed() < PATIENCE {
            (found, dropped) = received();
        }
        // A few other frames may also have used descriptors.
        assert!(found + dropped > SENT, "{found} and {dropped}");
        assert!(dropped >= SENT - descriptors, "{found} and {dropped}");
        answered.push(found);
        let field = network.info("");
        assert_eq!(count(&field, "rx_queue_descriptors"), descriptors);
        assert_eq!(count(&field, "frames_missed"), dropped);
        assert!(count(&field, "datagrams_backlog_max_bytes") > 0);
    }
    assert!(answered[0] <= 129 && answered[1] <= 257 && answered[0] < answered[1], "{answered:?}");
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let user = User::new();
    for (code, arguments, says) in [
        (2, "serve --dpdk-port net_memif0 --dpdk-address 10.9.0.2", "--dpdk-trusted"),
        (
            2,
            "serve --dpdk-port net_memif0 --dpdk-address 10.9.0.2 --password-file file",
            "--dpdk-trusted",
        ),
        (2, "serve --dpdk-port net_memif0 --dpdk-address 127.0.0.1", "no address of a host"),
        (2, "bench redis://10.9.0.2 --dpdk-port net_memif0 --dpdk-address 10.9.0.1", "datagram://"),
        (
            3,
            "serve --dpdk-port net_memif0 --dpdk-address 10.9.0.2 --dpdk-trusted --datagram 10.9.0.2:6379",
            "UDP port 6379",
        ),
    ] {
        assert_contains(user.fails(code, &words(&format!("kv {arguments}"))), says);
    }
    if let Some(reason) = missing(&user, "net_nothing0") {
        return println!("{reason}");
    }
    for (port, says) in [
        ("net_nothing0", "is its driver installed?"),
        ("net_af_packet0,iface=none9", "CAP_NET_RAW"),
    ] {
        let serve = format!("kv serve {}", at_port(port));
        assert_contains(user.fails(3, &words(&serve)), says);
    }
}
