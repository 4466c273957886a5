//! The thread that keeps an endpoint alive while its owners are busy elsewhere.
//!
//! One-sided verbs are to work without the program of the other end, and a peer that has fallen
//! silent is to be noticed by somebody. So an endpoint over a network has one thread that listens
//! to the peer and that makes those queue pairs progress which nobody attends to.
//!
//! A queue pair whose owner comes by (posts, polls, receives) is left alone: the thread would only
//! be in its way. When there is something to do for a queue pair whose owner has been by since the
//! last look, or sleeps until it is woken, the thread waits for [`GRACE`]; if the owner has not
//! come by then, it steps in, and goes on until the owner comes again.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::{EventFd, lock};
use overside_device::threads::ThreadClock;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::control::Talk;
use crate::verbs::Cause;

/// How long an owner may take to look at what has come for it.
pub(crate) const GRACE: Duration = Duration::from_millis(1);
/// How often queue pairs are looked at for which nothing seems to have happened.
const ROUND: Duration = Duration::from_millis(100);

const CONTROL: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;

/// A queue pair, as the thread sees it.
pub(crate) trait Member: Send + Sync {
    /// Readable when there is something to do.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// How often its owner has come by.
    fn visits(&self) -> u64;

    /// Its owner sleeps and will be woken by the same descriptor.
    fn is_armed(&self) -> bool;

    /// Makes it progress as far as it goes, and prepares its descriptor for being waited on.
    fn serve(&self) -> Wait;

    /// The link is lost.
    fn lose(&self, cause: &Cause);
}

/// What a queue pair waits for after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Its descriptor's being readable.
    Readable,
    /// That, or its being writable.
    Writable,
    /// Nothing: there is more to do already.
    Soon,
    /// Nothing more will happen.
    Never,
}

/// The thread; ends when this is dropped.
pub(crate) struct Service {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    set: OwnedFd,
    wake: EventFd,
    stop: AtomicBool,
    clock: ThreadClock,
    talk: Arc<Talk>,
}

impl Service {
    pub(crate) fn start(talk: Arc<Talk>, members: Vec<Arc<dyn Member>>) -> std::io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = EventFd::new()?;
        epoll::add(&set, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let control = EventData::new_u64(CONTROL);
        epoll::add(&set, talk.descriptor(), control, EventFlags::IN)?;
        let shared = Arc::new(Shared {
            set,
            wake,
            stop: AtomicBool::new(false),
            clock: ThreadClock::default(),
            talk,
        });
        for (index, member) in members.iter().enumerate() {
            let data = EventData::new_u64(index as u64);
            epoll::add(&shared.set, member.descriptor(), data, EventFlags::ONESHOT)?;
        }
        let thread = std::thread::Builder::new().name("link-service".into());
        let watcher = Watcher {
            shared: Arc::clone(&shared),
            members,
        };
        let thread = thread.spawn(move || watcher.run())?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// CPU time of the thread in nanoseconds.
    pub(crate) fn spent_ns(&self) -> u64 {
        self.shared.clock.spent_ns()
    }

    /// Ends the thread, and with it the link.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake.signal();
        let mut thread = lock(&self.thread);
        if let Some(thread) = thread.take() {
            // It never waits for anything but events.
            let _ = thread.join();
        }
    }

    /// Has the thread look at all queue pairs soon. For owners that leave something behind that
    /// no descriptor tells of.
    pub(crate) fn wake(&self) {
        self.shared.wake.signal();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread knows of a queue pair.
struct Watched {
    /// The owner's visits when it last looked.
    seen: u64,
    /// When to look again; `None`: when its descriptor says so.
    look: Option<Instant>,
    over: bool,
}

/// What the thread has; its queue pairs go with it.
struct Watcher {
    shared: Arc<Shared>,
    members: Vec<Arc<dyn Member>>,
}

impl Watcher {
    fn run(&self) {
        self.shared.clock.begin();
        let ended = Ended(self);
        let cause = self.watch();
        ended.lose(&cause);
        // This end starts nothing any more; the peer may free what it has exported.
        self.shared.talk.shut();
        drop(ended);
        self.shared.clock.end();
    }

    /// Until the link is lost or its end is here.
    fn watch(&self) -> Cause {
        let first = |_| Watched {
            seen: 0,
            look: Some(Instant::now()),
            over: false,
        };
        let mut watched: Vec<Watched> = (0..self.members.len()).map(first).collect();
        let mut round = Instant::now() + ROUND;
        let mut events: Vec<Event> = Vec::with_capacity(16);
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            let talk = match self.shared.talk.serve(now) {
                Ok(next) => next,
                Err(cause) => return cause,
            };
            if now >= round {
                round = now + ROUND;
                self.look_around(&mut watched, now);
            }
            for (index, watched) in watched.iter_mut().enumerate() {
                if watched.look.is_some_and(|at| at <= now) {
                    self.look(index, watched, now);
                }
            }
            let next = watched.iter().filter_map(|watched| watched.look).min();
            let next = next.unwrap_or(round).min(round).min(talk);
            if let Err(error) = self.wait(&mut events, next) {
                return Cause::Local(format!("waiting: {error}"));
            }
            self.happened(&events, &mut watched);
        }
        Cause::Closed
    }

    fn wait(&self, events: &mut Vec<Event>, until: Instant) -> rustix::io::Result<()> {
        events.clear();
        let timeout = until.saturating_duration_since(Instant::now());
        let timeout = timeout.try_into().expect("a second or so");
        match epoll::wait(&self.shared.set, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn happened(&self, events: &[Event], watched: &mut [Watched]) {
        let now = Instant::now();
        for event in events {
            match event.data.u64() {
                CONTROL => {}
                WAKE => {
                    self.shared.wake.clear();
                    watched.iter_mut().for_each(|one| one.look = Some(now));
                }
                index => {
                    let (member, watched) =
                        (&self.members[index as usize], &mut watched[index as usize]);
                    // An owner that is about may want to see to it.
                    let attended = member.is_armed() || member.visits() != watched.seen;
                    watched.seen = member.visits();
                    watched.look = Some(if attended { now + GRACE } else { now });
                }
            }
        }
    }

    /// Looks at a queue pair whose time has come.
    fn look(&self, index: usize, watched: &mut Watched, now: Instant) {
        if watched.over {
            watched.look = None;
            return;
        }
        let visits = self.members[index].visits();
        if visits != watched.seen {
            watched.seen = visits;
            watched.look = Some(now + GRACE);
            return;
        }
        watched.look = None;
        self.serve(index, watched);
    }

    /// Queue pairs whose owners have been by and gone, without anything having happened since.
    fn look_around(&self, watched: &mut [Watched], now: Instant) {
        for (member, watched) in self.members.iter().zip(watched) {
            if watched.look.is_none() && member.visits() != watched.seen {
                watched.seen = member.visits();
                watched.look = Some(now + GRACE);
            }
        }
    }

    fn serve(&self, index: usize, watched: &mut Watched) {
        let member = &self.members[index];
        let flags = match member.serve() {
            Wait::Readable => EventFlags::IN,
            Wait::Writable => EventFlags::IN | EventFlags::OUT,
            Wait::Soon => {
                watched.look = Some(Instant::now());
                return;
            }
            Wait::Never => {
                watched.over = true;
                return;
            }
        };
        let data = EventData::new_u64(index as u64);
        let flags = flags | EventFlags::ONESHOT;
        if let Err(error) = epoll::modify(&self.shared.set, member.descriptor(), data, flags) {
            member.lose(&Cause::Local(format!("waiting: {error}")));
            watched.over = true;
        }
    }
}

/// Sees to it that nobody waits for a thread that is gone, even if it panicked.
struct Ended<'a>(&'a Watcher);

impl Ended<'_> {
    fn lose(&self, cause: &Cause) {
        self.0.shared.talk.end(cause);
        for member in &self.0.members {
            member.lose(cause);
        }
    }
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.lose(&Cause::Local("its service thread has ended".into()));
    }
}
