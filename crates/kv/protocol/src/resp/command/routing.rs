//! Commands of a cluster: executed here, held, or sent on to the server that owns the slot of their keys.
//!
//! 1. All keys of a command, and of a transaction at `EXEC`, must be in one slot.
//! 2. The slot's [`SlotAccess`] decides. Redis's errors send clients on: `MOVED` for good, `ASK` for one command.
//! 3. While a slot is handed over, commands for it wait in the input of their connection, a few milliseconds.
//!    Commands that change all keys (`FLUSHALL`) wait for every slot.

use super::super::reply::{CROSS_SLOT, ErrorReply};
use super::super::transaction_state::CommandQueue;
use super::{Call, Command, CommandTable, flags};
use crate::cluster::{ClusterNode, ClusterView, SlotAccess};
use overside_kv_store::partition::slot_of;

const UNSERVED: ErrorReply = ErrorReply::new("CLUSTERDOWN Hash slot not served");
const MOVING: ErrorReply = ErrorReply::new("TRYAGAIN A slot is moving: try again");

/// Way in which a command is treated that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Here,
    Held,
}

/// Returns the keys of all queued commands.
pub(in super::super) fn queued_keys<'a>(
    queue: &'a CommandQueue,
    table: &'static CommandTable,
) -> Vec<&'a [u8]> {
    let mut keys = Vec::new();
    for arguments in queue.iter() {
        if let Ok(command) = table.resolve(&arguments) {
            keys.extend(command.keys_of(&arguments));
        }
    }
    keys
}

impl Call<'_> {
    /// Returns `true` if the command must wait until a slot has moved. Its connection then executes nothing.
    pub(in super::super) fn must_wait(&mut self, arguments: &[&[u8]]) -> bool {
        let holds = self.server.cluster().is_some_and(|view| view.moving()[0] > 0);
        if !holds || !self.session.is_authenticated {
            return false;
        }
        let Ok(command) = self.table.resolve(arguments) else {
            return false;
        };
        let is_queued = self.session.transaction.is_some() && !command.has(flags::NOT_QUEUED);
        let is_held = self.route(command, arguments) == Ok(Route::Held);
        is_held && !is_queued && self.session.hold(self.now_ms)
    }

    /// Refuses a command whose keys another server has, and with it the transaction that it belongs to.
    pub(super) fn check_slots(
        &mut self,
        command: &Command,
        arguments: &[&[u8]],
    ) -> Result<(), ErrorReply> {
        self.session.end_hold();
        let is_queued = self.session.transaction.is_some() && !command.has(flags::NOT_QUEUED);
        let error = match self.route(command, arguments) {
            Ok(Route::Held) if !is_queued => MOVING,
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        match &mut self.session.transaction {
            Some(queue) if is_queued => queue.abort(),
            Some(_) if command.name == "exec" => self.session.forget_transaction(),
            _ => {}
        }
        Err(error)
    }

    fn route(&self, command: &Command, arguments: &[&[u8]]) -> Result<Route, ErrorReply> {
        let Some(view) = self.server.cluster().filter(|_| !self.session.is_mover) else {
            return Ok(Route::Here);
        };
        let queue = self.session.transaction.as_deref();
        let keys = match queue.filter(|_| command.name == "exec") {
            Some(queue) => queued_keys(queue, self.table),
            None => command.keys_of(arguments),
        };
        let mut slots = keys.iter().map(|key| slot_of(key));
        let Some(slot) = slots.next() else {
            let [held, importing] = view.moving();
            return match command.has(flags::WRITE) {
                true if importing > 0 => Err(MOVING),
                true if held > 0 => Ok(Route::Held),
                _ => Ok(Route::Here),
            };
        };
        if slots.any(|other| other != slot) {
            return Err(CROSS_SLOT);
        }
        match view.slot(slot).access {
            SlotAccess::Here => Ok(Route::Here),
            SlotAccess::Held => Ok(Route::Held),
            SlotAccess::Importing if self.session.is_asking => Ok(Route::Here),
            SlotAccess::Elsewhere | SlotAccess::Importing => {
                Err(self.redirect("MOVED", view, slot))
            }
            SlotAccess::Left => Err(self.redirect("ASK", view, slot)),
            SlotAccess::Unserved => Err(UNSERVED),
        }
    }

    fn redirect(&self, kind: &str, view: &ClusterView, slot: u16) -> ErrorReply {
        let owner = view.slot(slot).owner.map(|owner| view.node(owner));
        match owner.map(|owner| (owner, self.port_of(owner))) {
            Some((ClusterNode { host, .. }, port @ 1..)) => {
                ErrorReply::from_bytes(format!("{kind} {slot} {host}:{port}").into_bytes())
            }
            _ => UNSERVED,
        }
    }

    /// Returns the port at which this client can reach a node: by TLS if it came so; 0 if there is none.
    pub(in super::super) fn port_of(&self, node: &ClusterNode) -> u16 {
        node.ports[usize::from(self.session.is_tls)]
    }
}
