//! Paced streams: messages one way at even distances (open loop), over TCP or UDP.
//!
//! Messages that could not be sent on time are sent as soon as possible, in order: a sender that was held up
//! makes up for it, and its delays count from the intended times.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::connection::gone;
use super::group::{Group, Link, PassContext, PassWork};
use super::schedule::{LATE_NS, Schedule};
use super::{Error, nanoseconds};
use crate::closed_loop::CompletionMode;

/// Longest time that a thread sleeps before it checks the clock.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Writes to one connection before it is another's turn.
const WRITES_A_TURN: u32 = 64;

/// Runs the connections of one thread.
pub(super) fn run(group: &mut Group, task: &PassContext<'_>) -> Result<PassWork, Error> {
    let schedule = Schedule::new(task);
    let before: Vec<u64> = group.links.iter().map(|link| link.sent).collect();
    let mut done = PassWork::default();
    loop {
        let (mut goes_on, mut next) = (false, None::<u64>);
        for (number, &before) in before.iter().enumerate() {
            let took_all = turn(&mut group.links[number], task, schedule, before, &mut done)?;
            let interest = match took_all {
                true => EventFlags::empty(),
                false => EventFlags::OUT,
            };
            wait_for(group, number, interest, task)?;
            let link = &group.links[number];
            let (index, sent) = (link.index, link.sent - before);
            let now = nanoseconds(task.start.elapsed());
            if !link.write_buffer.is_empty() {
                goes_on = true;
            } else if schedule.goes_on(index, sent, now) {
                goes_on = true;
                let at = schedule.intended_ns(index, sent);
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        if !goes_on {
            return Ok(done);
        }
        let now = task.start.elapsed();
        if task.cancelled.is_cancelled() {
            return Err(Error::Closed);
        }
        if task.start + now >= task.deadline {
            return Err(Error::Timeout("not everything had been sent".into()));
        }
        let sleep = next.map_or(SLEEP_MAX, |at| Schedule::sleep(at, nanoseconds(now)));
        group.events.look(sleep.min(SLEEP_MAX))?;
    }
}

/// Sends the messages that are due. `false`: the system takes nothing more for now.
fn turn(
    link: &mut Link,
    task: &PassContext<'_>,
    schedule: Schedule,
    before: u64,
    done: &mut PassWork,
) -> Result<bool, Error> {
    for _ in 0..WRITES_A_TURN {
        if link.write_buffer.is_empty() {
            let now = nanoseconds(task.start.elapsed());
            let room = link.write_buffer.room();
            let mut count = 0;
            while count < room && schedule.is_due(link.index, link.sent - before, now) {
                let due = schedule.intended_ns(link.index, link.sent - before);
                done.late += u64::from(now - due > LATE_NS);
                link.sent += 1;
                count += 1;
            }
            if count == 0 {
                return Ok(true);
            }
            let first = link.sent - count as u64;
            link.write_buffer.fill(task.pattern, first, count);
            done.messages += count as u64;
        }
        let took = match &link.datagrams {
            Some(socket) => send_datagram(socket, link.write_buffer.unwritten())?,
            None => link.write_buffer.write(&link.stream)?,
        };
        if !took {
            return Ok(false);
        }
        if link.datagrams.is_some() {
            link.write_buffer.clear();
        }
        done.writes += 1;
    }
    Ok(true)
}

/// Sends a datagram. `false`: the system takes none at the moment.
fn send_datagram(socket: &UdpSocket, bytes: &[u8]) -> Result<bool, Error> {
    let Err(error) = socket.send(bytes) else {
        return Ok(true);
    };
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(false),
        // The receiver has closed its socket.
        ErrorKind::ConnectionRefused => Err(Error::Closed),
        _ if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => Ok(false),
        _ => Err(gone(error)),
    }
}

/// Changes the events that a connection waits for; without effect when polling.
fn wait_for(
    group: &mut Group,
    number: usize,
    interest: EventFlags,
    task: &PassContext<'_>,
) -> Result<(), Error> {
    let link = &mut group.links[number];
    if interest == link.interest || task.plan.load.waiting == CompletionMode::Poll {
        return Ok(());
    }
    match &link.datagrams {
        Some(socket) => group.events.change(number, socket, interest)?,
        None => group.events.change(number, &link.stream, interest)?,
    }
    link.interest = interest;
    Ok(())
}
