//! Tests of a server of a cluster: what it answers, and what becomes of slots.

mod answers;
mod directory;
mod moving;

use std::sync::Arc;

use overside_kv::client::{Connection, Reply};
use overside_kv::cluster::{ClusterMember, ClusterSetup, ClusterState, JoinError};
use overside_kv::directory::{Assignment, DirectoryError, Etcd, Location, Registration, SlotTable};
use overside_kv::partition::SLOTS;
use overside_kv::server::Settings;

use crate::directory::{endpoint, register, wait_until};
use crate::server::running::{PATIENCE, Running, settings};

/// A server of a cluster, with two cores.
pub(crate) struct Node {
    // In this order: it is a member as long as it serves.
    _member: ClusterMember,
    _registration: Registration,
    pub server: Running,
}

impl Node {
    pub(crate) fn start(location: &Location, name: &str, slots: &[u16]) -> Result<Self, JoinError> {
        let state = Arc::new(ClusterState::new(name));
        let cluster = Some(Arc::clone(&state));
        let server = Running::start(Settings { cluster, workers: 2, ..settings() });
        let instance = overside_base::random_hex().unwrap();
        let mut entry = endpoint(name, &instance, "redis", server.address().port());
        entry.is_in_cluster = true;
        let (registration, status) = register(location, &[entry]);
        let setup = ClusterSetup {
            location: location.clone(),
            name: name.into(),
            slots: slots.to_vec(),
            own_address: Some(server.address().to_string()),
            password: None,
            registration: status,
        };
        let member = ClusterMember::start(setup, state)?;
        Ok(Self { _member: member, _registration: registration, server })
    }

    pub(crate) fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// The reply to an inline command.
    pub(crate) fn ask(&self, line: &str) -> Reply {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        connect(&self.address()).ask(&words).unwrap()
    }

    /// Waits until this server knows that all slots have owners that are there.
    pub(crate) fn wait_until_ok(&self) {
        wait_until(|| text(self.ask("CLUSTER INFO")).contains("cluster_state:ok"));
    }

    pub(crate) fn keys(&self) -> i64 {
        match self.ask("DBSIZE") {
            Reply::Integer(count) => count,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn text(reply: Reply) -> String {
    match reply {
        Reply::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        Reply::Error(text) | Reply::Simple(text) => text,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn connect(address: &str) -> Connection {
    Connection::open(address, None, None, PATIENCE).unwrap()
}

/// Slots of the part `number` of `count`.
pub(crate) fn part(number: u16, count: u16) -> Vec<u16> {
    (0..SLOTS)
        .filter(|slot| u32::from(*slot) * u32::from(count) / u32::from(SLOTS) == u32::from(number))
        .collect()
}

/// Marks slots to be moved to a server.
pub(crate) fn mark(etcd: &Etcd, slots: impl IntoIterator<Item = u16> + Clone, to: Option<&str>) {
    let update = || {
        SlotTable::update(etcd, |table| {
            for slot in slots.clone() {
                let one = table.get(slot).unwrap().clone();
                table.set(slot, Assignment { to: to.map(Into::into), ..one });
            }
            Ok::<_, DirectoryError>(())
        })
    };
    // A busy machine may make etcd late.
    wait_until(|| update().is_ok());
}

/// The table of slots and its revision.
pub(crate) fn read(etcd: &Etcd) -> (SlotTable, i64) {
    let mut found = None;
    wait_until(|| {
        found = SlotTable::read(etcd).ok();
        found.is_some()
    });
    found.unwrap()
}

/// Returns `true` if no slot moves any more.
pub(crate) fn is_quiet(etcd: &Etcd) -> bool {
    let (table, _) = read(etcd);
    table.iter().all(|(_, one)| one.to.is_none() && one.from.is_none())
}
