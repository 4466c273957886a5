//! Record batches to Arrow IPC and back, under a thread budget.
//!
//! | question | module |
//! |---|---|
//! | who computes? | `pool`: `threads` of the budget, or a device through `executors` (`placed`) |
//! | how is a batch written? | `packer`: `message`, `buffers`, `footer`, `compact`, `sink` |
//! | how is one read? | `unpacker`: `input`, `messages`, `decoder`, `schema`, `arrays`, `dictionaries` |
//! | and single messages, for Arrow Flight? | `flight` |
//! | what if messages are compressed as a whole? | `outer` |
//! | where does the time go? | `stages` |
//!
//! Buffers are compressed as the format has it, so that every reader takes what is written. Lengths
//! from outside are compared with what is there before memory is taken for them, and Arrow
//! validates every column that is read.

mod arrays;
mod buffers;
mod codec;
mod compact;
mod decoder;
mod dictionaries;
mod executors;
mod flight;
mod footer;
mod input;
mod message;
mod messages;
mod outer;
mod packer;
mod placed;
mod pool;
mod schema;
mod sink;
mod stages;
mod threads;
mod unpacker;

pub(crate) use messages::blocks;
pub(crate) use threads::Pending;

pub use codec::{Codec, Layout};
pub use executors::{Job, Placement};
pub use flight::{Message, MessagePacker, MessageUnpacker};
pub use outer::{OUTER_FORMAT_KEY, Outer};
pub use packer::{PackOptions, Packer};
pub use pool::CodecPool;
pub use stages::{StageTime, StageTimes};
pub use unpacker::{UnpackOptions, Unpacker};
