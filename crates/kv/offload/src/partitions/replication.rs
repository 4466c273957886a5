//! The copies of a server with several cores: each partition has its own, and all become the same.

use std::sync::atomic::Ordering;

use super::Partitioned;
use overside_kv_backend::replica::{
    ReplicaConnection, ReplicaHandshake, ReplicaHost, Replication, ReplicationReport, Role,
    SyncRequest,
};

impl Partitioned {
    /// Returns the replication of this worker's partition. Either all partitions have one or none.
    pub(super) fn own_replication(&self) -> Option<&dyn ReplicaHost> {
        self.inside.as_ref().and_then(|inside| inside.own.replication())
    }

    /// Runs a function on all partitions, in order.
    fn ask_replication<T: Send + 'static>(
        &mut self,
        question: impl Fn(&mut dyn ReplicaHost) -> T + Clone + Send + 'static,
    ) -> Vec<T> {
        let told = self.ask_all(move |backing| backing.replication_mut().map(&question));
        told.into_iter().filter_map(|(_, told)| told).collect()
    }

    /// Makes all partitions change their role, while no other worker does.
    fn change_role(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        // Waiting would keep this worker from answering the one that it waits for.
        if self.is_changing_role.swap(true, Ordering::Acquire) {
            return Err(
                "another client has the server become a replica or primary; try again".into()
            );
        }
        let changed = change(self);
        self.is_changing_role.store(false, Ordering::Release);
        changed
    }
}

impl Replication for Partitioned {
    fn is_replica(&self) -> bool {
        self.own_replication().is_some_and(|own| own.is_replica())
    }

    fn is_loading(&self) -> bool {
        self.own_replication().is_some_and(|own| own.is_loading())
    }

    fn report(&self) -> ReplicationReport {
        let inside = self.inside.as_ref();
        let own = inside.and_then(|one| Some((one.number, one.own.replication()?.report())));
        let mut all = self.elsewhere.replication.clone();
        all.extend(own);
        all.sort_by_key(|(number, _)| *number);
        let together = ReplicationReport::together(all.into_iter().map(|(_, report)| report));
        together.expect("who is asked has replication")
    }

    fn refresh(&mut self) {
        let told = self.ask_all(|backing| backing.replication().map(|own| own.report()));
        let others = (told.into_iter()).filter(|(number, _)| !self.is_own(*number));
        let others = others.filter_map(|(number, report)| Some((number, report?)));
        self.elsewhere.replication = others.collect();
    }

    fn follow(&mut self, host: &str, port: u16) -> Result<(), String> {
        let host = host.to_owned();
        // Partitions that already follow continue, so the call can be repeated.
        self.change_role(|all| {
            let followed = all.ask_replication(move |partition| partition.follow(&host, port));
            followed.into_iter().collect()
        })
    }

    fn check_promotion(&mut self) -> Result<(), String> {
        let checked = self.ask_replication(|partition| partition.check_promotion());
        checked.into_iter().collect()
    }

    fn promote(&mut self, id: &str) -> Result<(), String> {
        let id = id.to_owned();
        self.change_role(|all| {
            let before = all.report();
            let promoted = all.ask_replication(move |partition| partition.promote(&id));
            let promoted: Result<(), String> = promoted.into_iter().collect();
            if let (Err(_), Role::Replica { host, port, .. }) = (&promoted, before.role()) {
                // A copy has begun since it was checked: those that have been promoted follow again.
                let (host, port) = (host.clone(), *port);
                all.ask_replication(move |partition| partition.follow(&host, port));
            }
            promoted
        })
    }

    fn check(&self, request: &SyncRequest) -> Result<(), String> {
        self.own_replication().map_or(Ok(()), |own| own.check(request))
    }

    fn history_ends(&mut self) -> Box<[u64]> {
        let ends = self.ask_replication(|partition| partition.history_ends());
        ends.into_iter().flatten().collect()
    }

    fn acknowledgments(&self, ends: &[u64], wanted: usize) -> usize {
        self.own_replication().map_or(0, |own| own.acknowledgments(ends, wanted))
    }
}

impl ReplicaHost for Partitioned {
    fn introduce(&mut self, introduction: Option<ReplicaHandshake>) {
        self.ask_replication(move |partition| partition.introduce(introduction.clone()));
    }

    /// The connection came to any worker, and belongs to that of its partition.
    fn accept(&mut self, request: SyncRequest, connection: ReplicaConnection) {
        let partition = request.partition;
        match self.peers.get(partition) {
            Some(None) => {
                let inside = self.inside.as_mut();
                if let Some(own) = inside.and_then(|inside| inside.own.replication_mut()) {
                    own.accept(request, connection);
                }
            }
            Some(Some(peer)) => peer.run(Box::new(move |backing| {
                if let Some(partition) = backing.replication_mut() {
                    partition.accept(request, connection);
                }
            })),
            None => {}
        }
    }
}
