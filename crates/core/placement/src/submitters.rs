//! Several threads that submit the chunks of one stream: each has an executor of its own, and the
//! results come back in the order of the stream. It is for devices that one thread does not keep
//! busy: submitting and collecting costs that thread time, and a software driver works on it.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_device::{Clock, Device, ExternalBytes, Slice};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::adaptive::chunk_size::{ChunkSizer, Finished};
use crate::executor::is_readable;
use crate::memory::{Buffer, Pool, registered};
use crate::report::Log;
use crate::{Chunk, ChunkResult, Error, Executor, Report, SUBMITTERS_MAX, Setup};

/// Longest time that a submitting thread waits for the targets before it checks for new chunks again.
const WAIT: Duration = Duration::from_secs(1);

/// Submits a stream's chunks, on the caller's thread or on threads of its own. Used like an
/// [`Executor`].
pub struct Submitters(Kind);

// There is one of them a stream.
#[allow(clippy::large_enum_variant)]
enum Kind {
    Caller(Executor),
    Threads(Threads),
}

struct Threads {
    workers: Vec<Worker>,
    results: Receiver<Result<(u64, ChunkResult), Error>>,
    /// Descriptor that is readable when there may be a result.
    ready: Arc<OwnedFd>,
    sources: Arc<Pool>,
    /// The first device that takes only its own memory.
    registrar: Option<Arc<dyn Device>>,
    window: usize,
    /// Search for the chunk length; `None` if the caller chooses it. It is shared because no single
    /// thread sees how a length affects all of them.
    sizing: Option<Sizing>,
    chunk_bytes: usize,
    /// The callers' labels of the chunks in flight, in order.
    labels: VecDeque<u64>,
    pushed: u64,
    /// Results that wait for their turn.
    done: BTreeMap<u64, ChunkResult>,
    failure: Option<Error>,
    clock: Clock,
}

/// The search for the length of chunks.
struct Sizing {
    sizer: ChunkSizer,
    opened: Instant,
    finished: Finished,
    log: Log,
}

struct Worker {
    /// `None`: there will be no more.
    chunks: Option<Sender<(u64, Chunk)>>,
    /// Readable when there may be a chunk, or there will be no more.
    come: Arc<OwnedFd>,
    thread: JoinHandle<Report>,
}

impl Submitters {
    /// Opens an executor for each of `count` threads, or one on the caller's thread. The
    /// window of `setup` is that of all together, and of at least a chunk for each.
    ///
    /// # Errors
    /// As [`Executor::open`]; [`Error::TooManySubmitters`], [`Error::Thread`].
    pub fn open(setup: Setup, count: NonZeroUsize) -> Result<Self, Error> {
        let count = count.get();
        if count > SUBMITTERS_MAX {
            return Err(Error::TooManySubmitters(count));
        }
        if count == 1 {
            return Executor::open(setup).map(|executor| Self(Kind::Caller(executor)));
        }
        Threads::open(&setup, count).map(|threads| Self(Kind::Threads(threads)))
    }

    /// Returns an empty buffer for the next chunk, like [`Executor::buffer`].
    pub fn buffer(&mut self) -> Option<Buffer> {
        match &mut self.0 {
            Kind::Caller(executor) => executor.buffer(),
            Kind::Threads(threads) => threads.buffer(),
        }
    }

    /// Returns the length of the next chunk, like [`Executor::chunk_bytes`].
    pub fn chunk_bytes(&self) -> usize {
        match &self.0 {
            Kind::Caller(executor) => executor.chunk_bytes(),
            Kind::Threads(threads) => threads.chunk_bytes(),
        }
    }

    /// Makes a source of the caller's memory, like [`Executor::register`].
    pub fn register(&self, foreign: ExternalBytes) -> Slice {
        match &self.0 {
            Kind::Caller(executor) => executor.register(foreign),
            Kind::Threads(threads) => registered(threads.registrar.as_deref(), foreign),
        }
    }

    /// Returns `true` if there is room for another chunk, like [`Executor::has_capacity`].
    pub fn has_capacity(&self) -> bool {
        match &self.0 {
            Kind::Caller(executor) => executor.has_capacity(),
            Kind::Threads(threads) => threads.has_capacity(),
        }
    }

    /// Takes the next chunk of the stream, like [`Executor::push`].
    ///
    /// # Errors
    /// As there.
    // The chunk is what the caller goes on with.
    #[allow(clippy::result_large_err)]
    pub fn push(&mut self, chunk: Chunk) -> Result<(), Chunk> {
        match &mut self.0 {
            Kind::Caller(executor) => executor.push(chunk),
            Kind::Threads(threads) => threads.push(chunk),
        }
    }

    /// Returns the next result in the order of the stream if it is there, like [`Executor::pull`].
    ///
    /// # Errors
    /// As there.
    pub fn pull(&mut self) -> Result<Option<ChunkResult>, Error> {
        match &mut self.0 {
            Kind::Caller(executor) => executor.pull(),
            Kind::Threads(threads) => threads.pull(),
        }
    }

    /// Waits for a result for at most `timeout`, like [`Executor::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        match &mut self.0 {
            Kind::Caller(executor) => executor.wait(timeout),
            Kind::Threads(threads) => threads.wait(timeout),
        }
    }

    /// Waits for input or a result, like [`Executor::wait_for_input`].
    ///
    /// # Errors
    /// As there.
    pub fn wait_for_input(&mut self, input: BorrowedFd<'_>) -> Result<bool, Error> {
        match &mut self.0 {
            Kind::Caller(executor) => executor.wait_for_input(input),
            Kind::Threads(threads) => threads.wait_for_input(input),
        }
    }

    /// Returns the number of chunks pushed and not yet pulled, like [`Executor::in_flight`].
    pub fn in_flight(&self) -> usize {
        match &self.0 {
            Kind::Caller(executor) => executor.in_flight(),
            Kind::Threads(threads) => threads.in_flight(),
        }
    }

    /// Closes all executors, like [`Executor::close`]. Returns one report of the work of all
    /// threads together.
    pub fn close(self) -> Report {
        match self.0 {
            Kind::Caller(executor) => executor.close(),
            Kind::Threads(mut threads) => threads.close(),
        }
    }
}

impl Threads {
    fn open(setup: &Setup, count: usize) -> Result<Self, Error> {
        let each = setup.window().div_ceil(count);
        let window = match setup.window {
            // Rounded down, so that all together stay within it.
            Some(window) => (window / count).max(1),
            None => each,
        };
        let own = Setup {
            window: Some(window),
            // The length is that of all.
            first_chunk_bytes: None,
            ..setup.clone()
        };
        let executors: Result<Vec<Executor>, Error> =
            (0..count).map(|_| Executor::open(own.clone())).collect();
        let executors = executors?;
        let ready = Arc::new(event()?);
        let (send, results) = channel();
        let sources = executors[0].sources();
        let registrar = executors[0].registrar();
        let workers: Result<Vec<Worker>, Error> = (executors.into_iter())
            .map(|executor| Worker::start(executor, send.clone(), Arc::clone(&ready)))
            .collect();
        Ok(Self {
            workers: workers?,
            results,
            ready,
            sources,
            registrar,
            window: window * count,
            sizing: ChunkSizer::of(setup, window * count).map(|sizer| Sizing {
                sizer,
                opened: setup.clock.now(),
                finished: Finished::default(),
                log: Log::default(),
            }),
            clock: setup.clock.clone(),
            chunk_bytes: (setup.first_chunk_bytes)
                .map_or(setup.source_bytes, |first| first.min(setup.source_bytes)),
            labels: VecDeque::new(),
            pushed: 0,
            done: BTreeMap::new(),
            failure: None,
        })
    }

    fn in_flight(&self) -> usize {
        self.labels.len()
    }

    fn chunk_bytes(&self) -> usize {
        (self.sizing.as_ref()).map_or(self.chunk_bytes, |sizing| sizing.sizer.bytes())
    }

    fn has_capacity(&self) -> bool {
        self.failure.is_none() && self.in_flight() < self.window
    }

    fn buffer(&mut self) -> Option<Buffer> {
        if !self.has_capacity() {
            return None;
        }
        match self.sources.take() {
            Ok(region) => Some(Buffer::new(region, &self.sources)),
            Err(error) => {
                self.failure = Some(error.into());
                None
            }
        }
    }

    #[allow(clippy::result_large_err)]
    fn push(&mut self, chunk: Chunk) -> Result<(), Chunk> {
        if !self.has_capacity() {
            return Err(chunk);
        }
        let (label, number) = (chunk.label, self.pushed);
        let worker = &self.workers[(number % self.workers.len() as u64) as usize];
        if let Some(chunks) = &worker.chunks
            && let Err(back) = chunks.send((number, chunk))
        {
            // It has failed and will say why.
            return Err(back.0.1);
        }
        wake(&worker.come);
        self.labels.push_back(label);
        self.pushed += 1;
        Ok(())
    }

    /// The number of the next result.
    fn next(&self) -> u64 {
        self.pushed - self.labels.len() as u64
    }

    fn is_ready(&self) -> bool {
        self.done.contains_key(&self.next())
    }

    /// Keeps a result, or the reason why no more will come.
    fn came(&mut self, result: Result<(u64, ChunkResult), Error>) {
        match result {
            Ok((number, result)) => {
                if let Some(sizing) = &mut self.sizing {
                    let since = self.clock.since(sizing.opened);
                    sizing.finished(result.source.len() as u64, since);
                }
                self.done.insert(number, result);
            }
            Err(error) => self.failure = Some(self.failure.take().unwrap_or(error)),
        }
    }

    fn collect(&mut self) {
        rest(&self.ready);
        loop {
            match self.results.try_recv() {
                Ok(result) => self.came(result),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => return self.came(Err(ended())),
            }
        }
    }

    fn pull(&mut self) -> Result<Option<ChunkResult>, Error> {
        if !self.is_ready() {
            self.collect();
        }
        let Some(mut result) = self.done.remove(&self.next()) else {
            return self.failure.clone().map_or(Ok(None), Err);
        };
        if let Some(label) = self.labels.pop_front() {
            result.label = label;
        }
        Ok(Some(result))
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        let begun = Instant::now();
        self.collect();
        while !self.is_ready() && self.in_flight() > 0 {
            if let Some(error) = &self.failure {
                return Err(error.clone());
            }
            let left = timeout.saturating_sub(begun.elapsed());
            match self.results.recv_timeout(left) {
                Ok(result) => self.came(result),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => self.came(Err(ended())),
            }
        }
        Ok(())
    }

    fn wait_for_input(&mut self, input: BorrowedFd<'_>) -> Result<bool, Error> {
        while !is_readable(input)? {
            self.collect();
            if self.in_flight() == 0 {
                // The next read waits for it.
                return Ok(true);
            }
            if self.is_ready() {
                return Ok(false);
            }
            if let Some(error) = &self.failure {
                return Err(error.clone());
            }
            let mut set =
                [PollFd::new(&input, PollFlags::IN), PollFd::new(&self.ready, PollFlags::IN)];
            match rustix::event::poll(&mut set, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::Wait(error.to_string())),
            }
        }
        Ok(true)
    }

    fn close(&mut self) -> Report {
        for worker in &mut self.workers {
            worker.chunks = None;
            wake(&worker.come);
        }
        let (decisions, decisions_left_out) =
            (self.sizing.take()).map_or_else(Default::default, |sizing| sizing.log.decisions());
        let mut all = Report { decisions, decisions_left_out, ..Report::default() };
        for worker in self.workers.drain(..) {
            if let Ok(report) = worker.thread.join() {
                all.add(report);
            }
        }
        all
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.close();
    }
}

impl Sizing {
    /// Records a finished chunk of `bytes` bytes.
    fn finished(&mut self, bytes: u64, since: Duration) {
        self.finished.bytes += bytes;
        self.finished.chunks += 1;
        if let Some(resized) = self.sizer.observe(since, self.finished) {
            self.log.decision(resized.record(since, 0.0));
        }
    }
}

impl Worker {
    fn start(
        executor: Executor,
        results: Sender<Result<(u64, ChunkResult), Error>>,
        ready: Arc<OwnedFd>,
    ) -> Result<Self, Error> {
        let come = Arc::new(event()?);
        let (chunks, receiver) = channel();
        let theirs = Arc::clone(&come);
        let run = move || {
            let send = |result| {
                // If the receiver is gone, the result is not needed.
                let _ = results.send(result);
                wake(&ready);
            };
            submit(executor, &receiver, &theirs, send)
        };
        let thread = std::thread::Builder::new().name("submitter".into());
        let thread = (thread.spawn(run)).map_err(|error| Error::Thread(error.to_string()))?;
        Ok(Self { chunks: Some(chunks), come, thread })
    }
}

/// Body of a submitting thread: moves chunks into its executor, and results out of it, until no
/// more chunks will come.
fn submit(
    mut executor: Executor,
    chunks: &Receiver<(u64, Chunk)>,
    come: &OwnedFd,
    send: impl Fn(Result<(u64, ChunkResult), Error>),
) -> Report {
    let mut has_ended = false;
    loop {
        while !has_ended && executor.has_capacity() {
            rest(come);
            match chunks.try_recv() {
                Ok((number, chunk)) => {
                    let chunk = Chunk { label: number, ..chunk };
                    // There is room.
                    let _ = executor.push(chunk);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => has_ended = true,
            }
        }
        let pulled = loop {
            match executor.pull() {
                Ok(Some(result)) => send(Ok((result.label, result))),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // What was pushed and is not wanted any more is not waited for.
        let waited = match (pulled, has_ended) {
            (Err(error), _) => Err(error),
            (Ok(()), true) => return executor.close(),
            (Ok(()), false) if executor.has_capacity() => wait_for_chunk(&mut executor, come),
            (Ok(()), false) => executor.wait(WAIT),
        };
        if let Err(error) = waited {
            send(Err(error));
            return executor.close();
        }
    }
}

/// Waits for a chunk, or for a result if any is to come.
fn wait_for_chunk(executor: &mut Executor, come: &OwnedFd) -> Result<(), Error> {
    if executor.in_flight() > 0 {
        return executor.wait_for_input(come.as_fd()).map(|_| ());
    }
    let mut set = [PollFd::new(come, PollFlags::IN)];
    match rustix::event::poll(&mut set, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Error::Wait(error.to_string())),
    }
}

fn event() -> Result<OwnedFd, Error> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags).map_err(|error| Error::Wait(error.to_string()))
}

/// Makes it readable.
fn wake(event: &OwnedFd) {
    // It is at most full, which is readable as well.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// Makes it unreadable.
fn rest(event: &OwnedFd) {
    let _ = rustix::io::read(event, &mut [0_u8; 8]);
}

fn ended() -> Error {
    Error::Thread("a thread that submits has ended".into())
}
