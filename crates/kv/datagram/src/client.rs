//! A client of the datagram protocol (docs/kv/kv-datagram.md).
//!
//! [`DatagramClient`] owns sockets and waits. [`Exchange`] is the client without I/O: requests go in, datagrams
//! come out, and the time is passed in.

mod exchange;
mod flight;
mod window;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::udp::{DatagramSocket, RX_QUEUE_DEFAULT, ReceiveBuffers};
pub use exchange::{Exchange, ExchangeError, ExchangeOptions, Figures, PartitionSteering};
use overside_kv_protocol::datagram::Reply;
use overside_kv_store::{Operation, Request};
pub use window::Window;

/// A client of one server.
#[derive(Debug)]
pub struct DatagramClient {
    address: SocketAddr,
    socket: DatagramSocket,
    /// Sockets by partition, if each partition has a port.
    of_partitions: Vec<DatagramSocket>,
    buffers: ReceiveBuffers,
    exchange: Exchange,
    begin: Instant,
}

/// Reason why requests could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The request or the server does not fit.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// The socket fails.
    #[error("{0}")]
    Socket(#[from] io::Error),
}

impl DatagramClient {
    /// A client of the server at an address of this machine. Nothing is sent yet.
    ///
    /// # Errors
    /// That of the system.
    pub fn connect(address: SocketAddr, options: ExchangeOptions) -> io::Result<Self> {
        Ok(Self {
            address,
            socket: DatagramSocket::connect(address, RX_QUEUE_DEFAULT)?,
            of_partitions: Vec::new(),
            buffers: ReceiveBuffers::new(),
            exchange: Exchange::new(options),
            begin: Instant::now(),
        })
    }

    /// Executes requests, in no certain order, and hands over each reply with its request's index,
    /// as they come. `None`: there was no reply in time, and the request may have been executed.
    /// Hashes of the requests are not used.
    ///
    /// # Errors
    /// [`ClientError`]; which requests were executed is not known.
    pub fn execute(
        &mut self,
        requests: &[Request<'_>],
        replies: &mut dyn FnMut(usize, Option<Reply<'_>>),
    ) -> Result<(), ClientError> {
        self.execute_while(requests, replies, &mut || Ok(()))
    }

    /// Executes requests like [`DatagramClient::execute`], and calls `check` after each wait, which also a
    /// signal ends.
    ///
    /// # Errors
    /// [`ClientError`], and that of `check`.
    pub fn execute_while(
        &mut self,
        requests: &[Request<'_>],
        replies: &mut dyn FnMut(usize, Option<Reply<'_>>),
        check: &mut dyn FnMut() -> io::Result<()>,
    ) -> Result<(), ClientError> {
        // Requests that an earlier call has left because of an error are dropped.
        self.exchange.forget();
        if self.exchange.steering().is_none() && !requests.is_empty() {
            // What any answer says decides where all others are sent.
            let probe = Request { key: b"", hash: 0, operation: Operation::Length };
            self.exchange.ask(&probe, 0)?;
            self.complete(&mut |_, _| {}, check)?;
        }
        for (index, request) in requests.iter().enumerate() {
            self.exchange.ask(request, index as u64)?;
        }
        self.complete(&mut |token, reply| replies(token as usize, reply), check)
    }

    /// Sends the requests, and waits until all are answered or given up.
    fn complete(
        &mut self,
        done: &mut dyn FnMut(u64, Option<Reply<'_>>),
        check: &mut dyn FnMut() -> io::Result<()>,
    ) -> Result<(), ClientError> {
        self.exchange.flush();
        while !self.exchange.is_idle() {
            let now_ns = self.now_ns();
            self.exchange.time_out(now_ns, done);
            self.send(now_ns)?;
            self.wait()?;
            check()?;
            for socket in std::iter::once(&self.socket).chain(&self.of_partitions) {
                while socket.receive(&mut self.buffers)? > 0 {
                    let now_ns = self.begin.elapsed().as_nanos() as u64;
                    for datagram in self.buffers.received().flat_map(|one| one.datagrams()) {
                        self.exchange.receive(datagram, now_ns, done)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, now_ns: u64) -> io::Result<()> {
        let steering = self.exchange.steering();
        let (bytes, ends) = self.exchange.transmit(now_ns);
        if steering != Some(PartitionSteering::Ports) {
            self.socket.send(bytes, ends, |_| None);
            return Ok(());
        }
        let mut begin = 0;
        for of_one in ends.chunk_by(|one, other| one.0 == other.0) {
            let partition = of_one[0].0 as usize;
            while self.of_partitions.len() <= partition {
                let mut address = self.address;
                let number = self.of_partitions.len() + 1;
                address.set_port(address.port().saturating_add(number as u16));
                let socket = DatagramSocket::connect(address, RX_QUEUE_DEFAULT)?;
                self.of_partitions.push(socket);
            }
            let relative: Vec<_> = of_one.iter().map(|(to, end)| (*to, end - begin)).collect();
            self.of_partitions[partition].send(&bytes[begin..], &relative, |_| None);
            begin = of_one[of_one.len() - 1].1;
        }
        Ok(())
    }

    /// Returns the counts of datagrams that were sent, lost and answered.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.exchange.figures()
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Waits until a datagram arrives or is late.
    fn wait(&self) -> io::Result<()> {
        let Some(deadline_ns) = self.exchange.deadline_ns() else {
            return Ok(());
        };
        let left = Duration::from_nanos(deadline_ns.saturating_sub(self.now_ns()));
        let timeout = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
        let sockets = std::iter::once(&self.socket).chain(&self.of_partitions);
        let fds = sockets.map(|socket| PollFd::new(socket, PollFlags::IN));
        let mut fds: Vec<_> = fds.collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
