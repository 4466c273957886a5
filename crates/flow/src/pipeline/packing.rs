//! What is done around the stages: messages and files become batches (*unpack*), and batches become messages and
//! files (*repack*). Both have a placement and perhaps a device, as stages have, and are counted as stages are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use overside_base::lock;
use overside_config::Error as ConfigError;
use overside_placement::{Policy, Verify};
use overside_tables::pack::{CodecPool, Placement, StageTime};
use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::node_definition::NodeDefinition;
use super::placement::StagePlacement;
use super::report::{StageCounts, StageReport};
use super::runner::in_stage;
use crate::Error;

/// Where codecs of messages and files run. A batch is unpacked and packed on the host; the codecs' jobs may go to
/// a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackingDefinition {
    /// `host`, `device`, `split:P`, `adaptive`, or the name of a node.
    #[serde(default)]
    placement: StagePlacement,
    /// The node that takes part: the codecs' jobs go to the agent of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The device that takes part, of the node if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    device: Option<String>,
}

impl PackingDefinition {
    /// Whether the placement has what it needs, and nothing that it does not.
    pub(super) fn check(
        &self,
        nodes: &BTreeMap<String, NodeDefinition>,
    ) -> Result<(), ConfigError> {
        let (named, device) = (self.node.as_deref(), self.device.as_deref());
        self.placement.check(named, device)?;
        let Some(node) = self.placement.node_of(named, nodes)? else {
            return Ok(());
        };
        let wrong = |problem: &str, remedy: &str| Err(ConfigError::of_key("node", problem, remedy));
        if node.is_in_process() || node.is_placed_by_ray() {
            let problem = "the node has no agent, which offers devices";
            return wrong(problem, "name a device of this machine, without a node");
        }
        match device.is_some_and(|device| device.contains('/')) {
            true => wrong(
                "the device has a machine in its name",
                "leave out one of the two",
            ),
            false => Ok(()),
        }
    }

    /// The devices as one opens them: those of a node have its name in front, as its agent has. Its cores do
    /// what no other device is named for.
    fn devices(&self) -> Option<String> {
        let Some(node) = self.placement.node(self.node.as_deref()) else {
            return self.device.clone();
        };
        let devices = self.device.as_deref().unwrap_or("cpu").split('+');
        let devices: Vec<String> = devices.map(|device| format!("{node}/{device}")).collect();
        Some(devices.join("+"))
    }

    /// The pool for it: the same threads, and its device beside them.
    fn pool(&self, name: &str, pool: &Arc<CodecPool>) -> Result<Arc<CodecPool>, Error> {
        let Some(device) = self.devices() else {
            return Ok(Arc::clone(pool));
        };
        let devices = overside_backends::open_accelerators(&device, pool.threads());
        let devices = devices.map_err(|error| in_stage(name, Error::Refused(error.to_string())))?;
        let policy = match &self.placement {
            StagePlacement::Node(_) => Policy::Device,
            other => other.policy(),
        };
        Ok(Arc::new(pool.beside_devices(Placement {
            policy,
            devices,
            verify: Verify::All,
        })))
    }
}

/// Both, for all streams of a pipeline.
pub struct Packing {
    /// Messages and files become batches.
    pub unpack: PackingStage,
    /// Batches become messages and files.
    pub repack: PackingStage,
}

/// One of both.
pub struct PackingStage {
    kind: &'static str,
    placement: StagePlacement,
    pool: Arc<CodecPool>,
    counts: Mutex<StageCounts>,
}

const UNPACK: &str = "unpack";
const REPACK: &str = "repack";

impl Packing {
    /// As a definition has it, on the threads of a pool. Devices are opened.
    ///
    /// # Errors
    /// [`Error::Stage`]: there is no such device.
    pub fn open(definition: &Definition, pool: &Arc<CodecPool>) -> Result<Self, Error> {
        Ok(Self {
            unpack: PackingStage::open(UNPACK, &definition.unpack, pool)?,
            repack: PackingStage::open(REPACK, &definition.repack, pool)?,
        })
    }

    /// As the pool has it: on its threads, and its device if it has one.
    pub fn of_pool(pool: &Arc<CodecPool>) -> Self {
        let stage = |kind| PackingStage::new(kind, StagePlacement::Host, Arc::clone(pool));
        Self {
            unpack: stage(UNPACK),
            repack: stage(REPACK),
        }
    }

    /// The same threads and devices, counted apart.
    #[must_use]
    pub fn apart(&self) -> Self {
        let stage = |of: &PackingStage| {
            PackingStage::new(of.kind, of.placement.clone(), Arc::clone(&of.pool))
        };
        Self {
            unpack: stage(&self.unpack),
            repack: stage(&self.repack),
        }
    }
}

impl PackingStage {
    fn open(
        kind: &'static str,
        definition: &PackingDefinition,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let pool = definition.pool(kind, pool)?;
        Ok(Self::new(kind, definition.placement.clone(), pool))
    }

    fn new(kind: &'static str, placement: StagePlacement, pool: Arc<CodecPool>) -> Self {
        Self {
            kind,
            placement,
            pool,
            counts: Mutex::default(),
        }
    }

    /// Who compresses and decompresses.
    pub fn pool(&self) -> &Arc<CodecPool> {
        &self.pool
    }

    /// Does some of its work on this thread: the stage is busy meanwhile.
    pub fn work<T>(&self, work: impl FnOnce() -> T) -> T {
        lock(&self.counts).begin();
        let _busy = Busy(&self.counts);
        work()
    }

    /// So many batches, of so many rows, are done and took this.
    pub fn done(&self, batches: u64, rows: u64, time: StageTime) {
        let mut counts = lock(&self.counts);
        counts.batches += batches;
        counts.rows_in += rows;
        counts.rows_out += rows;
        counts.bytes_in += time.bytes_in;
        counts.bytes_out += time.bytes_out;
        counts.host.cpu_ns += time.cpu_ns;
    }

    /// What it did so far. Bytes of the packed side are those of messages and files.
    pub fn report(&self) -> StageReport {
        let counts = lock(&self.counts);
        let executed = self.pool.reports();
        let mut report = counts.report((self.kind, self.kind), &self.placement, &executed);
        // All of it is the host's.
        report.host.batches = counts.batches;
        report.host.bytes = counts.bytes_in;
        report
    }
}

/// The stage is busy until this is dropped.
struct Busy<'a>(&'a Mutex<StageCounts>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        lock(self.0).end();
    }
}
