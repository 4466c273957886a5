//! Asynchronous calls: futures, which need no runtime.
//!
//! At most as many calls run at once as there are cores; the others wait for their turn. A call that is
//! cancelled, or whose future is dropped, ends before its next chunk is written.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use std::thread::available_parallelism;

use overside_base::lock;
use overside_device::{ExternalBytes, JobError};

use crate::{Compressor, Decompressor, Error, Options, Summary};

/// Says that a call is not wanted any more.
#[derive(Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the call before its next chunk is written.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns `true` if the call was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// A writer that takes nothing more once the call is cancelled.
    pub fn guard<W: Write>(&self, writer: W) -> impl Write + use<W> {
        Guarded(self.clone(), writer)
    }
}

struct Guarded<W>(Cancel, W);

impl<W: Write> Guarded<W> {
    fn inner(&mut self) -> io::Result<&mut W> {
        match self.0.is_cancelled() {
            true => Err(io::Error::other("cancelled")),
            false => Ok(&mut self.1),
        }
    }
}

impl<W: Write> Write for Guarded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner()?.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.inner()?.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner()?.flush()
    }
}

/// Result of a call: the output bytes and the summary of the stream.
pub type Answer = Result<(Vec<u8>, Summary), Error>;

/// Running call. It is a [`Future`] on any runtime; dropping it cancels the call.
pub struct Pending {
    cancel: Cancel,
    shared: Arc<SharedQueue>,
}

#[derive(Default)]
struct SharedQueue {
    state: Mutex<QueueState>,
    done: Condvar,
}

#[derive(Default)]
struct QueueState {
    answer: Option<Answer>,
    waker: Option<Waker>,
}

/// Compresses memory of the caller's, which is read where it is.
///
/// ```
/// use overside_compress::{Options, compress_async};
/// use overside_device::ExternalBytes;
/// let text = b"what is said three times is true".repeat(1000);
/// let pending = compress_async(ExternalBytes::new(text), Options::default());
/// // A runtime would await it.
/// let (gzip, summary) = pending.wait()?;
/// assert_eq!((summary.bytes_in, summary.bytes_out), (32_000, gzip.len() as u64));
/// # Ok::<(), overside_compress::Error>(())
/// ```
pub fn compress_async(source: ExternalBytes, options: Options) -> Pending {
    pending(move |output| {
        let mut compressor = Compressor::new(output, &options)?;
        compressor.lend(source)?;
        compressor.finish().map(|(_, summary)| summary)
    })
}

/// Decompresses memory of the caller's, which is read where it is. `options` should bound the output
/// (`max_output_bytes`): a short input can become a very long one.
pub fn decompress_async(source: ExternalBytes, options: Options) -> Pending {
    pending(move |output| {
        let mut decompressor = Decompressor::new(output, &options)?;
        decompressor.lend(source)?;
        decompressor.finish().map(|(_, summary)| summary)
    })
}

fn pending(
    call: impl FnOnce(&mut dyn Write) -> Result<Summary, Error> + Send + 'static,
) -> Pending {
    let shared = Arc::new(SharedQueue::default());
    let answered = Arc::clone(&shared);
    let cancel = start(move |cancel| {
        let mut bytes = Vec::new();
        let result = match cancel.is_cancelled() {
            true => Err(Error::Cancelled),
            false => {
                let run = AssertUnwindSafe(|| call(&mut cancel.guard(&mut bytes)));
                catch_unwind(run).unwrap_or_else(|_| {
                    let reason = "an internal error".into();
                    Err(Error::Job(JobError::Failed(reason)))
                })
            }
        };
        let answer = match result {
            Ok(summary) => Ok((bytes, summary)),
            Err(_) if cancel.is_cancelled() => Err(Error::Cancelled),
            Err(error) => Err(error),
        };
        let mut state = lock(&answered.state);
        state.answer = Some(answer);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        answered.done.notify_all();
    });
    Pending { cancel, shared }
}

impl Pending {
    /// Ends the call before its next chunk is written; it comes to [`Error::Cancelled`] unless it was
    /// done.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits for it on this thread.
    ///
    /// # Errors
    /// As [`crate::compress`]; [`Error::Cancelled`].
    pub fn wait(self) -> Answer {
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(answer) = state.answer.take() {
                return answer;
            }
            let woken = self.shared.done.wait(state);
            state = woken.unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

impl Future for Pending {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut state = lock(&self.shared.state);
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

type Call = Box<dyn FnOnce() + Send>;

/// Calls of a process, and the threads that run them. A forked child has none of its parent's threads, so
/// it takes the next pool.
struct Pool {
    process: u32,
    /// Calls that wait, and how many threads run some.
    calls: Mutex<(VecDeque<Call>, usize)>,
    next: OnceLock<Box<Self>>,
}

impl Pool {
    fn new() -> Self {
        Self { process: std::process::id(), calls: Mutex::default(), next: OnceLock::new() }
    }

    /// The pool of this process.
    fn current() -> &'static Self {
        static FIRST: OnceLock<Pool> = OnceLock::new();
        let mut pool = FIRST.get_or_init(Self::new);
        while pool.process != std::process::id() {
            pool = pool.next.get_or_init(|| Box::new(Self::new()));
        }
        pool
    }
}

/// Runs a call on another thread, when it is its turn. The call itself reports a panic.
pub fn start(call: impl FnOnce(&Cancel) + Send + 'static) -> Cancel {
    let cancel = Cancel::default();
    let theirs = cancel.clone();
    let pool = Pool::current();
    let mut calls = lock(&pool.calls);
    calls.0.push_back(Box::new(move || call(&theirs)));
    let most = available_parallelism().map_or(1, usize::from);
    if calls.1 < most {
        let thread = std::thread::Builder::new().name("compress-async".into());
        match (thread.spawn(|| run(pool)), calls.1) {
            (Ok(_), _) => calls.1 += 1,
            // Without any thread the caller runs it.
            (Err(_), 0) => {
                calls.1 = 1;
                drop(calls);
                run(pool);
            }
            (Err(_), _) => {}
        }
    }
    cancel
}

fn run(pool: &Pool) {
    loop {
        let mut calls = lock(&pool.calls);
        let Some(call) = calls.0.pop_front() else {
            calls.1 -= 1;
            return;
        };
        drop(calls);
        // A panic is reported by the receiver of the result.
        let _ = catch_unwind(AssertUnwindSafe(call));
    }
}
