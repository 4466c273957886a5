//! Membership of a server: its claim of slots, its knowledge of the directory, and the moves that it has to make.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use overside_base::lock;

use super::knowledge::Knowledge;
use super::mover::Mover;
use super::{ClusterState, ErrorSource};
use crate::directory::{
    Assignment, DirectoryError, Etcd, Follower, Location, RegistrationStatus, SlotTable, View,
};

/// Time between two looks at what is to be done.
const PAUSE: Duration = Duration::from_millis(20);
/// The same after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// Slots that move together: one search for keys serves them all.
const GROUP: usize = 16;

/// Settings of a server in a cluster.
#[derive(Debug)]
pub struct ClusterSetup {
    /// The directory of the cluster.
    pub location: Location,
    /// Name of the server.
    pub name: String,
    /// Slots that the server owns from its first start on; empty: those that it is given later.
    pub slots: Vec<u16>,
    /// Address at which the server reaches itself, without TLS; `None`: it cannot move slots.
    pub own_address: Option<String>,
    /// Password of the servers of the cluster; `None` if they need none.
    pub password: Option<Vec<u8>>,
    /// State of the server's registration.
    pub registration: Arc<RegistrationStatus>,
}

/// Reason why a server cannot join a cluster.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Slots that the server claims belong to another one.
    #[error("slot {slot} belongs to {owner}; without --slots a server owns what it is given")]
    Claimed {
        /// The first of these slots.
        slot: u16,
        /// Name of its owner.
        owner: String,
    },
    /// The directory cannot be read or written.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// There are no threads.
    #[error("starting a thread: {0}")]
    Thread(#[from] io::Error),
}

/// A server's membership in a cluster; it ends when this is dropped.
#[derive(Debug)]
pub struct ClusterMember {
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _follower: Follower,
}

impl ClusterMember {
    /// Claims slots, follows the directory, and publishes in `state` what it says. If the directory cannot be
    /// reached now, that happens later.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn start(setup: ClusterSetup, state: Arc<ClusterState>) -> Result<Self, JoinError> {
        let etcd = Etcd::new(setup.location.clone());
        let location = setup.location.clone();
        let member = Arc::new(Member {
            setup,
            state,
            is_stopped: Arc::default(),
            knowledge: Mutex::default(),
        });
        let is_claimed = match member.claim(&etcd) {
            Ok(()) => true,
            Err(JoinError::Directory(DirectoryError::Unreachable { .. })) => false,
            Err(error) => return Err(error),
        };
        if is_claimed {
            member.read(&etcd)?;
        }
        let followed = Arc::clone(&member);
        let follower = Follower::start(location, move |etcd| followed.read(etcd))?;
        let is_stopped = Arc::clone(&member.is_stopped);
        let thread = thread::Builder::new()
            .name("kv-cluster".into())
            .spawn(move || member.run(&etcd, is_claimed))?;
        Ok(Self { is_stopped, thread: Some(thread), _follower: follower })
    }
}

impl Drop for ClusterMember {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // There is nothing to do if it panicked.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The member, as its threads share it.
struct Member {
    setup: ClusterSetup,
    state: Arc<ClusterState>,
    is_stopped: Arc<AtomicBool>,
    knowledge: Mutex<Knowledge>,
}

impl Member {
    /// Claims the slots of the setup, unless the server owns some already.
    fn claim(&self, etcd: &Etcd) -> Result<(), JoinError> {
        let own = self.name();
        SlotTable::update(etcd, |table| {
            if table.iter().any(|(_, one)| one.owner == own) {
                return Ok(());
            }
            for slot in &self.setup.slots {
                if let Some(other) = table.get(*slot) {
                    return Err(JoinError::Claimed { slot: *slot, owner: other.owner.to_string() });
                }
                table.set(*slot, Assignment::of(Arc::clone(&own)));
            }
            Ok(())
        })
        .map(|_| ())
    }

    fn name(&self) -> Arc<str> {
        self.setup.name.as_str().into()
    }

    /// Reads the directory and publishes what it says. Returns its revision.
    fn read(&self, etcd: &Etcd) -> Result<i64, DirectoryError> {
        loop {
            let own_changes = lock(&self.knowledge).own_changes;
            let read = View::read(etcd);
            let error = read.as_ref().err().map(ToString::to_string);
            self.state.set_error(ErrorSource::Directory, error);
            let (view, revision) = read?;
            let mut knowledge = lock(&self.knowledge);
            // A view that was read before an own change is outdated.
            if knowledge.own_changes == own_changes {
                knowledge.take(&view, revision);
                self.publish(&knowledge);
                return Ok(revision);
            }
        }
    }

    fn publish(&self, knowledge: &Knowledge) {
        self.state.publish(knowledge.view(&self.setup.name, self.is_admitted()));
    }

    /// Returns `true` if the directory had this server at the last look: no other one has its name.
    fn is_admitted(&self) -> bool {
        self.setup.registration.registered() > 0
    }

    /// Takes over a table that this server has written.
    fn take_own(&self, table: SlotTable) {
        let mut knowledge = lock(&self.knowledge);
        knowledge.take_own(table);
        self.publish(&knowledge);
    }

    /// Holds commands for slots, or none any more.
    fn hold(&self, slots: &[u16]) {
        let mut knowledge = lock(&self.knowledge);
        knowledge.held = slots.to_vec();
        self.publish(&knowledge);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn run(self: Arc<Self>, etcd: &Etcd, mut is_claimed: bool) {
        let mut was_admitted = false;
        while !self.is_stopped() {
            if was_admitted != self.is_admitted() {
                was_admitted = !was_admitted;
                self.publish(&lock(&self.knowledge));
            }
            let done = match is_claimed {
                false => self.claim(etcd).map(|()| is_claimed = true).map_err(|e| e.to_string()),
                true => self.work(etcd),
            };
            let pause = if done.is_ok() { PAUSE } else { RETRY };
            self.state.set_error(ErrorSource::Work, done.err());
            thread::sleep(pause);
        }
    }

    /// Does what is due: writes again what the directory has lost, removes the keys of slots that have moved, and
    /// moves a group of slots.
    fn work(&self, etcd: &Etcd) -> Result<(), String> {
        let own = self.name();
        let (missing, left, moving) = {
            let knowledge = lock(&self.knowledge);
            let is_left = |one: &Assignment| one.from.as_ref() == Some(&own);
            let left = knowledge.group(GROUP, |one| is_left(one).then(|| Arc::clone(&one.owner)));
            let moving = knowledge.group(GROUP, |one| one.to.clone().filter(|_| one.owner == own));
            (knowledge.missing(&own), left, moving)
        };
        if !missing.is_empty() {
            self.restore(etcd, &missing).map_err(|error| error.to_string())?;
        }
        let removed = left.map_or(Ok(()), |(slots, peer)| {
            let removed = self.remove_left(etcd, &slots, &peer);
            removed.map_err(|error| format!("removing slots that {peer} has now: {error}"))
        });
        let moved = moving.map_or(Ok(()), |(slots, peer)| {
            let moved = self.move_away(etcd, &slots, &peer);
            moved.map_err(|error| format!("moving slots to {peer}: {error}"))
        });
        removed.and(moved)
    }

    /// Writes slots into the directory that it has lost, unless others own them by now.
    fn restore(&self, etcd: &Etcd, missing: &[u16]) -> Result<(), DirectoryError> {
        let own = self.name();
        let table = SlotTable::update(etcd, |table| {
            for slot in missing {
                if table.get(*slot).is_none() {
                    table.set(*slot, Assignment::of(Arc::clone(&own)));
                }
            }
            Ok::<_, DirectoryError>(())
        })?;
        tracing::warn!(slots = missing.len(), "the directory had lost slots of this server");
        lock(&self.knowledge).restored(&table);
        Ok(())
    }

    fn mover<'m>(&self, slots: &'m [u16], peer: &str) -> Result<Mover<'m>, String> {
        let own = self.setup.own_address.as_deref();
        let own = own.ok_or("this server needs an address without TLS (--listen)")?;
        let address = lock(&self.knowledge).address(peer);
        let address = address.ok_or("it is not registered with an address without TLS")?;
        let password = self.setup.password.as_deref();
        Mover::connect([own, &address], password, slots).map_err(|error| error.to_string())
    }

    fn remove_left(&self, etcd: &Etcd, slots: &[u16], peer: &str) -> Result<(), String> {
        let mut mover = self.mover(slots, peer)?;
        if !self.state.is_settled() || !mover.remove_left().map_err(|error| error.to_string())? {
            return Ok(());
        }
        let own = self.name();
        let table = SlotTable::update(etcd, |table| {
            for slot in slots {
                let is_left = |one: &&Assignment| one.from.as_ref() == Some(&own);
                if let Some(one) = table.get(*slot).filter(is_left) {
                    table.set(*slot, Assignment { from: None, ..one.clone() });
                }
            }
            Ok::<_, DirectoryError>(())
        });
        self.take_own(table.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Moves slots to another server, or returns if it is not ready or they do not move any more.
    fn move_away(&self, etcd: &Etcd, slots: &[u16], peer: &str) -> Result<(), String> {
        let mut mover = self.mover(slots, peer)?;
        let is_wanted = || {
            !self.is_stopped() && lock(&self.knowledge).are_moving(slots, &self.setup.name, peer)
        };
        let mut is_held = || {
            self.hold(slots);
            self.state.wait_settled(&self.is_stopped)
        };
        let copied = mover.copy_all(is_wanted, &mut is_held).map_err(|error| error.to_string());
        let moved = copied.map(|is_copied| is_copied && self.commit(etcd, slots, peer));
        // Who ends does not know whether the directory has the new owner.
        if moved != Ok(true) && !self.is_stopped() {
            self.hold(&[]);
        }
        moved.map(|_| ())
    }

    /// Makes `peer` the owner of slots whose commands are held. Returns `false` if they do not move any more. While
    /// the directory does not answer, the change may have been made, so that this can only be tried again.
    fn commit(&self, etcd: &Etcd, slots: &[u16], peer: &str) -> bool {
        let own = self.name();
        let here = Assignment { owner: Arc::clone(&own), to: Some(peer.into()), from: None };
        let moved = Assignment { owner: peer.into(), to: None, from: Some(own) };
        while !self.is_stopped() {
            let mut is_moving = true;
            let table = SlotTable::update(etcd, |table| {
                let is = |expected| slots.iter().all(|slot| table.get(*slot) == Some(expected));
                is_moving = is(&here) || is(&moved);
                if is_moving {
                    slots.iter().for_each(|slot| table.set(*slot, moved.clone()));
                }
                Ok::<_, DirectoryError>(())
            });
            match table {
                Ok(table) if is_moving => {
                    self.take_own(table);
                    return true;
                }
                Ok(_) => return false,
                Err(error) => self.state.set_error(ErrorSource::Work, Some(error.to_string())),
            }
            thread::sleep(PAUSE);
        }
        false
    }
}
