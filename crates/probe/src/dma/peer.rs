//! The side that starts nothing, as a part of this program: it has the memory that is read and
//! written, or the program that confirms messages.

use std::sync::Arc;
use std::time::Instant;

use overside_device::CpuTime;
use overside_link::verbs::{Access, Endpoint, Exported, QueuePair, Side};

use super::answering::Answering;
use super::command::{Answer, Command, Party, out_of_turn};
use super::plan::{Filling, Operation, Plan};
use crate::closed_loop::Timeouts;
use crate::failure::{Failure, FailureKind};

/// What one of the initiator's threads finds here.
enum Place {
    /// Memory.
    Memory(Exported),
    /// Somebody who confirms.
    Answering(Answering),
}

/// The side that starts nothing.
pub struct Peer {
    endpoint: Option<Arc<dyn Endpoint>>,
    name: String,
    plan: Plan,
    side: Side,
    timeouts: Timeouts,
    /// Kept open, and unused: where operations are one-sided. They end before the memory is
    /// withdrawn, so that the initiator of a test that is broken off is not told that it asks for
    /// what is not there.
    idle: Vec<Box<dyn QueuePair>>,
    /// One for each of the initiator's threads.
    places: Vec<(Filling, Place)>,
}

impl Peer {
    /// At an end of a link that is called `name`.
    pub fn over(
        endpoint: Arc<dyn Endpoint>,
        name: &str,
        (plan, side): (Plan, Side),
        timeouts: Timeouts,
    ) -> Self {
        Self {
            endpoint: Some(endpoint),
            name: name.into(),
            plan,
            side,
            timeouts,
            idle: Vec::new(),
            places: Vec::new(),
        }
    }

    fn prepare(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let plan = self.plan;
        plan.check()?;
        let Some(endpoint) = &self.endpoint else {
            return Err(Failure::new(FailureKind::Job, "the link was let go"));
        };
        plan.keeps_up(&**endpoint, &self.name)?;
        let access = match plan.operation {
            Operation::Read => Access::Read,
            Operation::Write => Access::Write,
            Operation::Send => return self.answer(),
        };
        let (bytes, capabilities) = (plan.exported_bytes(), endpoint.capabilities());
        if bytes as u64 > capabilities.max_export_bytes || plan.threads > capabilities.max_exports {
            return Err(Failure::unsupported(format!(
                "{} exports at most {} regions of {} bytes; depth and buffer_size ask for {} of \
                 {bytes}",
                self.name, capabilities.max_exports, capabilities.max_export_bytes, plan.threads
            )));
        }
        let mut tokens = Vec::with_capacity(plan.threads);
        for index in 0..plan.threads {
            self.idle.push(endpoint.open(index)?);
            let exported = endpoint.export(bytes, access)?;
            tokens.push(exported.token().as_bytes().to_vec());
            let place = Place::Memory(exported);
            self.places.push((Filling::new(plan, index), place));
        }
        Ok(tokens)
    }

    /// Begins to confirm; there are no tokens.
    fn answer(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let Some(endpoint) = &self.endpoint else {
            return Ok(Vec::new());
        };
        for index in 0..self.plan.threads {
            let pair = endpoint.open(index)?;
            let answering = Answering::start(pair, self.plan, self.timeouts.clone())?;
            let place = Place::Answering(answering);
            self.places.push((Filling::new(self.plan, index), place));
        }
        Ok(Vec::new())
    }

    fn fill(&mut self, epoch: u64) -> Result<(), Failure> {
        for (filling, place) in &mut self.places {
            filling.begin(epoch);
            if let (Place::Memory(memory), Operation::Read) = (place, filling.plan.operation) {
                for slot in 0..filling.plan.depth {
                    put(memory, filling, slot, &filling.payload(slot))?;
                }
            }
        }
        self.spoil()
    }

    fn spoil(&mut self) -> Result<(), Failure> {
        for (filling, place) in &self.places {
            match place {
                Place::Memory(memory) if filling.plan.operation == Operation::Write => {
                    for slot in 0..filling.plan.depth {
                        put(memory, filling, slot, &filling.spoilt(slot))?;
                    }
                }
                Place::Memory(_) => {}
                Place::Answering(answering) => answering.forget(),
            }
        }
        Ok(())
    }

    fn compare(&self, counts: &[u64]) -> Result<u64, Failure> {
        let mut looked = 0;
        for (index, (filling, place)) in self.places.iter().enumerate() {
            let count = counts.get(index).copied().unwrap_or_default();
            let count = count.min(filling.plan.depth as u64);
            for slot in 0..count as usize {
                compare(filling, place, slot)?;
            }
            looked += count;
        }
        Ok(looked)
    }

    /// CPU time of this side so far.
    fn spent(&self) -> CpuTime {
        let answering = self.places.iter().map(|(_, place)| match place {
            Place::Answering(answering) => answering.spent_ns(),
            Place::Memory(_) => 0,
        });
        let threads = self.side.cpu_time(answering.sum());
        let link = self.endpoint.as_ref().map(|endpoint| endpoint.cpu_time());
        threads.plus(link.unwrap_or_default())
    }

    /// Whatever the threads that answer are to be told.
    fn each(
        &mut self,
        tell: impl Fn(&mut Answering) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (_, place) in &mut self.places {
            if let Place::Answering(answering) = place {
                tell(answering)?;
            }
        }
        Ok(())
    }
}

fn put(memory: &Exported, filling: &Filling, slot: usize, bytes: &[u8]) -> Result<(), Failure> {
    memory
        .write(slot * filling.plan.stride(), bytes)
        .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))
}

fn compare(filling: &Filling, place: &Place, slot: usize) -> Result<(), Failure> {
    let payload = filling.payload(slot);
    let there = match place {
        Place::Answering(answering) => answering.has(slot, &payload),
        Place::Memory(memory) => {
            let mut seen = vec![0; payload.len()];
            memory
                .read(slot * filling.plan.stride(), &mut seen)
                .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
            seen == payload
        }
    };
    match (there, filling.plan.operation) {
        (true, _) => Ok(()),
        (false, Operation::Read) => Err(Failure::wrong(
            slot,
            "the peer's buffer, which is only read, was written",
        )),
        (false, _) => Err(Failure::wrong(slot, "the payload is not at the peer")),
    }
}

impl Party for Peer {
    fn obey(&mut self, command: Command) -> Result<Answer, Failure> {
        self.timeouts.check(Instant::now())?;
        self.each(Answering::fault)?;
        match command {
            Command::Prepare if self.places.is_empty() => self.prepare().map(Answer::Prepared),
            Command::Fill(epoch) => self.fill(epoch).map(|()| Answer::Done),
            Command::Spoil => self.spoil().map(|()| Answer::Done),
            Command::Keep(keep) => {
                self.each(|answering| {
                    answering.keep(keep);
                    Ok(())
                })?;
                Ok(Answer::Done)
            }
            Command::Compare(counts) => self.compare(&counts).map(Answer::Compared),
            Command::Usage => Ok(Answer::Spent(self.spent())),
            Command::Stop => self.each(Answering::stop).map(|()| Answer::Done),
            Command::End => {
                self.idle.clear();
                self.places.clear();
                self.endpoint = None;
                Ok(Answer::Done)
            }
            other => Err(out_of_turn(&other)),
        }
    }
}
