//! What client and server say to each other beside the messages. No input or output here.
//!
//! Everything has a fixed length and is little-endian; nothing is allocated by what a peer says.

use super::THREADS_MAX;
use super::token::{TOKEN_BYTES, Token};
use super::{CONNECTIONS_MAX, MESSAGE_BYTES_MAX, Role, SESSION_BYTES_MAX, SOCKET_BUFFER_MAX};
use super::{Traffic, Waiting};

/// Begins each connection; the last byte is the version.
const MAGIC: [u8; 8] = *b"ovs-net\x02";
/// What a client begins a connection with: what for, and the token.
pub(super) const GREETING_BYTES: usize = PURPOSE_BYTES + TOKEN_BYTES;
const PURPOSE_BYTES: usize = 48;
/// What a server answers it with.
pub(super) const ANSWER_BYTES: usize = 40;
/// A question on the control connection.
pub(super) const QUESTION_BYTES: usize = 16;
/// What the answer to it begins with, before eight bytes for each connection.
pub(super) const COUNTS_BYTES: usize = 48;

/// What a client is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub traffic: Traffic,
    pub waiting: Waiting,
    pub message_bytes: u32,
    pub connections: u32,
    pub threads: u32,
    /// 0: what the system gives.
    pub socket_buffer: u32,
    pub seed: u64,
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    /// A control connection.
    Control(Hello),
    /// A data connection of a session, and which.
    Data { session: u64, index: u32 },
}

/// Why a server does not go on with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No greeting, or of another version.
    Stranger,
    /// Not the token that the server was started with.
    Token,
    /// A value out of its bounds.
    Bounds,
    /// As many sessions as it serves.
    Full,
    /// There is no such session, or the session has that connection.
    NoSession,
    /// A thread or a descriptor cannot be had.
    Resources,
}

impl Refusal {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Stranger => "the greeting is of another program or version",
            Self::Token => "it takes part in another test, and the token is not the one of that",
            Self::Bounds => "a value of the session is out of its bounds",
            Self::Full => "it serves as many sessions as it may; try again when one has ended",
            Self::NoSession => "the session is over, or has this connection already",
            Self::Resources => "it has no threads or descriptors left",
        }
    }
}

/// What a server answers a greeting with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub session: u64,
    pub role: Role,
    /// The same for all programs of a machine until it is started again.
    pub machine: u64,
}

/// How much has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Of the server's clock, whose zero means nothing.
    pub clock_ns: u64,
    pub messages: u64,
    pub bytes: u64,
    /// Messages that were not what they should be.
    pub wrong: u64,
    /// CPU time of the session's threads.
    pub cpu_ns: u64,
    /// How many numbers of bytes follow.
    pub connections: u32,
}

/// Asks for the counts, once `bytes` have come or `patience_ms` are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub bytes: u64,
    pub patience_ms: u32,
}

/// Numbers one behind the other.
struct Writer<'a>(&'a mut [u8]);

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        let (first, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        first.copy_from_slice(bytes);
        self.0 = rest;
        self
    }
}

/// The same, read; the callers' lengths suffice.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_at(N);
        self.0 = rest;
        first.try_into().expect("of that length")
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }
}

impl Greeting {
    pub(super) fn to_bytes(self, token: &Token) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        let (purpose, secret) = bytes.split_at_mut(PURPOSE_BYTES);
        secret.copy_from_slice(&token.0);
        let mut out = Writer(purpose);
        out.put(&MAGIC);
        match self {
            Self::Control(hello) => {
                let traffic = u8::from(hello.traffic == Traffic::Stream);
                let waiting = u8::from(hello.waiting == Waiting::Poll);
                out.put(&[0, traffic, waiting, 0])
                    .put(&hello.message_bytes.to_le_bytes())
                    .put(&hello.connections.to_le_bytes())
                    .put(&hello.threads.to_le_bytes())
                    .put(&hello.socket_buffer.to_le_bytes())
                    .put(&hello.seed.to_le_bytes());
            }
            Self::Data { session, index } => {
                out.put(&[1, 0, 0, 0])
                    .put(&index.to_le_bytes())
                    .put(&session.to_le_bytes());
            }
        }
        bytes
    }

    /// What a client wants of a server that takes only those with its `token`, if it has one.
    pub(super) fn parse(
        bytes: &[u8; GREETING_BYTES],
        token: Option<&Token>,
    ) -> Result<Self, Refusal> {
        let (purpose, secret) = bytes.split_at(PURPOSE_BYTES);
        let mut from = Reader(purpose);
        if from.bytes() != MAGIC {
            return Err(Refusal::Stranger);
        }
        if token.is_some_and(|token| !token.is(secret)) {
            return Err(Refusal::Token);
        }
        let [kind, traffic, waiting, zero] = from.bytes();
        let greeting = match (kind, traffic, waiting) {
            (0, 0 | 1, 0 | 1) => Self::Control(Hello {
                traffic: [Traffic::RoundTrips, Traffic::Stream][usize::from(traffic)],
                waiting: [Waiting::Event, Waiting::Poll][usize::from(waiting)],
                message_bytes: from.u32(),
                connections: from.u32(),
                threads: from.u32(),
                socket_buffer: from.u32(),
                seed: from.u64(),
            }),
            (1, 0, 0) => Self::Data {
                index: from.u32(),
                session: from.u64(),
            },
            _ => return Err(Refusal::Bounds),
        };
        if zero != 0 || from.0.iter().any(|&byte| byte != 0) {
            return Err(Refusal::Bounds);
        }
        if let Self::Control(hello) = greeting {
            hello.check()?;
        }
        Ok(greeting)
    }
}

impl Hello {
    fn check(self) -> Result<(), Refusal> {
        let good = (1..=MESSAGE_BYTES_MAX).contains(&(self.message_bytes as usize))
            && (1..=CONNECTIONS_MAX).contains(&(self.connections as usize))
            && (1..=THREADS_MAX.min(self.connections as usize)).contains(&(self.threads as usize))
            && self.connections as usize * self.message_bytes as usize <= SESSION_BYTES_MAX
            && self.socket_buffer as usize <= SOCKET_BUFFER_MAX;
        good.then_some(()).ok_or(Refusal::Bounds)
    }
}

impl Answer {
    pub(super) fn to_bytes(answer: Result<Self, Refusal>) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        let mut out = Writer(&mut bytes);
        out.put(&MAGIC);
        match answer {
            Ok(answer) => {
                let role = u8::from(answer.role == Role::Dpu);
                out.put(&[0, role, 0, 0, 0, 0, 0, 0])
                    .put(&answer.session.to_le_bytes())
                    .put(&answer.machine.to_le_bytes());
            }
            Err(refusal) => {
                let code = match refusal {
                    Refusal::Stranger => 1,
                    Refusal::Bounds => 2,
                    Refusal::Full => 3,
                    Refusal::NoSession => 4,
                    Refusal::Resources => 5,
                    Refusal::Token => 6,
                };
                out.put(&[code]);
            }
        }
        bytes
    }

    /// `None`: no server of this version.
    pub(super) fn parse(bytes: &[u8; ANSWER_BYTES]) -> Option<Result<Self, Refusal>> {
        let mut from = Reader(bytes);
        if from.bytes() != MAGIC {
            return None;
        }
        let [code, role, ..] = from.bytes::<8>();
        let refusal = match code {
            0 => {
                let role = *[Role::Host, Role::Dpu].get(usize::from(role))?;
                return Some(Ok(Self {
                    role,
                    session: from.u64(),
                    machine: from.u64(),
                }));
            }
            1 => Refusal::Stranger,
            2 => Refusal::Bounds,
            3 => Refusal::Full,
            4 => Refusal::NoSession,
            5 => Refusal::Resources,
            6 => Refusal::Token,
            _ => return None,
        };
        Some(Err(refusal))
    }
}

impl Question {
    pub(super) fn to_bytes(self) -> [u8; QUESTION_BYTES] {
        let mut bytes = [0; QUESTION_BYTES];
        Writer(&mut bytes)
            .put(&self.bytes.to_le_bytes())
            .put(&self.patience_ms.to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; QUESTION_BYTES]) -> Self {
        let mut from = Reader(bytes);
        Self {
            bytes: from.u64(),
            patience_ms: from.u32(),
        }
    }
}

impl Counts {
    pub(super) fn to_bytes(self) -> [u8; COUNTS_BYTES] {
        let mut bytes = [0; COUNTS_BYTES];
        let mut out = Writer(&mut bytes);
        for number in [
            self.clock_ns,
            self.messages,
            self.bytes,
            self.wrong,
            self.cpu_ns,
        ] {
            out.put(&number.to_le_bytes());
        }
        out.put(&self.connections.to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; COUNTS_BYTES]) -> Self {
        let mut from = Reader(bytes);
        Self {
            clock_ns: from.u64(),
            messages: from.u64(),
            bytes: from.u64(),
            wrong: from.u64(),
            cpu_ns: from.u64(),
            connections: from.u32(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: Hello = Hello {
        traffic: Traffic::Stream,
        waiting: Waiting::Poll,
        message_bytes: 4096,
        connections: 3,
        threads: 2,
        socket_buffer: 1 << 20,
        seed: 0x0123_4567_89ab_cdef,
    };

    #[test]
    fn what_is_said_is_what_is_heard() {
        let data = Greeting::Data {
            session: u64::MAX,
            index: 7,
        };
        for greeting in [Greeting::Control(HELLO), data] {
            let bytes = greeting.to_bytes(&Token::default());
            assert_eq!(Greeting::parse(&bytes, None), Ok(greeting));
        }
        let answer = Answer {
            session: 9,
            role: Role::Dpu,
            machine: 11,
        };
        let refused = [Refusal::Full, Refusal::NoSession, Refusal::Token].map(Err);
        for said in refused.into_iter().chain([Ok(answer)]) {
            assert_eq!(Answer::parse(&Answer::to_bytes(said)), Some(said));
        }
        let question = Question {
            bytes: 1 << 40,
            patience_ms: 5,
        };
        assert_eq!(Question::parse(&question.to_bytes()), question);
        let counts = Counts {
            clock_ns: 1,
            messages: 2,
            bytes: 3,
            wrong: 4,
            cpu_ns: 5,
            connections: 6,
        };
        assert_eq!(Counts::parse(&counts.to_bytes()), counts);
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let bad = [
            Hello {
                message_bytes: 0,
                ..HELLO
            },
            Hello {
                message_bytes: (MESSAGE_BYTES_MAX + 1) as u32,
                ..HELLO
            },
            Hello {
                connections: u32::MAX,
                ..HELLO
            },
            Hello {
                threads: 4,
                ..HELLO
            },
            Hello {
                threads: 0,
                ..HELLO
            },
            Hello {
                socket_buffer: u32::MAX,
                ..HELLO
            },
        ];
        for hello in bad {
            let bytes = Greeting::Control(hello).to_bytes(&Token::default());
            let parsed = Greeting::parse(&bytes, None);
            assert_eq!(parsed, Err(Refusal::Bounds), "{hello:?}");
        }
    }

    #[test]
    fn strangers_are_told_apart() {
        let good = Greeting::Control(HELLO).to_bytes(&Token::default());
        for at in 0..8 {
            let mut bytes = good;
            bytes[at] ^= 1;
            assert_eq!(Greeting::parse(&bytes, None), Err(Refusal::Stranger));
        }
        for at in 8..GREETING_BYTES {
            // Never a panic, whatever is in it.
            let mut bytes = good;
            bytes[at] = 0xff;
            let _ = Greeting::parse(&bytes, None);
        }
        assert_eq!(Answer::parse(&[0; ANSWER_BYTES]), None);
        let mut later = good;
        later[PURPOSE_BYTES - 1] = 1;
        assert_eq!(Greeting::parse(&later, None), Err(Refusal::Bounds));
    }

    #[test]
    fn one_wrong_byte_of_a_token_is_enough() {
        let token = Token::fresh().unwrap();
        let good = Greeting::Control(HELLO).to_bytes(&token);
        assert!(Greeting::parse(&good, Some(&token)).is_ok());
        assert!(Greeting::parse(&good, None).is_ok(), "nobody asked for one");
        for at in PURPOSE_BYTES..GREETING_BYTES {
            let mut bytes = good;
            bytes[at] ^= 0x80;
            assert_eq!(Greeting::parse(&bytes, Some(&token)), Err(Refusal::Token));
        }
        let other = Token::fresh().unwrap();
        assert_eq!(
            Greeting::parse(&good, Some(&other)),
            Err(Refusal::Token),
            "no two are the same"
        );
    }
}
