//! A socket to one port of a server, and the seals of its datagrams, if they have some.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::protocol::datagram::{EPOCH_MS, SEAL_BYTES, SealKey, Sender};
use crate::server::Password;
use crate::udp::{DatagramSocket, RX_QUEUE_DEFAULT, ReceiveBuffers};

/// How long an answer to a hello may take, and how often it is said.
const HELLO_WAIT: Duration = Duration::from_millis(200);
const HELLO_TRIES: usize = 10;

/// Sends and receives.
#[derive(Debug)]
pub struct Channel {
    socket: DatagramSocket,
    seal: Option<Seal>,
}

#[derive(Debug)]
struct Seal {
    key: SealKey,
    port: u16,
    /// The server's epoch, and when it was heard.
    epoch: Option<(u64, Instant)>,
    // Memory that is used again.
    bytes: Vec<u8>,
    ends: Vec<(u32, usize)>,
}

impl Channel {
    /// To a port of a server, sealed if there is a password. Nothing is sent yet.
    ///
    /// # Errors
    /// That of the system.
    pub fn connect(address: SocketAddr, password: Option<&Password>) -> io::Result<Self> {
        let seal = password.map(|password| Seal {
            key: SealKey::new(&password.digest()),
            port: address.port(),
            epoch: None,
            bytes: Vec::new(),
            ends: Vec::new(),
        });
        let socket = DatagramSocket::connect(address, RX_QUEUE_DEFAULT)?;
        Ok(Self { socket, seal })
    }

    /// What it adds to each datagram in bytes.
    #[must_use]
    pub fn overhead_bytes(&self) -> usize {
        self.seal.as_ref().map_or(0, |_| SEAL_BYTES)
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &DatagramSocket {
        &self.socket
    }

    /// Sends datagrams, one behind the other in `bytes`. What finds no room is lost.
    ///
    /// # Errors
    /// The server does not say its epoch: it has another password, or is not there.
    pub fn send(&mut self, bytes: &[u8], ends: &[(u32, usize)]) -> io::Result<()> {
        let Some(seal) = &mut self.seal else {
            self.socket.send(bytes, ends, |_| None);
            return Ok(());
        };
        if ends.is_empty() {
            return Ok(());
        }
        let epoch = match seal.recent_epoch() {
            Some(epoch) => epoch,
            None => seal.ask(&self.socket)?,
        };
        seal.bytes.clear();
        seal.ends.clear();
        let mut begin = 0;
        for (to, end) in ends {
            let datagram = &bytes[begin..*end];
            (seal.key).seal(Sender::Client, seal.port, epoch, datagram, &mut seal.bytes);
            seal.ends.push((*to, seal.bytes.len()));
            begin = *end;
        }
        self.socket.send(&seal.bytes, &seal.ends, |_| None);
        Ok(())
    }

    /// Receives what is there. How many messages.
    ///
    /// # Errors
    /// That of the system.
    pub fn receive(&self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        self.socket.receive(buffers)
    }

    /// What was received as the server wrote it; `None`: it has no right seal.
    pub fn open<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        match &mut self.seal {
            None => Some(bytes),
            Some(seal) => seal.open(bytes),
        }
    }
}

impl Seal {
    /// The epoch, if it was heard so lately that the server takes it.
    fn recent_epoch(&self) -> Option<u64> {
        let (epoch, heard) = self.epoch?;
        (heard.elapsed() < Duration::from_millis(EPOCH_MS - 5_000)).then_some(epoch)
    }

    fn open<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let sealed = self.key.open(Sender::Server, self.port, bytes)?;
        self.epoch = Some((sealed.epoch, Instant::now()));
        Some(sealed.datagram)
    }

    /// Asks for the epoch and waits for it. Answers to requests that come meanwhile are lost.
    fn ask(&mut self, socket: &DatagramSocket) -> io::Result<u64> {
        self.epoch = None;
        let mut buffers = ReceiveBuffers::new();
        for _ in 0..HELLO_TRIES {
            self.bytes.clear();
            (self.key).seal(Sender::Client, self.port, 0, b"", &mut self.bytes);
            socket.send(&self.bytes, &[(0, self.bytes.len())], |_| None);
            let begin = Instant::now();
            while let Some(left) = HELLO_WAIT.checked_sub(begin.elapsed()) {
                wait(socket, left)?;
                if socket.receive(&mut buffers)? == 0 {
                    continue;
                }
                for datagram in buffers.received().flat_map(|one| one.datagrams()) {
                    let _ = self.open(datagram);
                }
                if let Some((epoch, _)) = self.epoch {
                    return Ok(epoch);
                }
            }
        }
        Err(io::Error::new(
            ErrorKind::TimedOut,
            "the server does not answer: it has another password, or is not there",
        ))
    }
}

fn wait(socket: &DatagramSocket, timeout: Duration) -> io::Result<()> {
    let timeout = Timespec {
        tv_sec: timeout.as_secs() as _,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
