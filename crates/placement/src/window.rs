//! The ordered merge: chunks between `push` and `pull`, known by their place in the stream.

use std::collections::VecDeque;
use std::sync::Arc;

use overside_device::{Applied, JobError, Outcome, Slice, Source, Stages};

use crate::{Buffer, Leg};

/// What goes in: a part of the stream.
#[derive(Debug)]
pub struct Chunk {
    /// The caller's name for it; comes back with the piece. Need not be unique.
    pub label: u64,
    /// What is read. It stays as it is until the piece comes.
    pub source: Source,
    /// The longest result that is wanted, in bytes.
    pub destination_bytes: usize,
}

impl Chunk {
    /// A chunk whose result may be as long as the executor's buffers are.
    pub fn new(label: u64, source: impl Into<Source>) -> Self {
        Self {
            label,
            source: source.into(),
            destination_bytes: usize::MAX,
        }
    }

    /// With the longest result that is wanted.
    pub fn destination_bytes(self, destination_bytes: usize) -> Self {
        Self {
            destination_bytes,
            ..self
        }
    }
}

impl From<Slice> for Chunk {
    fn from(slice: Slice) -> Self {
        Self::new(0, slice)
    }
}

/// What was read into a buffer out of the executor, up to the buffer's length.
impl From<Buffer> for Chunk {
    fn from(buffer: Buffer) -> Self {
        match buffer.share() {
            Some(slice) => Self::new(0, slice),
            None => Self::new(0, Source::Chain(Box::default())),
        }
    }
}

/// What comes out: what became of a chunk.
#[derive(Debug)]
pub struct Piece {
    /// The chunk's label.
    pub label: u64,
    /// The chunk's source, handed back.
    pub source: Source,
    /// What became of it.
    pub result: Result<Outcome, JobError>,
    /// Begins with the result, if there is one. Goes back to the pool when dropped.
    pub destination: Buffer,
    /// Whose result it is.
    pub leg: Leg,
    /// What ran it; `None` if nothing did.
    pub applied: Option<Arc<Applied>>,
    /// Where its time went.
    pub stages: Stages,
    /// How often it was begun; more than 1 if a leg failed at it.
    pub attempts: u32,
}

impl Piece {
    /// The result's bytes; `None` if there are none, because it failed or is to be stored.
    pub fn output(&self) -> Option<&[u8]> {
        match self.result {
            Ok(Outcome::Done(output)) => self.destination.get(..output.written),
            Ok(Outcome::Incompressible) | Err(_) => None,
        }
    }
}

/// A chunk on its way.
pub(crate) struct Slot {
    pub(crate) label: u64,
    pub(crate) source_bytes: usize,
    pub(crate) destination_bytes: usize,
    pub(crate) attempts: u32,
    /// What the device said of it, if that was not the last word.
    pub(crate) said: Option<JobError>,
    pub(crate) state: State,
}

// Most chunks are done or about to be: a box each would cost more than the room it saves.
#[allow(clippy::large_enum_variant)]
pub(crate) enum State {
    /// In a queue.
    Waiting(Source),
    /// On a leg, with its source if that may be needed again.
    On(Leg, Option<Source>),
    /// On both legs, because the device is silent; the first result counts. With its source.
    Both(Source),
    /// Waits for its turn.
    Done(Piece),
}

impl Slot {
    /// Whether a leg has it.
    pub(crate) fn is_on(&self, leg: Leg) -> bool {
        match self.state {
            State::On(on, _) => on == leg,
            State::Both(_) => true,
            State::Waiting(_) | State::Done(_) => false,
        }
    }

    /// Ends it without a result.
    pub(crate) fn fail(&mut self, leg: Leg, error: JobError) {
        let waiting = State::Waiting(Source::Chain(Box::default()));
        let source = match std::mem::replace(&mut self.state, waiting) {
            State::Waiting(source) | State::On(_, Some(source)) | State::Both(source) => source,
            State::On(_, None) => Source::Chain(Box::default()),
            done @ State::Done(_) => {
                self.state = done;
                return;
            }
        };
        self.state = State::Done(Piece {
            label: self.label,
            source,
            result: Err(error),
            destination: Buffer::none(),
            leg,
            applied: None,
            stages: Stages::default(),
            attempts: self.attempts,
        });
    }
}

/// Chunks in the order in which they were pushed.
pub(crate) struct Window {
    slots: VecDeque<Slot>,
    /// The place in the stream of the first.
    first: u64,
    max: usize,
}

impl Window {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            slots: VecDeque::with_capacity(max),
            first: 0,
            max,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= self.max
    }

    /// Adds a chunk and says where in the stream it is.
    pub(crate) fn push(&mut self, slot: Slot) -> u64 {
        self.slots.push_back(slot);
        self.first + self.slots.len() as u64 - 1
    }

    pub(crate) fn get_mut(&mut self, place: u64) -> Option<&mut Slot> {
        let index = place.checked_sub(self.first)?;
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// Whether the next piece is there.
    pub(crate) fn is_ready(&self) -> bool {
        (self.slots.front()).is_some_and(|slot| matches!(slot.state, State::Done(_)))
    }

    /// The next piece if it is there.
    pub(crate) fn pop(&mut self) -> Option<Piece> {
        if !self.is_ready() {
            return None;
        }
        let slot = self.slots.pop_front()?;
        self.first += 1;
        match slot.state {
            State::Done(piece) => Some(piece),
            State::Waiting(_) | State::On(..) | State::Both(_) => None,
        }
    }

    /// The places of the chunks that a leg has.
    pub(crate) fn on(&self, leg: Leg) -> Vec<u64> {
        (self.slots.iter().zip(self.first..))
            .filter(|(slot, _)| slot.is_on(leg))
            .map(|(_, place)| place)
            .collect()
    }

    /// The first chunk that only the device has.
    pub(crate) fn first_on_device(&self) -> Option<u64> {
        let only = |slot: &Slot| matches!(slot.state, State::On(Leg::Device, Some(_)));
        let index = self.slots.iter().position(only)?;
        Some(self.first + index as u64)
    }
}
