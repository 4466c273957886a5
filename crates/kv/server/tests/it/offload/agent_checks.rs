//! Checks of the messages about a server that host and agent exchange, as bytes. The fuzz target
//! uses them too.

use std::fmt::Debug;

use overside_kv_offload::agent::{AgentReply, AgentRequest};
use overside_link::codec::Message;

/// Checks that bytes are refused, or are a request or reply that is the same after it is encoded and parsed
/// again. Returns `true` if they were accepted.
pub(super) fn agent_message(data: &[u8]) -> bool {
    is_the_same::<AgentRequest>(data) | is_the_same::<AgentReply>(data)
}

fn is_the_same<M: Message + Debug>(data: &[u8]) -> bool {
    let Ok(read) = M::decode(data) else {
        return false;
    };
    let written = read.encode();
    let again = M::decode(&written).expect("what was written can be read");
    assert_eq!(format!("{again:?}"), format!("{read:?}"));
    assert_eq!(again.encode(), written);
    true
}
