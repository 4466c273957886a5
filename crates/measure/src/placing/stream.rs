//! The stream of chunks: pushes them in order, looks at every piece, counts each once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_device::{Applied, JobError, Outcome, Slice};
use overside_placement::{Chunk, ChunkResult, Error, Executor, Report};

use super::{Checked, Tally, ended};
use crate::measuring::{NoSample, is_beyond};
use crate::sample::{Check, Failure, Kind};

/// How long one wait may last before the clock is looked at again.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// A stream that goes round and round over the test's buffers.
pub(super) struct Stream {
    executor: Option<Executor>,
    sources: Vec<Slice>,
    /// In which order the sources are taken, again and again.
    order: Vec<u32>,
    /// By leg.
    checked: [Option<Checked>; 2],
    /// The devices that the legs must be, by name.
    names: [String; 2],
    deadline: Instant,
    /// Chunks pushed so far; the next one's label.
    pushed: u64,
    /// Pieces that came back; the next one's label.
    pulled: u64,
    /// By leg: its last pieces, to be compared in full when the clock has stopped.
    kept: [VecDeque<ChunkResult>; 2],
    /// By leg: how many are kept; as many as it has jobs in flight, so that keeping them does not
    /// ask for more buffers than the work does.
    keeps: [usize; 2],
    /// What had been pushed when the stream was last set up.
    renewed_at: u64,
    /// Outputs that were right though not the same as before.
    pub(super) varied: u64,
}

impl Stream {
    pub(super) fn new(
        executor: Executor,
        sources: Vec<Slice>,
        order: Vec<u32>,
        checked: [Option<Checked>; 2],
        names: [String; 2],
        keeps: [usize; 2],
        deadline: Instant,
    ) -> Self {
        Self {
            executor: Some(executor),
            sources,
            order,
            checked,
            names,
            deadline,
            pushed: 0,
            pulled: 0,
            kept: Default::default(),
            keeps,
            renewed_at: 0,
            varied: 0,
        }
    }

    pub(super) fn executor(&mut self) -> Result<&mut Executor, Failure> {
        self.executor.as_mut().ok_or_else(ended)
    }

    /// Pushes chunks for a while, at least one, and waits for the last.
    pub(super) fn run_for(&mut self, limit: Duration, tally: &mut Tally) -> Result<(), Failure> {
        let start = Instant::now();
        self.renewed_at = self.pushed;
        let first = self.pushed;
        self.go(tally, |label| label == first || start.elapsed() < limit)
    }

    /// Pushes every buffer once and waits for the last.
    pub(super) fn run_once(&mut self, tally: &mut Tally) -> Result<(), Failure> {
        let end = self.pushed + self.order.len() as u64;
        self.go(tally, |label| label < end)
    }

    fn go(&mut self, tally: &mut Tally, more: impl Fn(u64) -> bool) -> Result<(), Failure> {
        let mut executor = self.executor.take().ok_or_else(ended)?;
        let deadline = self.deadline;
        let mut pushed = self.pushed;
        let (sources, order) = (self.sources.clone(), self.order.clone());
        let next = || {
            let label = pushed;
            more(label).then(|| {
                pushed += 1;
                chunk(label, &sources[order[place(label, order.len())] as usize])
            })
        };
        let take = |piece: ChunkResult, ending: bool| self.take(piece, ending, tally);
        run(&mut executor, deadline, next, take)?;
        self.executor = Some(executor);
        self.pushed = pushed;
        if self.pulled != self.pushed {
            let message = format!("{} chunks went in, {} came out", self.pushed, self.pulled);
            return Err(Failure::new(Kind::Verification, message));
        }
        Ok(())
    }

    /// Looks at a piece: it is the next one, it was run by a device that was asked, and its output
    /// is what verification saw, or else stands the full test.
    fn take(
        &mut self,
        mut piece: ChunkResult,
        ending: bool,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        if piece.label != self.pulled {
            let message = format!("chunk {} came where {} was due", piece.label, self.pulled);
            return Err(Failure::new(Kind::Verification, message));
        }
        self.pulled += 1;
        let number = self.number(piece.label);
        let (outcome, applied) = result(&piece, number)?;
        let name = &self.names[piece.target as usize];
        if applied.device != *name {
            let message = format!("{name} was asked, but {} ran the job", applied.device);
            return Err(Failure::new(Kind::Verification, message));
        }
        let source_bytes = self.sources[number].len();
        let checked = self.checked[piece.target as usize].as_mut();
        let checked = checked.ok_or_else(|| {
            let message = format!("the {} leg ran a chunk, which it was not to", piece.target);
            Failure::new(Kind::Verification, message)
        })?;
        let expected = &checked.expected[number];
        if !expected.looks_like(&outcome, &piece.destination) {
            expected.not_incompressible(&outcome, source_bytes)?;
            checked
                .verifier
                .check(number, &outcome, &piece.destination)?;
            self.varied += 1;
        }
        tally.add(&piece, &outcome, source_bytes as u64)?;
        if ending {
            self.keep(piece);
        } else {
            // The buffer is used again: what is in it must not pass for the next output.
            expected.spoil(&mut piece.destination);
        }
        Ok(())
    }

    /// Which source a chunk was.
    fn number(&self, label: u64) -> usize {
        self.order[place(label, self.order.len())] as usize
    }

    /// Keeps one of a leg's last pieces, and the oldest no longer if they are too many.
    fn keep(&mut self, piece: ChunkResult) {
        let leg = piece.target as usize;
        self.kept[leg].push_back(piece);
        if self.kept[leg].len() > self.keeps[leg]
            && let Some(mut oldest) = self.kept[leg].pop_front()
            && let Some(checked) = &self.checked[leg]
        {
            let number = self.number(oldest.label);
            checked.expected[number].spoil(&mut oldest.destination);
        }
    }

    /// Compares the last outputs of each leg in every byte, and gives their buffers back.
    pub(super) fn check_kept(&mut self) -> Result<(), Failure> {
        for mut piece in std::mem::take(&mut self.kept).into_iter().flatten() {
            let number = self.number(piece.label);
            let (outcome, _) = result(&piece, number)?;
            let Some(checked) = &mut self.checked[piece.target as usize] else {
                continue;
            };
            let expected = &checked.expected[number];
            if !expected.is(&outcome, &piece.destination) {
                (checked.verifier).check(number, &outcome, &piece.destination)?;
            }
            expected.spoil(&mut piece.destination);
        }
        Ok(())
    }

    /// Lets go of everything that belongs to the executor's memory.
    pub(super) fn let_go(&mut self) {
        self.kept = Default::default();
        self.sources.clear();
    }

    /// Goes on with memory of its own.
    pub(super) fn renewed(&mut self, sources: Vec<Slice>) {
        self.sources = sources;
        self.renewed_at = self.pushed;
    }

    /// How often the stream began since it was set up.
    pub(super) fn begun_since_renewal(&self) -> u64 {
        (self.pushed - self.renewed_at).div_ceil(self.order.len() as u64)
    }

    /// How the outputs were verified; both legs' ways where they differ.
    pub(super) fn check(&self) -> Check {
        let mut all = self.checked.iter().flatten().map(|it| it.check.clone());
        let mut check = all.next().unwrap_or_else(|| Check {
            method: String::new(),
            value: String::new(),
            buffers: 0,
        });
        for other in all {
            if other.method != check.method {
                check.method = format!("{}; {}", check.method, other.method);
            }
        }
        check
    }

    /// Lets both legs go.
    pub(super) fn close(&mut self) -> Report {
        self.let_go();
        let executor = self.executor.take();
        executor.map_or_else(Report::default, Executor::close)
    }
}

/// Which of `count` a label stands for.
fn place(label: u64, count: usize) -> usize {
    (label % count as u64) as usize
}

/// A chunk whose result may be as long as the buffers are.
pub(super) fn chunk(label: u64, source: &Slice) -> Chunk {
    Chunk::new(label, source.clone())
}

/// What became of a piece, and who ran it.
pub(super) fn result(piece: &ChunkResult, number: usize) -> Result<(Outcome, &Applied), Failure> {
    let outcome = piece.result.clone().map_err(|error| {
        let kind = match error {
            JobError::DeadlineExceeded => Kind::Timeout,
            _ => Kind::Job,
        };
        Failure::new(kind, format!("buffer {number}: {error}"))
    })?;
    let applied = piece
        .applied
        .as_deref()
        .ok_or_else(|| Failure::new(Kind::Verification, "a piece does not say what ran it"))?;
    Ok((outcome, applied))
}

/// Pushes what `next` gives until it gives nothing, and hands out every piece in order. `take` is
/// told whether all has been pushed.
pub(super) fn run(
    executor: &mut Executor,
    deadline: Instant,
    mut next: impl FnMut() -> Option<Chunk>,
    mut take: impl FnMut(ChunkResult, bool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut more = true;
    loop {
        while more && executor.has_capacity() {
            match next() {
                Some(chunk) => {
                    let full = |_| Failure::new(Kind::Internal, "there was room, and then not");
                    executor.push(chunk).map_err(full)?;
                }
                None => more = false,
            }
        }
        match executor.pull().map_err(failed)? {
            Some(piece) => take(piece, !more)?,
            None if executor.in_flight() == 0 && !more => return Ok(()),
            None => {
                let left = deadline.saturating_duration_since(Instant::now());
                executor.wait(left.min(WAIT_MAX)).map_err(failed)?;
            }
        }
        if Instant::now() > deadline {
            let message = "the sample was not done before the test's time was over";
            return Err(Failure::new(Kind::Timeout, message));
        }
    }
}

fn failed(error: Error) -> Failure {
    match error {
        Error::Lost { .. } => lost(error.to_string()),
        _ => Failure::new(Kind::Job, error.to_string()),
    }
}

pub(super) fn lost(message: impl Into<String>) -> Failure {
    Failure::new(Kind::Lost, message)
}

/// Legs that cannot be opened: what they cannot do is skipped, what goes wrong has failed.
pub(super) fn not_opened(error: Error) -> NoSample {
    match &error {
        Error::Open(reason) if is_beyond(reason) => NoSample::Skipped(error.to_string()),
        _ => NoSample::Failed(failed(error)),
    }
}
