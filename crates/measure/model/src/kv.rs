//! Key-value stores: designs that offload to a card, pairings of clients and servers, and servers
//! behind the card's Arm cores. Formulas over the parameters `kv.*`; `docs/measure/model-kv.md` derives
//! them.

mod designs;
mod onpath;
mod packets;
mod pairings;
mod shares;
mod simulated;
mod testbed;

pub use designs::{
    Design, Setup, Sides, YCSB, best_host_cores, dma_size_gain, gets_of, host_in_flight,
    latency_ns, saturation_per_s, sides, spare_per_s, throughput_per_s, with_cores_for,
};
pub use onpath::{Submode, submode_latency_ns, submode_rate_per_s};
pub use packets::{Message, packet_over_slot};
pub use pairings::{
    Application, Pairing, generation_gain, relative_latency, relative_rate, soc_against_older_host,
};
pub use shares::{PARTS, communication_share, share};
pub use simulated::{Clients, Keys, SimulationResult, evenness, events, simulate};
pub use testbed::{CARDS, Testbed, answer};
