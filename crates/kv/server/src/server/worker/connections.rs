//! The connections of a turn: receives, has the commands of many executed together, sends, and puts each back
//! or closes it.

use super::{CLIENT, Worker, timers};
use crate::protocol::{OUTPUT_PAUSE_BYTES, Ready};
use crate::server::client::Clients;
use crate::server::connection::{Connection, Protocol};
use crate::server::context::Context;
use crate::server::counters::CloseReason;
use crate::server::epoll::EventFlags;
use crate::stages::Stage;

/// Connections that are served together, so that their buffers stay in the cache.
const GROUP: usize = 256;
/// Part of the memory limit above which connections are served one at a time.
const TIGHT: (usize, usize) = (1, 2);

/// A connection that is being served.
pub(super) struct Active {
    pub(super) key: usize,
    pub(super) connection: Box<Connection>,
    pub(super) is_readable: bool,
    pub(super) is_ready: bool,
}

impl Worker<'_> {
    /// Serves the connections of this turn.
    pub(super) fn serve(&mut self) {
        if self.active.is_empty() {
            return;
        }
        let mut active = std::mem::take(&mut self.active);
        let limit = self.state.settings.limits.memory_bytes;
        let is_tight = self.state.shared.memory_bytes() > limit / TIGHT.1 * TIGHT.0;
        for group in active.chunks_mut(if is_tight { 1 } else { GROUP }) {
            self.serve_group(group);
        }
        for one in active.drain(..) {
            self.settle(one.key, one.connection);
        }
        self.active = active;
        self.close_killed();
        self.close_largest();
    }

    fn serve_group(&mut self, group: &mut [Active]) {
        let counters = &mut self.state.counters;
        for one in &mut *group {
            let connection = &mut one.connection;
            let sent = connection.send(self.now_ms);
            counters.traffic.bytes_sent += sent as u64;
            counters.traffic.sends += u64::from(sent > 0);
            if one.is_readable {
                let received = connection.receive(&mut self.buffers);
                counters.traffic.bytes_received += received as u64;
                if received > 0 {
                    self.clients.table[one.key].entry.set_active_ms(self.now_ms);
                }
            }
            one.is_ready = connection.is_ready(&mut self.buffers);
        }
        let wrong = counters.traffic.wrong_passwords;
        self.state.stages.end(Stage::Receive);
        if group.iter().any(|one| one.is_ready) {
            match self.state.settings.sends_early {
                true => {
                    // Replies to one protocol do not wait until the other is parsed.
                    self.process_in_batches(group, Protocol::Resp);
                    self.process_in_batches(group, Protocol::Memcached);
                }
                false => self.process(group, &[Protocol::Resp, Protocol::Memcached]),
            }
        }
        if self.state.counters.traffic.wrong_passwords != wrong {
            timers::delay_unauthenticated(group, self.now_ms);
        }
        self.send(group);
    }

    /// Executes batch after batch of the connections that speak `protocol`. After each batch, replies leave to those
    /// connections all of whose commands are executed: so each is sent to once, as if all were executed together.
    fn process_in_batches(&mut self, group: &mut [Active], protocol: Protocol) {
        let speaks = |one: &Active| one.connection.protocol == protocol;
        let were_ready: Vec<_> = group.iter().map(|one| one.is_ready).collect();
        while group.iter().any(|one| one.is_ready && speaks(one)) {
            self.process(group, &[protocol]);
            for one in group.iter_mut().filter(|one| one.is_ready && speaks(one)) {
                if !one.connection.is_due() {
                    self.send_to(&mut one.connection);
                }
            }
            self.state.stages.end(Stage::Respond);
            let waiting: usize = group.iter().map(|one| one.connection.unsent()).sum();
            for one in group.iter_mut().filter(|one| speaks(one)) {
                let is_due =
                    one.is_ready && waiting <= OUTPUT_PAUSE_BYTES && one.connection.is_due();
                one.is_ready = is_due && one.connection.is_ready(&mut self.buffers);
            }
        }
        for (one, was_ready) in group.iter_mut().zip(were_ready) {
            one.is_ready = was_ready;
        }
    }

    /// Sends pending replies.
    fn send(&mut self, group: &mut [Active]) {
        for one in group {
            self.send_to(&mut one.connection);
        }
        self.state.stages.end(Stage::Respond);
    }

    fn send_to(&mut self, connection: &mut Connection) {
        let sent = connection.send(self.now_ms);
        let traffic = &mut self.state.counters.traffic;
        traffic.bytes_sent += sent as u64;
        traffic.sends += u64::from(sent > 0);
    }

    /// Executes the commands of ready connections that speak one of these protocols, and keeps the changes.
    fn process(&mut self, group: &mut [Active], protocols: &[Protocol]) {
        let speaks = |one: &Active| one.is_ready && protocols.contains(&one.connection.protocol);
        if !group.iter().any(speaks) {
            return;
        }
        for protocol in protocols {
            self.execute(group, *protocol);
        }
        self.count();
        let kept = self.backing.before_replies();
        self.state.stages.end(Stage::Persist);
        if kept.is_err() {
            for one in group.iter_mut().filter(|one| speaks(one)) {
                one.connection.close = Some(CloseReason::Persistence);
            }
        }
    }

    fn execute(&mut self, group: &mut [Active], protocol: Protocol) {
        let speaks = |one: &&mut Active| one.is_ready && one.connection.protocol == protocol;
        let mut ready: Vec<_> = (group.iter_mut().filter(speaks))
            .map(|one| {
                let Connection { session, input, output, .. } = &mut *one.connection;
                Ready::new(session, input, output)
            })
            .collect();
        if ready.is_empty() {
            return;
        }
        let mut context = Context {
            now_ms: self.now_ms,
            state: &mut self.state,
            clients: &mut self.clients,
            backing: self.backing,
        };
        let (hasher, context) = (&self.hasher, &mut context);
        match protocol {
            Protocol::Resp => self.engine.process(&mut ready, hasher, context),
            Protocol::Memcached => self.memcached.process(&mut ready, hasher, context),
        }
        self.consumed.clear();
        (self.consumed).extend(ready.iter().map(|one| (one.consumed, one.has_more)));
        for (one, (consumed, has_more)) in group.iter_mut().filter(speaks).zip(&self.consumed) {
            one.connection.consume(*consumed, *has_more);
        }
    }

    /// Puts a connection back, or closes it.
    fn settle(&mut self, key: usize, mut connection: Box<Connection>) {
        let is_draining = self.deadline_ms.is_some();
        if let Some(request) = connection.session.take_sync_request() {
            return self.hand_over(key, *connection, request);
        }
        if let Some(reason) = connection.settle(&mut self.buffers, is_draining) {
            return self.close(key, *connection, reason);
        }
        self.clients.update(key, &connection);
        let is_due = connection.is_due() || is_draining && connection.may_have_input();
        if is_due {
            self.due.push(key);
        }
        if connection.session.replica_wait().is_some() || connection.session.is_held() {
            self.waiting.insert(key);
        }
        self.watch(key, &mut connection);
        self.clients.table[key].connection = Some(connection);
    }

    /// Watches the connection's socket for the events that it waits for.
    pub(super) fn watch(&mut self, key: usize, connection: &mut Connection) {
        let wanted = connection.wanted_interest(self.now_ms);
        if wanted != connection.interest {
            connection.interest = wanted;
            let token = CLIENT | key as u64;
            let changed = (self.epoll).change(&connection.transport, token, wanted);
            if changed.is_err() {
                connection.close = Some(CloseReason::Failed);
                self.due.push(key);
            }
        }
    }

    pub(super) fn close(&mut self, key: usize, connection: Connection, reason: CloseReason) {
        let client = &self.clients.table[key].entry;
        tracing::debug!(id = client.id, address = %client.address, ?reason, "connection closed");
        self.state.counters.closed[reason as usize] += 1;
        self.clients.remove(key);
        connection.transport.close();
    }

    /// Closes a connection that is not being served.
    pub(super) fn evict(&mut self, key: usize, reason: CloseReason) {
        let client = self.clients.table.get_mut(key);
        if let Some(connection) = client.and_then(|client| client.connection.take()) {
            self.close(key, *connection, reason);
        }
    }
}

/// Takes a connection out of the table to serve it.
pub(super) fn activate(
    active: &mut Vec<Active>,
    clients: &mut Clients,
    key: usize,
    flags: EventFlags,
) {
    const READABLE: EventFlags =
        EventFlags::IN.union(EventFlags::HUP).union(EventFlags::ERR).union(EventFlags::RDHUP);
    let client = clients.table.get_mut(key);
    // It may be there twice, or gone.
    if let Some(connection) = client.and_then(|client| client.connection.take()) {
        active.push(Active {
            key,
            connection,
            is_readable: flags.intersects(READABLE),
            is_ready: false,
        });
    }
}
