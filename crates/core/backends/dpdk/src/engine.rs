//! A device of DPDK, set up once for the whole process.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use overside_base::lock;
use overside_device::{Capabilities, Operation};

use crate::queue::Queue;
use crate::rules::Rules;
use crate::runtime::Runtime;
use crate::shim::{FoundDevice, Kind, RawLimits, SHARED_TRANSFORM, Setup};

/// Queues that are set up where the device has as many. Contexts beyond that share them.
const QUEUES: u32 = 16;
/// Descriptors of a queue, where the device takes as many.
const DESCRIPTORS: u32 = 2048;
/// Jobs in flight of one context.
const DEPTH: u32 = 1024;
/// Jobs in flight of one context where each job needs a transform of its own, some hundred KiB.
const DEPTH_UNSHARED: u32 = 64;
/// Transforms of all contexts.
const TRANSFORMS: u32 = 4096;

pub(crate) struct Engine {
    pub(crate) found: FoundDevice,
    pub(crate) limits: RawLimits,
    pub(crate) queues: Vec<Arc<Queue>>,
    pub(crate) depth: usize,
    /// Behavior of the device for each operation, as probed during setup.
    pub(crate) behaviors: Behaviors,
    pub(crate) capabilities: Capabilities,
    /// Time that setup and probing took.
    pub(crate) discovery: Duration,
    /// The rules that a regexdev has now.
    pub(crate) rules: Mutex<Loaded>,
}

/// Behavior of a device for one operation, found by probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behavior {
    /// Maximum number of segments of a source.
    pub(crate) segments: usize,
    /// `true` if it may report a stream that ends early as done, so it gets more bytes behind the
    /// stream than it could use without noticing: a [`TRAILER`](crate::probe::TRAILER).
    pub(crate) needs_trailer: bool,
    /// `true` if the device distinguishes a destination that is too short from a stream that is invalid.
    pub(crate) tells_space: bool,
}

/// Operations that a device supports, with its behavior for each.
#[derive(Default)]
pub(crate) struct Behaviors(pub(crate) Vec<(Operation, Behavior)>);

impl Behaviors {
    pub(crate) fn get(&self, operation: Operation) -> Option<Behavior> {
        let found = self.0.iter().find(|(known, _)| *known == operation);
        found.map(|(_, behavior)| *behavior)
    }
}

/// The rules in a regexdev, and how many contexts use them.
#[derive(Default)]
pub(crate) struct Loaded {
    rules: Option<Arc<Rules>>,
    users: usize,
}

impl Engine {
    /// Sets up a device. Its capabilities are probed and added later.
    pub(crate) fn new(runtime: &Runtime, found: FoundDevice) -> Result<Self, String> {
        let shim = runtime.shim;
        let limits = shim.limits(found.kind, found.id)?;
        let queues = at_most(QUEUES, limits.queues);
        let descriptors = at_most(DESCRIPTORS, limits.descriptors);
        let depth = match (found.kind, limits.flags & SHARED_TRANSFORM) {
            (Kind::Compress, 0) => DEPTH_UNSHARED,
            _ => DEPTH,
        };
        // One descriptor stays free where rings tell full from empty by it.
        let capacity = descriptors - 1;
        let queue = |number| {
            let queue = Queue::new(shim, found.kind, found.id, number, capacity as usize);
            Arc::new(queue)
        };
        let engine = Self {
            queues: (0..queues as u16).map(queue).collect(),
            depth: depth.min(capacity) as usize,
            limits,
            behaviors: Behaviors::default(),
            capabilities: Capabilities::default(),
            discovery: Duration::ZERO,
            rules: Mutex::default(),
            found,
        };
        // A regexdev is set up with its rules, which come with a context.
        if engine.found.kind != Kind::Match {
            engine.configure(runtime, &[])?;
        }
        Ok(engine)
    }

    fn configure(&self, runtime: &Runtime, rules: &[u8]) -> Result<(), String> {
        let setup = Setup {
            queues: self.queues.len() as u32,
            descriptors: at_most(DESCRIPTORS, self.limits.descriptors),
            transforms: TRANSFORMS,
            matches: self.limits.matches,
            rules,
        };
        let _control = runtime.control();
        runtime.shim.configure(self.found.kind, self.found.id, &setup)
    }

    /// The queue that the fewest contexts use.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        let least = self.queues.iter().min_by_key(|queue| queue.users());
        Arc::clone(least.expect("a device is set up with at least one queue"))
    }

    /// The driver, without its class: `isal`, `mlx5`.
    pub(crate) fn driver(&self) -> &str {
        let full = match (self.found.driver.is_empty(), self.found.hardware) {
            (false, _) => &self.found.driver,
            (true, false) => &self.found.name,
            // Of a DMA engine on a bus DPDK tells the address only.
            (true, true) => return "dmadev",
        };
        let classes = ["compress_", "regex_", "dma_"];
        (classes.iter().find_map(|class| full.strip_prefix(class))).unwrap_or(full)
    }

    /// Returns `true` for a compressdev that computes jobs during the enqueue call, not afterwards.
    /// Software drivers do this.
    pub(crate) fn computes_at_once(&self) -> bool {
        self.found.kind == Kind::Compress && !self.found.hardware
    }

    /// Loads rules into a regexdev, unless it has them.
    pub(crate) fn use_rules(&self, runtime: &Runtime, rules: Arc<Rules>) -> Result<(), String> {
        let mut loaded = lock(&self.rules);
        let same = loaded.rules.as_ref().is_some_and(|now| now.patterns == rules.patterns);
        if !same {
            if loaded.users > 0 {
                return Err(
                    "another context uses it with other patterns, and it holds one set".into()
                );
            }
            loaded.rules = None;
            self.configure(runtime, &rules.compiled)?;
            loaded.rules = Some(rules);
        }
        loaded.users += 1;
        Ok(())
    }

    /// Reverses [`Engine::use_rules`].
    pub(crate) fn leave_rules(&self) {
        let mut loaded = lock(&self.rules);
        loaded.users = loaded.users.saturating_sub(1);
    }
}

/// `wanted`, but not more than a limit if there is one.
fn at_most(wanted: u32, limit: u32) -> u32 {
    match limit {
        0 => wanted,
        limit => wanted.min(limit),
    }
}
