//! Runs the configured server, once or, if it loses an agent that keeps keys, again and again.

use std::process::{self, ExitCode};
use std::sync::{Arc, Mutex};
use std::thread;

use overside_base::lock;
use overside_kv::KeyHasher;
use overside_kv::clock::Clock;
use overside_kv::server::{Addresses, Server, Settings};
use overside_kv_offload::agent::{OpenRequest, PersistenceRequest};
use overside_kv_offload::design::Layout;
use overside_kv_offload::{SideEngines, SideError, SideStop};
use overside_link::verbs::Side;

use super::{Arguments, remedy};
use crate::announcement;
use crate::directory::{Description, ServerRegistration};
use crate::dpu_side::{DpuSide, Loss};
use overside_command::{complain, exit, system};

/// Serves until the process is told to end.
pub(super) fn serve(all: &Arguments, layout: Layout) -> Result<ExitCode, String> {
    let mut settings = all.settings(&layout)?;
    let registration = all.directory.prepare()?;
    if let Some(registration) = &registration {
        registration.apply(&mut settings);
    }
    let card = all.card()?;
    if all.operation.dry_run {
        return all.plan(layout, &settings, card);
    }
    system::return_freed_memory();
    system::block_shutdown_signals();
    let mut running = Running {
        all,
        layout,
        settings,
        dpu_addresses: None,
        registration,
        shutdown: Shutdown::on_signals(),
    };
    loop {
        match running.serve()? {
            Ended::Asked(code) => return Ok(code),
            Ended::Lost(loss) => running.may_begin_again(&loss)?,
        }
    }
}

/// Outcome of serving once.
enum Ended {
    /// The server was stopped, with this exit code.
    Asked(ExitCode),
    /// The agent, which had keys, was lost.
    Lost(Loss),
}

struct Running<'a> {
    all: &'a Arguments,
    layout: Layout,
    /// Settings of the server, with the actual ports once they are known.
    settings: Settings,
    /// Addresses at which clients connect to the DPU; `None` until the server has listened once.
    dpu_addresses: Option<Addresses>,
    registration: Option<Arc<ServerRegistration>>,
    shutdown: Arc<Shutdown>,
}

impl Running<'_> {
    /// Serves the stored keys until the server is stopped or the agent is lost.
    fn serve(&mut self) -> Result<Ended, String> {
        let (all, layout) = (self.all, self.layout);
        let clock = Clock::start();
        let hasher = KeyHasher::random();
        let part_bytes = all.store_bytes(&layout) as usize / layout.partitions();
        let here = layout.partitions_of(Side::Host).len();
        let stores = all.store.open(here, part_bytes, &hasher)?;
        let replication = all.can_replicate().is_ok().then_some(&all.replication);
        let opened = (all.durability).open(stores, &layout, &hasher, &clock, replication);
        let (mut stores, keeping) = opened?;
        let is_new = keeping.as_ref().is_some_and(|keeping| keeping.is_new);
        let dpu = self.dpu_side(keeping, clock)?;
        if is_new {
            all.durability.confirm()?;
        }
        let has_clients = layout.host.serving() > 0;
        let server = has_clients.then(|| Server::bind(self.settings.clone())).transpose();
        let server = server.map_err(|error| remedy(&error))?;
        if let Some(server) = &server {
            self.settings = server.settings().clone();
            for store in &mut stores {
                let is_registered = all.directory.is_given();
                (all.replication).begin(&self.settings, is_registered, &mut **store)?;
            }
        }
        if self.dpu_addresses.is_none() {
            announcement::print(server.as_ref(), dpu.as_ref(), all.operation.json);
        }
        let there = dpu.as_ref().map(DpuSide::addresses).cloned();
        self.dpu_addresses = Some(there.unwrap_or_default());
        let listening = self.listening(server.as_ref(), dpu.as_ref());
        let stop = SideStop::new(server.as_ref());
        let mut engines = SideEngines::new(Side::Host, layout, stores, hasher, clock);
        engines.server = server;
        engines.optimizations = all.design.optimizations();
        engines.busy_poll = self.settings.busy_poll;
        engines.store_cores = all.operation.pinned();
        if let Some(dpu) = &dpu {
            engines.on_loss = dpu.on_loss();
        }
        let end = dpu.map(|dpu| dpu.attach(&mut engines, stop.clone())).transpose()?;
        let (handle, withdrawn) = (stop.clone(), self.registration.clone());
        self.shutdown.set(move || {
            withdrawn.iter().for_each(|one| one.withdraw());
            handle.stop();
        });
        if let Some(registration) = &self.registration {
            registration.register(&listening, all.access.password()?)?;
        }
        let served = engines.run(&stop);
        self.registration.iter().for_each(|one| one.end());
        if let Some(loss) = end.and_then(|end| end.try_recv().ok()) {
            return Ok(Ended::Lost(loss));
        }
        match served {
            Ok(true) => Ok(Ended::Asked(ExitCode::SUCCESS)),
            Ok(false) => {
                complain!("overside kv serve: some clients did not take their replies in time");
                Ok(Ended::Asked(ExitCode::from(exit::INCOMPLETE)))
            }
            Err(SideError::Server(error)) => Err(remedy(&error)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The DPU's side, if the design has one.
    fn dpu_side(
        &self,
        keeping: Option<PersistenceRequest>,
        clock: Clock,
    ) -> Result<Option<DpuSide>, String> {
        let (all, layout) = (self.all, self.layout);
        let Some(node) = all.design.node() else {
            return Ok(None);
        };
        let store = (all.host_cores(), all.store.limits(all.store_bytes(&layout)));
        let mut opening = OpenRequest {
            keeping,
            ..(all.design).opening(store, all.access.requires_certificates(), &self.settings)
        };
        let was_lost = self.dpu_addresses.is_some();
        if let Some(addresses) = &self.dpu_addresses {
            opening.clients.addresses.clone_from(addresses);
        }
        DpuSide::connect(node, opening, layout, clock, was_lost).map(Some)
    }

    /// Returns `Ok` if the keys that were on the lost agent are stored there, so that the server can continue
    /// when the agent is back. Otherwise returns the reason why the server ends.
    fn may_begin_again(&self, loss: &Loss) -> Result<(), String> {
        let node = self.all.design.node().unwrap_or_default();
        if self.all.durability.directory().is_none() {
            return Err(format!("{node} is lost, and with it the keys that it had: {loss}"));
        }
        let is_over = matches!(loss, Loss::Asked) || self.shutdown.is_asked();
        if is_over {
            return Err(format!(
                "{node} is lost: {loss}; the keys that it had are kept there: start this server again"
            ));
        }
        self.shutdown.clear();
        complain!(
            "overside kv serve: {node} is lost: {loss}; the keys that it had are kept there: trying again"
        );
        Ok(())
    }

    /// Endpoints of each side, as they are registered in a directory for clients.
    fn listening(
        &self,
        server: Option<&Server>,
        dpu: Option<&DpuSide>,
    ) -> Vec<(Settings, Description<'static>)> {
        let description = |side| Description {
            design: self.settings.design.unwrap_or("cpu-only"),
            side,
            partitions: self.layout.partitions(),
            is_advertised: side == "host" || server.is_none(),
        };
        let here = server.map(|server| (server.settings().clone(), description("host")));
        let there = dpu.map(|dpu| {
            let there = Settings {
                addresses: dpu.addresses().clone(),
                is_cache: self.settings.is_cache,
                ..Settings::default()
            };
            (there, description("dpu"))
        });
        here.into_iter().chain(there).collect()
    }
}

/// Function that stops a server.
type Stop = Box<dyn Fn() + Send + Sync>;

/// Reaction to signals: the function that ends the server, if it runs, and whether a signal has
/// arrived.
#[derive(Default)]
struct Shutdown(Mutex<(Option<Stop>, bool)>);

impl Shutdown {
    /// Ends the server at the first signal, and the process at the second, or while there is no server:
    /// recovery changes nothing. The thread ends with the process.
    fn on_signals() -> Arc<Self> {
        let shutdown = Arc::new(Self::default());
        let handle = Arc::clone(&shutdown);
        thread::spawn(move || {
            system::wait_for_shutdown();
            let (stop, is_asked) = &mut *lock(&handle.0);
            *is_asked = true;
            match stop {
                Some(stop) => stop(),
                None => process::exit(0),
            }
        });
        shutdown
    }

    fn set(&self, stop: impl Fn() + Send + Sync + 'static) {
        lock(&self.0).0 = Some(Box::new(stop));
    }

    fn clear(&self) {
        lock(&self.0).0 = None;
    }

    fn is_asked(&self) -> bool {
        lock(&self.0).1
    }
}
