//! The adaptive controller against scripted devices.
//!
//! `cargo test -p overside-placement --test controller -- --nocapture` prints the figures.

mod bounds;
mod rules;
mod scenarios;
mod stream;
mod world;
mod worlds;
