//! Writer of messages, in order. It runs on the caller's thread or, if the budget has more than
//! one, on any thread that is free. So writing and making the next messages go on at once. The
//! writer moves into a task together with the messages that have come until then, and comes back
//! with it.

use std::io::{ErrorKind, IoSlice, Write};

use arrow_buffer::Buffer;

use super::pool::CodecPool;
use super::threads::Pending;
use crate::Error;
use crate::memory::HeldBytes;

/// Bytes that may wait to be written, of all tables of a pool.
const WAITING_BYTES_MAX: usize = 128 << 20;

/// A writer, and what waits for it.
pub(super) struct Sink<W> {
    state: SinkState<W>,
    waiting: Vec<Buffer>,
    bytes: HeldBytes,
}

enum SinkState<W> {
    Idle(W),
    Writing(Pending<W>),
    /// Writing failed.
    Lost,
}

impl<W: Write + Send + 'static> Sink<W> {
    pub(super) fn new(writer: W, pool: &CodecPool) -> Self {
        Self {
            state: SinkState::Idle(writer),
            waiting: Vec::new(),
            bytes: HeldBytes::new(&pool.waiting_bytes),
        }
    }

    /// Writes pieces, or has them written. CPU time of other threads in nanoseconds.
    pub(super) fn put(&mut self, pool: &CodecPool, pieces: Vec<Buffer>) -> Result<u64, Error> {
        if pool.threads() == 1 {
            return self.wait(pool).and_then(|(writer, cpu_ns)| {
                write_all(writer, &pieces)?;
                Ok(cpu_ns)
            });
        }
        let waiting_bytes = self.bytes.add(pieces.iter().map(Buffer::len).sum());
        let is_too_much = waiting_bytes > WAITING_BYTES_MAX;
        self.waiting.extend(pieces);
        match &self.state {
            SinkState::Writing(pending) if !is_too_much && !pending.is_done() => return Ok(0),
            _ => {}
        }
        let (_, mut cpu_ns) = self.wait(pool)?;
        self.start(pool);
        if is_too_much {
            cpu_ns += self.wait(pool)?.1;
        }
        Ok(cpu_ns)
    }

    /// The writer, once everything has been written, and CPU time of other threads in nanoseconds.
    pub(super) fn writer(&mut self, pool: &CodecPool) -> Result<(&mut W, u64), Error> {
        let (_, cpu_ns) = self.wait(pool)?;
        let pieces = std::mem::take(&mut self.waiting);
        self.bytes = HeldBytes::new(&pool.waiting_bytes);
        let (writer, _) = self.wait(pool)?;
        write_all(writer, &pieces)?;
        Ok((writer, cpu_ns))
    }

    /// The writer, when there is nothing under way.
    pub(super) fn into_writer(self) -> Result<W, Error> {
        match self.state {
            SinkState::Idle(writer) => Ok(writer),
            _ => Err(Error::Spent),
        }
    }

    /// Waits for the task that is under way.
    fn wait(&mut self, pool: &CodecPool) -> Result<(&mut W, u64), Error> {
        let mut cpu_ns = 0;
        self.state = match std::mem::replace(&mut self.state, SinkState::Lost) {
            SinkState::Writing(pending) => {
                let (mut writers, spent) = pool.threads.wait(pending)?;
                cpu_ns = spent;
                writers.pop().map_or(SinkState::Lost, SinkState::Idle)
            }
            state => state,
        };
        match &mut self.state {
            SinkState::Idle(writer) => Ok((writer, cpu_ns)),
            _ => Err(Error::Spent),
        }
    }

    /// Begins to write what waits.
    fn start(&mut self, pool: &CodecPool) {
        let pieces = std::mem::take(&mut self.waiting);
        let bytes = std::mem::replace(&mut self.bytes, HeldBytes::new(&pool.waiting_bytes));
        self.state = match std::mem::replace(&mut self.state, SinkState::Lost) {
            SinkState::Idle(mut writer) => {
                let task = move |_: &mut _| {
                    let written = write_all(&mut writer, &pieces);
                    drop((pieces, bytes));
                    written.map(|()| writer)
                };
                SinkState::Writing(pool.start([task]))
            }
            state => state,
        };
    }
}

/// Writes pieces with as few calls as the writer needs.
fn write_all(writer: &mut impl Write, pieces: &[Buffer]) -> Result<(), Error> {
    let mut slices: Vec<IoSlice<'_>> = (pieces.iter())
        .filter(|piece| !piece.is_empty())
        .map(|piece| IoSlice::new(piece))
        .collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match writer.write_vectored(left) {
            Ok(0) => return Err(std::io::Error::from(ErrorKind::WriteZero).into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
