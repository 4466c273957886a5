//! HTTP server for the metrics (for Prometheus) and the pages of a service. Requests are read-only,
//! and each connection answers one.

mod exchange;
mod exposition;
mod listener;

pub use exchange::{Exchange, Next, Response};
pub use exposition::Exposition;
pub use listener::Listener;
