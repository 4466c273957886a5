//! Those who collect metrics.

use super::{SCRAPE, Worker};
use crate::server::driver::EventFlags;
use crate::server::metrics;
use crate::server::scrape::Next;

impl Worker<'_> {
    pub(super) fn scrape(&mut self) {
        self.backing.refresh();
        let mut closed = Vec::new();
        for (key, scrape) in &mut self.scrapes {
            let (state, clients) = (&self.state, &self.clients);
            let backing = &*self.backing;
            let interest =
                match scrape.advance(|| metrics::text(state, clients, backing, self.now_ms)) {
                    Next::Read => EventFlags::IN,
                    Next::Write => EventFlags::OUT,
                    Next::Close => {
                        closed.push(key);
                        continue;
                    }
                };
            if self
                .driver
                .change(&*scrape, SCRAPE | key as u64, interest)
                .is_err()
            {
                closed.push(key);
            }
        }
        for key in closed {
            self.driver.forget(SCRAPE | key as u64);
            self.scrapes.remove(key);
        }
    }
}
