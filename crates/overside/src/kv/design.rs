//! Where the two engines of a key-value store run.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use overside_backends::agents;
use overside_kv::KeyHasher;
use overside_kv::clock::Clock;
use overside_kv::offload::agent::{KIND, Opening, Question, Reply, link_config};
use overside_kv::offload::{self, Channel, ChannelOptions, Responder};
use overside_kv::server::{Backing, Settings};
use overside_link::codec::Message;
use overside_link::verbs::Side;
use overside_probe::dma::{Link, dial};

use super::access::Access;

#[derive(clap::Args)]
#[command(next_help_heading = "Design")]
pub struct DesignArguments {
    /// cpu-only: everything here. lat: the communication engine on a DPU, which clients connect to, and
    /// the store here
    #[arg(long, value_enum, default_value_t = Design::CpuOnly)]
    design: Design,
    /// The DPU's agent, as `overside agents` knows it
    #[arg(long, value_name = "NODE")]
    dpu: Option<String>,
    /// Link to the DPU: shm (an agent on this machine) or ucx
    #[arg(long, value_name = "LINK", default_value = "shm", value_parser = link, requires = "dpu")]
    link: Link,
    /// A message over the link for each batch of requests, or for each request, to compare with
    #[arg(long, value_enum, default_value_t = LinkBatch::Batch, requires = "dpu")]
    link_batch: LinkBatch,
    /// Make the next message while the host executes the one before, or wait for its answers, to compare
    /// with
    #[arg(long, value_enum, default_value_t = Overlap::On, requires = "dpu")]
    overlap: Overlap,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Design {
    CpuOnly,
    Lat,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LinkBatch {
    Batch,
    Request,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Overlap {
    On,
    Off,
}

fn link(text: &str) -> Result<Link, String> {
    Link::named(text).ok_or_else(|| "shm or ucx".into())
}

impl DesignArguments {
    /// The DPU's agent, where there is one.
    pub fn node(&self) -> Option<&str> {
        self.dpu.as_deref().filter(|_| self.design == Design::Lat)
    }

    /// Finds what contradicts itself.
    pub fn check(&self, access: &Access) -> Result<(), String> {
        match (self.design, &self.dpu) {
            (Design::Lat, None) => Err(
                "--design lat needs --dpu NODE; `overside agents add NODE ADDRESS` makes one known"
                    .into(),
            ),
            (Design::CpuOnly, Some(_)) => Err("--dpu needs --design lat".into()),
            (Design::Lat, Some(_)) => access.check_for_agent(),
            (Design::CpuOnly, None) => Ok(()),
        }
    }
}

/// Says where the agent listens.
pub type Announce<'a> = &'a dyn Fn(&[SocketAddr]) -> Result<(), String>;

/// How long setting up may take.
const SETUP_MAX: Duration = Duration::from_secs(10);
/// How long after a lost agent it is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Serves from `backing` clients that connect to the agent `node`, until `stop`. An agent that is lost
/// is asked again.
pub fn serve(
    node: &str,
    design: &DesignArguments,
    settings: &Settings,
    backing: &mut dyn Backing,
    (hasher, clock): (&KeyHasher, Clock),
    (announce, stop): (Announce<'_>, &AtomicBool),
) -> Result<ExitCode, String> {
    let mut opening = design.opening(settings);
    let mut is_first = true;
    while !stop.load(Ordering::Relaxed) {
        opening.now_ms = clock.now_ms();
        match connect(node, &opening) {
            Ok((probe, channel, addresses)) => {
                match is_first {
                    true => announce(&addresses)?,
                    false => complain!("overside kv serve: {node} is back"),
                }
                // Clients find it where it was.
                opening.listen = addresses;
                is_first = false;
                let mut responders = [Responder::new(channel, hasher.clone())];
                let busy = settings.busy_poll;
                let served = offload::serve(&mut responders, backing, &clock, busy, stop);
                drop(probe);
                if let Err(error) = served {
                    complain!("overside kv serve: {node} is lost: {error}; trying again");
                }
            }
            Err(message) if is_first => return Err(message),
            // It may take a while to come back.
            Err(_) => {}
        }
        if !stop.load(Ordering::Relaxed) {
            backing.tick(clock.now_ms());
            thread::sleep(RETRY);
        }
    }
    let kept = backing.finish();
    kept.map(|()| ExitCode::SUCCESS)
        .map_err(|error| format!("state could not be kept: {error}"))
}

impl DesignArguments {
    fn opening(&self, settings: &Settings) -> Opening {
        Opening {
            link: self.link,
            listen: settings.tcp.clone(),
            password: settings.password.as_ref().map(|password| password.digest()),
            clients: settings.limits.clients,
            client_memory_bytes: settings.limits.memory_bytes as u64,
            busy_poll: settings.busy_poll,
            single_requests: self.link_batch == LinkBatch::Request,
            overlap: self.overlap == Overlap::On,
            now_ms: 0,
            is_cache: settings.is_cache,
            name: settings.name.clone(),
        }
    }
}

/// Has the agent serve, and connects with it.
fn connect(
    node: &str,
    opening: &Opening,
) -> Result<(agents::RemoteProbe, Channel, Vec<SocketAddr>), String> {
    let deadline = Instant::now() + SETUP_MAX;
    let mut probe = agents::probe(node, KIND).map_err(|error| error.to_string())?;
    let question = Question::Open(opening.clone()).encode();
    let answer = probe
        .ask(&question, deadline)
        .map_err(|error| error.to_string())?;
    let (reach, addresses) = match Reply::decode(&answer).map_err(|error| error.to_string())? {
        Reply::Listening { reach, addresses } => (reach, addresses),
        Reply::Failed(message) => return Err(format!("{node}: {message}")),
        Reply::Status(_) => return Err(format!("{node} answers something else")),
    };
    let config = link_config(Side::Host);
    let endpoint = dial(
        opening.link,
        &reach,
        probe.there(),
        None,
        None,
        &config,
        deadline,
    )
    .map_err(|failure| format!("the link with {node}: {}", failure.message))?;
    let channel = Channel::open(endpoint, 0, ChannelOptions::default(), deadline)
        .map_err(|error| format!("the link with {node}: {error}"))?;
    Ok((probe, channel, addresses))
}
