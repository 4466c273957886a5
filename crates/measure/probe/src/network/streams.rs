//! Streams: messages one way, as many as the connections take.

use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::Error;
use super::group::{Group, Link, PassContext, PassWork};
use super::pass::Limit;

/// Longest time that a thread sleeps before it checks the clock.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Writes to one connection before it is another's turn.
const WRITES_A_TURN: u32 = 16;

/// Runs the connections of one thread.
pub(super) fn run(group: &mut Group, task: &PassContext<'_>) -> Result<PassWork, Error> {
    let mut done = PassWork::default();
    let before: Vec<u64> = group.links.iter().map(|link| link.sent).collect();
    let mut open = vec![true; group.links.len()];
    for number in 0..open.len() {
        wait_for(group, number, EventFlags::OUT)?;
    }
    while open.contains(&true) {
        group.events.look(SLEEP_MAX)?;
        let now = Instant::now();
        let more = |sent: u64| match task.limit {
            Limit::Messages(most) => most - sent.min(most),
            // At least one.
            Limit::Time(time) if sent > 0 && now - task.start >= time => 0,
            Limit::Time(_) => u64::MAX,
        };
        for place in 0..group.events.ready.len() {
            let number = group.events.ready[place];
            let link = &mut group.links[number];
            if open[number] && turn(link, task, before[number], more, &mut done)? {
                open[number] = false;
                wait_for(group, number, EventFlags::empty())?;
            }
        }
        if task.cancelled.is_cancelled() {
            return Err(Error::Closed);
        }
        if now >= task.deadline {
            return Err(Error::Timeout("not everything had been sent".into()));
        }
    }
    Ok(done)
}

/// Writes a few times, whole messages while there are `more`. Returns `true` if everything has been sent.
fn turn(
    link: &mut Link,
    task: &PassContext<'_>,
    before: u64,
    more: impl Fn(u64) -> u64,
    done: &mut PassWork,
) -> Result<bool, Error> {
    for _ in 0..WRITES_A_TURN {
        if link.write_buffer.is_empty() {
            let count = more(link.sent - before).min(link.write_buffer.room() as u64);
            if count == 0 {
                return Ok(true);
            }
            link.write_buffer.fill(task.pattern, link.sent, count as usize);
            link.sent += count;
            done.messages += count;
        }
        if !link.write_buffer.write(&link.stream)? {
            return Ok(false);
        }
        done.writes += 1;
    }
    Ok(false)
}

/// Changes the events that a connection waits for; without effect when polling.
fn wait_for(group: &mut Group, number: usize, interest: EventFlags) -> Result<(), Error> {
    let link = &mut group.links[number];
    group.events.change(number, &link.stream, interest)?;
    link.interest = interest;
    Ok(())
}
