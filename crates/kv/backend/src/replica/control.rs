//! Implementation of [`Replication`], the commands and queries of clients, for one partition.

use overside_base::lock;
use overside_kv_protocol::replication::{BacklogReport, LinkReport};

use super::layer::ReplicationLayer;
use super::link::ReplicaConnection;
use super::links::REPLICAS_MAX;
use super::primary::{Primary, ReplicaHandshake};
use super::receiver::Receiver;
use super::replica_state::ReplicaState;
use super::source::Source;
use super::{ReplicaHost, Replication, ReplicationReport, Role, SyncRequest};
use crate::persistence::{HistoryPosition, Replicable};

impl<B: Replicable> ReplicationLayer<B> {
    fn begin_source(&mut self) -> std::io::Result<&mut Source> {
        let source = match self.source.take() {
            Some(source) => source,
            None => Source::start(&self.id, self.backlog_bytes, &self.member, self.now_ms)?,
        };
        Ok(self.source.insert(source))
    }

    fn role(&self) -> Role {
        if let Some(following) = &self.following {
            return Role::Replica {
                host: following.primary.host.clone(),
                port: following.primary.port,
                state: following.receiver.link().0,
                offset: following.position.offset,
            };
        }
        let Some(source) = &self.source else {
            return Role::alone();
        };
        // The lock is not held twice.
        let offset = lock(&source.links.shared.state).backlog.end();
        Role::Primary { offset, replicas: source.links.statuses() }
    }

    /// Returns `true` if the primary has room for the replica that sent `request`, which may be
    /// connected already.
    fn has_room(&self, request: &SyncRequest) -> bool {
        let statuses = self.source.as_ref().map(|source| source.links.statuses());
        let mut others = statuses.unwrap_or_default();
        others.retain(|replica| replica.id != request.replica);
        others.len() < REPLICAS_MAX
    }

    fn backlog(&self) -> BacklogReport {
        let source = self.source.as_ref();
        let state = source.map(|source| lock(&source.links.shared.state));
        let backlog = state.as_ref().map(|state| &state.backlog);
        BacklogReport {
            is_active: backlog.is_some(),
            max_bytes: self.backlog_bytes,
            start: backlog.map_or(0, |backlog| backlog.start()),
            bytes: backlog.map_or(0, |backlog| backlog.end() - backlog.start()),
        }
    }
}

impl<B: Replicable> Replication for ReplicationLayer<B> {
    fn is_replica(&self) -> bool {
        self.following.is_some()
    }

    fn is_loading(&self) -> bool {
        self.member.is_any_loading()
    }

    fn report(&self) -> ReplicationReport {
        let following = self.following.as_ref();
        let link = following.map(|following| {
            let (_, heard, error) = following.receiver.link();
            LinkReport { silence_s: heard.map(|heard| heard.elapsed().as_secs()), error }
        });
        let id = following.map_or(&self.id, |following| &following.position.id);
        ReplicationReport {
            role: self.role(),
            id: id.clone(),
            counts: self.counts,
            backlog: self.backlog(),
            link,
        }
    }

    fn follow(&mut self, host: &str, port: u16) -> Result<(), String> {
        let Some(introduction) = self.introduction.clone() else {
            return Err(
                "clients find this server in a directory and write to it: a replica is started without \
                 --directory"
                    .into(),
            );
        };
        let primary =
            Primary { host: host.to_owned(), port, introduction, own: self.member.clone() };
        let now = self.following.as_ref().map(|following| &following.primary);
        if now.is_some_and(|now| now.host == host && now.port == port) {
            return Ok(());
        }
        let known = self.inner.position().filter(|_| !self.is_partial);
        let receiver = Receiver::start(primary.clone(), known.clone());
        let receiver = receiver.map_err(|error| error.to_string())?;
        self.inner.cancel_snapshot();
        self.source = None;
        self.inner.keep_expired(true);
        self.following = Some(ReplicaState {
            primary,
            receiver,
            is_loading: known.is_none(),
            position: known.unwrap_or_else(HistoryPosition::unknown),
        });
        self.show_loading();
        tracing::info!(host, port, "it is a replica now");
        Ok(())
    }

    fn check_promotion(&mut self) -> Result<(), String> {
        while self.execute_received() {}
        let Some(following) = &self.following else {
            return Ok(());
        };
        if self.is_partial {
            return Err(
                "the copy of the primary is not complete: wait for it, or begin with another \
                        directory"
                    .into(),
            );
        }
        if following.receiver.has_more() {
            return Err("what was received cannot be written to the log now".into());
        }
        Ok(())
    }

    fn promote(&mut self, id: &str) -> Result<(), String> {
        self.check_promotion()?;
        if self.following.take().is_some() {
            id.clone_into(&mut self.id);
            self.show_loading();
            self.inner.forget_position();
            self.inner.keep_expired(false);
            tracing::info!("it is a primary now");
        }
        Ok(())
    }

    fn check(&self, request: &SyncRequest) -> Result<(), String> {
        if let Some(following) = &self.following {
            let Primary { host, port, .. } = &following.primary;
            return Err(format!("this is a replica itself; copy {host}:{port}"));
        }
        let partitions = self.member.count();
        if request.partitions != partitions || request.partition >= partitions {
            return Err(format!(
                "this server has {partitions} partitions of the keys, one a core, and the replica {}; start it \
                 with --cores {partitions}",
                request.partitions
            ));
        }
        match self.has_room(request) {
            true => Ok(()),
            false => Err(format!("there are {REPLICAS_MAX} replicas already")),
        }
    }

    fn history_ends(&mut self) -> Box<[u64]> {
        self.flush_frames();
        let source = self.source.as_ref();
        let end = source.map_or(0, |source| lock(&source.links.shared.state).backlog.end());
        Box::new([end])
    }

    fn acknowledgments(&self, ends: &[u64], wanted: usize) -> usize {
        self.member.acknowledgments(ends, wanted)
    }
}

impl<B: Replicable> ReplicaHost for ReplicationLayer<B> {
    fn introduce(&mut self, introduction: Option<ReplicaHandshake>) {
        self.introduction = introduction;
    }

    fn accept(&mut self, request: SyncRequest, connection: ReplicaConnection) {
        // Where there are several partitions, another one has checked.
        if self.following.is_some() || !self.has_room(&request) {
            return;
        }
        let id = self.id.clone();
        let source = match self.begin_source() {
            Ok(source) => source,
            Err(error) => return tracing::error!("a replica cannot be served: {error}"),
        };
        let goes_on = source.accept(&request, connection, &id);
        let has_some = request.id != "?";
        self.counts.full += u64::from(!goes_on);
        self.counts.partial += u64::from(goes_on);
        self.counts.partial_refused += u64::from(!goes_on && has_some);
    }
}
