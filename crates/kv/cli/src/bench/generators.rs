//! Load generators: this process, agents, or several of them at once.

use std::time::{Duration, Instant};

use overside_backends::agents::{self, RemoteProbe};
use overside_kv_bench::remote::{KIND, LoadQuestion, LoadReply};
use overside_kv_bench::{BenchError, Generator, LoadMode, Point, Settings};
use overside_link::codec::Message;

/// This process, as a node.
const LOCAL: &str = "local";
/// Time that an agent may take in addition to the measurement: to open connections, and to wait for
/// a server that is silent.
const MARGIN: Duration = Duration::from_secs(60);
/// Longest time that writing the records may take.
const LOADING_MAX: Duration = Duration::from_secs(24 * 3600);

/// Load generators, in the order of `--from`.
pub(super) struct Generators(Vec<Node>);

enum Node {
    Local,
    Remote(Box<RemoteProbe>),
}

impl Generators {
    /// Opens the generators on the agents among `nodes`.
    pub(super) fn open(nodes: &[String], settings: &Settings) -> Result<Self, BenchError> {
        let twice = (nodes.iter().enumerate()).find(|(index, node)| nodes[..*index].contains(node));
        if let Some((_, node)) = twice {
            return Err(BenchError::Settings(format!("{node} is named twice")));
        }
        if settings.tls.is_some() && nodes.iter().any(|node| node != LOCAL) {
            let message =
                "keys do not leave this machine: by TLS the load is made here, without --from";
            return Err(BenchError::Settings(message.into()));
        }
        let open = |node: &String| match node.as_str() {
            LOCAL => Ok(Node::Local),
            name => agents::probe(name, KIND)
                .map(|probe| Node::Remote(Box::new(probe)))
                .map_err(|error| BenchError::Settings(error.to_string())),
        };
        nodes.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// The first generator writes every record once; returns the rate per second.
    pub(super) fn load(&mut self, settings: &Settings) -> Result<f64, BenchError> {
        match self.0.first_mut() {
            Some(Node::Remote(probe)) => {
                tell(probe, &LoadQuestion::Load(Box::new(settings.clone())))?;
                match answer(probe, LOADING_MAX)? {
                    LoadReply::Loaded(rate) => Ok(rate),
                    reply => Err(unexpected(probe, reply)),
                }
            }
            _ => overside_kv_bench::load(settings),
        }
    }

    /// All measure at the same time, each with the connections, threads and pipeline of `settings`;
    /// a rate is shared.
    pub(super) fn run(&mut self, settings: &Settings) -> Result<Point, BenchError> {
        let count = self.0.len();
        let of = |index| Settings {
            generator: Generator { index, count },
            mode: match settings.mode {
                LoadMode::Open { rate } => LoadMode::Open { rate: rate / count as f64 },
                LoadMode::Closed => LoadMode::Closed,
            },
            ..settings.clone()
        };
        for (index, node) in self.0.iter_mut().enumerate() {
            if let Node::Remote(probe) = node {
                tell(probe, &LoadQuestion::Run(Box::new(of(index))))?;
            }
        }
        let mut points = Vec::new();
        // The process itself first: agents measure meanwhile.
        if let Some(index) = self.0.iter().position(|node| matches!(node, Node::Local)) {
            points.push(overside_kv_bench::run(&of(index))?);
        }
        for node in &mut self.0 {
            if let Node::Remote(probe) = node {
                points.push(measured(probe, settings)?);
            }
        }
        let mut points = points.into_iter();
        let first = points.next().unwrap_or_default();
        Ok(points.fold(first, |mut sum, point| {
            sum.add(&point);
            sum
        }))
    }
}

fn measured(probe: &mut RemoteProbe, settings: &Settings) -> Result<Point, BenchError> {
    let within = settings.warm_up + settings.duration + MARGIN;
    let point = match answer(probe, within)? {
        LoadReply::Measured(point) => *point,
        reply => return Err(unexpected(probe, reply)),
    };
    match point.check(settings) {
        Ok(()) => Ok(point),
        Err(message) => Err(failed(probe, message)),
    }
}

fn tell(probe: &mut RemoteProbe, question: &LoadQuestion) -> Result<(), BenchError> {
    let told = probe.tell(&question.encode());
    told.map_err(|error| failed(probe, error.to_string()))
}

fn answer(probe: &mut RemoteProbe, within: Duration) -> Result<LoadReply, BenchError> {
    let bytes = probe.answer(Instant::now() + within);
    let bytes = bytes.map_err(|error| failed(probe, error.to_string()))?;
    LoadReply::decode(&bytes).map_err(|error| failed(probe, error.to_string()))
}

fn unexpected(probe: &RemoteProbe, reply: LoadReply) -> BenchError {
    match reply {
        LoadReply::Failed { message, is_wrong_value } => {
            BenchError::Remote { node: probe.node().into(), message, is_wrong_value }
        }
        _ => failed(probe, "it answers something else".into()),
    }
}

fn failed(probe: &RemoteProbe, message: String) -> BenchError {
    BenchError::Remote { node: probe.node().into(), message, is_wrong_value: false }
}
