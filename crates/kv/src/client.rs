//! Client libraries.

pub mod datagram;
