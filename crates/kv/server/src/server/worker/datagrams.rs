//! Datagrams of a turn, and sources that wake no worker: the port that DPDK drives, and regions of clients.

use std::time::Instant;

use super::Worker;
use crate::server::replies::Serving;
use crate::stages::Stage;

impl Worker<'_> {
    /// Serves the datagrams of this turn.
    pub(super) fn serve_datagrams(&mut self) {
        if let Some(datagrams) = &mut self.datagrams {
            let mut serving = Serving {
                now_ms: self.now_ms,
                state: &mut self.state,
                clients: &mut self.clients,
                backing: self.backing,
                hasher: &self.hasher,
            };
            for number in self.readable.drain(..) {
                datagrams.serve(number, &mut self.packets, &mut serving);
            }
            self.count();
        }
    }

    /// Serves the sources that wake no worker: the port that DPDK drives, and the regions of clients.
    pub(super) fn serve_polled(&mut self, begin: Instant) {
        if self.port.is_none() && self.regions.is_none() {
            return;
        }
        let mut serving = Serving {
            now_ms: self.now_ms,
            state: &mut self.state,
            clients: &mut self.clients,
            backing: self.backing,
            hasher: &self.hasher,
        };
        let port = self.port.as_mut();
        let mut is_busy = port.is_some_and(|port| port.serve(&mut self.packets, &mut serving));
        let regions = self.regions.as_mut();
        is_busy |= regions.is_some_and(|regions| regions.serve(&mut serving));
        match is_busy {
            true => self.state.counters.turns.record(begin.elapsed()),
            false => self.state.stages.end(Stage::Poll),
        }
        self.count();
    }
}
