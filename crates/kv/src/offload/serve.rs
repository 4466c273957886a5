//! The loop of the side that has the processing engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::{OffloadError, OnLoss, Responder};
use crate::clock::Clock;
use crate::server::{Backing, TICK_MS};

/// Turns without a message after which the loop lets others run, and then sleeps between turns.
pub const IDLE_YIELD: u32 = 256;
pub const IDLE_SLEEP: u32 = 4096;
/// How long it sleeps: what a message waits at most after a pause.
pub const PAUSE: Duration = Duration::from_micros(50);

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

/// Serves the askers, one message of each in turn, until `stop`, or until the other side is lost and does
/// not return. `on_loss` is told each time. Never sleeps if it `busy_polls`.
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
    let mut idle = 0u32;
    let mut next_tick_ms = clock.now_ms();
    while !stop.load(Ordering::Relaxed) {
        let now_ms = clock.now_ms();
        let any = askers.poll(engine, now_ms, on_loss)?;
        if now_ms >= next_tick_ms {
            let is_busy = engine.tick(now_ms);
            next_tick_ms = now_ms + if is_busy { 1 } else { TICK_MS };
            askers.check(on_loss)?;
        }
        idle = if any { 0 } else { idle.saturating_add(1) };
        match idle {
            _ if busy_polls => std::hint::spin_loop(),
            0..IDLE_YIELD => std::hint::spin_loop(),
            IDLE_YIELD..IDLE_SLEEP => std::thread::yield_now(),
            _ => {
                askers.admit();
                std::thread::sleep(PAUSE);
            }
        }
    }
    Ok(())
}
