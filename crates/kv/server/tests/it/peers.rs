//! redis-server, memcached and etcd, where they are installed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A server that ends with this.
pub(crate) struct Peer {
    pub address: SocketAddr,
    child: Child,
    /// Directory in which the server may write, removed when the server ends; `None` if it needs
    /// none.
    directory: Option<TempDir>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a Redis server that keeps nothing; `None`, with the reason on stderr: it is not installed.
pub(crate) fn redis() -> Option<Peer> {
    // The server writes to its working directory if a client requests a snapshot.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let words = ["--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", path];
    let mut peer = start("redis-server", &words, "--port", b"PING\r\n")?;
    peer.directory = Some(directory);
    Some(peer)
}

/// Starts memcached with one thread; `None`, with the reason on stderr: it is not installed.
pub(crate) fn memcached() -> Option<Peer> {
    let words = ["-u", "nobody", "-l", "127.0.0.1", "-t", "1"];
    start("memcached", &words, "-p", b"version\r\n")
}

/// An etcd that can be killed and started again.
pub(crate) struct Etcd {
    pub address: SocketAddr,
    peers: SocketAddr,
    child: Child,
    directory: TempDir,
}

/// Starts etcd; `None`, with the reason on stderr: it is not installed.
pub(crate) fn etcd() -> Option<Etcd> {
    for _ in 0..5 {
        let [address, peers] = free_addresses();
        let directory = tempfile::tempdir().unwrap();
        let Ok(child) = etcd_command(address, peers, &directory).spawn() else {
            eprintln!("skipped: etcd is not installed");
            return None;
        };
        let mut etcd = Etcd { address, peers, child, directory };
        if etcd.is_ready() {
            return Some(etcd);
        }
    }
    panic!("etcd does not start");
}

impl Etcd {
    /// Kills it, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again, with its state.
    pub(crate) fn restart(&mut self) {
        self.child = etcd_command(self.address, self.peers, &self.directory).spawn().unwrap();
        assert!(self.is_ready());
    }

    fn is_ready(&mut self) -> bool {
        let hello = b"GET /health HTTP/1.0\r\n\r\n";
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) && self.child.try_wait().unwrap().is_none()
        {
            if answers(self.address, hello) {
                return true;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

fn etcd_command(address: SocketAddr, peers: SocketAddr, directory: &TempDir) -> Command {
    let (clients, peers) = (format!("http://{address}"), format!("http://{peers}"));
    let mut command = Command::new("etcd");
    command
        .args(["--listen-client-urls", &clients])
        .args(["--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers])
        .args(["--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &format!("default={peers}")])
        // Nothing has to outlive the machine.
        .arg("--unsafe-no-fsync")
        .arg("--data-dir")
        .arg(directory.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn start(program: &str, words: &[&str], port_option: &str, hello: &[u8]) -> Option<Peer> {
    // Another program may take the port before the server does.
    for _ in 0..5 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut command = Command::new(program);
        command.args(words).arg(port_option).arg(address.port().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            eprintln!("skipped: {program} is not installed");
            return None;
        };
        let mut peer = Peer { address, child, directory: None };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) && peer.child.try_wait().unwrap().is_none()
        {
            if answers(address, hello) {
                return Some(peer);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    panic!("{program} does not start");
}

fn answers(address: SocketAddr, hello: &[u8]) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return false;
    };
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    stream.write_all(hello).is_ok() && stream.read(&mut [0; 64]).is_ok_and(|len| len > 0)
}
