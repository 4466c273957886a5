//! A client of the datagram protocol (docs/kv-datagram.md).
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

use crate::Request;
use crate::protocol::datagram::Reply;
use crate::udp::{DatagramSocket, RX_QUEUE_DEFAULT, ReceiveBuffers};
pub use exchange::{Exchange, ExchangeError, ExchangeOptions, Figures};
pub use window::Window;

/// A client of one server.
#[derive(Debug)]
pub struct DatagramClient {
    socket: DatagramSocket,
    buffers: ReceiveBuffers,
    exchange: Exchange,
    begin: Instant,
}

/// Why requests were not made.
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
    /// A client of the server at an address. Nothing is sent yet.
    ///
    /// # Errors
    /// That of the system.
    pub fn connect(address: SocketAddr, options: ExchangeOptions) -> io::Result<Self> {
        Ok(Self {
            socket: DatagramSocket::connect(address, RX_QUEUE_DEFAULT)?,
            buffers: ReceiveBuffers::new(),
            exchange: Exchange::new(options),
            begin: Instant::now(),
        })
    }

    /// Has requests executed, in no certain order, and hands over each reply with its request's index, as
    /// they come. `None`: there was none in time, and whether the request was executed is not known. Hashes of
    /// the requests are not used.
    ///
    /// # Errors
    /// [`ClientError`]; which requests were executed is not known.
    pub fn execute(
        &mut self,
        requests: &[Request<'_>],
        replies: &mut dyn FnMut(usize, Option<Reply<'_>>),
    ) -> Result<(), ClientError> {
        // What an earlier call has left because of an error is nobody's any more.
        self.exchange.forget();
        for (index, request) in requests.iter().enumerate() {
            self.exchange.ask(request, index as u64)?;
        }
        self.exchange.flush();
        let mut done = |token, reply: Option<Reply<'_>>| replies(token as usize, reply);
        while !self.exchange.is_idle() {
            let now_ns = self.now_ns();
            self.exchange.time_out(now_ns, &mut done);
            let (bytes, ends) = self.exchange.transmit(now_ns);
            self.socket.send(bytes, ends, |_| None);
            self.wait()?;
            while self.socket.receive(&mut self.buffers)? > 0 {
                let now_ns = self.now_ns();
                for datagram in self.buffers.received().flat_map(|one| one.datagrams()) {
                    self.exchange.receive(datagram, now_ns, &mut done)?;
                }
            }
        }
        Ok(())
    }

    /// What was sent, lost and answered.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.exchange.figures()
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Until something comes, or is late.
    fn wait(&self) -> io::Result<()> {
        let Some(deadline_ns) = self.exchange.deadline_ns() else {
            return Ok(());
        };
        let left = Duration::from_nanos(deadline_ns.saturating_sub(self.now_ns()));
        let timeout = Timespec {
            tv_sec: left.as_secs() as _,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
