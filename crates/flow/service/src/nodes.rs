//! Stages on other machines: the client of a remote node, and the node that serves one.

pub(crate) mod client;
pub(crate) mod metadata;
pub mod node;
pub(crate) mod remote_node;
pub(crate) mod remote_nodes;
