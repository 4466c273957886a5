//! `INFO` of a server with copies, by the names that Redis gives its fields.

use overside_base::lock;

use super::layer::ReplicationLayer;
use super::{LinkState, ReplicaStatus, Replication, Role};
use crate::persistence::Replicable;

/// Section, name and value.
type Fields = Vec<(&'static str, String, String)>;

const SECTION: &str = "Replication";

fn flag(is: bool) -> String {
    u8::from(is).to_string()
}

impl<B: Replicable> ReplicationLayer<B> {
    pub(super) fn info_fields(&self) -> Fields {
        let counts = &self.counts;
        let counts = [
            ("sync_full", counts.full),
            ("sync_partial_ok", counts.partial),
            ("sync_partial_err", counts.partial_refused),
        ];
        let count = |(name, count): (&str, u64)| ("Stats", name.to_owned(), count.to_string());
        let mut fields: Fields = counts.map(count).into();
        let mut field = |name: &str, value: String| fields.push((SECTION, name.to_owned(), value));
        match self.role() {
            Role::Replica {
                host,
                port,
                state,
                offset,
            } => {
                field("role", "slave".into());
                field("master_host", host);
                field("master_port", port.to_string());
                self.link_fields(state, &mut field);
                field("slave_read_repl_offset", offset.to_string());
                field("slave_repl_offset", offset.to_string());
                field("slave_read_only", flag(true));
                field("connected_slaves", "0".into());
                let id = self.following.as_ref().map(|f| f.position.id.clone());
                field("master_replid", id.unwrap_or_default());
                field("master_repl_offset", offset.to_string());
            }
            Role::Primary { offset, replicas } => {
                field("role", "master".into());
                field("connected_slaves", replicas.len().to_string());
                for (number, replica) in replicas.iter().enumerate() {
                    field(&format!("slave{number}"), status(replica));
                }
                field("master_replid", self.id.clone());
                field("master_repl_offset", offset.to_string());
            }
        }
        self.backlog_fields(&mut field);
        fields
    }

    fn link_fields(&self, state: LinkState, field: &mut impl FnMut(&str, String)) {
        let Some(following) = &self.following else {
            return;
        };
        let (_, heard, error) = following.receiver.link();
        let is_up = state == LinkState::Connected;
        let silence = heard.map_or(-1, |heard| heard.elapsed().as_secs() as i64);
        field(
            "master_link_status",
            if is_up { "up" } else { "down" }.into(),
        );
        field("master_last_io_seconds_ago", silence.to_string());
        field("master_sync_in_progress", flag(state == LinkState::Sync));
        field("master_link_last_error", error.replace(['\r', '\n'], " "));
    }

    fn backlog_fields(&self, field: &mut impl FnMut(&str, String)) {
        let source = self.source.as_ref();
        let state = source.map(|source| lock(&source.links.shared.state));
        let (start, len) = state.as_ref().map_or((0, 0), |state| {
            let backlog = &state.backlog;
            (backlog.start(), backlog.end() - backlog.start())
        });
        field("repl_backlog_active", flag(state.is_some()));
        field("repl_backlog_size", self.backlog_bytes.to_string());
        field("repl_backlog_first_byte_offset", start.to_string());
        field("repl_backlog_histlen", len.to_string());
    }
}

fn status(replica: &ReplicaStatus) -> String {
    let state = match replica.is_online {
        true => "online",
        false => "send_bulk",
    };
    let ReplicaStatus {
        host,
        port,
        offset,
        lag_s,
        ..
    } = replica;
    format!("ip={host},port={port},state={state},offset={offset},lag={lag_s}")
}
