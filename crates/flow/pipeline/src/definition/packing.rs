//! Placement of the codecs of messages and files in a definition.

use std::collections::BTreeMap;

use overside_config::Error as ConfigError;
use serde::Deserialize;

use super::node::NodeDefinition;
use super::placement::StagePlacement;
use super::word;

/// Placement of the codecs of messages and files. A batch is unpacked and packed on the host; the
/// codecs' jobs may go to a device.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackingDefinition {
    /// Placement: `host`, `device`, `split:P`, `adaptive`, or the name of a node.
    #[serde(default, deserialize_with = "word::deserialize")]
    pub(crate) placement: StagePlacement,
    /// Node that takes part: the codecs' jobs go to the agent of the same name.
    node: Option<String>,
    /// Device that takes part, of the node if there is one.
    device: Option<String>,
}

impl PackingDefinition {
    /// Checks that the placement has the node and the device that it needs, and no others.
    pub(crate) fn check(
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
            true => wrong("the device has a machine in its name", "leave out one of the two"),
            false => Ok(()),
        }
    }

    /// Returns the names of the devices to open. Those of a node have its name in front, like an agent's;
    /// without a named device they are its cores.
    pub(crate) fn devices(&self) -> Option<String> {
        let Some(node) = self.placement.node(self.node.as_deref()) else {
            return self.device.clone();
        };
        let devices = self.device.as_deref().unwrap_or("cpu").split('+');
        let devices: Vec<String> = devices.map(|device| format!("{node}/{device}")).collect();
        Some(devices.join("+"))
    }
}
