//! A proxy between a host and an agent that injects faults of networks.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use overside_base::Random;

/// Fault in one direction of one connection. Byte counts start at the beginning of the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// Delays each piece by this time; pieces have random lengths of at most this many bytes.
    Delay(Duration, usize),
    /// Ends the connection after this number of bytes.
    Cut(usize),
    /// Sends nothing after this number of bytes, and keeps the connection.
    Silence(usize),
    /// Sends a piece twice after this number of bytes.
    Twice(usize),
    /// Swaps two pieces after this number of bytes.
    Swapped(usize),
    /// Changes one byte after this number of bytes.
    Changed(usize),
    /// Passes nothing on while this is `true`.
    Held(&'static AtomicBool),
}

/// Direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToAgent,
    ToHost,
}

/// Passes connections on to an agent, each with the fault that `plan` gives for its number.
pub(crate) struct Proxy {
    address: SocketAddr,
    closed: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    pub(crate) fn new(
        agent: SocketAddr,
        plan: impl Fn(usize) -> (Way, Fault) + Send + 'static,
    ) -> Self {
        Self::with(agent, move |number| match plan(number) {
            (Way::ToAgent, fault) => (fault, Fault::None),
            (Way::ToHost, fault) => (Fault::None, fault),
        })
    }

    /// Applies the same fault to every connection, both ways.
    pub(crate) fn both(agent: SocketAddr, fault: Fault) -> Self {
        Self::with(agent, move |_| (fault, fault))
    }

    fn with(agent: SocketAddr, plan: impl Fn(usize) -> (Fault, Fault) + Send + 'static) -> Self {
        let listener = TcpListener::bind(super::LOOPBACK).expect("a port");
        let address = listener.local_addr().expect("its address");
        let closed = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let thread = std::thread::spawn({
            let (closed, connections) = (Arc::clone(&closed), Arc::clone(&connections));
            move || {
                for host in listener.incoming() {
                    if closed.load(Ordering::Acquire) {
                        return;
                    }
                    let number = connections.fetch_add(1, Ordering::AcqRel);
                    let (Ok(host), Ok(agent)) = (host, TcpStream::connect(agent)) else {
                        continue;
                    };
                    let (to_agent, to_host) = plan(number);
                    pass(&host, &agent, to_agent);
                    pass(&agent, &host, to_host);
                }
            }
        });
        Self { address, closed, connections, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of connections made so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Wakes the thread; an error means that it has already ended.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the proxy's thread");
        }
    }
}

fn pass(from: &TcpStream, to: &TcpStream, fault: Fault) {
    let from = from.try_clone().expect("a descriptor");
    let to = to.try_clone().expect("a descriptor");
    std::thread::spawn(move || {
        // A connection that ends is what this is about.
        let _ = move_bytes(&from, &to, fault);
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}

fn move_bytes(mut from: &TcpStream, mut to: &TcpStream, fault: Fault) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let (mut passed, mut held) = (0, Vec::new());
    let (mut done, mut random) = (false, Random::new(7));
    loop {
        let room = match fault {
            Fault::Delay(_, longest) => 1 + random.below(longest.min(buffer.len()) as u64) as usize,
            _ => buffer.len(),
        };
        let count = from.read(&mut buffer[..room])?;
        if count == 0 {
            return Ok(());
        }
        let piece = &mut buffer[..count];
        let range = passed..passed + count;
        passed += count;
        let reached = |at: usize| range.end > at;
        match fault {
            Fault::None => to.write_all(piece)?,
            Fault::Delay(time, _) => {
                std::thread::sleep(time);
                to.write_all(piece)?;
            }
            Fault::Held(is_held) => {
                while is_held.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                to.write_all(piece)?;
            }
            Fault::Cut(at) if reached(at) => {
                return to.write_all(&piece[..at.saturating_sub(range.start)]);
            }
            Fault::Silence(at) if reached(at) => {
                if range.start < at {
                    to.write_all(&piece[..at - range.start])?;
                }
            }
            Fault::Twice(at) if reached(at) && !done => {
                done = true;
                to.write_all(piece)?;
                to.write_all(piece)?;
            }
            Fault::Swapped(at) if reached(at) && !done => {
                done = true;
                match count {
                    // Too little for two: it changes places with what comes next.
                    1 => held = piece.to_vec(),
                    _ => {
                        let (first, second) = piece.split_at(count / 2);
                        to.write_all(&[second, first].concat())?;
                    }
                }
            }
            Fault::Changed(at) if reached(at) && !done => {
                done = true;
                piece[at.saturating_sub(range.start)] ^= 0x55;
                to.write_all(piece)?;
            }
            Fault::Cut(_)
            | Fault::Silence(_)
            | Fault::Twice(_)
            | Fault::Swapped(_)
            | Fault::Changed(_) => {
                to.write_all(piece)?;
                to.write_all(&std::mem::take(&mut held))?;
            }
        }
    }
}
