//! State of a stage of one stream: its batches in order, the location of each, and their assignment to host
//! and node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use overside_placement::{Target, WeightedSplit};

use crate::definition::placement::StagePlacement;
use crate::definition::stage::StageDefinition;
use crate::run::adaptive::Backlog;
use crate::run::node_link::NodeLink;
use crate::run::report::StageCounts;
use crate::stage::{CompiledStage, PartitionedBatch, StageFunction, bytes_of};

/// Batch in a stage.
pub(crate) struct Slot {
    pub tag: u64,
    /// Input pieces; kept until there is a result, because the batch may have to run again.
    pub pieces: Vec<PartitionedBatch>,
    /// Number of bytes of the input, or of the result once there is one.
    pub bytes: u64,
    pub entered: Instant,
    pub is_on_host: bool,
    pub is_on_node: bool,
    pub result: Option<Vec<PartitionedBatch>>,
}

/// Rule that sends an arriving batch to the host or to the node.
enum Route {
    Host,
    Node,
    Split(WeightedSplit),
}

/// State of a stage of one stream.
pub(crate) struct StageState {
    pub definition: Arc<StageDefinition>,
    pub input_schema: SchemaRef,
    pub compiled: Arc<CompiledStage>,
    route: Route,
    /// Number of the first slot. Batches have the same number in all stages.
    pub base: u64,
    pub slots: VecDeque<Slot>,
    /// Time since when the first slot is the first.
    oldest_since: Option<Instant>,
    /// Numbers of batches that wait for the host. `node_queue` has those that wait for the node, or for
    /// either if both share the work.
    host_queue: VecDeque<u64>,
    node_queue: VecDeque<u64>,
    /// Number of bytes that wait in the second queue.
    node_queue_bytes: u64,
    /// Instances of the stage's function that no thread is using now.
    pub idle: Vec<Box<dyn StageFunction>>,
    pub host_running: usize,
    host_running_bytes: u64,
    pub link: Option<NodeLink>,
    pub counts: StageCounts,
}

impl StageState {
    pub(crate) fn new(
        definition: Arc<StageDefinition>,
        input_schema: SchemaRef,
        compiled: CompiledStage,
        function: Box<dyn StageFunction>,
        link: Option<NodeLink>,
    ) -> Self {
        let route = match (definition.placement(), &link) {
            (_, None) => Route::Host,
            (StagePlacement::Split(shares), _) => Route::Split(WeightedSplit::new(shares)),
            _ => Route::Node,
        };
        Self {
            definition,
            input_schema,
            compiled: Arc::new(compiled),
            route,
            base: 0,
            slots: VecDeque::new(),
            oldest_since: None,
            host_queue: VecDeque::new(),
            node_queue: VecDeque::new(),
            node_queue_bytes: 0,
            idle: vec![function],
            host_running: 0,
            host_running_bytes: 0,
            link,
            counts: StageCounts::default(),
        }
    }

    /// Adds an arriving batch. A batch without rows is done at once.
    pub(crate) fn enter(
        &mut self,
        tag: u64,
        pieces: Vec<PartitionedBatch>,
        bytes: u64,
        now: Instant,
    ) {
        let number = self.base + self.slots.len() as u64;
        let is_done = pieces.is_empty();
        self.counts.volume.came(&pieces, bytes);
        self.slots.push_back(Slot {
            tag,
            result: is_done.then(Vec::new),
            pieces,
            bytes,
            entered: now,
            is_on_host: false,
            is_on_node: false,
        });
        if is_done {
            return;
        }
        let is_for_node = match &mut self.route {
            Route::Host => false,
            Route::Node => true,
            Route::Split(split) => split.next(bytes as usize) != Target::Cpu,
        };
        match is_for_node {
            true => {
                self.node_queue.push_back(number);
                self.node_queue_bytes += bytes;
                if let Some(adaptive) = self.link.as_mut().and_then(NodeLink::adaptive) {
                    adaptive.arrived(bytes);
                }
            }
            false => self.host_queue.push_back(number),
        }
    }

    pub(crate) fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let index = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.slots.get_mut(index)
    }

    /// Returns the next batch for a thread of the host, if there is one.
    pub(crate) fn next_for_host(&self, now: Instant) -> Option<u64> {
        let shared = || self.shared_queue().and_then(VecDeque::front);
        let waiting = self.host_queue.front().or_else(shared).copied();
        waiting.or_else(|| self.overdue(now))
    }

    /// Returns the number of batches that threads of the host could start.
    pub(crate) fn ready_for_host(&self, now: Instant) -> usize {
        let waiting = self.host_queue.len() + self.shared_queue().map_or(0, VecDeque::len);
        waiting.max(usize::from(self.overdue(now).is_some()))
    }

    /// Returns `true` if an otherwise idle thread of the host may start the oldest batch.
    pub(crate) fn is_oldest_for_host(&self) -> bool {
        let is_first = |queue: &VecDeque<u64>| queue.front() == Some(&self.base);
        is_first(&self.host_queue)
            || self.shared_queue().is_some_and(is_first)
            || self.oldest_on_node().is_some()
    }

    /// Returns the queue of batches that wait for the node, if the host takes from it too.
    fn shared_queue(&self) -> Option<&VecDeque<u64>> {
        let link = self.link.as_ref().filter(|link| link.is_for_host_too());
        link.map(|_| &self.node_queue)
    }

    /// Removes all batches.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.host_queue.clear();
        self.node_queue.clear();
        self.node_queue_bytes = 0;
    }

    /// Returns the oldest batch, if everything behind it has waited too long for the node and the host takes
    /// part.
    fn overdue(&self, now: Instant) -> Option<u64> {
        self.oldest_on_node().filter(|until| *until < now).map(|_| self.base)
    }

    /// Returns the time until which the node may work on the oldest batch, if it does and the host takes
    /// part.
    fn oldest_on_node(&self) -> Option<Instant> {
        let link = self.link.as_ref()?;
        let slot = self.slots.front()?;
        let is_candidate = slot.is_on_node && !slot.is_on_host && slot.result.is_none();
        let since = self.oldest_since.unwrap_or(slot.entered);
        link.awaited_until(self.base, since).filter(|_| is_candidate)
    }

    /// Starts a batch of [`StageState::next_for_host`] on a thread of the host.
    pub(crate) fn begin_on_host(&mut self, number: u64) -> Option<Vec<PartitionedBatch>> {
        if self.host_queue.front() == Some(&number) {
            self.host_queue.pop_front();
        } else if self.node_queue.front() == Some(&number) {
            self.remove_from_node_queue(0);
        }
        let slot = self.slot(number)?;
        slot.is_on_host = true;
        let (pieces, bytes) = (slot.pieces.clone(), slot.bytes);
        self.host_running += 1;
        self.host_running_bytes += bytes;
        self.counts.begin();
        Some(pieces)
    }

    /// Completes a batch on a thread of the host. Returns `None` if the node was faster.
    pub(crate) fn end_on_host(
        &mut self,
        number: u64,
        bytes: u64,
        result: Vec<PartitionedBatch>,
        took: Duration,
    ) -> Option<(u64, u64)> {
        let threads = self.host_running;
        self.host_running = self.host_running.saturating_sub(1);
        self.host_running_bytes = self.host_running_bytes.saturating_sub(bytes);
        self.counts.end();
        if let Some(adaptive) = self.link.as_mut().and_then(NodeLink::adaptive) {
            adaptive.host_did(bytes, took, threads);
        }
        self.keep(number, result)
    }

    /// Stores the result of a batch until earlier ones are done. Returns the numbers of bytes of the batch
    /// and of its result; `None` if there was a result already.
    pub(crate) fn keep(
        &mut self,
        number: u64,
        result: Vec<PartitionedBatch>,
    ) -> Option<(u64, u64)> {
        let slot = self.slot(number).filter(|slot| slot.result.is_none())?;
        let before = slot.bytes;
        slot.bytes = bytes_of(&result);
        slot.result = Some(result);
        slot.pieces = Vec::new();
        Some((before, slot.bytes))
    }

    /// Returns the first batch that waits for the node, the time since when it waits, and its bytes.
    pub(crate) fn next_for_node(&self) -> Option<(u64, Instant, u64)> {
        let number = *self.node_queue.front()?;
        let slot = self.slots.get((number - self.base) as usize)?;
        Some((number, slot.entered, slot.bytes))
    }

    /// Starts a waiting batch on the node: the first, or a later one if the host shares the work.
    pub(crate) fn begin_on_node(&mut self, now: Instant) -> Option<(u64, Vec<PartitionedBatch>)> {
        let before = self.link.as_ref()?.bytes_before(&self.backlog());
        let last = self.node_queue.len().checked_sub(1)?;
        let mean = self.node_queue_bytes / self.node_queue.len() as u64;
        let index = usize::try_from(before / mean.max(1)).unwrap_or(last);
        let number = self.remove_from_node_queue(index.min(last))?;
        let slot = self.slot(number)?;
        slot.is_on_node = true;
        let (pieces, bytes, entered) = (slot.pieces.clone(), slot.bytes, slot.entered);
        self.link.as_mut()?.sent(number, bytes, entered, now);
        self.counts.begin();
        Some((number, pieces))
    }

    fn remove_from_node_queue(&mut self, index: usize) -> Option<u64> {
        let number = self.node_queue.remove(index)?;
        let bytes = self.slot(number).map_or(0, |slot| slot.bytes);
        self.node_queue_bytes -= bytes;
        Some(number)
    }

    /// Returns batches that failed on the node to the host, which processes them again.
    pub(crate) fn back_to_host(&mut self, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.counts.end();
            let Some(slot) = self.slot(number) else {
                continue;
            };
            slot.is_on_node = false;
            if slot.result.is_none() && !slot.is_on_host {
                let place = self.host_queue.partition_point(|other| *other < number);
                self.host_queue.insert(place, number);
            }
        }
    }

    /// Removes the oldest batch if it is done. Returns its tag, its result, and the result's number of bytes.
    pub(crate) fn leave(&mut self, now: Instant) -> Option<(u64, Vec<PartitionedBatch>, u64)> {
        self.slots.front()?.result.as_ref()?;
        let slot = self.slots.pop_front()?;
        self.base += 1;
        self.oldest_since = Some(now);
        Some((slot.tag, slot.result.unwrap_or_default(), slot.bytes))
    }

    /// Returns the work that host and node have not done yet, for `adaptive`.
    pub(crate) fn backlog(&self) -> Backlog {
        let (node_batches, node_bytes) = self.link.as_ref().map_or((0, 0), NodeLink::outstanding);
        Backlog {
            waiting_bytes: self.node_queue_bytes,
            next_bytes: self.next_for_node().map_or(0, |(_, _, bytes)| bytes),
            node_bytes,
            node_batches,
            host_bytes: self.host_running_bytes,
        }
    }

    /// Returns the number of waiting batches and of their bytes.
    pub(crate) fn queue(&self) -> (usize, u64) {
        let waiting = (self.slots.iter())
            .filter(|slot| slot.result.is_none() && !slot.is_on_host && !slot.is_on_node);
        waiting.fold((0, 0), |(count, bytes), slot| (count + 1, bytes + slot.bytes))
    }
}
