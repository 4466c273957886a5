//! A server's knowledge of its cluster: what the directory says, and what is missing there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::directory::entry::{host_and_port, node_id};
use crate::directory::{Assignment, SlotTable, View};
use crate::protocol::cluster::{ClusterNode, ClusterView, SlotAccess, SlotState};

/// The cluster as a server knows it.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    /// Slots whose commands are held.
    pub held: Vec<u16>,
    /// Number of changes that this server made itself.
    pub own_changes: u64,
    table: SlotTable,
    /// Slots that the directory lacks: the owners known before still count.
    missing: BTreeSet<u16>,
    revision: i64,
    nodes: BTreeMap<String, ClusterNode>,
}

/// A server that is not registered.
pub(super) fn node(name: &str) -> ClusterNode {
    ClusterNode {
        id: node_id(name),
        name: name.to_owned(),
        host: String::new(),
        ports: [0; 2],
        is_registered: false,
    }
}

impl Knowledge {
    /// Takes over a view. Owners of slots that it lacks, and addresses of servers that own some, stay as they were.
    pub(super) fn take(&mut self, view: &View, revision: i64) {
        self.revision = revision;
        self.take_table(view.slots.clone());
        self.nodes.values_mut().for_each(|node| node.is_registered = false);
        for endpoint in view.endpoints.iter().filter(|one| one.is_in_cluster) {
            let kind = ["redis", "rediss"].iter().position(|name| *name == endpoint.protocol);
            let (Some(kind), Some((host, port))) = (kind, host_and_port(&endpoint.address)) else {
                continue;
            };
            let name = &endpoint.server;
            let node = self.nodes.entry(name.clone()).or_insert_with(|| node(name));
            if !node.is_registered {
                (node.is_registered, node.ports) = (true, [0; 2]);
            }
            host.clone_into(&mut node.host);
            node.ports[kind] = port;
        }
        let owners: BTreeSet<&str> = self.table.iter().map(|(_, one)| &*one.owner).collect();
        self.nodes.retain(|name, node| node.is_registered || owners.contains(&**name));
    }

    /// Takes over a table that the server has written itself.
    pub(super) fn take_own(&mut self, table: SlotTable) {
        self.own_changes += 1;
        self.take_table(table);
        self.held.clear();
    }

    fn take_table(&mut self, mut table: SlotTable) {
        self.missing.clear();
        for (slot, before) in self.table.iter() {
            if table.get(slot).is_none() {
                table.set(slot, Assignment::of(Arc::clone(&before.owner)));
                self.missing.insert(slot);
            }
        }
        self.table = table;
    }

    /// Returns the slots of server `own` that the directory lacks.
    pub(super) fn missing(&self, own: &str) -> Vec<u16> {
        let is_own = |slot: &&u16| self.table.get(**slot).is_some_and(|one| *one.owner == *own);
        self.missing.iter().filter(is_own).copied().collect()
    }

    /// The directory has these slots again.
    pub(super) fn restored(&mut self, table: &SlotTable) {
        self.missing.retain(|slot| table.get(*slot).is_none());
    }

    /// Returns the first slots, at most `most`, for which `peer` returns the same server, and that server.
    pub(super) fn group(
        &self,
        most: usize,
        peer: impl Fn(&Assignment) -> Option<Arc<str>>,
    ) -> Option<(Vec<u16>, Arc<str>)> {
        let mut due = self.table.iter().filter_map(|(slot, one)| Some((slot, peer(one)?)));
        let (first, peer) = due.next()?;
        let rest = due.filter(|(_, other)| *other == peer).map(|(slot, _)| slot);
        Some((std::iter::once(first).chain(rest).take(most).collect(), peer))
    }

    /// Returns `true` if all these slots belong to `own`, which moves them to `peer`.
    pub(super) fn are_moving(&self, slots: &[u16], own: &str, peer: &str) -> bool {
        slots.iter().all(|slot| {
            let assignment = self.table.get(*slot);
            assignment.is_some_and(|one| *one.owner == *own && one.to.as_deref() == Some(peer))
        })
    }

    /// Returns the address of a server, without TLS; `None` if it is not registered with one.
    pub(super) fn address(&self, server: &str) -> Option<String> {
        let node = self.nodes.get(server).filter(|node| node.is_registered)?;
        let [port, _] = node.ports;
        (port > 0).then(|| match node.host.contains(':') {
            true => format!("[{}]:{port}", node.host),
            false => format!("{}:{port}", node.host),
        })
    }

    /// The view of server `own`, which serves nothing unless it `is_admitted`.
    pub(super) fn view(&self, own: &str, is_admitted: bool) -> ClusterView {
        let mut nodes = self.nodes.clone();
        let names = self.table.iter().flat_map(|(_, one)| [Some(&one.owner), one.to.as_ref()]);
        for name in names.flatten().map(|name| &**name).chain([own]) {
            if !nodes.contains_key(name) {
                nodes.insert(name.to_owned(), node(name));
            }
        }
        // A node has a slot or an endpoint, of which there are few.
        let numbers: BTreeMap<&str, u16> =
            nodes.keys().enumerate().map(|(number, name)| (&**name, number as u16)).collect();
        let own_number = numbers[own];
        let state = |slot: u16| {
            let Some(one) = self.table.get(slot) else {
                return SlotState::default();
            };
            let owner = numbers[&*one.owner];
            let target = one.to.as_ref().map(|to| numbers[&**to]);
            let access = match () {
                () if owner == own_number && !is_admitted => SlotAccess::Unserved,
                () if owner == own_number && self.held.contains(&slot) => SlotAccess::Held,
                () if owner == own_number => SlotAccess::Here,
                () if target == Some(own_number) => SlotAccess::Importing,
                () if one.from.as_deref() == Some(own) => SlotAccess::Left,
                () => SlotAccess::Elsewhere,
            };
            SlotState { owner: Some(owner), target, access }
        };
        let version = u64::try_from(self.revision).unwrap_or_default();
        ClusterView::new(version, nodes.values().cloned().collect(), own_number.into(), state)
    }
}
