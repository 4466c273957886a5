//! Connections to nodes, for a pipeline that no service runs, and to trees that others serve.

use std::path::PathBuf;
use std::sync::Arc;

use overside_flow::Error as FlowError;
use overside_flow::{NodeDefinition, Packing};
use overside_link::agent::keys;
use tokio::runtime::Runtime;

use crate::error::ServiceError;
use crate::nodes::client::Target;
use crate::nodes::remote_node::RemoteNode;
use crate::output::tracks::RemoteTree;
use crate::socket::threads;

/// One reads while the other writes.
const THREADS: usize = 2;

/// Threads of the connections. They end when this value is dropped.
pub struct RemoteNodes {
    packing: Arc<Packing>,
    runtime: Runtime,
}

impl RemoteNodes {
    /// Starts the threads. Messages are packed and unpacked by the threads and devices of `packing`.
    ///
    /// # Errors
    /// [`ServiceError::Threads`].
    pub fn new(packing: &Arc<Packing>) -> Result<Self, ServiceError> {
        let runtime = threads(THREADS, "flow-nodes")?;
        Ok(Self { packing: Arc::clone(packing), runtime })
    }

    /// The node at the address of its definition, with the password and the keys that it names.
    ///
    /// # Errors
    /// [`ServiceError::Address`].
    pub fn node(&self, definition: &NodeDefinition) -> Result<RemoteNode, ServiceError> {
        let (keys, password) = (&definition.tls_keys, &definition.password_file);
        Ok(self.connected(Target::with_files(&definition.address, keys, password)?, definition))
    }

    /// The node at an address that its definition does not have.
    ///
    /// # Errors
    /// [`ServiceError::Address`].
    pub fn node_at(
        &self,
        address: &str,
        password: &str,
        definition: &NodeDefinition,
    ) -> Result<RemoteNode, ServiceError> {
        let tls = definition.tls_keys.as_deref().map(keys::client);
        let tls = tls.transpose().map_err(|error| ServiceError::Address {
            address: address.into(),
            reason: error.to_string(),
        })?;
        let target = Target::new(address, tls, Some(password.as_bytes()))?;
        Ok(self.connected(target, definition))
    }

    /// Opens the tree at `grpc://HOST:PORT/OUTPUT`.
    ///
    /// # Errors
    /// [`FlowError::Refused`]: the service does not answer, or the output is not a tree.
    pub fn tree(
        &self,
        address: &str,
        tls_keys: &Option<PathBuf>,
        password_file: &Option<PathBuf>,
    ) -> Result<RemoteTree, FlowError> {
        let target = Target::with_files(address, tls_keys, password_file);
        let target = target.map_err(|error| FlowError::Refused(error.to_string()))?;
        RemoteTree::open(target, &self.packing, self.runtime.handle())
    }

    fn connected(&self, target: Target, definition: &NodeDefinition) -> RemoteNode {
        RemoteNode::new(target, definition, &self.packing, self.runtime.handle())
    }
}
