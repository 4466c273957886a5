//! Arrow data flows: record batches on their way from producers, which emit tables by space, to
//! consumers, which read them by object over time. Between them batches are unpacked, filtered,
//! partitioned by a key, packed again and routed. `stages` has one file for each kind of stage; the
//! crate `operators` has the functions that stages call.
//!
//! A pipeline is a sequence of stages, each on the host, on a node, or on both, and the outputs to which
//! the results are routed.
//!
//! 1. A [`Definition`] is read from a user's file. It is independent of the data.
//! 2. A [`Pipeline`] has the threads, the nodes and the memory for it. [`Pipeline::stream`] starts a
//!    stream of batches of one schema and compiles the stages for it.
//! 3. A stage is a pure function of one batch. So batches can run anywhere, several at once, and again
//!    after a failure. Results leave in the order of the batches, each once.
//!
//! | topic | module |
//! |---|---|
//! | syntax of definitions | `definition`, and one file for each kind of stage in `stages` |
//! | work of a stage | `stage` |
//! | work around the stages | `run::packing` |
//! | execution | `run`: `runtime`, `stream`; `engine` with `stream_state` and `stage_state` |
//! | nodes | `run`: `node`, `node_link`, `engine::dispatcher`, `adaptive`; `in_process`; on the node: `runner` |
//! | reports and outputs | `run`: `report`, `file_output`, `tree_output` |

pub mod bench;
mod definition;
pub mod enlarge;
pub mod generate;
pub mod object_store;
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
pub use run::file_output::{FileOutput, FileOutputOptions, Gather, WrittenFile};
pub use run::in_process::{InProcessNode, NodeFaults};
pub use run::node::{Completions, Node, NodeError, NodeResult, NodeStage};
pub use run::packing::{Packing, PackingStage};
pub use run::report::{
    DeviceReport, Events, HostReport, NodeReport, PipelineEvent, PipelineReport, REPORT_SCHEMA,
    StageReport, Totals, Volume,
};
pub use run::runner::StageRunner;
pub use run::runtime::Pipeline;
pub use run::stream::Stream;
pub use run::stream_state::BatchResult;
pub use run::tree_output::TreeOutput;
pub use stage::PartitionedBatch;
