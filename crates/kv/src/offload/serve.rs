//! The loop of the side that has the processing engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{OffloadError, OnLoss, Responder};
use crate::clock::Clock;
use crate::server::{Backing, PAUSE, TICK_MS};

/// How long nothing may come before it sleeps: about as long as to sleep and to be woken takes.
const POLL_MAX: Duration = Duration::from_micros(10);
/// Longest gap that counts for what is expected: so it pays to look as long as a quarter of the gaps are short, however
/// long the others are.
const GAP_MAX: Duration = Duration::from_micros(25);
/// Longest sleep: whether to end, and who has come again, is looked at between sleeps.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Those who ask a processing engine.
#[derive(Debug, Default)]
pub struct Askers {
    /// Threads of this process. Who ends is not answered any more.
    pub local: Vec<Responder>,
    /// Threads of the other side. If one is lost, all are.
    pub links: Vec<Responder>,
    /// Where the other side comes again after it was lost; `None`: it does not.
    pub returning: Option<Receiver<Vec<Responder>>>,
}

impl Askers {
    /// One message of each in turn; whether there was one.
    #[inline]
    fn poll(
        &mut self,
        engine: &mut dyn Backing,
        now_ms: u64,
        on_loss: &OnLoss,
    ) -> Result<bool, OffloadError> {
        let mut any = false;
        self.local.retain_mut(|responder| {
            let polled = responder.poll(engine, now_ms);
            any |= matches!(polled, Ok(true));
            polled.is_ok()
        });
        for responder in &mut self.links {
            match responder.poll(engine, now_ms) {
                Ok(polled) => any |= polled,
                Err(error) => {
                    self.lose(error, on_loss)?;
                    break;
                }
            }
        }
        Ok(any)
    }

    /// Looks who is lost, and who has come again.
    fn check(&mut self, on_loss: &OnLoss) -> Result<(), OffloadError> {
        self.local.retain_mut(|responder| responder.check().is_ok());
        let checked = self.links.iter_mut().try_for_each(Responder::check);
        checked.or_else(|error| self.lose(error, on_loss))?;
        self.admit();
        Ok(())
    }

    /// Sleeps until somebody asks something, no longer than `most`.
    fn sleep(&mut self, most: Duration, on_loss: &OnLoss) -> Result<(), OffloadError> {
        self.admit();
        let mut is_ready = false;
        self.local.retain_mut(|responder| {
            let armed = responder.arm();
            is_ready |= matches!(armed, Ok(true));
            armed.is_ok()
        });
        let mut armed = self.links.iter_mut().map(Responder::arm);
        match armed.try_fold(is_ready, |ready, armed| armed.map(|armed| ready | armed)) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return self.lose(error, on_loss),
        }
        let all = || self.local.iter().chain(&self.links);
        if all().any(|responder| responder.event_fd().is_none()) {
            std::thread::sleep(PAUSE);
            return Ok(());
        }
        let events = all().filter_map(Responder::event_fd);
        let events: Vec<_> = events.collect();
        let mut fds: Vec<_> = (events.iter())
            .map(|event| PollFd::new(event, PollFlags::IN))
            .collect();
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

    fn lose(&mut self, error: OffloadError, on_loss: &OnLoss) -> Result<(), OffloadError> {
        self.links.clear();
        on_loss(&error);
        match self.returning {
            Some(_) => Ok(()),
            None => Err(error),
        }
    }
}

/// How long nothing came between messages lately: a moving average, by which the loop knows whether to look for the
/// next one or to sleep at once.
#[derive(Default)]
struct Gaps(Duration);

impl Gaps {
    fn add(&mut self, gap: Duration) {
        self.0 = (self.0 * 7 + gap.min(GAP_MAX)) / 8;
    }

    /// How long it pays to look. A gap that was slept through has the time in it that waking took.
    fn worth_polling(&self) -> Duration {
        match self.0 < 2 * POLL_MAX {
            true => POLL_MAX,
            false => Duration::ZERO,
        }
    }
}

/// Serves the askers, one message of each in turn, until `stop`, or until the other side is lost and does
/// not return. `on_loss` is told each time. Sleeps while nobody asks, unless it `busy_polls`.
///
/// # Errors
/// Why the other side was lost. What was answered is kept as [`Backing`] says.
pub fn serve(
    askers: &mut Askers,
    engine: &mut dyn Backing,
    clock: &Clock,
    (busy_polls, on_loss): (bool, &OnLoss),
    stop: &AtomicBool,
) -> Result<(), OffloadError> {
    let mut idle_since: Option<Instant> = None;
    let mut gaps = Gaps::default();
    let mut next_tick_ms = clock.now_ms();
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        let now_ms = clock.ms_at(now);
        let any = askers.poll(engine, now_ms, on_loss)?;
        if now_ms >= next_tick_ms {
            let is_busy = engine.tick(now_ms);
            next_tick_ms = now_ms + if is_busy { 1 } else { TICK_MS };
            askers.check(on_loss)?;
        }
        if any {
            if let Some(since) = idle_since.take() {
                gaps.add(now.saturating_duration_since(since));
            }
            continue;
        }
        let idle = now.saturating_duration_since(*idle_since.get_or_insert(now));
        match busy_polls || idle < gaps.worth_polling() {
            true => std::hint::spin_loop(),
            false => {
                let tick = Duration::from_millis(next_tick_ms.saturating_sub(now_ms));
                askers.sleep(tick.min(SLEEP_MAX), on_loss)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{GAP_MAX, Gaps, POLL_MAX};

    #[test]
    fn it_looks_for_messages_while_they_follow_each_other_closely() {
        let mut gaps = Gaps::default();
        let (close, far) = (Duration::from_micros(2), Duration::from_secs(1));
        for _ in 0..3 {
            assert_eq!(gaps.worth_polling(), POLL_MAX);
            (0..100).for_each(|_| gaps.add(far));
            assert_eq!(gaps.worth_polling(), Duration::ZERO);
            // However long the pause was.
            assert!(gaps.0 <= GAP_MAX);
            for _ in 0..16 {
                gaps.add(far);
                gaps.add(close);
            }
            assert_eq!(gaps.worth_polling(), POLL_MAX);
            (0..16).for_each(|_| gaps.add(close));
        }
    }
}
