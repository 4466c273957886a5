//! The side that starts nothing, as a part of this program: it has the memory that is read and
//! written, or the program that confirms messages.

use std::sync::Arc;
use std::time::Instant;

use overside_device::CpuTime;
use overside_link::verbs::{Access, Endpoint, Exported, QueuePair, Side};

use super::command::{Answer, Command, TestSide, out_of_turn};
use super::payload::PayloadPattern;
use super::plan::{Operation, Plan};
use super::responder::Responder;
use crate::closed_loop::Timeouts;
use crate::failure::{Failure, FailureKind};

/// Counterpart of one of the initiator's threads at this side.
enum Place {
    /// Memory.
    Memory(Exported),
    /// Thread that receives messages and confirms them.
    Responder(Responder),
}

/// The side that starts nothing.
pub struct Peer {
    endpoint: Option<Arc<dyn Endpoint>>,
    name: String,
    plan: Plan,
    side: Side,
    timeouts: Timeouts,
    /// Kept open, and unused: where operations are one-sided. They end before the memory is
    /// withdrawn, so that the initiator of a test that is broken off gets no error about missing
    /// memory.
    idle: Vec<Box<dyn QueuePair>>,
    /// Pattern and place for each of the initiator's threads.
    places: Vec<(PayloadPattern, Place)>,
}

impl Peer {
    /// Makes a peer at an end of the link `name`.
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
            self.places.push((PayloadPattern::new(plan, index), place));
        }
        Ok(tokens)
    }

    /// Starts a responder for the queue pair of each thread. Returns no tokens: sends need no exported memory.
    fn answer(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let Some(endpoint) = &self.endpoint else {
            return Ok(Vec::new());
        };
        for index in 0..self.plan.threads {
            let pair = endpoint.open(index)?;
            let responder = Responder::start(pair, self.plan, self.timeouts.clone())?;
            let place = Place::Responder(responder);
            self.places.push((PayloadPattern::new(self.plan, index), place));
        }
        Ok(Vec::new())
    }

    fn fill(&mut self, epoch: u64) -> Result<(), Failure> {
        for (pattern, place) in &mut self.places {
            pattern.begin(epoch);
            if let (Place::Memory(memory), Operation::Read) = (place, pattern.plan.operation) {
                for slot in 0..pattern.plan.places() {
                    put(memory, pattern, slot, &pattern.payload(slot))?;
                }
            }
        }
        self.poison()
    }

    fn poison(&mut self) -> Result<(), Failure> {
        for (pattern, place) in &self.places {
            match place {
                Place::Memory(memory) if pattern.plan.operation == Operation::Write => {
                    for slot in 0..pattern.plan.places() {
                        put(memory, pattern, slot, &pattern.poisoned(slot))?;
                    }
                }
                Place::Memory(_) => {}
                Place::Responder(responder) => responder.forget(),
            }
        }
        Ok(())
    }

    fn compare(&self, counts: &[u64]) -> Result<u64, Failure> {
        let mut looked = 0;
        for (index, (pattern, place)) in self.places.iter().enumerate() {
            let count = counts.get(index).copied().unwrap_or_default();
            let count = count.min(pattern.plan.places() as u64);
            for slot in 0..count as usize {
                compare(pattern, place, slot)?;
            }
            looked += count;
        }
        Ok(looked)
    }

    /// CPU time of this side so far.
    fn spent(&self) -> CpuTime {
        let responder = self.places.iter().map(|(_, place)| match place {
            Place::Responder(responder) => responder.spent_ns(),
            Place::Memory(_) => 0,
        });
        let threads = self.side.cpu_time(responder.sum());
        let link = self.endpoint.as_ref().map(|endpoint| endpoint.cpu_time());
        threads.plus(link.unwrap_or_default())
    }

    /// Calls `tell` for each thread that confirms messages; stops at the first failure.
    fn each(
        &mut self,
        tell: impl Fn(&mut Responder) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (_, place) in &mut self.places {
            if let Place::Responder(responder) = place {
                tell(responder)?;
            }
        }
        Ok(())
    }
}

fn put(
    memory: &Exported,
    pattern: &PayloadPattern,
    slot: usize,
    bytes: &[u8],
) -> Result<(), Failure> {
    memory
        .write(slot * pattern.plan.stride(), bytes)
        .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))
}

fn compare(pattern: &PayloadPattern, place: &Place, slot: usize) -> Result<(), Failure> {
    let payload = pattern.payload(slot);
    let there = match place {
        Place::Responder(responder) => responder.has(slot, &payload),
        Place::Memory(memory) => {
            let mut seen = vec![0; payload.len()];
            memory
                .read(slot * pattern.plan.stride(), &mut seen)
                .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
            *seen == *payload
        }
    };
    match (there, pattern.plan.operation) {
        (true, _) => Ok(()),
        (false, Operation::Read) => {
            Err(Failure::wrong(slot, "the peer's buffer, which is only read, was written"))
        }
        (false, _) => Err(Failure::wrong(slot, "the payload is not at the peer")),
    }
}

impl TestSide for Peer {
    fn execute(&mut self, command: Command) -> Result<Answer, Failure> {
        self.timeouts.check(Instant::now())?;
        self.each(Responder::fault)?;
        match command {
            Command::Prepare if self.places.is_empty() => self.prepare().map(Answer::Prepared),
            Command::Fill(epoch) => self.fill(epoch).map(|()| Answer::Done),
            Command::Poison => self.poison().map(|()| Answer::Done),
            Command::Capture(keep) => {
                self.each(|responder| {
                    responder.capture(keep);
                    Ok(())
                })?;
                Ok(Answer::Done)
            }
            Command::Compare(counts) => self.compare(&counts).map(Answer::Compared),
            Command::CpuTime => Ok(Answer::CpuTime(self.spent())),
            Command::Stop => self.each(Responder::stop).map(|()| Answer::Done),
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
