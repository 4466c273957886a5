//! The DPU's side of a design: an agent that runs it, the links with it, and what happens when it is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use overside_backends::agents::{self, RemoteProbe};
use overside_kv::KeyHasher;
use overside_kv::clock::Clock;
use overside_kv::design::Layout;
use overside_kv::offload::agent::{KIND, Opening, Question, Reply, link_config};
use overside_kv::offload::{Channel, ChannelOptions, OnLoss, Responder, SideEngines, SideStop};
use overside_link::codec::Message;
use overside_link::verbs::Side;
use overside_probe::dma::dial;

use super::card::CardMode;

/// How long setting up may take.
const SETUP_MAX: Duration = Duration::from_secs(10);
/// And how long the agent may read what it has kept: it says all the time that it is there.
const RECOVERY_MAX: Duration = Duration::from_secs(3600);
/// How long after a lost agent it is tried again.
const RETRY: Duration = Duration::from_millis(100);
/// How often the agent is asked whether all is well.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// An agent that runs the DPU's side.
pub struct DpuSide {
    node: String,
    opening: Opening,
    layout: Layout,
    clock: Clock,
    /// `None` while it is lost.
    probe: Option<RemoteProbe>,
    links: Vec<(Side, Channel)>,
    loss: Receiver<String>,
    tell_loss: Sender<String>,
}

impl DpuSide {
    /// Has the agent `node` run its side, and connects with it.
    pub fn connect(
        node: &str,
        mut opening: Opening,
        layout: Layout,
        clock: Clock,
    ) -> Result<Self, String> {
        opening.now_ms = clock.now_ms();
        let (probe, links, addresses) = connect(node, &opening, &layout)?;
        // Clients find it where it was.
        opening.clients.listen = addresses;
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

    pub fn node(&self) -> &str {
        &self.node
    }

    /// Where clients connect on the DPU.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.opening.clients.listen
    }

    /// To be called when the other side is lost.
    pub fn on_loss(&self) -> OnLoss {
        let tell = self.tell_loss.clone();
        // Whoever watches may have ended.
        Arc::new(move |error| _ = tell.send(error.to_string()))
    }

    /// Hands the links over to the engines of this side, and watches over the agent from now on: one that
    /// is lost is asked again if all keys are here, and otherwise the engines end. Then the receiver has
    /// the reason. The thread ends with the process.
    pub fn attach(
        mut self,
        engines: &mut SideEngines,
        stop: SideStop,
    ) -> Result<Receiver<String>, String> {
        for (asking, channel) in self.links.drain(..) {
            engines.add_link(asking, channel);
        }
        let (tell_end, end) = mpsc::channel();
        let returning = (self.layout.dpu.partitions() == 0).then(|| {
            let (links, returning) = mpsc::channel();
            engines.askers.returning = Some(returning);
            (links, engines.hasher.clone())
        });
        let watch = move || match returning {
            Some((links, hasher)) => self.reconnect(&links, &hasher),
            None => {
                let reason = self.watch();
                let node = &self.node;
                let message = match self.opening.keeping {
                    Some(_) => format!(
                        "{node} is lost: {reason}; the keys that it had are kept there: start this server again"
                    ),
                    None => format!("{node} is lost, and with it the keys that it had: {reason}"),
                };
                // Whoever listens may have ended.
                let _ = tell_end.send(message);
                stop.stop();
            }
        };
        let thread = thread::Builder::new().name("kv-agent".into()).spawn(watch);
        thread.map_err(|error| format!("starting a thread: {error}"))?;
        Ok(end)
    }

    /// Waits until the agent is lost; why.
    fn watch(&mut self) -> String {
        loop {
            // It holds a sender itself.
            if let Ok(reason) = self.loss.recv_timeout(STATUS_INTERVAL) {
                return reason;
            }
            match self.status() {
                Ok(Reply::Status(None)) => {}
                Ok(Reply::Status(Some(reason)) | Reply::Failed(reason)) | Err(reason) => {
                    return reason;
                }
                Ok(Reply::Listening { .. } | Reply::Card(_)) => {
                    return "it answers something else".into();
                }
            }
        }
    }

    fn status(&mut self) -> Result<Reply, String> {
        let probe = self.probe.as_mut().ok_or("it cannot be reached")?;
        let deadline = Instant::now() + SETUP_MAX;
        let asked = probe.ask(&Question::Status.encode(), deadline);
        let answer = asked.map_err(|error| error.to_string())?;
        Reply::decode(&answer).map_err(|error| error.to_string())
    }

    /// Has a lost agent serve again, and again.
    fn reconnect(&mut self, returning: &Sender<Vec<Responder>>, hasher: &KeyHasher) {
        loop {
            let reason = self.watch();
            let node = &self.node;
            complain!("overside kv serve: {node} is lost: {reason}; trying again");
            // What is left of it must not keep the addresses.
            self.probe = None;
            loop {
                thread::sleep(RETRY);
                self.opening.now_ms = self.clock.now_ms();
                // It may take a while to come back.
                if let Ok((probe, links, _)) = connect(node, &self.opening, &self.layout) {
                    self.probe = Some(probe);
                    let responder = |(_, channel)| Responder::new(channel, hasher.clone());
                    while self.loss.try_recv().is_ok() {}
                    // The store may have ended; then so does the process.
                    let _ = returning.send(links.into_iter().map(responder).collect());
                    complain!("overside kv serve: {node} is back");
                    break;
                }
            }
        }
    }
}

/// The card that the agent `node` runs on, if it is one whose modes are known.
pub fn card(node: &str) -> Result<Option<CardMode>, String> {
    let deadline = Instant::now() + SETUP_MAX;
    let mut probe = agents::probe(node, KIND).map_err(|error| error.to_string())?;
    let answer = probe.ask(&Question::Card.encode(), deadline);
    let answer = answer.map_err(|error| error.to_string())?;
    match Reply::decode(&answer).map_err(|error| error.to_string())? {
        Reply::Card(found) => Ok(found.as_ref().and_then(CardMode::found)),
        _ => Err(format!("{node} answers something else")),
    }
}

type Connected = (RemoteProbe, Vec<(Side, Channel)>, Vec<SocketAddr>);

/// Has the agent serve, and comes to its links in order.
fn connect(node: &str, opening: &Opening, layout: &Layout) -> Result<Connected, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut probe = agents::probe(node, KIND).map_err(|error| text(&error))?;
    let question = Question::Open(Box::new(opening.clone())).encode();
    let most = match opening.keeping {
        Some(_) => RECOVERY_MAX,
        None => SETUP_MAX,
    };
    let answer = probe.ask(&question, Instant::now() + most);
    let answer = answer.map_err(|error| text(&error))?;
    let (reaches, addresses) = match Reply::decode(&answer).map_err(|error| text(&error))? {
        Reply::Listening { links, addresses } => (links, addresses),
        Reply::Failed(message) => return Err(format!("{node}: {message}")),
        Reply::Status(_) | Reply::Card(_) => return Err(format!("{node} answers something else")),
    };
    let deadline = Instant::now() + SETUP_MAX;
    let sides: Vec<_> = layout.links().collect();
    if sides.len() != reaches.len() {
        return Err(format!("{node} has another number of links"));
    }
    let mut links = Vec::new();
    for (asking, reach) in sides.into_iter().zip(reaches) {
        let there = probe.there();
        let config = link_config(Side::Host, asking);
        let endpoint = dial(opening.link, &reach, there, None, None, &config, deadline);
        let endpoint =
            endpoint.map_err(|failure| format!("the link with {node}: {}", failure.message))?;
        let channel = Channel::open(endpoint, 0, ChannelOptions::default(), deadline);
        let channel = channel.map_err(|error| format!("the link with {node}: {error}"))?;
        links.push((asking, channel));
    }
    Ok((probe, links, addresses))
}
