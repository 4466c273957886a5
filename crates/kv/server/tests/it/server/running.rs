//! A server that runs in a thread, and clients of it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_kv::KeyHasher;
use overside_kv::clock::Clock;
use overside_kv::server::{
    Addresses, Memory, Server, ServerError, Settings, StopHandle, StorageBackend,
};
use overside_kv_offload::partitions;

use crate::oracle::Oracle;

/// Timeout that nothing here reaches, however busy the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server; it ends when this is dropped.
pub(crate) struct Running {
    pub settings: Settings,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<bool, ServerError>>>,
}

/// Returns any port of this machine.
pub(crate) fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// RESP at any port of this machine.
pub(crate) fn addresses() -> Addresses {
    Addresses { tcp: vec![local()], ..Addresses::default() }
}

pub(crate) fn settings() -> Settings {
    Settings { addresses: addresses(), drain: PATIENCE, ..Settings::default() }
}

impl Running {
    pub(crate) fn start(settings: Settings) -> Self {
        Self::start_with(settings, |_, now_ms| Box::new(Memory::new(Oracle::default(), now_ms)))
    }

    /// Starts a server with a separate backing for each worker.
    pub(crate) fn start_with(
        settings: Settings,
        backing: impl Fn(&KeyHasher, u64) -> Box<dyn StorageBackend + Send> + Send + 'static,
    ) -> Self {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let server = Server::bind(settings)?;
            let _ = sender.send((server.settings().clone(), server.stop_handle()));
            let clock = Clock::start();
            let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
            let workers = server.settings().workers;
            let partitions = (0..workers).map(|_| backing(&hasher, clock.start_ms()));
            let mut partitions: Vec<_> = partitions.collect();
            if let [one] = partitions.as_mut_slice() {
                return server.run(&mut **one, &hasher, clock);
            }
            let engines = partitions::connect(partitions, &hasher).unwrap();
            let engines =
                engines.into_iter().map(|e| Box::new(e) as Box<dyn StorageBackend + Send>);
            server.run_workers(engines.collect(), &hasher, clock)
        });
        let (settings, stop) = receiver.recv().expect("it listens");
        Self { settings, stop, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.settings.addresses.tcp[0]
    }

    pub(crate) fn connect(&self) -> Client<TcpStream> {
        Client::new(TcpStream::connect(self.address()).unwrap())
    }

    pub(crate) fn stop(&self) {
        self.stop.stop();
    }

    /// Waits until the server has ended. Returns `true` if every client received its replies in
    /// time.
    pub(crate) fn wait(&mut self) -> bool {
        let thread = self.thread.take().unwrap();
        thread.join().unwrap().unwrap()
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.metrics("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("{name} in {text}"));
        value.trim().parse().unwrap()
    }

    /// Sends a request to the port for metrics and returns the answer.
    pub(crate) fn metrics(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.settings.addresses.metrics.unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
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

/// A client that sends and reads bytes.
pub(crate) struct Client<S>(pub S);

impl Client<TcpStream> {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Waits until the server's socket has all that was sent: a write returns before, and on a busy machine long before.
    pub(crate) fn is_delivered(&self) {
        let port = format!(":{:04X}", self.0.local_addr().unwrap().port());
        until("delivered", || {
            // Of each socket of this machine: number, local address, remote one, state, bytes to send and to receive.
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            table.lines().any(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                fields[1].ends_with(&port) && fields[4].starts_with("00000000:")
            })
        });
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Hears exactly that.
    pub(crate) fn hear(&mut self, expected: &[u8]) {
        let mut heard = vec![0; expected.len()];
        self.0.read_exact(&mut heard).unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), String::from_utf8_lossy(expected));
    }

    pub(crate) fn store_big(&mut self) {
        let value = "a".repeat(BIG_BYTES);
        self.say(format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$100000\r\n{value}\r\n").as_bytes());
        self.hear(b"+OK\r\n");
    }

    pub(crate) fn hear_byte(&mut self) -> u8 {
        let mut byte = [0];
        self.0.read_exact(&mut byte).unwrap();
        byte[0]
    }

    pub(crate) fn ask(&mut self, command: &str, expected: &str) {
        self.say(format!("{command}\r\n").as_bytes());
        self.hear(expected.as_bytes());
    }

    /// Hears all that follows until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => rest,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("it was not closed: {error}"),
        }
    }
}

/// Returns the reply to a `GET` of the key `big`, which [`Client::store_big`] has stored.
pub(crate) fn big_reply() -> Vec<u8> {
    [b"$100000\r\n", vec![b'a'; BIG_BYTES].as_slice(), b"\r\n"].concat()
}

const BIG_BYTES: usize = 100_000;

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "never {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
