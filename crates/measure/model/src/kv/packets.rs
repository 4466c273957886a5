//! Bytes that a request moves over PCIe: a packet, or a slot of a key-value queue pair.

use super::Testbed;
use crate::Evaluation;

/// Kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A key goes to the server.
    GetRequest,
    /// A value comes back.
    GetResponse,
    /// A key and a value go to the server.
    SetRequest,
    /// A word of success comes back.
    SetResponse,
}

impl Message {
    /// Bytes of its slot in a queue pair, with the study's keys and values of 8 bytes.
    pub fn slot_bytes(self) -> f64 {
        match self {
            Self::GetRequest | Self::SetRequest => 32.0,
            Self::GetResponse | Self::SetResponse => 16.0,
        }
    }

    /// Bytes of its packet: the headers of every packet, the key, and the value where one travels.
    pub fn packet_bytes(
        self,
        bed: &Testbed<'_, '_>,
        key_bytes: f64,
        value_bytes: f64,
    ) -> Evaluation {
        let carried = match self {
            Self::GetResponse | Self::SetRequest => value_bytes,
            Self::GetRequest | Self::SetResponse => 0.0,
        };
        Ok(bed.host("packet.overhead")? + key_bytes + carried)
    }
}

/// Bytes of a packet over those of a slot that carries the same.
pub fn packet_over_slot(bed: &Testbed<'_, '_>, message: Message) -> Evaluation {
    Ok(message.packet_bytes(bed, 8.0, 8.0)? / message.slot_bytes())
}
