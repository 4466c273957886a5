//! Why a service cannot go on, and what its clients hear of it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use overside_flow::{Error as FlowError, TableError};
use tonic::Status;

use crate::queue::QueueError;
use crate::spill::SpillError;

/// Why a service cannot start, or a stream cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// It cannot listen.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// A directory cannot be made or used.
    #[error("{}: {error}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Threads cannot be started.
    #[error("threads cannot be started: {0}")]
    Threads(io::Error),
    /// A stage, a codec or a batch.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// What waits.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Another schema than that of the pipeline's input or output.
    #[error("the columns of this stream are not those of the pipeline's {of}: {difference}")]
    Schema {
        /// Which.
        of: &'static str,
        /// In what.
        difference: String,
    },
    /// The address of another service that is none.
    #[error("{address}: {reason}")]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong.
        reason: String,
    },
    /// Another service does not do what it is asked for.
    #[error("{address}: {reason}")]
    Call {
        /// Where it is.
        address: String,
        /// What it says.
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

/// What a client hears of data that cannot be processed.
pub fn status_of(error: impl Into<FlowError>) -> Status {
    let error = error.into();
    match error {
        FlowError::Io(_)
        | FlowError::Memory(_)
        | FlowError::Placement(_)
        | FlowError::Job(_)
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
