//! Nodes on the machines of a Ray cluster.
//!
//! Python talks to Ray (`overside.fleet.placement`): it gets the needs of each node, has Ray start
//! the nodes on machines that have the resources, and prints where they are; again when Ray has
//! started one elsewhere. It ends them when this process closes the pipe, or is no more.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use overside_base::lock;
use overside_command::{exit, line, python};
use overside_flow::{
    Completions, Definition, Node, NodeDefinition, NodeError, NodeStage, StageDefinition,
};
use overside_flow_service::RemoteNodes;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Longest time that Python may take to end the nodes, and the interval at which this process
/// checks.
const END: Duration = Duration::from_secs(20);
const END_POLL: Duration = Duration::from_millis(10);

/// Nodes that Ray has started.
pub(super) struct RayNodes {
    python: Child,
    places: Arc<Mutex<Places>>,
}

/// Places of the nodes, by node name.
pub(super) type Places = BTreeMap<String, Place>;

/// Place at which Ray has started a node.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Place {
    /// Address of the node's process.
    address: String,
    #[serde(skip_serializing)]
    password: String,
    /// The machine, as Ray calls it.
    machine: String,
    /// Number of times that the node was started.
    starts: u64,
}

/// Message from Python: one line of JSON whenever a node's place has changed.
#[derive(Deserialize)]
struct Message {
    nodes: Places,
}

/// Reason why no nodes were started.
pub(super) enum Failure {
    /// Message for the user.
    Message(String),
    /// Exit code of Python, which has printed a message for the user.
    Code(u8),
}

impl RayNodes {
    /// Makes Ray start the nodes that stages use and that have no address, and waits until they run.
    pub(super) fn start(definition: &Definition, ray_address: &str) -> Result<Self, Failure> {
        let used = definition.stages.iter().filter_map(StageDefinition::node);
        let nodes: BTreeMap<&str, _> = used
            .filter_map(|name| Some((name, definition.nodes.get(name)?)))
            .filter(|(_, node)| node.is_placed_by_ray())
            .map(|(name, node)| {
                // The same path on each machine.
                let keys = node.tls_keys.as_deref();
                let keys = keys.and_then(|keys| std::path::absolute(keys).ok());
                let about = json!({"resources": node.resources, "tls_keys": keys});
                (name, about)
            })
            .collect();
        if nodes.is_empty() {
            let message = "--on ray: no stage is on a node with `resources`; \
                           write it as in [nodes.dpu0] resources = { bf2 = 1 }";
            return Err(Failure::Message(message.into()));
        }
        let request = json!({"ray_address": ray_address, "nodes": nodes});
        let command = python::command("overside.fleet.placement").map_err(Failure::Message)?;
        let (mut python, output) = started(command).map_err(Failure::Message)?;
        // A Python that has ended says below why.
        let told = python.stdin.as_mut().map(|pipe| writeln!(pipe, "{request}"));
        let mut messages = BufReader::new(output).lines().map_while(Result::ok);
        let first = messages.next().and_then(|line| read(&line));
        let Some(first) = first.filter(|_| told.is_some_and(|told| told.is_ok())) else {
            drop(python.stdin.take());
            let code = python.wait().ok().and_then(|status| status.code());
            let code = code.and_then(|code| u8::try_from(code).ok());
            return Err(Failure::Code(code.filter(|code| *code > 0).unwrap_or(exit::ABSENT)));
        };
        let places = Arc::new(Mutex::new(first));
        let told = Arc::clone(&places);
        thread::spawn(move || {
            for places in messages.filter_map(|line| read(&line)) {
                *lock(&told) = places;
            }
        });
        Ok(Self { python, places })
    }

    /// The node of that name.
    pub(super) fn node(
        &self,
        name: &str,
        definition: &NodeDefinition,
        remote: &Arc<RemoteNodes>,
    ) -> Arc<dyn Node> {
        Arc::new(RayNode {
            name: name.into(),
            definition: definition.clone(),
            places: Arc::clone(&self.places),
            remote: Arc::clone(remote),
        })
    }

    /// Returns the current places of the nodes.
    pub(super) fn places(&self) -> Places {
        lock(&self.places).clone()
    }
}

fn read(line: &str) -> Option<Places> {
    let message: Message = serde_json::from_str(line).ok()?;
    Some(message.nodes)
}

fn started(mut command: std::process::Command) -> Result<(Child, ChildStdout), String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let spawned = command.spawn();
    let mut python = spawned.map_err(|error| python::cannot_start(&command, &error))?;
    let output = python.stdout.take();
    Ok((python, output.ok_or("python has no output")?))
}

impl Drop for RayNodes {
    fn drop(&mut self) {
        drop(self.python.stdin.take());
        let end = Instant::now() + END;
        while Instant::now() < end {
            if !matches!(self.python.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(END_POLL);
        }
        // Ray ends what a driver has started when the driver is no more.
        let _ = self.python.kill();
        let _ = self.python.wait();
    }
}

/// A node that may move.
struct RayNode {
    name: String,
    definition: NodeDefinition,
    places: Arc<Mutex<Places>>,
    remote: Arc<RemoteNodes>,
}

impl Node for RayNode {
    fn open(
        &self,
        stage: &StageDefinition,
        schema: &SchemaRef,
        completions: Completions,
    ) -> Result<Box<dyn NodeStage>, NodeError> {
        let place = lock(&self.places).get(&self.name).cloned();
        let place = place.ok_or_else(|| NodeError::new("Ray is starting it"))?;
        let remote = &self.remote;
        let node = remote.node_at(&place.address, &place.password, &self.definition);
        let node = node.map_err(NodeError::new)?;
        node.open(stage, schema, completions)
    }
}

/// `dpu0 is on 10.0.0.2, at grpc://10.0.0.2:40123, started 2 times`.
pub(super) fn text(places: &Places) -> String {
    let mut text = String::new();
    for (name, place) in places {
        let Place { address, machine, .. } = place;
        let restarts = match place.starts {
            ..=1 => String::new(),
            starts => format!(", started {starts} times"),
        };
        line!(text, "{name} is on Ray's {machine}, at {address}{restarts}");
    }
    text
}
