//! Pipelines: stages that record batches go through one after the other, each on the host, on a
//! node, or on both, and the outputs that what comes out is routed to.
//!
//! 1. A [`Definition`] is read from a file that a user wrote. It knows no data yet.
//! 2. A [`Pipeline`] has the threads, the nodes and the memory for it. [`Pipeline::stream`] begins a
//!    stream of batches of one schema; the stages are compiled for that.
//! 3. A stage is a pure function of one batch, so a batch can run anywhere, several at once, and
//!    again where it failed. What comes out leaves in the order of the batches, each once.
//!
//! | question | module |
//! |---|---|
//! | what can be written? | `definition`, `placement`, `outputs`, and one file a kind of stage in `stages` |
//! | what does a stage do? | `stage` |
//! | and what is done around the stages? | `packing` |
//! | what runs it? | `runtime`, `stream`; `engine` with `stream_state` and `stage_state` |
//! | what of nodes? | `node`, `node_link`, `dispatcher`, `adaptive`; `in_process`; on the node: `runner` |
//! | what did it do, and where does it go? | `report`, `file_output`, `tree_output` |

mod adaptive;
mod definition;
mod dispatcher;
mod engine;
mod file_output;
mod in_process;
mod node;
mod node_definition;
mod node_link;
mod outputs;
mod packing;
mod placement;
mod report;
mod runner;
mod runtime;
mod stage;
mod stage_state;
mod stages;
mod stream;
mod stream_state;
mod tree_output;
mod word;

pub use definition::{Definition, Input, SCHEMA, Spill};
pub use file_output::{FileOutput, FileOutputOptions, WrittenFile, partition_name};
pub use in_process::{InProcessNode, NodeFaults};
pub use node::{Completions, Node, NodeError, NodeResult, NodeStage};
pub use node_definition::{IN_PROCESS, NodeDefinition};
pub use outputs::{Destination, Output, Partition, Partitions};
pub use packing::{Packing, PackingDefinition, PackingStage};
pub use placement::StagePlacement;
pub use report::{
    CpuTimeReport, DeviceReport, HostReport, NodeReport, PipelineEvent, PipelineReport,
    REPORT_SCHEMA, StageReport,
};
pub use runner::StageRunner;
pub use runtime::Pipeline;
pub use stage::{Piece, StageDefinition};
pub use stream::{Done, Stream};
pub use tree_output::{TreeDefinition, TreeOutput};
pub use word::Word;
