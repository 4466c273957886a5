//! The DPU's side of a design: an agent that runs it, the links with it, and what happens when it is lost.

use overside_command::complain;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use overside_backends::agents::{self, RemoteProbe};
use overside_kv::clock::Clock;
use overside_kv::server::Addresses;
use overside_kv_offload::agent::{
    AgentReply, AgentRequest, Ending, KIND, OpenRequest, link_config,
};
use overside_kv_offload::design::{DesignLink, Layout};
use overside_kv_offload::{Channel, ChannelOptions, OnLoss, ReturningLinks, SideEngines, SideStop};
use overside_link::codec::Message;
use overside_link::verbs::Side;
use overside_probe::dma::dial;

use super::card::CardMode;

/// Longest time for one step of the setup, and for one request to the agent.
const SETUP_MAX: Duration = Duration::from_secs(10);
/// Longest time that the agent may take to read its stores; it sends heartbeats all the time.
const RECOVERY_MAX: Duration = Duration::from_secs(3600);
/// Pause before each attempt to connect to a lost agent again.
const RETRY: Duration = Duration::from_millis(100);
/// Longest time after a broken link in which the agent's engines may report how they ended.
const ENDING_MAX: Duration = Duration::from_millis(200);
/// Interval at which the agent's status is requested.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// An agent that runs the DPU's side.
pub(super) struct DpuSide {
    node: String,
    opening: OpenRequest,
    layout: Layout,
    clock: Clock,
    /// `None` while it is lost.
    probe: Option<RemoteProbe>,
    links: Vec<(DesignLink, Channel)>,
    loss: Receiver<String>,
    tell_loss: Sender<String>,
}

impl DpuSide {
    /// Starts the side on the agent `node`, and connects with it. If the agent is lost, it tries again until
    /// the agent is back.
    pub(super) fn connect(
        node: &str,
        mut opening: OpenRequest,
        layout: Layout,
        clock: Clock,
        was_lost: bool,
    ) -> Result<Self, String> {
        opening.now_ms = clock.now_ms();
        let (probe, links, addresses) = match was_lost {
            true => connect_again(node, &mut opening, &layout, &clock),
            false => connect(node, &opening, &layout)?,
        };
        // Clients find it where it was.
        opening.clients.addresses = addresses;
        let (tell_loss, loss) = mpsc::channel();
        Ok(Self {
            node: node.to_owned(),
            opening,
            layout,
            clock,
            probe: Some(probe),
            links,
            loss,
            tell_loss,
        })
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Addresses at which clients connect to the DPU.
    pub(super) fn addresses(&self) -> &Addresses {
        &self.opening.clients.addresses
    }

    /// Returns the function to call when the other side is lost.
    pub(super) fn on_loss(&self) -> OnLoss {
        let tell = self.tell_loss.clone();
        // The watching thread may have ended.
        Arc::new(move |error| _ = tell.send(error.to_string()))
    }

    /// Connects the links with the engines of this side, and watches the agent from now on. If the agent is
    /// lost, the thread connects to it again if all keys are here; otherwise the engines end, and the
    /// receiver gets the reason. The thread ends with the process.
    pub(super) fn attach(
        mut self,
        engines: &mut SideEngines,
        stop: SideStop,
    ) -> Result<Receiver<Loss>, String> {
        for (link, channel) in self.links.drain(..) {
            engines.add_link(link, channel);
        }
        let (tell_end, end) = mpsc::channel();
        let returning = (self.layout.dpu.partitions() == 0).then(|| engines.returning());
        let watch = move || match returning {
            Some(returning) => self.reconnect(&returning),
            None => {
                let loss = self.watch();
                // What is left of it must not keep the addresses, nor the files.
                drop(self.probe.take());
                // The receiver may be gone.
                let _ = tell_end.send(loss);
                stop.stop();
            }
        };
        let thread = thread::Builder::new().name("kv-agent".into()).spawn(watch);
        thread.map_err(|error| format!("starting a thread: {error}"))?;
        Ok(end)
    }

    /// Waits until the agent is lost; how.
    fn watch(&mut self) -> Loss {
        loop {
            // It holds a sender itself.
            let broken = self.loss.recv_timeout(STATUS_INTERVAL).ok();
            let ending = match self.ending(broken.is_some()) {
                Ok(Some(Ending::ByClient)) => return Loss::Asked,
                Ok(Some(Ending::Failed(reason))) | Err(reason) => Some(reason),
                Ok(None) => None,
            };
            if let Some(reason) = broken.or(ending) {
                return Loss::Failed(reason);
            }
        }
    }

    /// Requests the reason why the agent's engines have ended; `None` while they run. After a broken link it
    /// repeats the request for up to [`ENDING_MAX`], because the agent may notice the end later.
    fn ending(&mut self, is_broken: bool) -> Result<Option<Ending>, String> {
        if !is_broken {
            return self.status(Instant::now() + SETUP_MAX);
        }
        let deadline = Instant::now() + ENDING_MAX;
        loop {
            let ending = self.status(deadline)?;
            if ending.is_some() || Instant::now() >= deadline {
                return Ok(ending);
            }
            thread::sleep(ENDING_MAX / 20);
        }
    }

    fn status(&mut self, deadline: Instant) -> Result<Option<Ending>, String> {
        let probe = self.probe.as_mut().ok_or("it cannot be reached")?;
        let asked = probe.ask(&AgentRequest::Status.encode(), deadline);
        let answer = asked.map_err(|error| error.to_string())?;
        match AgentReply::decode(&answer).map_err(|error| error.to_string())? {
            AgentReply::Status(ending) => Ok(ending),
            AgentReply::Failed(reason) => Err(reason),
            AgentReply::Listening { .. } | AgentReply::Card(_) => {
                Err("it answers something else".into())
            }
        }
    }

    /// Connects to a lost agent repeatedly, until it serves again.
    fn reconnect(&mut self, returning: &ReturningLinks) {
        loop {
            let loss = self.watch();
            let node = &self.node;
            complain!("overside kv serve: {node} is lost: {loss}; trying again");
            // What is left of it must not keep the addresses.
            self.probe = None;
            let (probe, links, _) =
                connect_again(node, &mut self.opening, &self.layout, &self.clock);
            self.probe = Some(probe);
            // Threads that find out only now that the old links are lost say so to nobody.
            (self.tell_loss, self.loss) = mpsc::channel();
            returning.hand_over(links, &self.on_loss());
        }
    }
}

/// Reason why an agent was lost.
pub(super) enum Loss {
    /// A client ended the server of its side.
    Asked,
    /// The agent's engines failed or cannot be reached, for this reason.
    Failed(String),
}

impl Display for Loss {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => Ending::ByClient.fmt(f),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

/// The card that the agent `node` runs on, if it is one whose modes are known.
pub(super) fn card(node: &str) -> Result<Option<CardMode>, String> {
    let deadline = Instant::now() + SETUP_MAX;
    let mut probe = agents::probe(node, KIND).map_err(|error| error.to_string())?;
    let answer = probe.ask(&AgentRequest::Card.encode(), deadline);
    let answer = answer.map_err(|error| error.to_string())?;
    match AgentReply::decode(&answer).map_err(|error| error.to_string())? {
        AgentReply::Card(found) => Ok(found.as_ref().and_then(CardMode::found)),
        _ => Err(format!("{node} answers something else")),
    }
}

type Connected = (RemoteProbe, Vec<(DesignLink, Channel)>, Addresses);

/// The same until a lost agent is back, however long that takes.
fn connect_again(
    node: &str,
    opening: &mut OpenRequest,
    layout: &Layout,
    clock: &Clock,
) -> Connected {
    let mut said = None;
    loop {
        thread::sleep(RETRY);
        opening.now_ms = clock.now_ms();
        match connect(node, opening, layout) {
            Ok(connected) => {
                complain!("overside kv serve: {node} is back");
                return connected;
            }
            Err(reason) => {
                if said.as_ref() != Some(&reason) {
                    complain!("overside kv serve: {reason}");
                }
                said = Some(reason);
            }
        }
    }
}

/// Starts the agent's engines, and connects to its links in order.
fn connect(node: &str, opening: &OpenRequest, layout: &Layout) -> Result<Connected, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut probe = agents::probe(node, KIND).map_err(|error| text(&error))?;
    let question = AgentRequest::Open(Box::new(opening.clone())).encode();
    let most = match opening.keeping {
        Some(_) => RECOVERY_MAX,
        None => SETUP_MAX,
    };
    let answer = probe.ask(&question, Instant::now() + most);
    let answer = answer.map_err(|error| text(&error))?;
    let (reaches, addresses) = match AgentReply::decode(&answer).map_err(|error| text(&error))? {
        AgentReply::Listening { links, addresses } => (links, *addresses),
        AgentReply::Failed(message) => return Err(format!("{node}: {message}")),
        AgentReply::Status(_) | AgentReply::Card(_) => {
            return Err(format!("{node} answers something else"));
        }
    };
    let deadline = Instant::now() + SETUP_MAX;
    let expected: Vec<_> = layout.links().collect();
    if expected.len() != reaches.len() {
        return Err(format!("{node} has another number of links"));
    }
    let mut links = Vec::new();
    for (link, reach) in expected.into_iter().zip(reaches) {
        let there = probe.there();
        let config = link_config(Side::Host, link.asking);
        let endpoint = dial(opening.link, &reach, there, None, None, &config, deadline);
        let endpoint =
            endpoint.map_err(|failure| format!("the link with {node}: {}", failure.message))?;
        let channel = Channel::open(endpoint, 0, ChannelOptions::default(), deadline);
        let channel = channel.map_err(|error| format!("the link with {node}: {error}"))?;
        links.push((link, channel));
    }
    Ok((probe, links, addresses))
}
