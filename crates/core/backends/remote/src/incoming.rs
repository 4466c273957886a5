//! An answer that is coming in, piece by piece.

use overside_device::{Job, JobError, Outcome, Output};
use overside_link::agent::{AnswerHead, MAX_TEXT_BYTES, Status, Violation};

use crate::connection::{Broken, Connection};

/// Minimum number of bytes of a result that are read directly to their destination, without a buffer.
const DIRECT: usize = 32 << 10;

pub(crate) struct Incoming {
    pub(crate) head: AnswerHead,
    len: usize,
    at: usize,
    text: Vec<u8>,
}

impl Incoming {
    pub(crate) fn new(head: AnswerHead, len: usize) -> Self {
        Self { head, len, at: 0, text: Vec::new() }
    }

    /// Continues reading. Returns `true` if the answer is complete. A result is written to the
    /// job's destination, unless the job has been given up.
    pub(crate) fn receive(
        &mut self,
        connection: &mut Connection,
        job: Option<&mut Job>,
    ) -> Result<bool, Broken> {
        if self.head.status != Status::Done {
            return self.receive_text(connection);
        }
        let Some(job) = job else {
            return self.discard(connection);
        };
        let capacity = job.destination.len();
        let Some(result) = job.destination.get_mut(..self.len) else {
            return Err(Violation::Field {
                field: "a result's length",
                value: self.len as u64,
                max: capacity as u64,
            }
            .into());
        };
        loop {
            self.at += connection.reader.body(&mut result[self.at..]);
            let left = self.len - self.at;
            if left == 0 {
                return Ok(true);
            }
            let count = match left < DIRECT {
                true => connection.fill()?,
                false => {
                    let count = connection.fill_past(&mut result[self.at..])?;
                    self.at += count;
                    count
                }
            };
            if count == 0 {
                return Ok(false);
            }
        }
    }

    fn receive_text(&mut self, connection: &mut Connection) -> Result<bool, Broken> {
        loop {
            let mut piece = [0; MAX_TEXT_BYTES];
            let count = connection.reader.body(&mut piece);
            self.text.extend_from_slice(&piece[..count]);
            if connection.reader.body_left() == 0 {
                return Ok(true);
            }
            if connection.fill()? == 0 {
                return Ok(false);
            }
        }
    }

    fn discard(&mut self, connection: &mut Connection) -> Result<bool, Broken> {
        loop {
            connection.reader.drop_body();
            if connection.reader.body_left() == 0 {
                return Ok(true);
            }
            if connection.fill()? == 0 {
                return Ok(false);
            }
        }
    }

    /// Returns the outcome of the job that was answered. `capacity` is the length of its
    /// destination in bytes.
    pub(crate) fn result(&self, capacity: usize) -> Result<Outcome, JobError> {
        let text = || {
            let text = String::from_utf8_lossy(&self.text);
            overside_link::codec::clean(&text, MAX_TEXT_BYTES)
        };
        match self.head.status {
            Status::Done => Ok(Outcome::Done(Output { written: self.len, value: self.head.value })),
            Status::Incompressible => Ok(Outcome::Incompressible),
            Status::OutputTooSmall => Err(JobError::OutputTooSmall { capacity }),
            Status::Corrupt => Err(JobError::Corrupt(text())),
            Status::Failed => Err(JobError::Failed(text())),
        }
    }
}
