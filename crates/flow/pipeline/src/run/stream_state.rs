//! State of a stream.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::Error;
use crate::run::adaptive::Move;
use crate::run::node::{NodeError, NodeResult, SessionId};
use crate::run::node_link::Session;
use crate::run::report::{Events, NodeReport, PipelineEvent, StageReport, Totals, Volume};
use crate::run::stage_state::StageState;
use crate::stage::{PartitionedBatch, bytes_of};

/// Maximum number of batches that a stream holds, however small they are.
const BATCHES_MAX: usize = 4096;

/// Result of a batch that has passed all stages.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchResult {
    /// Tag that the producer gave the batch.
    pub tag: u64,
    /// Resulting batches; empty if all rows were dropped.
    pub pieces: Vec<PartitionedBatch>,
}

/// State of a stream.
pub(crate) struct StreamState {
    pub stages: Vec<StageState>,
    output: VecDeque<(BatchResult, u64)>,
    /// Error that ended the stream; `None` once it has been pulled.
    error: Option<Error>,
    /// `true` if no more batches will be pushed: the stream was ended, or failed.
    pub is_finished: bool,
    is_failed: bool,
    /// Number of the failed batch, counted from 0.
    pub failed: Option<u64>,
    /// Maximum number of bytes that it may hold; `held` is the current number.
    share: u64,
    pub held: u64,
    pub held_max: u64,
    /// Number of batches in the stream.
    count: usize,
    pub began: Option<Instant>,
    pub last_done: Option<Instant>,
    pub volume: Volume,
    pub events: Events,
    /// Batches assigned to nodes, which the dispatcher hands over without holding the lock.
    outbox: Vec<Submission>,
}

impl StreamState {
    pub(crate) fn new(stages: Vec<StageState>, share: u64) -> Self {
        Self {
            stages,
            output: VecDeque::new(),
            error: None,
            is_finished: false,
            is_failed: false,
            failed: None,
            share,
            held: 0,
            held_max: 0,
            count: 0,
            began: None,
            last_done: None,
            volume: Volume::default(),
            events: Events::default(),
            outbox: Vec::new(),
        }
    }

    /// Returns `true` if a batch of this many bytes may be pushed. Half of the stream's share is
    /// kept for the results.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let is_empty = self.count == 0;
        is_empty || (self.held + bytes <= self.share / 2 && self.count < BATCHES_MAX)
    }

    /// Pushes a batch.
    pub(crate) fn push(&mut self, tag: u64, piece: PartitionedBatch) {
        let now = Instant::now();
        self.began.get_or_insert(now);
        let pieces: Vec<PartitionedBatch> =
            Some(piece).filter(|piece| piece.batch.num_rows() > 0).into_iter().collect();
        let bytes = bytes_of(&pieces);
        self.volume.came(&pieces, bytes);
        self.count += 1;
        self.hold(bytes);
        self.enter(0, tag, pieces, bytes, now);
        self.settle(now);
    }

    fn hold(&mut self, bytes: u64) {
        self.held += bytes;
        self.held_max = self.held_max.max(self.held);
    }

    /// Replaces the held bytes of a batch by those of its result.
    fn hold_instead(&mut self, (before, after): (u64, u64)) {
        self.held = self.held.saturating_sub(before);
        self.hold(after);
    }

    fn enter(
        &mut self,
        stage: usize,
        tag: u64,
        pieces: Vec<PartitionedBatch>,
        bytes: u64,
        now: Instant,
    ) {
        if let Some(stage) = self.stages.get_mut(stage) {
            stage.enter(tag, pieces, bytes, now);
            return;
        }
        self.volume.left(&pieces, bytes);
        self.last_done = Some(now);
        self.output.push_back((BatchResult { tag, pieces }, bytes));
    }

    /// Moves finished batches to the next stage, in order.
    fn settle(&mut self, now: Instant) {
        for stage in 0..self.stages.len() {
            while let Some((tag, pieces, bytes)) = self.stages[stage].leave(now) {
                self.stages[stage].counts.volume.left(&pieces, bytes);
                self.enter(stage + 1, tag, pieces, bytes, now);
            }
        }
    }

    /// Returns the result of the next batch, or the error that ended the stream; `None` if there is
    /// neither now.
    pub(crate) fn pull(&mut self) -> Option<Result<BatchResult, Error>> {
        if let Some((done, bytes)) = self.output.pop_front() {
            self.held = self.held.saturating_sub(bytes);
            self.count -= 1;
            return Some(Ok(done));
        }
        self.error.take().map(Err)
    }

    /// Returns `true` if no batch can continue until one is pulled.
    pub(crate) fn waits_for_pull(&self) -> bool {
        !self.output.is_empty() && self.is_idle()
    }

    /// Returns `true` if there is a result or an error to pull.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty() || self.error.is_some()
    }

    /// Returns `true` if nothing more will be pulled.
    pub(crate) fn is_over(&self) -> bool {
        self.output.is_empty() && self.error.is_none() && self.is_finished && self.is_idle()
    }

    /// Returns `true` if no batch is in the stages.
    fn is_idle(&self) -> bool {
        self.is_failed || self.stages.iter().all(|stage| stage.slots.is_empty())
    }

    /// Ends the stream because of a failed batch, whose number is the same in each stage. Results so far can
    /// still be pulled; some earlier batches may be lost in the stages.
    fn fail(&mut self, number: u64, error: Error) {
        if !self.is_failed {
            self.error = Some(error);
            self.failed = Some(number);
        }
        self.is_failed = true;
        self.is_finished = true;
        self.stages.iter_mut().for_each(StageState::clear);
    }

    /// Returns the number of batches that threads of the host can continue, up to `most`.
    pub(crate) fn ready(&self, most: usize, now: Instant) -> usize {
        if self.is_failed {
            return 0;
        }
        if self.held > self.share {
            return usize::from(self.next_for_host(now).is_some());
        }
        let ready = self.stages.iter().map(|stage| stage.ready_for_host(now));
        ready.sum::<usize>().min(most)
    }

    /// Returns the stage and number of the batch that a thread of the host should continue.
    pub(crate) fn next_for_host(&self, now: Instant) -> Option<(usize, u64)> {
        if self.is_failed {
            return None;
        }
        let mut stages = self.stages.iter().enumerate().rev();
        if self.held <= self.share {
            return stages.find_map(|(index, stage)| Some((index, stage.next_for_host(now)?)));
        }
        // Too much is held: only the oldest batch continues, once nothing waits to be pulled.
        let (index, stage) = stages.find(|(_, stage)| !stage.slots.is_empty())?;
        let may_go_on = self.output.is_empty() && stage.is_oldest_for_host();
        may_go_on.then_some((index, stage.base))
    }

    pub(crate) fn done_on_host(
        &mut self,
        stage: usize,
        number: u64,
        bytes: u64,
        result: Result<Vec<PartitionedBatch>, Error>,
        took: Duration,
    ) {
        let state = &mut self.stages[stage];
        let (pieces, error) = match result {
            Ok(pieces) => (pieces, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        match (state.end_on_host(number, bytes, pieces, took), error) {
            (Some(_), Some(error)) => return self.fail(number, error),
            (Some(became), None) => {
                state.counts.host.batches += 1;
                state.counts.host.bytes += bytes;
                self.hold_instead(became);
            }
            (None, _) => state.counts.host.superseded += 1,
        }
        self.settle(Instant::now());
    }

    /// Handles a node's answer. Returns a session to be dropped without the lock.
    pub(crate) fn answered(
        &mut self,
        session: SessionId,
        number: u64,
        result: Result<NodeResult, NodeError>,
    ) -> Option<Session> {
        let now = Instant::now();
        let stage = self.stages.get_mut(session.stage)?;
        let link = stage.link.as_mut();
        let link = link.filter(|link| link.opening == session.opening)?;
        let sent = link.answered(number, now)?;
        match result {
            Ok(result) => {
                let recovered = link.record_success();
                let delay = sent.waited + Duration::from_nanos(result.queued_ns);
                let moved = link.adaptive().and_then(|adaptive| {
                    adaptive.moved(sent.bytes, Duration::from_nanos(result.host_cpu_ns));
                    adaptive.waited(delay, now)
                });
                stage.counts.end();
                stage.counts.host.cpu_ns += result.host_cpu_ns;
                let counts = &mut stage.counts.node;
                counts.queued_ns += delay.as_nanos() as u64;
                counts.queued_ns_max = counts.queued_ns_max.max(delay.as_nanos() as u64);
                counts.run_ns += result.run_ns;
                counts.cpu_ns += result.cpu_ns;
                let became = stage.keep(number, result.pieces);
                if let Some(became) = became {
                    stage.counts.node.batches += 1;
                    stage.counts.node.bytes += sent.bytes;
                    self.hold_instead(became);
                }
                if recovered {
                    self.event(session.stage, "the node works again".into());
                }
                self.moved(session.stage, moved);
                self.settle(now);
                None
            }
            Err(error) => {
                let is_lost = link.record_failure();
                stage.counts.host.repeated += 1;
                stage.back_to_host([number]);
                let text = format!("the node failed at a batch, which the host repeats: {error}");
                self.event(session.stage, text);
                match is_lost {
                    true => self.lost(session, "it failed at too many batches"),
                    false => None,
                }
            }
        }
    }

    /// Handles the loss of a node: the host processes its batches. Returns a session to be dropped without
    /// the lock.
    pub(crate) fn lost(&mut self, session: SessionId, reason: &str) -> Option<Session> {
        let stage = self.stages.get_mut(session.stage)?;
        let link = stage.link.as_mut();
        let link = link.filter(|link| link.opening == session.opening)?;
        let (had, closed, pause) = link.lose(Instant::now());
        stage.counts.node.losses += 1;
        stage.counts.host.repeated += had.len() as u64;
        let text = format!(
            "the node is lost ({reason}); the host repeats {} batches, next try in {} s",
            had.len(),
            pause.as_secs_f64()
        );
        stage.back_to_host(had);
        self.event(session.stage, text);
        closed
    }

    /// Handles that a stage was opened on its node, or could not be. Returns a session to be dropped without
    /// the lock.
    pub(crate) fn opened(
        &mut self,
        id: SessionId,
        session: Result<Session, NodeError>,
    ) -> Option<Session> {
        let link = self.stages.get_mut(id.stage)?.link.as_mut()?;
        if link.opening != id.opening {
            return session.ok();
        }
        link.is_opening = false;
        match session {
            Ok(session) => {
                link.session = Some(session);
                None
            }
            Err(error) => self.lost(id, &error.to_string()),
        }
    }

    /// Checks a stage that has a node.
    pub(crate) fn watch(&mut self, index: usize, now: Instant) -> Watched {
        let mut watched = Watched::default();
        if self.is_failed {
            return watched;
        }
        let is_full = !self.has_room(self.volume.bytes_in / self.volume.batches.max(1));
        let Some(stage) = self.stages.get_mut(index) else {
            return watched;
        };
        let backlog = stage.backlog();
        let waiting = stage.next_for_node();
        let Some(link) = &mut stage.link else {
            return watched;
        };
        let moved = link.adaptive().and_then(|adaptive| {
            let delay = waiting.map(|(_, since, _)| now.saturating_duration_since(since));
            let back = delay.and_then(|delay| adaptive.waited(delay, now));
            back.or_else(|| adaptive.tick(&backlog, is_full, now))
        });
        let opening = link.opening;
        let timeout = link.is_silent(now).then(|| link.timeout());
        watched.opening = link.wants_to_open(now).then_some(link.opening);
        watched.is_busy = link.is_busy() || waiting.is_some();
        self.moved(index, moved);
        if let Some(timeout) = timeout {
            let session = SessionId { stream: 0, stage: index, opening };
            let reason = format!("no answer for {} s", timeout.as_secs_f64());
            watched.closed = self.lost(session, &reason);
            return watched;
        }
        watched
    }

    /// Assigns batches to nodes. Returns `true` if there are some to be handed over.
    pub(crate) fn assign(&mut self, now: Instant) -> bool {
        if self.is_failed {
            self.outbox.clear();
        }
        // If too much is held, only the oldest continues, as on the host.
        let oldest = self.stages.iter().rposition(|stage| !stage.slots.is_empty());
        let oldest = oldest.filter(|_| self.output.is_empty());
        let is_over = self.held > self.share;
        for (index, stage) in self.stages.iter_mut().enumerate().rev() {
            while let Some((next, _, _)) = stage.next_for_node()
                && (!is_over || (oldest == Some(index) && next == stage.base))
                && let Some(link) = &stage.link
                && !(is_over && link.is_for_host_too())
                && link.takes_next(&stage.backlog(), now)
            {
                let (session, opening) = (link.session.clone(), link.opening);
                let Some((session, (number, pieces))) = session.zip(stage.begin_on_node(now))
                else {
                    break;
                };
                self.outbox.push(Submission { stage: index, opening, session, number, pieces });
            }
        }
        !self.outbox.is_empty()
    }

    /// Removes the batches that are to be handed to nodes.
    pub(crate) fn take_outbox(&mut self) -> Vec<Submission> {
        std::mem::take(&mut self.outbox)
    }

    fn moved(&mut self, stage: usize, moved: Option<Move>) {
        let node = &mut self.stages[stage].counts.node;
        let text = match moved {
            None => return,
            Some(Move::Back(delay)) => {
                node.moves_back += 1;
                let delay_ms = delay.as_secs_f64() * 1e3;
                format!("back to the host: a batch waited {delay_ms:.0} ms for the node")
            }
            Some(Move::Down { node: rate, arriving }) => {
                node.moves_down += 1;
                let (rate, arriving) = (rate / 1e6, arriving / 1e6);
                format!("down to the node: it does {rate:.0} MB/s, and {arriving:.0} MB/s come")
            }
        };
        self.event(stage, text);
    }

    fn event(&mut self, stage: usize, message: String) {
        let name = self.stages[stage].definition.name().to_owned();
        tracing::info!(stage = name, "{message}");
        let at_ns = self.began.map_or(0, |began| began.elapsed().as_nanos() as u64);
        self.events.push(PipelineEvent { at_ns, stage: name, message });
    }

    /// Returns the statistics of this stream so far.
    pub(crate) fn report(&self) -> Totals {
        let end = if self.is_finished && self.is_idle() { self.last_done } else { None };
        let elapsed = self.began.map(|began| match end {
            Some(end) => end.saturating_duration_since(began),
            None => began.elapsed(),
        });
        Totals {
            elapsed_ns: elapsed.map_or(0, |elapsed| elapsed.as_nanos() as u64),
            volume: self.volume,
            held_bytes_max: self.held_max,
            held_bytes: self.held,
            stages: self.stages.iter().map(stage_report).collect(),
            events: self.events.clone(),
        }
    }
}

fn stage_report(stage: &StageState) -> StageReport {
    let (definition, counts) = (&stage.definition, &stage.counts);
    let reports: Vec<_> = stage.idle.iter().flat_map(|function| function.reports()).collect();
    let names = (definition.name(), definition.kind());
    let (queue_batches, queue_bytes) = stage.queue();
    StageReport {
        queue_batches,
        queue_bytes,
        node: stage.link.as_ref().map(|link| NodeReport {
            name: link.name.clone(),
            state: link.state(),
            is_real: link.node.is_real(),
            ..counts.node.clone()
        }),
        ..counts.report(names, definition.placement(), &reports)
    }
}

/// Batch to be submitted to a node.
pub(crate) struct Submission {
    pub stage: usize,
    /// Number of the opening that the session belongs to.
    pub opening: u64,
    pub session: Session,
    pub number: u64,
    pub pieces: Vec<PartitionedBatch>,
}

/// Actions that the dispatcher takes for a stage with a node.
#[derive(Default)]
pub(crate) struct Watched {
    /// Number of the opening, if the stage is to be opened.
    pub opening: Option<u64>,
    /// Session to be dropped without the lock.
    pub closed: Option<Session>,
    /// `true` if the stage must be checked again soon.
    pub is_busy: bool,
}
