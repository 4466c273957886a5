//! The loop of the side that has the processing engine.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{OffloadError, OnLoss, Responder, ServingWork};
use crate::clock::Clock;
use crate::stages::Stage;
use overside_kv_backend::idle::PAUSE;
use overside_kv_backend::{StorageBackend, TICK_MS};

/// Longest time without a message before the thread sleeps: about the time that sleeping and waking
/// take.
const POLL_MAX: Duration = Duration::from_micros(10);
/// Share of looks that found a message lately, above which each look is made; below, one in eight.
const WORTH_LOOKING: f32 = 0.25;
const SKIPS: u32 = 7;
/// Longest sleep. Between sleeps the server looks for the order to end and for clients that connect again.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Links over which the other side sends requests to a processing engine.
#[derive(Default)]
pub(crate) struct AskingLinks {
    pub responders: Vec<Responder>,
    /// Notes that the other side is lost.
    pub on_loss: Option<OnLoss>,
}

/// Threads that send requests to a processing engine.
#[derive(Default)]
pub(crate) struct RemoteClients {
    /// Threads of this process. A thread that ends gets no more answers.
    pub local: Vec<Responder>,
    /// Threads of the other side. If one is lost, all are.
    pub links: AskingLinks,
    /// Source of new links when the other side returns after it was lost; `None` if it does not
    /// return.
    returning: Option<Receiver<AskingLinks>>,
    /// Reason why changes of the last messages could not be kept.
    failure: Option<io::Error>,
}

impl RemoteClients {
    /// Prepares for another side that returns after it was lost. Returns the way for its new links.
    pub(crate) fn returning(&mut self) -> Sender<AskingLinks> {
        let (sender, returning) = mpsc::channel();
        self.returning = Some(returning);
        sender
    }

    /// Returns `true` if there are links, or will be.
    pub(crate) fn has_links(&self) -> bool {
        !self.links.responders.is_empty() || self.returning.is_some()
    }

    /// Removes and returns the error because of which changes of the last messages could not be
    /// kept; `None` if there was none.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Polls each client for one message. Returns `true` if there was one.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        engine: &mut dyn StorageBackend,
        now_ms: u64,
        work: Option<&ServingWork>,
    ) -> Result<bool, OffloadError> {
        let mut any = false;
        let failure = &mut self.failure;
        let mut poll = |responder: &mut Responder| {
            let polled = responder.poll_timed(engine, now_ms, work);
            if !matches!(polled, Ok(false)) {
                any = true;
                *failure = responder.take_failure().or(failure.take());
            }
            polled.map(drop)
        };
        self.local.retain_mut(|responder| poll(responder).is_ok());
        let polled = self.links.responders.iter_mut().try_for_each(poll);
        polled.or_else(|error| self.lose(error)).map(|()| any)
    }

    /// Looks for threads that are lost, and for those that have connected again.
    pub(crate) fn check(&mut self) -> Result<(), OffloadError> {
        self.local.retain_mut(|responder| responder.check().is_ok());
        let checked = self.links.responders.iter_mut().try_for_each(Responder::check);
        checked.or_else(|error| self.lose(error))?;
        self.admit();
        Ok(())
    }

    /// Sleeps until a request comes, no longer than `most`.
    fn sleep(&mut self, most: Duration) -> Result<(), OffloadError> {
        self.admit();
        let mut is_ready = false;
        self.local.retain_mut(|responder| {
            let armed = responder.arm();
            is_ready |= matches!(armed, Ok(true));
            armed.is_ok()
        });
        let mut armed = self.links.responders.iter_mut().map(Responder::arm);
        match armed.try_fold(is_ready, |ready, armed| armed.map(|armed| ready | armed)) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return self.lose(error),
        }
        let all = || self.local.iter().chain(&self.links.responders);
        if all().any(|responder| responder.event_fd().is_none()) {
            std::thread::sleep(PAUSE);
            return Ok(());
        }
        let events = all().filter_map(Responder::event_fd);
        let events: Vec<_> = events.collect();
        let mut fds: Vec<_> =
            (events.iter()).map(|event| PollFd::new(event, PollFlags::IN)).collect();
        // A signal ends it too.
        let most = Timespec::try_from(most).ok();
        let _ = poll(&mut fds, most.as_ref());
        Ok(())
    }

    fn admit(&mut self) {
        if let Some(returning) = &self.returning
            && let Ok(links) = returning.try_recv()
        {
            self.links = links;
        }
    }

    fn lose(&mut self, error: OffloadError) -> Result<(), OffloadError> {
        self.links.responders.clear();
        if let Some(on_loss) = &self.links.on_loss {
            on_loss(&error);
        }
        match self.returning {
            Some(_) => Ok(()),
            None => Err(error),
        }
    }
}

/// Decision whether polling for the next message pays or sleeping at once is better. It depends on
/// a moving average of the share of polls that found a message. Messages that end a sleep do not
/// count, because waking takes as long as the wait that they would show.
struct Looks {
    found: f32,
    skipped: u32,
}

impl Default for Looks {
    fn default() -> Self {
        Self { found: 1.0, skipped: 0 }
    }
}

impl Looks {
    /// Returns `true` if the thread should poll this time.
    fn begin(&mut self) -> bool {
        let looks = self.found >= WORTH_LOOKING || self.skipped >= SKIPS;
        self.skipped = if looks { 0 } else { self.skipped + 1 };
        looks
    }

    fn end(&mut self, found: bool) {
        self.found += (f32::from(u8::from(found)) - self.found) / 8.0;
    }
}

/// Activity of the thread while no message comes.
enum Idle {
    LooksSince(Instant),
    Sleeps,
}

/// Serves `clients`, one message of each in turn, until `stop`, or until the other side is lost and does not return.
/// Sleeps while no request comes, unless it `busy_polls`.
///
/// # Errors
/// Why the other side was lost. Answered writes are kept by the rules of [`StorageBackend`].
pub(crate) fn serve(
    clients: &mut RemoteClients,
    engine: &mut dyn StorageBackend,
    clock: &Clock,
    busy_polls: bool,
    stop: &AtomicBool,
) -> Result<(), OffloadError> {
    let work = ServingWork::start();
    let mut idle: Option<Idle> = None;
    let mut looks = Looks::default();
    let mut next_tick_ms = clock.now_ms();
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        let now_ms = clock.ms_at(now);
        let any = clients.poll(engine, now_ms, Some(&work))?;
        if !any {
            work.stages.end(Stage::Poll);
        }
        if now_ms >= next_tick_ms {
            let is_busy = engine.tick(now_ms);
            next_tick_ms = now_ms + if is_busy { 1 } else { TICK_MS };
            clients.check()?;
            work.stages.end(Stage::Other);
        }
        if any {
            work.turns.set(work.turns.get() + 1);
            if let Some(Idle::LooksSince(_)) = idle.take() {
                looks.end(true);
            }
            continue;
        }
        let state = idle.get_or_insert_with(|| match looks.begin() {
            true => Idle::LooksSince(now),
            false => Idle::Sleeps,
        });
        if let Idle::LooksSince(since) = *state
            && now.saturating_duration_since(since) >= POLL_MAX
        {
            looks.end(false);
            *state = Idle::Sleeps;
        }
        match (busy_polls, state) {
            (true, _) | (_, Idle::LooksSince(_)) => std::hint::spin_loop(),
            (false, Idle::Sleeps) => {
                let tick = Duration::from_millis(next_tick_ms.saturating_sub(now_ms));
                clients.sleep(tick.min(SLEEP_MAX))?;
                work.stages.end(Stage::Wait);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Looks, SKIPS};

    /// Returns in how many of `times` rounds it polls, if polling finds a message or not.
    fn looks(looks: &mut Looks, times: u32, found: bool) -> u32 {
        let look = |_: &u32| {
            let does = looks.begin();
            if does {
                looks.end(found);
            }
            does
        };
        (0..times).filter(look).count() as u32
    }

    #[test]
    fn it_looks_for_messages_while_that_finds_some() {
        let mut all = Looks::default();
        for _ in 0..3 {
            assert_eq!(looks(&mut all, 100, true), 100);
            assert!(looks(&mut all, 100, false) < 40);
            assert_eq!(looks(&mut all, 80, false), 80 / (SKIPS + 1));
            // It is seen soon that they follow each other closely again.
            assert!(looks(&mut all, 100, true) > 60);
        }
    }
}
