//! Reports on replication: replicas or primary of a server, for one partition or for all partitions.

use super::{LinkState, ReplicaStatus, Role};

/// Section, name and value of each field.
type Fields = Vec<(&'static str, String, String)>;

const SECTION: &str = "Replication";

/// Number of connections of replicas since the start, by the beginning of their streams. Each
/// partition of a replica counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncCounts {
    /// Number of streams that began with a copy.
    pub full: u64,
    /// Number of streams that continued where the replica had stopped.
    pub partial: u64,
    /// Number of streams that began with a copy although the replica had a part of a history: it
    /// was of another history, or its rest is no longer in the backlog.
    pub partial_refused: u64,
}

/// State of the backlog: the most recent changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct BacklogReport {
    /// `true` if changes are kept because there is or was a replica.
    pub is_active: bool,
    /// Maximum number of bytes that are kept.
    pub max_bytes: usize,
    /// Offset of the first byte that is kept.
    pub start: u64,
    /// Number of bytes that are kept.
    pub bytes: u64,
}

/// A replica's connection with its primary.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// Time since the primary's last message, in seconds; `None` if there was none.
    pub silence_s: Option<u64>,
    /// Reason for the last loss of the primary; empty if it was never lost.
    pub error: String,
}

/// Report on replication of a server, or of one partition.
#[derive(Clone, Debug)]
pub struct ReplicationReport {
    /// Role of the server, with its replicas or its primary.
    pub role: Role,
    /// Identifier of the history: the primary's if this is a replica.
    pub id: String,
    /// Number of streams of replicas since the start.
    pub counts: SyncCounts,
    /// State of the backlog.
    pub backlog: BacklogReport,
    /// Connection with the primary; `None` if this is not a replica.
    pub link: Option<LinkReport>,
}

impl ReplicationReport {
    /// Returns the role of the server, with its replicas or its primary.
    #[must_use]
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// Combines the reports of all partitions of a server; `None` if there are none.
    #[must_use]
    pub fn together(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let mut sum = all.next()?;
        let mut partitions = 1;
        for other in all {
            partitions += 1;
            sum.add(other);
        }
        if let Role::Primary { replicas, .. } = &mut sum.role {
            for replica in replicas {
                replica.is_online &= replica.partitions == partitions;
            }
        }
        Some(sum)
    }

    fn add(&mut self, other: Self) {
        match (&mut self.role, other.role) {
            (
                Role::Primary { offset, replicas },
                Role::Primary { offset: more, replicas: others },
            ) => {
                *offset += more;
                others.into_iter().for_each(|other| add(replicas, other));
            }
            (
                Role::Replica { state, offset, .. },
                Role::Replica { state: other, offset: more, .. },
            ) => {
                *state = (*state).min(other);
                *offset += more;
            }
            // The server is changing its role.
            _ => {}
        }
        self.counts.full += other.counts.full;
        self.counts.partial += other.counts.partial;
        self.counts.partial_refused += other.counts.partial_refused;
        self.backlog.is_active |= other.backlog.is_active;
        self.backlog.max_bytes += other.backlog.max_bytes;
        self.backlog.start += other.backlog.start;
        self.backlog.bytes += other.backlog.bytes;
        if let (Some(link), Some(other)) = (&mut self.link, other.link) {
            // The longer silence counts.
            link.silence_s = (link.silence_s.zip(other.silence_s)).map(|(one, two)| one.max(two));
            if link.error.is_empty() {
                link.error = other.error;
            }
        }
    }

    /// Returns sections, names and values of `INFO`, with the names of Redis.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, String, String)> {
        let counts = [
            ("sync_full", self.counts.full),
            ("sync_partial_ok", self.counts.partial),
            ("sync_partial_err", self.counts.partial_refused),
        ];
        let count = |(name, count): (&str, u64)| ("Stats", name.to_owned(), count.to_string());
        let mut fields: Fields = counts.map(count).into();
        let mut field = |name: &str, value: String| fields.push((SECTION, name.to_owned(), value));
        match &self.role {
            Role::Replica { host, port, state, offset } => {
                field("role", "slave".into());
                field("master_host", host.clone());
                field("master_port", port.to_string());
                self.link_fields(*state, &mut field);
                field("slave_read_repl_offset", offset.to_string());
                field("slave_repl_offset", offset.to_string());
                field("slave_read_only", flag(true));
                field("connected_slaves", "0".into());
                field("master_replid", self.id.clone());
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
        field("repl_backlog_active", flag(self.backlog.is_active));
        field("repl_backlog_size", self.backlog.max_bytes.to_string());
        let start = self.backlog.start.to_string();
        field("repl_backlog_first_byte_offset", start);
        field("repl_backlog_histlen", self.backlog.bytes.to_string());
        fields
    }

    fn link_fields(&self, state: LinkState, field: &mut impl FnMut(&str, String)) {
        let Some(link) = &self.link else {
            return;
        };
        let status = match state {
            LinkState::Connected => "up",
            _ => "down",
        };
        let silence = link.silence_s.map_or("-1".into(), |s| s.to_string());
        field("master_link_status", status.into());
        field("master_last_io_seconds_ago", silence);
        field("master_sync_in_progress", flag(state == LinkState::Sync));
        field("master_link_last_error", link.error.replace(['\r', '\n'], " "));
    }
}

/// Adds another partition of a replica to the others.
fn add(replicas: &mut Vec<ReplicaStatus>, other: ReplicaStatus) {
    let Some(known) = replicas.iter_mut().find(|known| known.id == other.id) else {
        return replicas.push(other);
    };
    known.offset += other.offset;
    known.is_online &= other.is_online;
    known.lag_s = known.lag_s.max(other.lag_s);
    known.partitions += other.partitions;
}

fn flag(is: bool) -> String {
    u8::from(is).to_string()
}

fn status(replica: &ReplicaStatus) -> String {
    let state = match replica.is_online {
        true => "online",
        false => "send_bulk",
    };
    let ReplicaStatus { host, port, offset, lag_s, .. } = replica;
    format!("ip={host},port={port},state={state},offset={offset},lag={lag_s}")
}
