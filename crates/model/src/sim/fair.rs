//! A link, or a memory, that several users share by weight.

use std::collections::VecDeque;

/// Messages of several users that one link carries, one at a time.
///
/// Start-time fair queueing (Goyal, Vin and Cheng, 1996): over any time in which they always have
/// something to send, two users get bytes in proportion to their weights, and what one does not
/// use the others have.
#[derive(Clone, Debug)]
pub struct FairLink<J> {
    bytes_per_s: f64,
    users: Vec<User<J>>,
    /// The start tag of the message under way.
    virtual_time: f64,
    busy_until_ns: Option<u64>,
}

#[derive(Clone, Debug)]
struct User<J> {
    weight: f64,
    room: usize,
    waiting: VecDeque<Waiting<J>>,
    last_finish: f64,
    carried_bytes: u64,
    dropped: u64,
}

#[derive(Clone, Debug)]
struct Waiting<J> {
    start: f64,
    bytes: u64,
    job: J,
}

/// A message that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<J> {
    /// Whose it is.
    pub user: usize,
    /// What was put in.
    pub job: J,
    /// When it is through; then [`FairLink::next`] has to be asked again.
    pub done_ns: u64,
}

impl<J> FairLink<J> {
    /// An idle link for as many users as there are weights, with room for `room` messages of each
    /// that wait. A weight has to be positive.
    pub fn new(bytes_per_s: f64, weights: &[f64], room: usize) -> Self {
        let users = weights.iter().map(|weight| User {
            weight: *weight,
            room,
            waiting: VecDeque::new(),
            last_finish: 0.0,
            carried_bytes: 0,
            dropped: 0,
        });
        Self {
            bytes_per_s,
            users: users.collect(),
            virtual_time: 0.0,
            busy_until_ns: None,
        }
    }

    /// A message of `user` that waits from now on; false if there is no room. Ask
    /// [`FairLink::next`] afterwards.
    pub fn offer(&mut self, user: usize, bytes: u64, job: J) -> bool {
        let user = &mut self.users[user];
        if user.waiting.len() >= user.room {
            user.dropped += 1;
            return false;
        }
        let start = user.last_finish.max(self.virtual_time);
        user.last_finish = start + bytes as f64 / user.weight;
        user.waiting.push_back(Waiting { start, bytes, job });
        true
    }

    /// Starts the next message if the link is free now.
    pub fn next(&mut self, now_ns: u64) -> Option<Departure<J>> {
        if self.busy_until_ns.is_some_and(|until| until > now_ns) {
            return None;
        }
        self.busy_until_ns = None;
        let first = |user: &User<J>| user.waiting.front().map(|waiting| waiting.start);
        let (at, _) = (self.users.iter().enumerate())
            .filter_map(|(at, user)| Some((at, first(user)?)))
            .min_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let Waiting { start, bytes, job } = self.users[at].waiting.pop_front()?;
        self.users[at].carried_bytes += bytes;
        self.virtual_time = start;
        let ns = (bytes as f64 / self.bytes_per_s * 1e9).round() as u64;
        let done_ns = now_ns.saturating_add(ns.max(1));
        self.busy_until_ns = Some(done_ns);
        Some(Departure {
            user: at,
            job,
            done_ns,
        })
    }

    /// Bytes of `user` that were started.
    pub fn carried_bytes(&self, user: usize) -> u64 {
        self.users[user].carried_bytes
    }

    /// Messages of `user` for which there was no room.
    pub fn dropped(&self, user: usize) -> u64 {
        self.users[user].dropped
    }

    /// Messages of `user` that wait.
    pub fn waiting(&self, user: usize) -> usize {
        self.users[user].waiting.len()
    }
}
