//! Pieces of work: how each begins, and how it is found to be over.

use std::sync::Arc;

use super::ShmQueuePair;
use crate::ring::CorruptCursor;
use crate::shm::copy::{self, Direct, Local, MAX_INLINE_BYTES};
use crate::shm::regions::Imported;
use crate::verbs::{Completion, Messages, Verb, Work, WorkError};
use crate::volatile_slice::VolatileSlice;

/// Result of beginning a piece of work that has been checked.
pub(super) enum Begun {
    Yes,
    NoRoom(Work),
}

impl ShmQueuePair {
    /// Begins with a piece of work that has been checked.
    pub(super) fn begin(&mut self, work: Work) -> Begun {
        let Work { tag, verb, inline } = work;
        let (local, remote) = match verb {
            Verb::Read { from, into } => (Local::Into(into), from),
            Verb::ReadShared { from, into } => (Local::Shared(into), from),
            Verb::Write { from, to } if inline => {
                let mut bytes = [0; MAX_INLINE_BYTES];
                bytes[..from.len()].copy_from_slice(&from);
                (Local::Inline(from, bytes), to)
            }
            Verb::Write { from, to } => (Local::From(from), to),
            Verb::Send { from } => {
                let staged = Messages::one(&from).map(|message| self.outgoing.stage(message));
                if staged != Some(Ok(1)) {
                    if let Some(Err(broken)) = staged {
                        self.broken(broken);
                    }
                    self.wants_room = Some(from.len());
                    let verb = Verb::Send { from };
                    return Begun::NoRoom(Work { tag, verb, inline });
                }
                self.ready.push_back(Completion {
                    tag,
                    result: Ok(from.len() as u64),
                    source: Some(from),
                    destination: None,
                    late: false,
                });
                return Begun::Yes;
            }
            Verb::Receive { into } => {
                self.receives.push_back((tag, into));
                return Begun::Yes;
            }
        };
        let imported = Arc::clone(remote.remote().handle())
            .downcast::<Imported>()
            .expect("an endpoint's regions are its transport's");
        let direct = Direct {
            tag,
            local,
            remote: part(&imported, remote.start(), remote.len()),
            _imported: imported,
        };
        match &mut self.engine {
            None => self.ready.push_back(copy::run(direct)),
            Some(engine) => {
                engine.tags.push_back(tag);
                let staged = engine.requests.stage(direct);
                assert!(staged.is_ok(), "no more is in flight than fits");
            }
        }
        Begun::Yes
    }

    /// Completes receives for which messages have arrived.
    pub(super) fn match_receives(&mut self, max: usize) -> Result<usize, CorruptCursor> {
        let mut matched = 0;
        while matched < max && !self.receives.is_empty() {
            let Some(len) = self.incoming.peek()? else {
                break;
            };
            let Some((tag, mut into)) = self.receives.pop_front() else {
                break;
            };
            let capacity = into.len();
            self.incoming.take(&mut into);
            let (len, capacity) = (len as u64, capacity as u64);
            self.ready.push_back(Completion {
                tag,
                result: if len > capacity {
                    Err(WorkError::Truncated { len, capacity })
                } else {
                    Ok(len)
                },
                source: None,
                destination: Some(into),
                late: false,
            });
            matched += 1;
        }
        if matched > 0 {
            self.release();
        }
        Ok(matched)
    }

    /// Appends the engine's completions.
    pub(super) fn reap(&mut self, out: &mut Vec<Completion>, max: usize) -> usize {
        let Some(engine) = &mut self.engine else {
            return 0;
        };
        let before = out.len();
        while out.len() - before < max
            && let Some(completion) = engine.completions.take()
        {
            engine.tags.pop_front();
            out.push(completion);
        }
        engine.completions.release();
        out.len() - before
    }

    pub(super) fn outstanding(&self) -> usize {
        self.engine.as_ref().map_or(0, |engine| engine.tags.len())
    }
}

/// A range of imported memory, which was checked when the range was made.
fn part(imported: &Imported, start: u64, len: u64) -> VolatileSlice {
    imported.window().part(start as usize, len as usize).expect("the range lies within the region")
}
