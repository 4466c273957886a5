//! Running pipeline.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use arrow_schema::SchemaRef;
use overside_tables::pack::CodecPool;

use crate::Error;
use crate::definition::Definition;
use crate::definition::node::NodeDefinition;
use crate::definition::outputs::Destination;
use crate::definition::placement::StagePlacement;
use crate::definition::stage::StageDefinition;
use crate::run::engine::Engine;
use crate::run::in_process::InProcessNode;
use crate::run::node::Node;
use crate::run::node_link::NodeLink;
use crate::run::packing::Packing;
use crate::run::report::PipelineReport;
use crate::run::runner::{compile, in_stage};
use crate::run::stage_state::StageState;
use crate::run::stream::Stream;
use crate::run::stream_state::StreamState;
use crate::stage::CompiledStage;

/// Threads, nodes and memory of a definition, for streams that run in parallel.
pub struct Pipeline {
    definition: Arc<Definition>,
    nodes: BTreeMap<String, Arc<dyn Node>>,
    engine: Arc<Engine>,
    pool: Arc<CodecPool>,
    packing: Arc<Packing>,
    is_helping: bool,
    memory_bytes: u64,
}

impl Pipeline {
    /// Makes a pipeline for one caller that pushes and pulls on one thread. The caller counts among the
    /// pipeline's threads and works while it waits. `pool` has the threads. `connect` is as for
    /// [`Pipeline::new`].
    ///
    /// # Errors
    /// Those of `connect`; [`Error::Io`].
    pub fn on_caller(
        definition: Definition,
        pool: &Arc<CodecPool>,
        connect: impl FnMut(&str, &NodeDefinition) -> Result<Arc<dyn Node>, Error>,
    ) -> Result<Self, Error> {
        Self::of(definition, Arc::clone(pool), pool.threads(), true, connect)
    }

    /// Makes a pipeline for callers that push and pull on their own threads. `connect` makes a node from
    /// its name and its definition; in-process nodes are made here.
    ///
    /// # Errors
    /// Those of `connect`; [`Error::Io`].
    pub fn new(
        definition: Definition,
        mut connect: impl FnMut(&str, &NodeDefinition) -> Result<Arc<dyn Node>, Error>,
    ) -> Result<Self, Error> {
        let threads = definition.threads();
        // Only the helpers work.
        let budget = threads.checked_add(1).unwrap_or(NonZeroUsize::MAX);
        let pool = Arc::new(CodecPool::new(budget)?);
        Self::of(definition, pool, threads.get(), false, |name, node| {
            match node.is_placed_by_ray() {
                true => Err(Error::Refused(format!(
                    "node {name:?} has no address; `overside flow run --on ray` finds it one by its resources"
                ))),
                false => connect(name, node),
            }
        })
    }

    fn of(
        definition: Definition,
        pool: Arc<CodecPool>,
        threads: usize,
        is_helping: bool,
        mut connect: impl FnMut(&str, &NodeDefinition) -> Result<Arc<dyn Node>, Error>,
    ) -> Result<Self, Error> {
        let mut nodes: BTreeMap<String, Arc<dyn Node>> = BTreeMap::new();
        let used = definition.stages.iter().filter_map(StageDefinition::node);
        for name in used {
            let Some(node) = definition.nodes.get(name) else {
                return Err(Error::Refused(format!("no node is called {name:?}")));
            };
            if nodes.contains_key(name) {
                continue;
            }
            let made: Arc<dyn Node> = match node.is_in_process() {
                true => Arc::new(InProcessNode::of_definition(node)?),
                false => connect(name, node)?,
            };
            nodes.insert(name.to_owned(), made);
        }
        Ok(Self {
            engine: Engine::new(&pool, threads),
            memory_bytes: definition.memory_bytes(),
            definition: Arc::new(definition),
            nodes,
            packing: Arc::new(Packing::of_pool(&pool)),
            pool,
            is_helping,
        })
    }

    /// Sets the number of bytes for all streams together, in place of the definition's.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Sets the packing stages, in place of ones with their own threads; reports include them.
    #[must_use]
    pub fn with_packing(mut self, packing: &Arc<Packing>) -> Self {
        self.packing = Arc::clone(packing);
        self
    }

    /// Replaces the node of that name for streams that start from now on.
    #[must_use]
    pub fn with_node(mut self, name: &str, node: Arc<dyn Node>) -> Self {
        self.nodes.insert(name.to_owned(), node);
        self
    }

    /// Returns the definition that the pipeline was made from.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Starts a stream of batches of a schema. It may hold its share of the memory: all of it if
    /// the pipeline works on its caller's thread.
    ///
    /// # Errors
    /// [`Error::Stage`]: a stage does not accept such batches; [`Error::Refused`]: the maximum number of
    /// streams is running.
    pub fn stream(&self, schema: &SchemaRef) -> Result<Stream, Error> {
        let mut output = Arc::clone(schema);
        let mut stages = Vec::new();
        for stage in &self.definition.stages {
            let compiled = host_stage(stage, &output)?;
            let input = std::mem::replace(&mut output, Arc::clone(&compiled.schema));
            stages.push(self.stage_state(stage, input, compiled)?);
        }
        let streams_max = if self.is_helping { 1 } else { self.definition.streams() };
        let share = self.memory_bytes / streams_max as u64;
        let state = |_| Ok(StreamState::new(stages, share));
        Ok(Stream {
            number: self.engine.add(streams_max, state)?,
            engine: Arc::clone(&self.engine),
            pool: Arc::clone(&self.pool),
            packing: Arc::clone(&self.packing),
            is_helping: self.is_helping,
            name: self.definition.name.clone(),
            input: Arc::clone(schema),
            output,
        })
    }

    fn stage_state(
        &self,
        stage: &StageDefinition,
        input: SchemaRef,
        compiled: CompiledStage,
    ) -> Result<StageState, Error> {
        let function = (compiled.make)().map_err(|error| in_stage(stage.name(), error))?;
        let link = stage.node().and_then(|name| {
            let definition = self.definition.nodes.get(name)?;
            let node = Arc::clone(self.nodes.get(name)?);
            let is_adaptive = *stage.placement() == StagePlacement::Adaptive;
            let now = Instant::now();
            Some(NodeLink::new(name, node, definition, is_adaptive, now))
        });
        let definition = Arc::new(stage.clone());
        Ok(StageState::new(definition, input, compiled, function, link))
    }

    /// Returns the sums over all streams, including those that have ended.
    pub fn report(&self) -> PipelineReport {
        let state = self.engine.lock();
        let mut totals = state.ended.clone();
        state.streams.values().for_each(|stream| totals.push(stream.report()));
        totals.report(&self.definition.name, self.packing.reports())
    }
}

impl Definition {
    /// Returns the schema of the results for batches of a schema.
    ///
    /// # Errors
    /// Those of [`Pipeline::stream`], and a column that an output needs is missing.
    pub fn output_schema(&self, schema: &SchemaRef) -> Result<SchemaRef, Error> {
        let mut output = Arc::clone(schema);
        for stage in &self.stages {
            output = host_stage(stage, &output)?.schema;
        }
        for (name, definition) in &self.outputs {
            let checked = match (&definition.tree, &definition.to) {
                (Some(tree), _) => tree.check_columns(&output),
                (None, Destination::Directory(_) | Destination::ObjectStore(_)) => {
                    let checked = definition.write_options().check_columns(&output);
                    checked.map(|conversions| {
                        for conversion in conversions {
                            tracing::info!("output {name:?}: {}", conversion.text);
                        }
                    })
                }
                _ => Ok(()),
            };
            checked.map_err(|error| Error::Refused(format!("output {name:?}: {error}")))?;
        }
        Ok(output)
    }
}

/// Compiles a stage for the host; if it has a node, a named device is the node's.
fn host_stage(stage: &StageDefinition, schema: &SchemaRef) -> Result<CompiledStage, Error> {
    let device = stage.device().filter(|_| stage.node().is_none());
    compile(stage, schema, device)
}
