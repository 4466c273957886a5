//! Connections whose hosts have not authenticated: their number is limited, so that other hosts can always
//! connect.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use overside_base::lock;

/// The addresses that are taken for one host's: a single one, or an IPv6 network of 64 bits, which a
/// host has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin(IpAddr);

impl Origin {
    pub(crate) fn of(peer: SocketAddr) -> Self {
        Self(match peer.ip().to_canonical() {
            IpAddr::V6(v6) => {
                let network = v6.to_bits() & !u128::from(u64::MAX);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            v4 => v4,
        })
    }
}

/// An unauthenticated connection.
pub(crate) struct UnauthenticatedConnection {
    origin: Origin,
    /// Second handle to the socket, which ends the connection.
    socket: TcpStream,
    /// `true` if the host has sent anything at all.
    has_sent: AtomicBool,
    /// `true` if it had to make room for another connection.
    is_evicted: AtomicBool,
}

impl UnauthenticatedConnection {
    pub(crate) fn new(peer: SocketAddr, socket: &TcpStream) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            origin: Origin::of(peer),
            socket: socket.try_clone()?,
            has_sent: AtomicBool::new(false),
            is_evicted: AtomicBool::new(false),
        }))
    }

    /// Notes that the host has sent something.
    pub(crate) fn received(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.is_evicted.load(Ordering::Relaxed)
    }

    fn evict(&self) {
        self.is_evicted.store(true, Ordering::Relaxed);
        // Its thread finds that there is nothing more to be read; if it is gone, so much the better.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// All unauthenticated connections, the oldest in front.
#[derive(Default)]
pub(crate) struct UnauthenticatedConnections(Mutex<VecDeque<Arc<UnauthenticatedConnection>>>);

impl UnauthenticatedConnections {
    /// Adds a connection. If the maximum is reached, for its origin or in total, closes another
    /// one. Returns `true` if it closed one.
    pub(crate) fn add(
        &self,
        connection: Arc<UnauthenticatedConnection>,
        most: usize,
        most_of_one: usize,
    ) -> bool {
        let mut all = lock(&self.0);
        let count = |all: &VecDeque<Arc<UnauthenticatedConnection>>, origin| {
            all.iter().filter(|one| one.origin == origin).count()
        };
        let crowded = if count(&all, connection.origin) >= most_of_one {
            Some(connection.origin)
        } else if all.len() >= most {
            // Who has the most there pays for it, and not the one who came in time.
            let origins = all.iter().map(|one| one.origin);
            origins.max_by_key(|origin| count(&all, *origin))
        } else {
            None
        };
        let out = crowded.and_then(|origin| {
            let here = |one: &Arc<UnauthenticatedConnection>| one.origin == origin;
            let is_silent =
                |one: &Arc<UnauthenticatedConnection>| !one.has_sent.load(Ordering::Relaxed);
            let silent = all.iter().position(|one| here(one) && is_silent(one));
            let oldest = silent.or_else(|| all.iter().position(here))?;
            all.remove(oldest)
        });
        all.push_back(connection);
        drop(all);
        if let Some(out) = &out {
            out.evict();
        }
        out.is_some()
    }

    /// Removes a connection that has authenticated, or whose host has disconnected.
    pub(crate) fn remove(&self, connection: &Arc<UnauthenticatedConnection>) {
        lock(&self.0).retain(|one| !Arc::ptr_eq(one, connection));
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A connection from that address. The connection itself is a local one.
    fn connection(from: &str) -> Arc<UnauthenticatedConnection> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        UnauthenticatedConnection::new(SocketAddr::new(from.parse().unwrap(), 1), &socket).unwrap()
    }

    fn add(
        unauthenticated: &UnauthenticatedConnections,
        from: &str,
    ) -> Arc<UnauthenticatedConnection> {
        let newcomer = connection(from);
        unauthenticated.add(Arc::clone(&newcomer), 4, 2);
        newcomer
    }

    #[test]
    fn who_is_silent_goes_before_who_has_spoken_and_then_the_oldest() {
        let unauthenticated = UnauthenticatedConnections::default();
        let (first, second) =
            (add(&unauthenticated, "10.0.0.1"), add(&unauthenticated, "10.0.0.1"));
        first.received();
        let third = add(&unauthenticated, "10.0.0.1");
        assert!(second.is_evicted() && !first.is_evicted());
        third.received();
        let fourth = add(&unauthenticated, "10.0.0.1");
        assert!(first.is_evicted() && !third.is_evicted() && !fourth.is_evicted());
    }

    #[test]
    fn a_crowd_from_one_address_is_no_hindrance_to_another() {
        let unauthenticated = UnauthenticatedConnections::default();
        let other = add(&unauthenticated, "10.0.0.2");
        for _ in 0..20 {
            add(&unauthenticated, "10.0.0.1");
        }
        assert!(!other.is_evicted());
        // From many addresses there is no place for all: the address with the most pays.
        let (a, b) = (add(&unauthenticated, "10.0.0.3"), add(&unauthenticated, "10.0.0.4"));
        assert!(!other.is_evicted() && !a.is_evicted() && !b.is_evicted());
    }

    #[test]
    fn who_has_left_takes_no_place() {
        let unauthenticated = UnauthenticatedConnections::default();
        let first = add(&unauthenticated, "10.0.0.1");
        unauthenticated.remove(&first);
        let others = [add(&unauthenticated, "10.0.0.1"), add(&unauthenticated, "10.0.0.1")];
        assert!(!first.is_evicted() && others.iter().all(|one| !one.is_evicted()));
    }

    #[test]
    fn a_network_of_ipv6_is_one_origin_and_so_is_an_ipv4_address_in_either_form() {
        let origin = |ip: &str| Origin::of(SocketAddr::new(ip.parse().unwrap(), 1));
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.2"), origin("10.0.0.1"));
    }
}
