//! Replicas of servers that run in threads.

mod checks;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_kv::clock::Clock;
use overside_kv::persistence::frame::{FrameWriter, Kind};
use overside_kv::persistence::{LoggedEngine, PersistenceOptions};
use overside_kv::replica::{GroupMember, Replication, ReplicationLayer, StreamParser};
use overside_kv::server::{Memory, Server, StopHandle, StorageBackend};
use overside_kv::store::StoreOptions;
use overside_kv::{KeyHasher, Store};

const PATIENCE: Duration = Duration::from_secs(60);

struct Running {
    address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<bool>>,
}

fn store(hasher: &KeyHasher) -> Store {
    Store::new(StoreOptions::new(64 << 20, hasher)).unwrap()
}

/// Starts a server, with a log in `directory` if there is one.
fn start(directory: Option<&Path>, backlog_bytes: usize, primary: Option<SocketAddr>) -> Running {
    let (sender, receiver) = mpsc::channel();
    let directory = directory.map(Path::to_path_buf);
    let thread = std::thread::spawn(move || {
        let server = Server::bind(crate::server::running::settings()).unwrap();
        let address = server.settings().addresses.tcp[0];
        let clock = Clock::start();
        let hasher = KeyHasher::random();
        let member = GroupMember::all(1).unwrap().remove(0);
        let mut backing: Box<dyn StorageBackend> = match directory {
            None => {
                let memory = Memory::new(store(&hasher), clock.start_ms());
                let layer = ReplicationLayer::new(memory, member, &hasher, backlog_bytes, false);
                Box::new(layer)
            }
            Some(directory) => {
                let options = PersistenceOptions::new(directory);
                let store = store(&hasher);
                let opened = LoggedEngine::open(options, store, &hasher, clock.start_ms());
                let (journaled, recovery) = opened.unwrap();
                let partial = recovery.is_partial;
                let layer =
                    ReplicationLayer::new(journaled, member, &hasher, backlog_bytes, partial);
                Box::new(layer)
            }
        };
        if let Some(primary) = primary {
            let replication: &mut dyn Replication = backing.replication_mut().unwrap();
            replication.follow("127.0.0.1", primary.port()).unwrap();
        }
        sender.send((address, server.stop_handle())).unwrap();
        server.run(&mut *backing, &hasher, clock).unwrap()
    });
    let (address, stop) = receiver.recv().unwrap();
    Running { address, stop, thread: Some(thread) }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A test that failed already says why.
            let _ = thread.join();
        }
    }
}

impl Running {
    /// The reply to an inline command: as much as comes at once.
    fn ask(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.strip_suffix("+OK\r\n").unwrap_or(&reply).to_owned()
    }

    fn until(&self, command: &str, expected: &str) {
        let begin = Instant::now();
        loop {
            let reply = self.ask(command);
            if reply == expected {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{command}: {reply:?}, not {expected:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn fill(&self, from: u32, to: u32) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let commands: String = (from..to).map(|n| format!("SET key:{n} value:{n}\r\n")).collect();
        let mut reader = stream.try_clone().unwrap();
        let expected = (to - from) as usize * b"+OK\r\n".len();
        let reader = std::thread::spawn(move || {
            let mut replies = vec![0; expected];
            reader.read_exact(&mut replies).unwrap();
        });
        stream.write_all(commands.as_bytes()).unwrap();
        reader.join().unwrap();
    }

    /// Every key with its value.
    fn state(&self) -> Vec<(String, String)> {
        let keys = self.ask("KEYS *");
        let mut keys: Vec<String> =
            keys.split("\r\n").filter(|l| l.contains(':')).map(String::from).collect();
        keys.sort();
        let words = keys.join(" ");
        let values =
            if keys.is_empty() { String::new() } else { self.ask(&format!("MGET {words}")) };
        let values = values.split("\r\n").filter(|line| line.contains(':')).map(String::from);
        keys.into_iter().zip(values.collect::<Vec<_>>()).collect()
    }
}

fn follows_and_is_promoted(primary_dir: Option<&Path>, replica_dir: Option<&Path>) {
    let primary = start(primary_dir, 1 << 20, None);
    primary.fill(0, 3000);
    primary.ask("HSET hash f v");
    primary.ask("ZADD sorted 1.5 member");
    let replica = start(replica_dir, 1 << 20, Some(primary.address));
    primary.fill(3000, 4000);
    primary.ask("INCR counter:a");
    primary.ask("SET short:a value:short PX 1");
    replica.until("DBSIZE", ":4003\r\n");
    replica.until("GET counter:a", "$1\r\n1\r\n");
    replica.until("ZRANGE sorted 0 -1", "*1\r\n$6\r\nmember\r\n");
    replica.until("HGET hash f", "$1\r\nv\r\n");
    assert_eq!(replica.ask("GET short:a"), "$-1\r\n");
    let refused = "-READONLY You can't write against a read only replica.\r\n";
    assert_eq!(replica.ask("SET a b"), refused);
    assert!(replica.ask("INFO replication").contains("master_link_status:up\r\n"));
    assert!(primary.ask("INFO replication").contains("state=online"));
    assert!(primary.ask("ROLE").starts_with("*3\r\n$6\r\nmaster\r\n"));
    primary.ask("FLUSHALL");
    primary.fill(0, 10);
    replica.until("DBSIZE", ":10\r\n");
    assert_eq!(replica.state(), primary.state());
    drop(primary);
    assert_eq!(replica.ask("REPLICAOF NO ONE"), "+OK\r\n");
    assert_eq!(replica.ask("SET key:1 mine:1"), "+OK\r\n");
    assert_eq!(replica.ask("DBSIZE"), ":10\r\n");
}

#[test]
fn a_replica_follows_and_is_promoted_with_everything() {
    follows_and_is_promoted(None, None);
}

#[test]
fn with_logs_on_both_sides_too() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    follows_and_is_promoted(Some(one.path()), Some(other.path()));
    // What it kept is what it had, its own write included.
    let again = start(Some(other.path()), 1 << 20, None);
    assert_eq!(again.ask("DBSIZE"), ":10\r\n");
    assert_eq!(again.ask("GET key:1"), "$6\r\nmine:1\r\n");
}

/// Forwards connections to a server until it is cut.
struct Proxy {
    address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let all = Arc::clone(&streams);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(to) else {
                    return;
                };
                for (mut from, mut into) in [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far.try_clone().unwrap(), near.try_clone().unwrap()),
                ] {
                    std::thread::spawn(move || {
                        // It ends when it is cut.
                        let _ = std::io::copy(&mut from, &mut into);
                        let _ = into.shutdown(Shutdown::Both);
                    });
                }
                all.lock().unwrap().extend([near, far]);
            }
        });
        Self { address, streams }
    }

    fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn a_network_that_is_cut_again_and_again_loses_nothing() {
    let primary = start(None, 1 << 20, None);
    let proxy = Proxy::start(primary.address);
    let replica = start(None, 1 << 20, Some(proxy.address));
    for round in 0..8 {
        primary.fill(round * 500, round * 500 + 400);
        proxy.cut();
        primary.fill(round * 500 + 400, round * 500 + 500);
    }
    replica.until("DBSIZE", ":4000\r\n");
    assert_eq!(replica.state(), primary.state());
}

#[test]
fn a_short_loss_needs_no_copy_and_a_long_one_does() {
    let primary = start(None, 64 << 10, None);
    let proxy = Proxy::start(primary.address);
    let replica = start(None, 64 << 10, Some(proxy.address));
    primary.fill(0, 100);
    replica.until("DBSIZE", ":100\r\n");
    let offset = || {
        let info = replica.ask("INFO replication");
        assert!(!info.contains("master_replid:\r\n"));
        info.lines()
            .find_map(|l| l.strip_prefix("slave_repl_offset:").map(|n| n.parse::<u64>().unwrap()))
    };
    let before = offset().unwrap();
    proxy.cut();
    primary.fill(100, 200);
    replica.until("DBSIZE", ":200\r\n");
    assert!(offset().unwrap() > before);
    proxy.cut();
    // Much more than the backlog.
    primary.fill(200, 6000);
    replica.until("DBSIZE", ":6000\r\n");
    assert_eq!(replica.state(), primary.state());
}

#[test]
fn a_stream_is_read_in_any_pieces_and_damage_is_found() {
    let mut writer = FrameWriter::stream([3; 8]);
    let mut bytes = Vec::new();
    writer.append(Kind::Requests, 5, b"one", &mut bytes);
    writer.append(Kind::Time, 6, b"", &mut bytes);
    writer.append(Kind::Flush, 7, b"", &mut bytes);
    for size in [1, 7, 40, 1000] {
        let mut parser = StreamParser::new([3; 8], 1);
        let mut frames = Vec::new();
        for piece in bytes.chunks(size) {
            parser.push(piece);
            while let Some(frame) = parser.next().unwrap() {
                frames.push((frame.kind, frame.now_ms));
            }
        }
        assert_eq!(frames, [(Kind::Requests, 5), (Kind::Time, 6), (Kind::Flush, 7)]);
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let mut parser = StreamParser::new([3; 8], 1);
        parser.push(&damaged);
        let mut whole = 0;
        while let Ok(Some(_)) = parser.next() {
            whole += 1;
        }
        assert!(whole < 3, "byte {at}");
    }
    let mut parser = StreamParser::new([3; 8], 2);
    parser.push(&bytes);
    assert!(parser.next().is_err());
}

#[test]
fn the_corpus_of_the_fuzz_target_is_read_the_same_in_pieces() {
    let files = crate::requests::corpus("kv_replica", 0);
    files.iter().for_each(|(_, bytes)| checks::stream(bytes));
}
