//! New connections.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use overside_http::Exchange;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustls::ServerConnection;

use super::{CLIENT, LISTENER, SCRAPE, Worker};
use crate::protocol::Session;
use crate::server::client::NewClient;
use crate::server::connection::{Connection, Protocol};
use crate::server::counters::CloseReason;
use crate::server::epoll::EventFlags;
use crate::server::listeners::{Peer, Service};
use overside_kv_backend::transport::Transport;

/// Connections accepted a turn and listener.
const ACCEPTED_MAX: usize = 64;
/// Readers of metrics at a time.
const SCRAPES_MAX: usize = 16;
const REJECTION: &[u8] = b"-ERR max number of clients reached\r\n";
const MEMCACHED_REJECTION: &[u8] = b"ERROR Too many open connections\r\n";

impl Worker<'_> {
    pub(super) fn accept(&mut self) {
        for number in 0..self.listeners.len() {
            for _ in 0..ACCEPTED_MAX {
                match self.listeners[number].accept() {
                    Ok(Some((socket, peer))) => self.admit(number, socket, peer),
                    Ok(None) => break,
                    Err(error) => {
                        self.pause_listener(number, &error);
                        break;
                    }
                }
            }
        }
    }

    /// Out of descriptors or memory: looks again after a while, instead of all the time.
    fn pause_listener(&mut self, number: usize, error: &io::Error) {
        let is_short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
        if is_short {
            tracing::warn!(%error, "no connection can be accepted");
            self.listen(number, false);
        }
    }

    pub(super) fn listen(&mut self, number: usize, accepts: bool) {
        let interest = match accepts {
            true => EventFlags::IN,
            false => EventFlags::empty(),
        };
        let listener = &self.listeners[number];
        // The set has it; nothing else can fail.
        let _ = (self.epoll).change(listener, LISTENER | number as u64, interest);
    }

    fn admit(&mut self, number: usize, socket: OwnedFd, peer: Peer) {
        let service = self.listeners[number].service;
        if service == Service::Metrics {
            return self.admit_scrape(socket);
        }
        let limits = &self.state.settings.limits;
        self.state.counters.traffic.connections_accepted += 1;
        if !self.state.shared.admit(limits.clients) {
            self.state.counters.traffic.connections_rejected += 1;
            let rejection = match service {
                Service::Memcached => MEMCACHED_REJECTION,
                Service::Plain => REJECTION,
                Service::Tls | Service::Metrics => return,
            };
            // It is closed whether or not it has it.
            let _ = send(&socket, rejection, SendFlags::NOSIGNAL);
            return;
        }
        let workers = self.state.shared.workers();
        if self.clients.unauthenticated >= limits.unauthenticated.div_ceil(workers)
            && let Some(oldest) = self.clients.oldest_unauthenticated()
        {
            self.evict(oldest, CloseReason::Unauthenticated);
        }
        let tls = self.state.settings.tls.as_ref();
        let transport = match tls.filter(|_| service == Service::Tls) {
            None => Transport::plain(socket),
            Some(tls) => match ServerConnection::new(Arc::clone(&tls.config)) {
                Ok(tls) => Transport::tls(socket, tls),
                Err(error) => {
                    tracing::warn!(%error, "TLS cannot be started");
                    return self.state.shared.dismiss();
                }
            },
        };
        self.insert(number, transport, peer);
    }

    fn insert(&mut self, number: usize, transport: Transport, peer: Peer) {
        let id = self.state.shared.next_id();
        let protocol = match self.listeners[number].service {
            Service::Memcached => Protocol::Memcached,
            _ => Protocol::Resp,
        };
        let needs_password = protocol == Protocol::Resp && self.state.settings.password.is_some();
        let session = Session::new(id, !needs_password).over_tls(transport.is_tls());
        let is_authenticated = session.is_authenticated() && !transport.is_tls();
        let connection = Connection::new(transport, protocol, session);
        let key = self.clients.insert(NewClient {
            id,
            address: peer.to_string().into(),
            local_address: Arc::clone(&self.listeners[number].name),
            protocol,
            now_ms: self.now_ms,
            memory_bytes: connection.memory_bytes(),
            is_authenticated,
        });
        let token = CLIENT | key as u64;
        match (self.epoll).add(&connection.transport, token, EventFlags::IN) {
            Ok(()) => {
                tracing::debug!(id, address = %peer, "connection accepted");
                self.clients.table[key].connection = Some(Box::new(connection));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be served");
                self.clients.remove(key);
            }
        }
    }

    fn admit_scrape(&mut self, socket: OwnedFd) {
        if self.scrapes.len() < SCRAPES_MAX {
            let key = self.scrapes.insert(Exchange::new(socket, self.now_ms));
            let token = SCRAPE | key as u64;
            if (self.epoll).add(&self.scrapes[key], token, EventFlags::IN).is_err() {
                self.scrapes.remove(key);
            }
        }
    }
}
