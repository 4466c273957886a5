//! Connections whose hosts have not said who they are: few, and never so that nobody else gets in.

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

/// A host that has not said who it is.
pub(crate) struct Visitor {
    origin: Origin,
    /// Another handle to its connection, to end it by.
    socket: TcpStream,
    /// It has said anything at all.
    has_spoken: AtomicBool,
    /// It had to go for another one.
    is_out: AtomicBool,
}

impl Visitor {
    pub(crate) fn new(peer: SocketAddr, socket: &TcpStream) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            origin: Origin::of(peer),
            socket: socket.try_clone()?,
            has_spoken: AtomicBool::new(false),
            is_out: AtomicBool::new(false),
        }))
    }

    /// The host has said something.
    pub(crate) fn spoke(&self) {
        self.has_spoken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    fn show_out(&self) {
        self.is_out.store(true, Ordering::Relaxed);
        // Its thread finds that there is nothing more to be read; if it is gone, so much the better.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// All of them, the one that came first in front.
#[derive(Default)]
pub(crate) struct Lobby(Mutex<VecDeque<Arc<Visitor>>>);

impl Lobby {
    /// Lets somebody in. Where there are as many already as there may be, from that origin or at
    /// all, one of them has to go: whether one had to.
    pub(crate) fn enter(&self, visitor: Arc<Visitor>, most: usize, most_of_one: usize) -> bool {
        let mut all = lock(&self.0);
        let count = |all: &VecDeque<Arc<Visitor>>, origin| {
            all.iter().filter(|one| one.origin == origin).count()
        };
        let crowded = if count(&all, visitor.origin) >= most_of_one {
            Some(visitor.origin)
        } else if all.len() >= most {
            // Who has the most there pays for it, and not the one who came in time.
            let origins = all.iter().map(|one| one.origin);
            origins.max_by_key(|origin| count(&all, *origin))
        } else {
            None
        };
        let out = crowded.and_then(|origin| {
            let here = |one: &Arc<Visitor>| one.origin == origin;
            let is_silent = |one: &Arc<Visitor>| !one.has_spoken.load(Ordering::Relaxed);
            let silent = all.iter().position(|one| here(one) && is_silent(one));
            let oldest = silent.or_else(|| all.iter().position(here))?;
            all.remove(oldest)
        });
        all.push_back(visitor);
        drop(all);
        if let Some(out) = &out {
            out.show_out();
        }
        out.is_some()
    }

    /// Somebody is known now, or has gone.
    pub(crate) fn leave(&self, visitor: &Arc<Visitor>) {
        lock(&self.0).retain(|one| !Arc::ptr_eq(one, visitor));
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A visitor from that address. The connection itself is a local one.
    fn visitor(from: &str) -> Arc<Visitor> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Visitor::new(SocketAddr::new(from.parse().unwrap(), 1), &socket).unwrap()
    }

    fn enter(lobby: &Lobby, from: &str) -> Arc<Visitor> {
        let newcomer = visitor(from);
        lobby.enter(Arc::clone(&newcomer), 4, 2);
        newcomer
    }

    #[test]
    fn who_is_silent_goes_before_who_has_spoken_and_then_the_oldest() {
        let lobby = Lobby::default();
        let (first, second) = (enter(&lobby, "10.0.0.1"), enter(&lobby, "10.0.0.1"));
        first.spoke();
        let third = enter(&lobby, "10.0.0.1");
        assert!(second.is_out() && !first.is_out());
        third.spoke();
        let fourth = enter(&lobby, "10.0.0.1");
        assert!(first.is_out() && !third.is_out() && !fourth.is_out());
    }

    #[test]
    fn a_crowd_from_one_address_is_no_hindrance_to_another() {
        let lobby = Lobby::default();
        let other = enter(&lobby, "10.0.0.2");
        for _ in 0..20 {
            enter(&lobby, "10.0.0.1");
        }
        assert!(!other.is_out());
        // From many addresses there is no place for all: the address with the most pays.
        let (a, b) = (enter(&lobby, "10.0.0.3"), enter(&lobby, "10.0.0.4"));
        assert!(!other.is_out() && !a.is_out() && !b.is_out());
    }

    #[test]
    fn who_has_left_takes_no_place() {
        let lobby = Lobby::default();
        let first = enter(&lobby, "10.0.0.1");
        lobby.leave(&first);
        let others = [enter(&lobby, "10.0.0.1"), enter(&lobby, "10.0.0.1")];
        assert!(!first.is_out() && others.iter().all(|one| !one.is_out()));
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
