//! What a service shows over HTTP: metrics for Prometheus, and pages. Requests are read-only, and answered one a
//! connection.

mod exchange;
mod exposition;
mod listener;

pub use exchange::{Exchange, Next, Response};
pub use exposition::Exposition;
pub use listener::Listener;
