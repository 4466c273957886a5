//! The thread that accepts connections.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use overside_base::EventFd;
use rustix::event::{PollFd, PollFlags};

use crate::server::{AgentState, ConnectionPermit};
use crate::{AgentError, session};

/// The pause after the system could not give another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Listening address, and the thread that accepts connections until [`Acceptor::close`].
pub(crate) struct Acceptor {
    address: SocketAddr,
    /// Readable when no more connections are taken.
    signal: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub(crate) fn open(shared: &Arc<AgentState>) -> Result<Self, AgentError> {
        let address = shared.settings.listen;
        let failed = |error| AgentError::Listen { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let signal = EventFd::new();
        let signal = Arc::new(signal.map_err(|error| AgentError::System(error.into()))?);
        let (shared, closed) = (Arc::clone(shared), Arc::clone(&signal));
        let thread = std::thread::Builder::new()
            .name("agent-accept".into())
            .spawn(move || attend(&listener, &closed, &shared))
            .map_err(AgentError::System)?;
        Ok(Self { address, signal, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections.
    pub(crate) fn close(&mut self) {
        self.signal.signal();
        if let Some(thread) = self.thread.take() {
            // It never panics; if it did, it is gone as well.
            let _ = thread.join();
        }
    }
}

/// Accepts connections until the agent closes.
fn attend(listener: &TcpListener, closed: &EventFd, shared: &Arc<AgentState>) {
    let mut was_failing = false;
    loop {
        let mut set = [PollFd::new(listener, PollFlags::IN), PollFd::new(closed, PollFlags::IN)];
        match rustix::event::poll(&mut set, None) {
            Ok(_) if !set[1].revents().is_empty() => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Nothing can be waited for: look now and then.
            Err(_) => std::thread::sleep(PAUSE),
        }
        let accepted = listener.accept();
        let is_failing =
            matches!(&accepted, Err(error) if error.kind() != io::ErrorKind::WouldBlock);
        if let (Err(error), false, true) = (&accepted, was_failing, is_failing) {
            tracing::warn!(%error, "cannot accept connections");
        }
        was_failing = is_failing;
        match accepted {
            Ok((socket, peer)) => admit(socket, peer, shared),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The connection was gone already, or there is no descriptor left for it.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn admit(socket: TcpStream, peer: SocketAddr, shared: &Arc<AgentState>) {
    // A refused connection is closed without a message: the peer is not authenticated yet.
    let permit = match ConnectionPermit::take(shared, &socket, peer) {
        Ok(permit) => permit,
        Err(reason) => return shared.refusals.log(peer, &reason),
    };
    let inside = Arc::clone(shared);
    // If there is no thread left, the permit is given back and the socket closed.
    let thread = std::thread::Builder::new()
        .name("agent".into())
        .spawn(move || session::serve(&inside, permit, socket, peer));
    if let Err(error) = thread {
        let reason = format!("no thread is left for it: {error}");
        shared.refusals.log(peer, &reason);
    }
}
