//! The loop of the side that has the processing engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{OffloadError, Responder};
use crate::clock::Clock;
use crate::server::{Backing, TICK_MS};

/// Turns without a message after which the loop lets others run, and then sleeps between turns.
const IDLE_YIELD: u32 = 256;
const IDLE_SLEEP: u32 = 4096;
/// How long it sleeps: what a message waits at most after a pause.
const PAUSE: Duration = Duration::from_micros(50);

/// Serves the other sides, one message of each in turn, until `stop` or until one is lost. Never sleeps if
/// it `busy_polls`.
///
/// # Errors
/// Why one was lost. What was answered is kept as [`Backing`] says.
pub fn serve(
    responders: &mut [Responder],
    engine: &mut dyn Backing,
    clock: &Clock,
    busy_polls: bool,
    stop: &AtomicBool,
) -> Result<(), OffloadError> {
    let mut idle = 0u32;
    let mut next_tick_ms = clock.now_ms();
    while !stop.load(Ordering::Relaxed) {
        let now_ms = clock.now_ms();
        let mut any = false;
        for responder in &mut *responders {
            any |= responder.poll(engine, now_ms)?;
        }
        if now_ms >= next_tick_ms {
            let is_busy = engine.tick(now_ms);
            next_tick_ms = now_ms + if is_busy { 1 } else { TICK_MS };
            for responder in &mut *responders {
                responder.check()?;
            }
        }
        idle = if any { 0 } else { idle.saturating_add(1) };
        match idle {
            _ if busy_polls => std::hint::spin_loop(),
            0..IDLE_YIELD => std::hint::spin_loop(),
            IDLE_YIELD..IDLE_SLEEP => std::thread::yield_now(),
            _ => std::thread::sleep(PAUSE),
        }
    }
    Ok(())
}
