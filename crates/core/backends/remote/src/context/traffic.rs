//! Messages to and from the agent, other than the jobs themselves.

use std::sync::Arc;
use std::time::Instant;

use overside_device::{Applied, CpuTime};
use overside_link::agent::{Item, Reply, Request, Usage, Violation, readable_or_writable};
use overside_link::codec::Message;

use super::RemoteContext;
use crate::connection::Broken;
use crate::incoming::Incoming;

/// Maximum number of items and reads that are taken from an agent before other work gets a turn.
const TURN: usize = 1 << 14;

impl RemoteContext {
    /// Sends and receives without waiting. `all`: reads all input, so that the socket's event
    /// reports more. Returns `true` if all was read.
    pub(super) fn progress(&mut self, all: bool) -> bool {
        self.try_progress(all).unwrap_or_else(|broken| {
            self.lose(broken.to_string());
            true
        })
    }

    fn try_progress(&mut self, all: bool) -> Result<bool, Broken> {
        let Some(connection) = &mut self.connection else {
            return Ok(true);
        };
        connection.send()?;
        let was_all = self.receive(all)?;
        if let Some(connection) = &mut self.connection {
            let timeouts = self.shared.dialer.timeouts;
            connection.beat(Instant::now(), timeouts.ask, timeouts.silence)?;
        }
        Ok(was_all)
    }

    fn receive(&mut self, all: bool) -> Result<bool, Broken> {
        for _ in 0..TURN {
            let Some(connection) = &mut self.connection else {
                return Ok(true);
            };
            if let Some(incoming) = &mut self.incoming {
                let slot = &mut self.slots[incoming.head.slot as usize];
                if !incoming.receive(connection, slot.job())? {
                    return Ok(true);
                }
                self.complete();
                continue;
            }
            match connection.reader.item()? {
                Some(item) => self.take(item)?,
                None => {
                    let room = connection.reader.room().len();
                    let count = connection.fill()?;
                    // Less than there was room for: that was all, most likely.
                    if count == 0 || (count < room && !all && !self.ready.is_empty()) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    fn take(&mut self, item: Item) -> Result<(), Broken> {
        match item {
            Item::Answer(head, len) => {
                let slot = self.slots.get(head.slot as usize);
                if !self.told || slot.is_none() {
                    let what = format!("an answer to job {}, which there is not", head.slot);
                    return Err(Violation::OutOfTurn(what).into());
                }
                self.incoming = Some(Incoming::new(head, len));
            }
            Item::Usage(usage) => {
                self.cpu_time =
                    CpuTime { host_ns: 0, dpu_ns: usage.dpu_ns, emulator_ns: usage.emulator_ns };
            }
            Item::Control(json) => match Reply::decode(&json)? {
                Reply::Applied(there) => {
                    let info = &self.shared.info;
                    self.told = true;
                    self.applied = Arc::new(Applied {
                        device: info.name.clone(),
                        driver: info.driver.clone(),
                        provenance: info.provenance.max(there.provenance),
                        ..there
                    });
                }
                Reply::Lost(reason) => self.lose(format!("its agent says: {reason}")),
                Reply::Drain => {
                    self.draining = true;
                    if let Some(connection) = &mut self.connection {
                        connection.request(&Request::Leave);
                        connection.send()?;
                    }
                }
                _ => {
                    let what = "a message comes that nothing asked for";
                    return Err(Violation::OutOfTurn(what.into()).into());
                }
            },
            Item::Probe(_) => {
                let what = "an answer of a probe comes, and there is none".into();
                return Err(Violation::OutOfTurn(what).into());
            }
            Item::Pong(_) | Item::Ping(_) | Item::Job(..) => {}
        }
        Ok(())
    }

    /// Waits for the agent's reply to a request; jobs that were given up are answered first.
    pub(super) fn ask(&mut self, request: &Request, deadline: Instant) -> Result<Reply, String> {
        while !self.slots.is_empty() && self.connection.is_some() {
            self.progress(true);
            self.wait(deadline).map_err(|broken| broken.to_string())?;
        }
        let Some(connection) = &mut self.connection else {
            return Err(self.lost.clone());
        };
        connection.request(request);
        let replied = loop {
            match connection.reply(deadline) {
                // The agent still finishes its jobs.
                Ok(Reply::Drain) => self.draining = true,
                other => break other,
            }
        };
        let usage = connection.usage;
        if usage != Usage::default() {
            self.cpu_time.dpu_ns = usage.dpu_ns.max(self.cpu_time.dpu_ns);
            self.cpu_time.emulator_ns = usage.emulator_ns.max(self.cpu_time.emulator_ns);
        }
        match replied {
            Ok(Reply::Lost(reason)) => {
                self.lose(format!("its agent says: {reason}"));
                Err(self.lost.clone())
            }
            Ok(reply) => Ok(reply),
            Err(broken) => {
                self.lose(broken.to_string());
                Err(self.lost.clone())
            }
        }
    }

    /// Waits for bytes, or room for some, or until nothing can be expected; not beyond `deadline`.
    pub(super) fn wait(&mut self, deadline: Instant) -> Result<(), Broken> {
        let timeouts = self.shared.dialer.timeouts;
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        }
        let beat = connection.next_beat(timeouts.ask, timeouts.silence);
        let until = [Some(deadline), Some(beat), self.deadlines.next()];
        let until = until.into_iter().flatten().min().unwrap_or(deadline);
        let socket = connection.stream.socket();
        readable_or_writable(socket, true, connection.wants_write(), until)?;
        Ok(())
    }
}
