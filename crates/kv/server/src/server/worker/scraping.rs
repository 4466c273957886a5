//! Connections of the collectors of metrics.

use overside_http::Next;

use super::{SCRAPE, Worker};
use crate::server::epoll::EventFlags;
use crate::server::metrics;

impl Worker<'_> {
    pub(super) fn scrape(&mut self) {
        self.backing.refresh();
        let mut closed = Vec::new();
        for (key, scrape) in &mut self.scrapes {
            let (state, clients) = (&self.state, &self.clients);
            let backing = &*self.backing;
            let now_ms = self.now_ms;
            let interest = match scrape.advance(|path| {
                let is_there = path == "/metrics";
                is_there.then(|| metrics::all(state, clients, backing, now_ms).into_response())
            }) {
                Next::Read => EventFlags::IN,
                Next::Write => EventFlags::OUT,
                Next::Close => {
                    closed.push(key);
                    continue;
                }
            };
            if self.epoll.change(&*scrape, SCRAPE | key as u64, interest).is_err() {
                closed.push(key);
            }
        }
        for key in closed {
            self.scrapes.remove(key);
        }
    }
}
