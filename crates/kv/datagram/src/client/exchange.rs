//! The client without I/O.
//!
//! 1. Requests are packed into datagrams by partition, once the server has sent their number.
//! 2. As many datagrams as the [`Window`] allows are in flight.
//! 3. One that is not answered in time halves the window. It is sent again, with the same sequence number, if all of
//!    its requests may be executed twice. Otherwise the outcome is unknown, and the client reports that.

use std::collections::VecDeque;

use super::Window;
use super::flight::{Flight, SentDatagram};
use super::window::WINDOW_MAX;
use overside_base::random_bytes;
use overside_kv_protocol::datagram::{
    ANSWER_LIMIT_MIN_BYTES, DATAGRAM_MAX_BYTES, ETHERNET_BYTES, HEADER_BYTES, Header, HeaderError,
    REQUESTS_MAX, Reply, STEERED, VERSION, replies,
};
use overside_kv_store::{Request, partition_of};

/// Limits on the datagrams of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeOptions {
    /// Longest datagram of requests, unless a single request is longer.
    pub datagram_bytes: usize,
    /// Maximum number of requests of a datagram.
    pub requests: usize,
    /// Longest datagram of answers.
    pub answer_bytes: usize,
    /// Maximum number of datagrams in flight.
    pub in_flight: usize,
    /// Maximum number of times that a datagram is sent again.
    pub tries: u32,
}

impl Default for ExchangeOptions {
    fn default() -> Self {
        Self {
            datagram_bytes: ETHERNET_BYTES,
            requests: REQUESTS_MAX,
            answer_bytes: ETHERNET_BYTES,
            in_flight: WINDOW_MAX,
            tries: 5,
        }
    }
}

/// Destination of the datagrams for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionSteering {
    /// All to one port: the header has the partition, or there is only one.
    Header,
    /// Ports that follow the server's, in order of partitions.
    Ports,
}

/// Reason why a client cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The request is longer than any datagram.
    #[error("the request is longer than a datagram; use a connection for it")]
    TooLong,
    /// The server speaks another version.
    #[error("the server speaks version {0} of the datagram protocol, this is version {VERSION}")]
    Version(u8),
}

/// Counts of a client's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Datagrams sent, again ones included.
    pub sent: u64,
    /// Datagrams that were sent again.
    pub again: u64,
    /// Datagrams not answered in time.
    pub lost: u64,
    /// Number of answer datagrams that were used.
    pub received: u64,
}

/// Packs requests, and finds the replies.
#[derive(Debug)]
pub struct Exchange {
    options: ExchangeOptions,
    client: u64,
    /// `None` until the server has sent it.
    steering: Option<PartitionSteering>,
    partitions: usize,
    /// Datagrams that are being packed, by partition.
    open: Vec<SentDatagram>,
    waiting: VecDeque<SentDatagram>,
    flight: Flight,
    /// Sequence numbers of datagrams to be sent again.
    again: VecDeque<u64>,
    window: Window,
    figures: Figures,
    // What is sent, and memory that is used again.
    bytes: Vec<u8>,
    ends: Vec<(u32, usize)>,
    spare: Vec<SentDatagram>,
}

impl Exchange {
    /// Makes a client without requests.
    ///
    /// # Panics
    /// If the system has no random numbers.
    #[must_use]
    pub fn new(options: ExchangeOptions) -> Self {
        let client = random_bytes().expect("the system has random numbers");
        let mut exchange = Self {
            options: ExchangeOptions {
                datagram_bytes: options.datagram_bytes.clamp(HEADER_BYTES, DATAGRAM_MAX_BYTES),
                requests: options.requests.clamp(1, REQUESTS_MAX),
                answer_bytes: (options.answer_bytes)
                    .clamp(ANSWER_LIMIT_MIN_BYTES, DATAGRAM_MAX_BYTES),
                ..options
            },
            client: u64::from_ne_bytes(client),
            partitions: 1,
            steering: None,
            open: Vec::new(),
            waiting: VecDeque::new(),
            flight: Flight::default(),
            again: VecDeque::new(),
            window: Window::default(),
            figures: Figures::default(),
            bytes: Vec::new(),
            ends: Vec::new(),
            spare: Vec::new(),
        };
        let first = exchange.question(0);
        exchange.open.push(first);
        exchange
    }

    /// Returns the counts of datagrams.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// The window.
    #[must_use]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Returns the way to the server's partitions; `None` until it has answered something.
    #[must_use]
    pub fn steering(&self) -> Option<PartitionSteering> {
        self.steering
    }

    /// Returns `true` if every request has its reply, or was given up.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flight.len() == 0
            && self.waiting.is_empty()
            && self.open.iter().all(|open| open.tokens.is_empty())
    }

    /// Drops unanswered requests.
    pub fn forget(&mut self) {
        self.again.clear();
        self.waiting.clear();
        self.open.iter_mut().for_each(|open| open.tokens.clear());
        for partition in 0..self.open.len() {
            self.open[partition] = self.question(partition as u16);
        }
        let sequences: Vec<u64> = self.flight.iter().map(|(sequence, _)| sequence).collect();
        for sequence in sequences {
            self.flight.remove(sequence);
        }
    }

    /// Adds a request. `token` is returned with its reply.
    ///
    /// # Errors
    /// [`ExchangeError::TooLong`]; other requests are not affected.
    #[inline]
    pub fn ask(&mut self, request: &Request<'_>, token: u64) -> Result<(), ExchangeError> {
        let partition = match self.partitions {
            1 => 0,
            count => partition_of(request.key, count),
        };
        let max = self.options.datagram_bytes;
        let is_full = self.open[partition].tokens.len() >= self.options.requests;
        if is_full || !self.open[partition].datagram.push(request, max) {
            self.close_datagram(partition);
            // One that is longer has a datagram of its own.
            let is_pushed = self.open[partition].datagram.push(request, max)
                || (self.open[partition].datagram).push(request, DATAGRAM_MAX_BYTES);
            if !is_pushed {
                return Err(ExchangeError::TooLong);
            }
        }
        let open = &mut self.open[partition];
        open.tokens.push((token, true));
        open.is_repeatable &= request.operation.is_repeatable();
        Ok(())
    }

    /// Queues all requests for sending, even in datagrams that have room for more.
    pub fn flush(&mut self) {
        (0..self.open.len()).for_each(|partition| self.close_datagram(partition));
    }

    /// Returns the datagrams to send now: their concatenated bytes, and for each its partition and its end.
    pub fn transmit(&mut self, now_ns: u64) -> (&[u8], &[(u32, usize)]) {
        self.bytes.clear();
        self.ends.clear();
        while let Some(sequence) = self.again.pop_front() {
            if let Some(question) = self.flight.get(sequence) {
                question.sent_ns = now_ns;
                self.figures.again += 1;
                put(question, sequence, &mut self.bytes, &mut self.ends);
            }
        }
        let most = self.window.size().min(self.options.in_flight);
        let room = most.saturating_sub(self.flight.len());
        for _ in 0..room {
            // Older ones are not told apart by the server.
            if self.flight.span() >= WINDOW_MAX {
                break;
            }
            let Some(mut question) = self.waiting.pop_front() else {
                break;
            };
            question.sent_ns = now_ns;
            let sequence = self.flight.next_sequence();
            put(&question, sequence, &mut self.bytes, &mut self.ends);
            self.flight.push(question);
        }
        self.figures.sent += self.ends.len() as u64;
        (&self.bytes, &self.ends)
    }

    /// Takes an answer datagram. Ignores bytes that are not an expected answer.
    ///
    /// # Errors
    /// [`ExchangeError::Version`].
    pub fn receive(
        &mut self,
        datagram: &[u8],
        now_ns: u64,
        done: &mut dyn FnMut(u64, Option<Reply<'_>>),
    ) -> Result<(), ExchangeError> {
        let (header, records) = match Header::read(datagram) {
            Ok(found) => found,
            Err(HeaderError::Version(version)) => return Err(ExchangeError::Version(version)),
            Err(HeaderError::Foreign) => return Ok(()),
        };
        if !header.is_answer() || header.client != self.client {
            return Ok(());
        }
        let Some(question) = self.flight.get(header.sequence) else {
            return Ok(());
        };
        self.figures.received += 1;
        let first = usize::from(header.limit).min(question.tokens.len());
        let waiting = &mut question.tokens[first..];
        for ((token, waits), reply) in waiting.iter_mut().zip(replies(header.count, records)) {
            let Ok(reply) = reply else { break };
            if std::mem::take(waits) {
                question.missing -= 1;
                done(*token, Some(reply));
            }
        }
        if question.missing == 0 {
            // After a retransmission it is unknown which copy was answered (Karn and Partridge, 1987), unless
            // the answer says so.
            let round_trip_ns = now_ns.saturating_sub(header.timestamp);
            self.window.answered(round_trip_ns);
            self.spare.extend(self.flight.remove(header.sequence));
        }
        self.set_partitions(&header);
        Ok(())
    }

    /// Returns the time at which the next datagram will be late, in nanoseconds; `None` if none is
    /// in flight.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        let due = |question: &SentDatagram| question.sent_ns + self.window.wait_ns(question.tries);
        let all = self.flight.iter().map(|(_, question)| due(question));
        all.min()
    }

    /// Abandons late datagrams, or queues them again.
    pub fn time_out(&mut self, now_ns: u64, done: &mut dyn FnMut(u64, Option<Reply<'_>>)) {
        let window = self.window;
        let is_late =
            |question: &SentDatagram| question.sent_ns + window.wait_ns(question.tries) <= now_ns;
        let late = self.flight.iter().filter(|(_, question)| is_late(question));
        let late: Vec<u64> = late.map(|(sequence, _)| sequence).collect();
        for sequence in late {
            let Some(question) = self.flight.get(sequence) else {
                continue;
            };
            self.figures.lost += 1;
            self.window.lost(question.sent_ns, now_ns);
            if question.is_repeatable && question.tries < self.options.tries {
                question.tries += 1;
                question.sent_ns = now_ns;
                self.again.push_back(sequence);
                continue;
            }
            if let Some(question) = self.flight.remove(sequence) {
                let left = question.tokens.iter().filter(|(_, waits)| *waits);
                left.for_each(|(token, _)| done(*token, None));
                self.spare.push(question);
            }
        }
    }

    /// Ends a datagram that has requests.
    fn close_datagram(&mut self, partition: usize) {
        if !self.open[partition].tokens.is_empty() {
            let next = self.question(partition as u16);
            let mut question = std::mem::replace(&mut self.open[partition], next);
            question.missing = question.tokens.len();
            self.waiting.push_back(question);
        }
    }

    fn question(&mut self, partition: u16) -> SentDatagram {
        let mut question = self.spare.pop().unwrap_or_default();
        question.clear();
        question.partition = partition;
        question.datagram.begin(&Header {
            partition,
            client: self.client,
            // At most DATAGRAM_MAX_BYTES.
            limit: self.options.answer_bytes as u16,
            ..Header::default()
        });
        question
    }

    /// Takes the number of partitions from the server's header.
    fn set_partitions(&mut self, header: &Header) {
        let partitions = usize::from(header.partition).max(1);
        // Answers from the ports of single partitions say nothing of the other port.
        if self.steering.is_none() {
            self.steering = Some(match header.flags & STEERED {
                0 if partitions > 1 => PartitionSteering::Ports,
                _ => PartitionSteering::Header,
            });
        }
        if partitions != self.partitions {
            self.flush();
            self.partitions = partitions;
            self.open.truncate(partitions);
            for partition in self.open.len()..partitions {
                let question = self.question(partition as u16);
                self.open.push(question);
            }
        }
    }
}

/// Appends a datagram to the bytes to send.
fn put(question: &SentDatagram, sequence: u64, bytes: &mut Vec<u8>, ends: &mut Vec<(u32, usize)>) {
    let begin = bytes.len();
    bytes.extend_from_slice(question.datagram.bytes());
    bytes[begin + 16..begin + 24].copy_from_slice(&sequence.to_le_bytes());
    bytes[begin + 24..begin + 32].copy_from_slice(&question.sent_ns.to_le_bytes());
    ends.push((u32::from(question.partition), bytes.len()));
}
