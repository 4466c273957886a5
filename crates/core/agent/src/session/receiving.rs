//! Receiving side of a connection: messages, jobs and test requests from the host.

use std::io;
use std::time::Instant;

use overside_base::Reservation;
use overside_link::agent::{Item, Request};
use overside_link::codec::Message;

use super::{End, Session, out_of_turn};

/// Minimum number of bytes of a job that are read directly to their destination, without a buffer.
const DIRECT: usize = 32 << 10;
/// Maximum number of bytes that one call of [`Session::receive`] reads directly into jobs before the session
/// does its other work.
const TURN: usize = 1 << 20;
/// Length up to which messages fit into every connection's own memory, in bytes.
const MESSAGE_BYTES: u64 = 256 << 10;
/// Number of unsent pieces from which on nothing is read: a host that sends but does not receive has to wait.
const UNSENT_MAX: usize = 16 << 10;

impl Session<'_> {
    /// Reads from the socket. Returns `true` if anything was read.
    pub(super) fn receive(&mut self) -> Result<bool, End> {
        let (mut moved, mut budget) = (false, TURN);
        loop {
            if !self.admit()? {
                return Ok(moved);
            }
            if self.incoming.is_some() {
                let before = budget;
                let whole = self.receive_body(&mut budget)?;
                moved |= whole || budget < before;
                if !whole {
                    return Ok(moved);
                }
                continue;
            }
            if !self.reads() {
                return Ok(moved);
            }
            match self.reader.item()? {
                Some(item) => {
                    moved = true;
                    self.take(item)?;
                }
                // What came is handed on before more is read.
                None if moved => return Ok(true),
                None if !self.fill()? => return Ok(false),
                None => {}
            }
        }
    }

    /// Returns `true` if the session may read more from the host: no job or request waits, and
    /// fewer than [`UNSENT_MAX`] pieces are unsent.
    pub(super) fn reads(&self) -> bool {
        let waiting = self.deferred.is_some() || self.waiting.is_some();
        !waiting && self.outbox.len() < UNSENT_MAX
    }

    /// Begins with a job that waits for memory; `false` if it has to wait on.
    fn admit(&mut self) -> Result<bool, End> {
        let (Some((head, len)), Some(active)) = (self.waiting, &mut self.active) else {
            return Ok(true);
        };
        if !active.admit(head, len) {
            return Ok(false);
        }
        self.waiting = None;
        self.incoming = Some(active.begin(head, len).map_err(End::Broken)?);
        Ok(true)
    }

    /// Reads the source of the arriving job. Returns `true` if it is complete.
    fn receive_body(&mut self, budget: &mut usize) -> Result<bool, End> {
        while let Some(incoming) = &mut self.incoming {
            let here = self.reader.body(incoming.room());
            incoming.filled(here);
            let left = incoming.room().len();
            if left == 0 {
                if let (Some(incoming), Some(active)) = (self.incoming.take(), &mut self.active) {
                    active.accept(incoming);
                }
                return Ok(true);
            }
            if *budget == 0 {
                return Ok(false);
            }
            if left < DIRECT {
                if !self.fill()? {
                    return Ok(false);
                }
                continue;
            }
            match self.stream.read(incoming.room()) {
                Ok(0) => return Err(End::Over),
                Ok(count) => {
                    self.reader.body_passed_by(count);
                    incoming.filled(count);
                    *budget = budget.saturating_sub(count);
                    self.heard = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // A host that is gone is not told anything.
                Err(_) => return Err(End::Over),
            }
        }
        Ok(true)
    }

    /// Reads once. Returns `true` if there was anything to read.
    fn fill(&mut self) -> Result<bool, End> {
        match self.stream.read(self.reader.room()) {
            Ok(0) => Err(End::Over),
            Ok(count) => {
                self.reader.filled(count);
                self.heard = Instant::now();
                self.account_for_message()?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(_) => Err(End::Over),
        }
    }

    /// Reserves memory for a long message while it arrives: for the bytes so far, and for a copy when it is
    /// parsed.
    fn account_for_message(&mut self) -> Result<(), End> {
        let bytes = self.reader.buffered() as u64 * 2;
        if bytes <= MESSAGE_BYTES {
            self.message = None;
            return Ok(());
        }
        let more = bytes.saturating_sub(self.message.as_ref().map_or(0, Reservation::bytes));
        let grown = match &mut self.message {
            Some(message) => message.grow(more),
            none => self.memory.reserve(more).map(|made| *none = Some(made)),
        };
        grown.map_err(|error| End::Broken(format!("a long message: {error}")))
    }

    fn take(&mut self, item: Item) -> Result<(), End> {
        match item {
            Item::Job(head, len) => {
                let Some(active) = &self.active else {
                    return Err(out_of_turn("a job comes before a context is open"));
                };
                if self.leaving {
                    return Err(out_of_turn("a job comes after the last one"));
                }
                active.check(head, len)?;
                self.waiting = Some((head, len));
                Ok(())
            }
            Item::Ping(number) => {
                self.outbox.pong(number);
                Ok(())
            }
            Item::Probe(request) => match &mut self.probing {
                Some(probing) => Ok(probing.ask(request)?),
                None => Err(out_of_turn("a request comes before a probe has begun")),
            },
            Item::Control(json) => match Request::decode(&json)? {
                Request::Open { device, setup } => self.open(&device, setup),
                Request::Probe { kind } => self.probe(&kind),
                Request::Leave => {
                    self.leaving = true;
                    Ok(())
                }
                Request::Close if self.probing.is_some() => {
                    self.deferred = Some(Request::Close);
                    Ok(())
                }
                Request::Reconfigure(_) | Request::Close if self.active.is_none() => {
                    Err(out_of_turn("there is no context"))
                }
                request => {
                    self.deferred = Some(request);
                    Ok(())
                }
            },
            // The reader lets nothing else through on this side.
            Item::Answer(..) | Item::Usage(_) | Item::Pong(_) => Ok(()),
        }
    }
}
