//! What belongs to the server as a whole.

use super::Settings;
use super::counters::Counters;
use crate::stages::StageClock;

pub struct State {
    pub settings: Settings,
    pub counters: Counters,
    pub stages: StageClock,
    pub started_ms: u64,
    /// Another one for every process.
    pub run_id: String,
    /// Commands executed.
    pub commands: u64,
    pub is_shutting_down: bool,
}
