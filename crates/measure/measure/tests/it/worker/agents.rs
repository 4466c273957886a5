//! Agents of this machine, and an inventory that has them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use overside_agent::{Agent, Settings, keys};
use overside_backends::agents::{Entry, INVENTORY, Inventory};
use overside_backends::{Options, open};
use overside_config::LockedFile;
use overside_link::agent::Probe;

/// Says to a test that it runs in a process of its own.
const INSIDE: &str = "OVERSIDE_TEST_INSIDE";

/// Runs a test in a process of its own, because the worker finds the inventory by an environment
/// variable. `name` is the test's, with its module.
pub(super) fn in_own_process(name: &str, test: impl FnOnce(&Agents)) {
    if std::env::var_os(INSIDE).is_some() {
        return test(&Agents::new());
    }
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(INSIDE, "yes")
        .env(INVENTORY, directory.path().join("agents.toml"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{errors}");
}

/// The inventory of such a process.
pub(super) struct Agents {
    path: PathBuf,
}

impl Agents {
    fn new() -> Self {
        let path = Inventory::path().expect("the variable is set");
        Self { path }
    }

    fn keys(&self) -> PathBuf {
        let directory = self.path.parent().expect("a directory").join("keys");
        if !directory.exists() {
            keys::make(&directory).unwrap();
        }
        directory
    }

    /// Starts an agent that plays ends of these tests, with keys or without, and adds it.
    pub(super) fn start(&self, name: &str, secure: bool, probes: Vec<Arc<dyn Probe>>) -> Agent {
        self.start_with(name, secure, probes, &["cpu".to_owned()])
    }

    /// Starts an agent with other devices than this machine's cores.
    pub(super) fn start_with(
        &self,
        name: &str,
        secure: bool,
        probes: Vec<Arc<dyn Probe>>,
        devices: &[String],
    ) -> Agent {
        let keys = secure.then(|| self.keys());
        let config = keys.as_deref().map(|keys| keys::agent(keys).unwrap());
        let settings = Settings { probes, ..Settings::new("127.0.0.1:0".parse().unwrap(), config) };
        let open = |name: &str| open(name, &Options::default());
        let agent = Agent::start(settings, devices, open).unwrap();
        self.add(name, &agent.address().to_string(), keys.as_deref());
        agent
    }

    /// Adds an agent to the inventory.
    pub(super) fn add(&self, name: &str, address: &str, keys: Option<&Path>) {
        let file = LockedFile::lock(&self.path).unwrap();
        let mut inventory = Inventory::read(file.path()).unwrap();
        let entry = Entry { address: address.into(), keys: keys.map(Path::to_owned) };
        inventory.add(name, entry).unwrap();
        inventory.write(&file).unwrap();
    }
}
