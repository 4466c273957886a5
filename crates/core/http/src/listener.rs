//! A thread that answers requests.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::exchange::{Exchange, Next, Response};

/// Connections at a time.
const EXCHANGES_MAX: usize = 32;
/// Longest wait for the sockets. After it, late exchanges are closed, and waiting connections are
/// accepted if there are fewer than [`EXCHANGES_MAX`].
const PAUSE: Duration = Duration::from_millis(500);

/// A socket that listens for requests.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens at an address; port 0 takes any.
    ///
    /// # Errors
    /// The system's error.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// Returns the address that the socket listens at, with the actual port.
    ///
    /// # Errors
    /// The system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers requests on a thread of its own until the process ends. `answer` has the responses by path.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn serve(
        self,
        answer: impl Fn(&str) -> Option<Response> + Send + 'static,
    ) -> io::Result<()> {
        let builder = thread::Builder::new().name("http".into());
        builder.spawn(move || self.run(&answer)).map(drop)
    }

    fn run(&self, answer: &dyn Fn(&str) -> Option<Response>) {
        let begin = Instant::now();
        let mut exchanges: Vec<(Exchange, Next)> = Vec::new();
        loop {
            let now_ms = begin.elapsed().as_millis() as u64;
            let ready = self.wait(&exchanges);
            let mut index = 0;
            exchanges.retain_mut(|(exchange, next)| {
                let is_ready = ready.get(index).copied().unwrap_or_default();
                index += 1;
                if is_ready {
                    *next = exchange.advance(answer);
                }
                *next != Next::Close && !exchange.is_late(now_ms)
            });
            while exchanges.len() < EXCHANGES_MAX {
                match self.0.accept() {
                    Ok((socket, _)) if socket.set_nonblocking(true).is_ok() => {
                        let exchange = Exchange::new(OwnedFd::from(socket), now_ms);
                        exchanges.push((exchange, Next::Read));
                    }
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// Waits for events. Returns `true` for each exchange that can continue.
    fn wait(&self, exchanges: &[(Exchange, Next)]) -> Vec<bool> {
        let mut files: Vec<PollFd<'_>> = (exchanges.iter())
            .map(|(exchange, next)| {
                let flags = match next {
                    Next::Write => PollFlags::OUT,
                    Next::Read | Next::Close => PollFlags::IN,
                };
                PollFd::new(exchange, flags)
            })
            .collect();
        if exchanges.len() < EXCHANGES_MAX {
            files.push(PollFd::new(&self.0, PollFlags::IN));
        }
        let pause = Timespec::try_from(PAUSE).ok();
        if poll(&mut files, pause.as_ref()).is_err() {
            thread::sleep(PAUSE);
        }
        (files.iter().take(exchanges.len())).map(|file| !file.revents().is_empty()).collect()
    }
}
