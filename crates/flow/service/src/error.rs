//! Errors of a service, and the status codes that its clients receive for them.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use overside_flow::{Error as FlowError, TableError};
use tonic::Status;

use crate::queue::QueueError;
use crate::queue::spill::SpillError;

/// Error that prevents a service from starting, or that ends a stream.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Address that it was to listen at.
        address: SocketAddr,
        /// Error that the system reports.
        error: io::Error,
    },
    /// A directory cannot be made or used.
    #[error("{}: {error}", path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Error that the system reports.
        error: io::Error,
    },
    /// Threads cannot be started.
    #[error("threads cannot be started: {0}")]
    Threads(io::Error),
    /// A stage, a codec or a batch.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// A queue cannot take a batch, or cannot read it back.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Another schema than that of the pipeline's input or output.
    #[error("the columns of this stream are not those of the pipeline's {of}: {difference}")]
    Schema {
        /// Name of the input or output.
        of: &'static str,
        /// Description of the difference.
        difference: String,
    },
    /// The address of another service is invalid.
    #[error("{address}: {reason}")]
    Address {
        /// Address as it was given.
        address: String,
        /// Problem with the address, its TLS keys or its password.
        reason: String,
    },
    /// Another service does not answer a call as requested.
    #[error("{address}: {reason}")]
    Call {
        /// Address of the service.
        address: String,
        /// Reason that the service gives.
        reason: String,
    },
    /// gRPC ends.
    #[error("gRPC: {0}")]
    Transport(#[from] tonic::transport::Error),
}

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Flow(error) => status_of(error),
            ServiceError::Queue(error) => error.into(),
            ServiceError::Schema { .. } => Self::invalid_argument(error.to_string()),
            _ => Self::internal(error.to_string()),
        }
    }
}

impl From<QueueError> for Status {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Closed => Self::unavailable(error.to_string()),
            QueueError::Spill(SpillError::Io { .. } | SpillError::Full(_)) => {
                Self::resource_exhausted(format!("the batch cannot be kept: {error}"))
            }
            _ => Self::internal(error.to_string()),
        }
    }
}

/// Returns the status that a client receives for data that cannot be processed.
pub(crate) fn status_of(error: impl Into<FlowError>) -> Status {
    let error = error.into();
    match error {
        FlowError::Io(_)
        | FlowError::Memory(_)
        | FlowError::Table(
            TableError::Io(_)
            | TableError::Memory(_)
            | TableError::Placement(_)
            | TableError::Job(_),
        ) => Status::internal(error.to_string()),
        FlowError::Away { .. } | FlowError::NotYet { .. } => Status::unavailable(error.to_string()),
        FlowError::Table(TableError::TooLong { .. }) => {
            Status::resource_exhausted(error.to_string())
        }
        _ => Status::invalid_argument(error.to_string()),
    }
}
