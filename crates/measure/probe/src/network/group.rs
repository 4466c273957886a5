//! The connections of one thread of the end that sends, and its work in a pass.

use std::net::{TcpStream, UdpSocket};
use std::time::Instant;

use overside_link::agent::CancellationToken;
use rustix::event::epoll::EventFlags;

use super::Plan;
use super::connection::{ReadBuffer, WriteBuffer};
use super::event_loop::EventLoop;
use super::pass::{Limit, Slice};
use super::pattern::BytePattern;
use crate::counters::Events;
use crate::latency::Latencies;

/// The connections of one thread.
pub(super) struct Group {
    pub events: EventLoop,
    pub links: Vec<Link>,
    pub core: Option<usize>,
}

/// A data connection as the client has it.
pub(super) struct Link {
    /// Among all of the session.
    pub index: usize,
    pub stream: TcpStream,
    /// Socket that carries the messages in place of `stream`; UDP only.
    pub datagrams: Option<UdpSocket>,
    pub read_buffer: ReadBuffer,
    pub write_buffer: WriteBuffer,
    /// Messages put into the write buffer so far, and messages that came back.
    pub sent: u64,
    pub returned: u64,
    pub interest: EventFlags,
}

/// Work of one thread in a pass.
#[derive(Default)]
pub(super) struct PassWork {
    pub end: Option<Instant>,
    pub messages: u64,
    pub writes: u64,
    pub late: u64,
    pub cpu_ns: u64,
    pub events: Option<Events>,
    pub slices: Vec<Slice>,
    pub latencies: Latencies,
}

/// Data shared by all threads of a pass.
pub(super) struct PassContext<'a> {
    pub plan: &'a Plan,
    pub pattern: &'a BytePattern,
    pub limit: Limit,
    pub start: Instant,
    pub deadline: Instant,
    pub cancelled: &'a CancellationToken,
}
