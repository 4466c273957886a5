//! Placement of a stage, and its text form in definitions.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use overside_config::{Error as ConfigError, quoted};
use overside_placement::{Policy, Shares};

use crate::definition::node::NodeDefinition;

/// Placement of a stage's batches. Written as `host`, `device`, `split:40`, `adaptive`, or the name
/// of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StagePlacement {
    /// The host's threads.
    #[default]
    Host,
    /// The stage's device; if a batch fails there, the host repeats it.
    Device,
    /// The node of this name; if a batch fails there, the host repeats it.
    Node(String),
    /// These percentages of the bytes on the stage's node, or on each of its devices.
    Split(Shares),
    /// The stage's node as long as it keeps up, or the division between host and device by the controller of
    /// [`Policy::Adaptive`].
    Adaptive,
}

impl StagePlacement {
    /// Returns the policy between CPU and device for a stage that has a device and no node.
    pub(crate) fn policy(&self) -> Policy {
        match self {
            Self::Host | Self::Node(_) => Policy::Cpu,
            Self::Device => Policy::Device,
            Self::Split(shares) => Policy::Split(*shares),
            Self::Adaptive => Policy::Adaptive,
        }
    }

    /// Returns the node that takes part, if any; one may be named separately from the placement.
    pub(crate) fn node<'a>(&'a self, named: Option<&'a str>) -> Option<&'a str> {
        match self {
            Self::Node(name) => Some(name),
            _ => named,
        }
    }

    /// Checks that the placement has the node and the device that it needs, and no others.
    pub(crate) fn check(
        &self,
        node: Option<&str>,
        device: Option<&str>,
    ) -> Result<(), ConfigError> {
        let wrong =
            |key: &str, problem: &str, remedy: &str| Err(ConfigError::of_key(key, problem, remedy));
        let (has_node, has_device) = (node.is_some(), device.is_some());
        match self {
            Self::Host if has_node => {
                wrong("node", "the placement is host", "leave it out, or name it as the placement")
            }
            Self::Host if has_device => {
                wrong("device", "the placement is host", "write placement = \"device\"")
            }
            Self::Device if has_node => {
                wrong("node", "the placement is device", "name the node as the placement")
            }
            Self::Device if !has_device => {
                wrong("placement", "there is no device", "add device = \"NAME\"")
            }
            Self::Node(name) if node.is_some_and(|other| other != name) => {
                wrong("node", "the placement is another node", "leave it out")
            }
            Self::Split(_) | Self::Adaptive if !has_node && !has_device => {
                let remedy = "add node = \"NAME\" or device = \"NAME\"";
                wrong("placement", "nothing beside the host is named", remedy)
            }
            _ => Ok(()),
        }
    }

    /// Returns the node of the pipeline that takes part, if any.
    pub(crate) fn node_of<'n>(
        &self,
        named: Option<&str>,
        nodes: &'n BTreeMap<String, NodeDefinition>,
    ) -> Result<Option<&'n NodeDefinition>, ConfigError> {
        let Some(name) = self.node(named) else {
            return Ok(None);
        };
        if let Some(node) = nodes.get(name) {
            return Ok(Some(node));
        }
        let key = if named.is_some() { "node" } else { "placement" };
        let mut known: Vec<&str> = nodes.keys().map(String::as_str).collect();
        if key == "placement" {
            known.extend(["host", "device", "split:P", "adaptive"]);
        }
        let problem = format!("no node is called {}", quoted(name));
        Err(ConfigError::of_key(key, problem, "").meant(name, &known))
    }
}

impl FromStr for StagePlacement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "host" => Self::Host,
            "device" => Self::Device,
            "adaptive" => Self::Adaptive,
            _ if text.starts_with("split:") => match text.parse() {
                Ok(Policy::Split(shares)) => Self::Split(shares),
                Ok(_) => Self::Host,
                Err(error) => return Err(error.to_string()),
            },
            node => Self::Node(node.to_owned()),
        })
    }
}

impl fmt::Display for StagePlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Device => f.write_str("device"),
            Self::Node(name) => f.write_str(name),
            Self::Split(shares) => write!(f, "split:{shares}"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}
