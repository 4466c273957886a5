//! Servers of a cluster and their hash slots, as one server knows them at one time.
//!
//! A view never changes: whoever owns it replaces it. A worker executes each turn by one view, so that a
//! server that has replaced the view of all its workers knows that none executes by an older one.

use std::ops::RangeInclusive;

use overside_kv_store::partition::SLOTS;

/// Server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Id for clients: 40 hexadecimal digits, always the same for the same name.
    pub id: String,
    /// Name in the directory.
    pub name: String,
    /// Host name or address for clients, without brackets.
    pub host: String,
    /// Ports for clients: without and with TLS; 0 if there is none.
    pub ports: [u16; 2],
    /// `true` if the server is registered now.
    pub is_registered: bool,
}

/// Way in which a server treats commands for the keys of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotAccess {
    /// No server is known for it: `CLUSTERDOWN`.
    #[default]
    Unserved,
    /// Executes them.
    Here,
    /// Holds them until the slot has moved.
    Held,
    /// Sends clients to the owner: `MOVED`.
    Elsewhere,
    /// The slot moves here: executes what clients send after `ASKING`, otherwise `MOVED`.
    Importing,
    /// The slot has moved away, and its new owner may not know it yet: `ASK`.
    Left,
}

/// State of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotState {
    /// Index of the owner among the nodes.
    pub owner: Option<u16>,
    /// Index of the node that it moves to.
    pub target: Option<u16>,
    /// Treatment of commands.
    pub access: SlotAccess,
}

/// A cluster as one of its servers sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    version: u64,
    nodes: Vec<ClusterNode>,
    own: usize,
    slots: Box<[SlotState]>,
    counts: [u32; 2],
}

impl ClusterView {
    /// A view of version `version`, in which `nodes[own]` is the server itself. `state` has the state of each slot.
    ///
    /// # Panics
    /// If there is no such node.
    #[must_use]
    pub fn new(
        version: u64,
        nodes: Vec<ClusterNode>,
        own: usize,
        state: impl FnMut(u16) -> SlotState,
    ) -> Self {
        assert!(own < nodes.len(), "the server is one of the nodes");
        let slots: Box<[SlotState]> = (0..SLOTS).map(state).collect();
        let count = |access| slots.iter().filter(|slot| slot.access == access).count() as u32;
        let counts = [count(SlotAccess::Held), count(SlotAccess::Importing)];
        Self { version, nodes, own, slots, counts }
    }

    /// Returns the revision of the directory that the view was made from.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns all known servers, by their names.
    #[must_use]
    pub fn nodes(&self) -> &[ClusterNode] {
        &self.nodes
    }

    /// Returns the index of the server itself.
    #[must_use]
    pub fn own(&self) -> usize {
        self.own
    }

    /// Returns the state of a slot, which is less than [`SLOTS`].
    #[inline]
    #[must_use]
    pub fn slot(&self, slot: u16) -> SlotState {
        self.slots[usize::from(slot)]
    }

    /// Returns a node by the index in a slot's state.
    #[must_use]
    pub fn node(&self, index: u16) -> &ClusterNode {
        &self.nodes[usize::from(index)]
    }

    /// Returns the number of slots with commands held, and of slots that move here.
    #[must_use]
    pub fn moving(&self) -> [u32; 2] {
        self.counts
    }

    /// Returns the ranges of adjacent slots that a node owns.
    #[must_use]
    pub fn ranges(&self, node: usize) -> Vec<RangeInclusive<u16>> {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in (0..SLOTS).filter(|slot| self.slot(*slot).owner == Some(node as u16)) {
            match ranges.last_mut() {
                Some(range) if range.end() + 1 == slot => *range = *range.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        ranges
    }
}
