//! What clients ask of a server's copies, or have it become.

use std::sync::Arc;

use overside_base::lock;

use super::following::Following;
use super::layer::ReplicationLayer;
use super::links::{REPLICAS_MAX, ReplicaConnection};
use super::primary::{Introduction, Primary};
use super::receiver::Receiver;
use super::source::Source;
use super::{Replication, Role, STREAM_VERSION, SyncRequest};
use crate::persistence::{HistoryPosition, Replicable};
use crate::server::random_hex;

impl<B: Replicable> ReplicationLayer<B> {
    fn begin_source(&mut self) -> std::io::Result<&mut Source> {
        let source = match self.source.take() {
            Some(source) => source,
            None => Source::start(&self.id, self.backlog_bytes, &self.bell, self.now_ms)?,
        };
        Ok(self.source.insert(source))
    }
}

impl<B: Replicable> Replication for ReplicationLayer<B> {
    fn introduce(&mut self, introduction: Option<Introduction>) {
        self.introduction = introduction;
    }

    fn is_replica(&self) -> bool {
        self.following.is_some()
    }

    fn is_loading(&self) -> bool {
        let following = self.following.as_ref();
        following.is_some_and(|following| following.is_loading)
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
        Role::Primary {
            offset,
            replicas: source.links.statuses(),
        }
    }

    fn info(&self) -> Vec<(&'static str, String, String)> {
        self.info_fields()
    }

    fn follow(&mut self, host: &str, port: u16) -> Result<(), String> {
        let Some(introduction) = self.introduction.clone() else {
            return Err(
                "clients find this server in a directory and write to it: a replica is started without \
                 --directory"
                    .into(),
            );
        };
        let primary = Primary {
            host: host.to_owned(),
            port,
            introduction,
        };
        let now = self.following.as_ref().map(|following| &following.primary);
        if now.is_some_and(|now| now.host == host && now.port == port) {
            return Ok(());
        }
        let known = self.inner.position().filter(|_| !self.is_partial);
        let receiver = Receiver::start(primary.clone(), Arc::clone(&self.bell), known.clone());
        let receiver = receiver.map_err(|error| error.to_string())?;
        self.inner.cancel_snapshot();
        self.source = None;
        self.inner.keep_expired(true);
        self.following = Some(Following {
            primary,
            receiver,
            is_loading: known.is_none(),
            position: known.unwrap_or_else(HistoryPosition::unknown),
        });
        tracing::info!(host, port, "it is a replica now");
        Ok(())
    }

    fn promote(&mut self) -> Result<(), String> {
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
        self.id = random_hex().map_err(|error| error.to_string())?;
        self.following = None;
        self.inner.forget_position();
        self.inner.keep_expired(false);
        tracing::info!("it is a primary now");
        Ok(())
    }

    fn check(&self, request: &SyncRequest) -> Result<(), String> {
        if let Some(following) = &self.following {
            let Primary { host, port, .. } = &following.primary;
            return Err(format!("this is a replica itself; copy {host}:{port}"));
        }
        if request.version != STREAM_VERSION {
            return Err(format!(
                "this server has version {STREAM_VERSION} of the stream"
            ));
        }
        let replicas = self.source.as_ref().map_or(0, |s| s.links.statuses().len());
        match replicas < REPLICAS_MAX {
            true => Ok(()),
            false => Err(format!("there are {REPLICAS_MAX} replicas already")),
        }
    }

    fn accept(&mut self, request: SyncRequest, connection: ReplicaConnection) {
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

    fn history_end(&mut self) -> u64 {
        self.flush_frames();
        let source = self.source.as_ref();
        source.map_or(0, |source| lock(&source.links.shared.state).backlog.end())
    }

    fn acknowledgments(&self, offset: u64, wanted: usize) -> usize {
        let source = self.source.as_ref();
        source.map_or(0, |source| source.acknowledgments(offset, wanted))
    }
}
