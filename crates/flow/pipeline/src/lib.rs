//! Arrow data flows: record batches on their way from producers, which emit tables by space, to consumers, which read
//! them by object over time. Between them batches are unpacked, filtered, partitioned by a key, packed again and
//! routed. `stages` has one file for each kind of stage; the crate `operators` has the functions that stages call.
//!
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
//! | what can be written? | `definition`, and one file a kind of stage in `stages` |
//! | what does a stage do? | `stage` |
//! | and what is done around the stages? | `run::packing` |
//! | what runs it? | `run`: `runtime`, `stream`; `engine` with `stream_state` and `stage_state` |
//! | what of nodes? | `run`: `node`, `node_link`, `engine::dispatcher`, `adaptive`; `in_process`; on the node: `runner` |
//! | what did it do, and where does it go? | `run`: `report`, `file_output`, `tree_output` |

pub mod bench;
mod definition;
pub mod enlarge;
pub mod generate;
pub mod object_store;
mod repartition;
mod run;
mod stage;
mod stages;

pub use definition::node::{IN_PROCESS, NodeDefinition};
pub use definition::outputs::{Destination, Output, Partition, Partitions};
pub use definition::packing::PackingDefinition;
pub use definition::placement::StagePlacement;
pub use definition::stage::StageDefinition;
pub use definition::tree::TreeDefinition;
pub use definition::word::Word;
pub use definition::{Definition, Input, SCHEMA, Spill};
pub use overside_flow_files as files;
pub use overside_flow_operators::{self as operators, Error, column};
pub use overside_flow_tree as tree;
pub use overside_tables::memory::BufferPool;
pub use overside_tables::{Error as TableError, check_schema, pack, schema_difference};
pub use repartition::{Repartition, Repartitioned};
pub use run::file_output::{FileOutput, FileOutputOptions, WrittenFile, partition_name};
pub use run::in_process::{InProcessNode, NodeFaults};
pub use run::node::{Completions, Node, NodeError, NodeResult, NodeStage};
pub use run::packing::{Packing, PackingStage};
pub use run::report::{
    CpuTimeReport, DeviceReport, HostReport, NodeReport, PipelineEvent, PipelineReport,
    REPORT_SCHEMA, StageReport,
};
pub use run::runner::StageRunner;
pub use run::runtime::Pipeline;
pub use run::stream::Stream;
pub use run::stream_state::Done;
pub use run::tree_output::TreeOutput;
pub use stage::PartitionedBatch;
