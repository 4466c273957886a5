//! A placement as the measuring loop drives it: chunks of a stream that goes round and round over the test's buffers,
//! pieces in order, each checked by the expectations for the target that ran it.

use std::collections::VecDeque;
use std::time::Duration;

use overside_device::{Clock, Operation, Outcome, Slice};
use overside_placement::{Chunk, ChunkResult, Error, Executor, Report};
use overside_probe::closed_loop::{CompletedOperation, OperationQueue};
use overside_probe::{Failure, FailureKind};

use crate::context_queue::job_failed;
use crate::job_totals::JobTotals;
use crate::plan::is_beyond;
use crate::verify::OutputChecker;

/// Checkers of the targets' outputs.
pub(super) type Checkers<'a> = Vec<Option<OutputChecker<'a>>>;

/// A stream of chunks through an executor.
pub(super) struct PlacementQueue<'a> {
    pub executor: Executor,
    clock: Clock,
    sources: Vec<Slice>,
    /// Order in which the sources of each length are taken repeatedly.
    orders: Vec<Order>,
    /// Source numbers of the chunks in flight, in order.
    numbers: VecDeque<usize>,
    checkers: Checkers<'a>,
    operation: Operation,
    totals: Vec<JobTotals>,
    /// Chunks pushed so far; the next one's label.
    pushed: u64,
    /// Number of pushed chunks that were filled and not yet reported as submitted; an executor
    /// takes chunks at once.
    unsubmitted: usize,
    /// Pieces that came back; the next one's label.
    pulled: u64,
    piece: Option<ChunkResult>,
    /// Last results of each target, to be compared in full after the clock has stopped.
    kept: Vec<VecDeque<(usize, ChunkResult)>>,
    /// Number of results to keep for each target: as many as it has jobs in flight, so that keeping
    /// them does not need more buffers than the work does.
    keeps: Vec<usize>,
}

/// The numbers of sources, and how many were taken.
struct Order {
    numbers: Vec<u32>,
    taken: usize,
}

impl<'a> PlacementQueue<'a> {
    pub(super) fn new(
        executor: Executor,
        (sources, orders): (Vec<Slice>, Vec<Vec<u32>>),
        checkers: Checkers<'a>,
        keeps: Vec<usize>,
        operation: Operation,
        clock: Clock,
    ) -> Self {
        Self {
            executor,
            clock,
            sources,
            orders: (orders.into_iter()).map(|numbers| Order { numbers, taken: 0 }).collect(),
            numbers: VecDeque::new(),
            totals: none(operation, checkers.len()),
            kept: checkers.iter().map(|_| VecDeque::new()).collect(),
            checkers,
            operation,
            pushed: 0,
            unsubmitted: 0,
            pulled: 0,
            piece: None,
            keeps,
        }
    }

    /// Buffers of one round of the stream.
    pub(super) fn sources(&self) -> usize {
        self.orders.first().map_or(1, |order| order.numbers.len())
    }

    /// Resets the counts: work so far was not under the clock.
    pub(super) fn restart(&mut self) {
        self.totals = none(self.operation, self.checkers.len());
        for checker in self.checkers.iter_mut().flatten() {
            checker.varied = 0;
        }
    }

    /// Outputs that were right though not the same as before.
    pub(super) fn varied(&self) -> u64 {
        let checkers = self.checkers.iter().flatten();
        checkers.map(|checker| checker.varied).sum()
    }

    /// Chunks pushed so far.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Returns the source of the next chunk, with the length that the executor wants.
    fn next(&mut self) -> usize {
        let wanted = self.executor.chunk_bytes();
        let sources = &self.sources;
        let has_length = |order: &Order| sources[order.numbers[0] as usize].len() == wanted;
        let place = self.orders.iter().position(has_length).unwrap_or(0);
        let order = &mut self.orders[place];
        let number = order.numbers[order.taken % order.numbers.len()];
        order.taken += 1;
        number as usize
    }

    /// Keeps one of a target's last pieces, and the oldest no longer if they are too many.
    fn keep(&mut self, number: usize, piece: ChunkResult) {
        let target = piece.target.index();
        self.kept[target].push_back((number, piece));
        if self.kept[target].len() > self.keeps[target]
            && let Some((number, mut oldest)) = self.kept[target].pop_front()
            && let Some(checker) = &self.checkers[target]
        {
            checker.poison(number, &mut oldest.destination);
        }
    }

    /// Compares the last outputs of each target in every byte, and gives their buffers back.
    pub(super) fn check_kept(&mut self) -> Result<(), Failure> {
        for (number, mut piece) in self.take_kept() {
            let outcome = outcome(&piece, number)?;
            if let Some(checker) = &mut self.checkers[piece.target.index()] {
                checker.check_whole(number, &outcome, &piece.destination)?;
                checker.poison(number, &mut piece.destination);
            }
        }
        Ok(())
    }

    /// Checks a piece: it is the next one, a requested device ran it, and its output equals the
    /// verified one, or passes the full test.
    fn look_at_piece(
        &mut self,
        draining: bool,
        done: &mut Vec<CompletedOperation>,
    ) -> Result<(), Failure> {
        let Some(mut piece) = self.piece.take() else {
            return Ok(());
        };
        let wrong = |message: String| Failure::new(FailureKind::Verification, message);
        if piece.label != self.pulled {
            let (came, due) = (piece.label, self.pulled);
            return Err(wrong(format!("chunk {came} came where {due} was due")));
        }
        self.pulled += 1;
        let number = (self.numbers.pop_front())
            .ok_or_else(|| wrong("a chunk came that nobody pushed".into()))?;
        let target = piece.target.index();
        let outcome = outcome(&piece, number)?;
        let Some(applied) = &piece.applied else {
            return Err(wrong("a piece does not say what ran it".into()));
        };
        let Some(checker) = &mut self.checkers[target] else {
            let target = piece.target;
            return Err(wrong(format!("the {target} target ran a chunk, which it was not to")));
        };
        let source_bytes = self.sources[number].len();
        checker.check(number, source_bytes, &outcome, applied, &piece.destination)?;
        self.totals[target].add(applied, &outcome, piece.stages, source_bytes as u64)?;
        done.push(CompletedOperation { slot: 0, late: piece.stages.late });
        if draining {
            self.keep(number, piece);
        } else {
            // The buffer is used again: what is in it must not pass for the next output.
            checker.poison(number, &mut piece.destination);
        }
        Ok(())
    }

    fn take_kept(&mut self) -> Vec<(usize, ChunkResult)> {
        self.kept.iter_mut().flat_map(std::mem::take).collect()
    }

    /// Drops everything that uses the executor's memory.
    pub(super) fn let_go(&mut self) {
        self.take_kept();
        self.sources.clear();
    }

    /// Goes on with memory of its own.
    pub(super) fn renew(&mut self, sources: Vec<Slice>) {
        self.sources = sources;
    }

    /// Closes all targets. Returns the totals of each, and the executor's report.
    pub(super) fn close(mut self) -> (Vec<JobTotals>, Report) {
        self.let_go();
        (self.totals, self.executor.close())
    }

    /// Ends all targets. Returns the checks of their outputs.
    pub(super) fn into_checkers(self) -> Checkers<'a> {
        self.executor.close();
        self.checkers
    }
}

impl OperationQueue for PlacementQueue<'_> {
    fn has_room(&self) -> bool {
        self.executor.has_capacity()
    }

    fn fill(&mut self, count: usize, slots: &mut VecDeque<usize>) -> Result<(), Failure> {
        for _ in 0..count {
            if !self.executor.has_capacity() {
                break;
            }
            let number = self.next();
            let source = self.sources[number].clone();
            let pushed = self.executor.push(Chunk::new(self.pushed, source));
            pushed
                .map_err(|_| Failure::new(FailureKind::Internal, "there was room, and then not"))?;
            self.numbers.push_back(number);
            self.pushed += 1;
            self.unsubmitted += 1;
            // Pieces come in order: no slot tells one from another.
            slots.push_back(0);
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<usize, Failure> {
        Ok(std::mem::take(&mut self.unsubmitted))
    }

    fn poll(&mut self) -> Result<usize, Failure> {
        self.piece = self.executor.pull().map_err(failed)?;
        Ok(usize::from(self.piece.is_some()))
    }

    fn take(&mut self, draining: bool, done: &mut Vec<CompletedOperation>) -> Result<(), Failure> {
        let clock = self.clock.clone();
        clock.aside(|| self.look_at_piece(draining, done)).0
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Failure> {
        self.executor.wait(timeout).map_err(failed)
    }

    fn withdraw(&mut self) {
        // What was filled has been submitted: the executor has it.
    }
}

fn none(operation: Operation, targets: usize) -> Vec<JobTotals> {
    (0..targets).map(|_| JobTotals::new(operation)).collect()
}

fn outcome(piece: &ChunkResult, number: usize) -> Result<Outcome, Failure> {
    let result = piece.result.clone();
    result.map_err(|error| job_failed(number, &error))
}

fn failed(error: Error) -> Failure {
    let kind = match error {
        Error::Lost { .. } => FailureKind::Lost,
        _ => FailureKind::Job,
    };
    Failure::new(kind, error.to_string())
}

/// Error of targets that cannot be opened: unsupported operations are skipped, others have failed.
pub(super) fn not_opened(error: Error) -> Failure {
    match &error {
        Error::Open(reason) if is_beyond(reason) => Failure::unsupported(error.to_string()),
        _ => failed(error),
    }
}
