//! A link that works right for a while and then misbehaves.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use overside_device::{Applied, CpuTime, ExternalBytes, MemoryError, Region, Slice};
use overside_link::verbs::{
    Access, Capabilities, Closed, Completion, ConnectError, Endpoint, EndpointId, ExportError,
    Exported, ImportError, LinkError, LinkInfo, Messages, PostError, QueuePair, RecvBatch,
    RemoteMemory, Token, Verb, Work,
};

/// Alignment of unused memory in bytes.
const LINE: usize = 64;

/// Fault that a link injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkFault {
    /// No fault.
    None,
    /// A read writes and a write reads.
    Swapped,
    /// Says that it is done and moves nothing; a message arrives with zeros in it.
    Nothing,
    /// Moves the first byte only; the rest of a message is zeros.
    First,
}

/// An end of a real link whose queue pairs do `fault` when each has taken `right` pieces of work.
pub(crate) fn with_fault(
    end: Arc<dyn Endpoint>,
    fault: LinkFault,
    right: usize,
) -> Arc<dyn Endpoint> {
    Arc::new(Faulty { end, fault, right })
}

struct Faulty {
    end: Arc<dyn Endpoint>,
    fault: LinkFault,
    right: usize,
}

impl Endpoint for Faulty {
    fn id(&self) -> EndpointId {
        self.end.id()
    }

    fn info(&self) -> &LinkInfo {
        self.end.info()
    }

    fn capabilities(&self) -> &Capabilities {
        self.end.capabilities()
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        self.end.alloc(len, align)
    }

    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        self.end.register(foreign)
    }

    /// Exports memory with access in both directions, so that the link itself does not refuse a swapped
    /// direction.
    fn export(&self, len: usize, _: Access) -> Result<Exported, ExportError> {
        self.end.export(len, Access::ReadWrite)
    }

    fn import(&self, token: &Token) -> Result<RemoteMemory, ImportError> {
        self.end.import(token)
    }

    fn open(&self, index: usize) -> Result<Box<dyn QueuePair>, ConnectError> {
        Ok(Box::new(FaultyPair {
            end: Arc::clone(&self.end),
            pair: self.end.open(index)?,
            fault: self.fault,
            right: self.right,
            asked: VecDeque::new(),
        }))
    }

    fn cpu_time(&self) -> CpuTime {
        self.end.cpu_time()
    }
}

struct FaultyPair {
    end: Arc<dyn Endpoint>,
    pair: Box<dyn QueuePair>,
    fault: LinkFault,
    /// Pieces of work that still go right.
    right: usize,
    /// Work that the caller posted and for which other work is in flight.
    asked: VecDeque<Work>,
}

impl FaultyPair {
    /// Returns the work to post instead of `asked`; `None` to post `asked` itself.
    fn instead(&self, asked: &Work) -> Option<Work> {
        if self.right > 0 || asked.verb.is_empty() {
            return None;
        }
        let verb = match (self.fault, &asked.verb) {
            (LinkFault::None, _)
            | (LinkFault::Swapped, Verb::Send { .. })
            | (_, Verb::Receive { .. }) => return None,
            (LinkFault::Swapped, Verb::Read { from, into }) => {
                Verb::Write { from: self.source(into.to_vec()), to: from.clone() }
            }
            (LinkFault::Swapped, Verb::ReadShared { from, .. }) => {
                Verb::Write { from: self.source(vec![0; from.len() as usize]), to: from.clone() }
            }
            (LinkFault::First, Verb::Write { from, to }) => {
                let first = to.start()..to.start() + 1;
                let first = to.remote().slice(first).expect("a byte of what was asked");
                Verb::Write { from: self.source(from[..1].to_vec()), to: first }
            }
            (
                _,
                Verb::Write { to: remote, .. }
                | Verb::Read { from: remote, .. }
                | Verb::ReadShared { from: remote, .. },
            ) => Verb::Read { from: remote.clone(), into: self.unseen(remote.len() as usize) },
            (fault, Verb::Send { from }) => {
                let mut message = vec![0; from.len()];
                if fault == LinkFault::First {
                    message[0] = from[0];
                }
                Verb::Send { from: self.source(message) }
            }
        };
        Some(Work::new(asked.tag, verb))
    }

    fn source(&self, bytes: Vec<u8>) -> Slice {
        let registered = self.end.register(ExternalBytes::new(bytes));
        registered.expect("memory that the link can read")
    }

    /// Memory that is never read.
    fn unseen(&self, len: usize) -> Region {
        let memory = self.end.alloc(len, LINE);
        memory.expect("as much memory as the payload takes")
    }
}

impl QueuePair for FaultyPair {
    /// One piece at a time: work that the link does not take goes back as it was.
    fn post(&mut self, work: &mut VecDeque<Work>) -> Result<usize, PostError> {
        let mut posted = 0;
        while let Some(asked) = work.pop_front() {
            let instead = self.instead(&asked);
            let replaced = instead.is_some();
            let mut one = VecDeque::with_capacity(1);
            match instead {
                Some(instead) => {
                    one.push_back(instead);
                    self.asked.push_back(asked);
                }
                None => one.push_back(asked),
            }
            let taken = self.pair.post(&mut one);
            if !matches!(taken, Ok(1)) {
                let asked = if replaced { self.asked.pop_back() } else { one.pop_front() };
                asked.into_iter().for_each(|asked| work.push_front(asked));
                return match taken {
                    Err(error) if posted == 0 => Err(error),
                    _ => Ok(posted),
                };
            }
            self.right = self.right.saturating_sub(1);
            posted += 1;
        }
        Ok(posted)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, LinkError> {
        let before = out.len();
        let polled = self.pair.poll(out, max)?;
        for done in &mut out[before..] {
            let place = self.asked.iter().position(|asked| asked.tag == done.tag);
            let Some(asked) = place.and_then(|at| self.asked.remove(at)) else {
                continue;
            };
            done.result = Ok(asked.verb.len());
            let moved = done.destination.take();
            match asked.verb {
                Verb::Write { from, .. } | Verb::Send { from } => done.source = Some(from),
                Verb::ReadShared { .. } => done.source = None,
                Verb::Read { mut into, .. } | Verb::Receive { mut into } => {
                    if let (LinkFault::First, Some(moved)) = (self.fault, moved) {
                        into[..1].copy_from_slice(&moved[..1]);
                    }
                    done.source = None;
                    done.destination = Some(into);
                }
            }
        }
        Ok(polled)
    }

    fn send(&mut self, messages: Messages<'_>) -> Result<usize, PostError> {
        self.pair.send(messages)
    }

    fn receive(&mut self, batch: &mut RecvBatch, max: usize) -> Result<usize, LinkError> {
        self.pair.receive(batch, max)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pair.event_fd()
    }

    fn arm(&mut self) -> Result<bool, LinkError> {
        self.pair.arm()
    }

    fn in_flight(&self) -> usize {
        self.pair.in_flight()
    }

    fn quarantined(&self) -> usize {
        self.pair.quarantined()
    }

    fn applied(&self) -> &Applied {
        self.pair.applied()
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        self.pair.close(deadline)
    }
}
