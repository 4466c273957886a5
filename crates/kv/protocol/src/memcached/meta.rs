//! Meta commands: `mg`, `ms`, `md` and `ma`.
//!
//! Flags for data that the store does not have (`h`, `l`: when a value was last read; `N`, `R`,
//! `I`: leases and stale values) are refused, not ignored. A flag for a field that the reply does
//! not have is left out, as in memcached.

use super::line::{self, expiry, key, unsigned};
use super::{BAD_FORMAT, Batch, ReplyFormat};
use overside_kv_store::request::CounterChange;
use overside_kv_store::{Condition, Expiry, Operation, SetOptions};

const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad token in command line format\r\n";
const UNSUPPORTED: &[u8] = b"CLIENT_ERROR unsupported flag\r\n";

/// Format of the reply to a meta command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetaForm<'a> {
    pub(super) command: MetaCommand,
    /// Line as the client wrote it: the reply has its flags in the same order. Empty without flags.
    pub line: &'a [u8],
    /// `true` if the usual reply is left out.
    pub is_quiet: bool,
    pub with_value: bool,
}

impl<'a> MetaForm<'a> {
    /// Returns the key as the client wrote it, and the flags.
    pub(super) fn key_and_flags(
        &self,
    ) -> (&'a [u8], impl Iterator<Item = &'a [u8]> + Clone + use<'a>) {
        let mut words = line::words(self.line).skip(1);
        let key = words.next().unwrap_or_default();
        let has_len = matches!(self.command, MetaCommand::Set | MetaCommand::Append);
        (key, words.skip(usize::from(has_len)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetaCommand {
    Get,
    Set,
    Append,
    Delete,
    Count,
}

/// Adds a meta command. Returns `None` if its key is in Base64: then it must be executed by itself.
#[inline]
pub(super) fn add<'b, 'c: 'b>(
    line: &'c [u8],
    name: &[u8],
    words: &[&'c [u8]],
    data: &'c [u8],
    batch: &mut Batch<'b>,
) -> Option<ReplyFormat<'b>> {
    let flags = flags(name, words);
    if flags.is_some_and(|flags| flags.contains(&&b"b"[..])) {
        return None;
    }
    let key = words.first().copied().unwrap_or_default();
    Some(add_with_key(line, (name, words), key, data, batch))
}

/// Returns the flags of a command, which follow the key and the length of data.
fn flags<'w, 'a>(name: &[u8], words: &'w [&'a [u8]]) -> Option<&'w [&'a [u8]]> {
    words.get(if name == b"ms" { 2 } else { 1 }..)
}

/// Adds a command with the key `decoded`, which is decoded from Base64 if necessary.
#[inline]
pub(super) fn add_with_key<'a>(
    line: &'a [u8],
    (name, words): (&[u8], &[&'a [u8]]),
    decoded: &'a [u8],
    data: &'a [u8],
    batch: &mut Batch<'a>,
) -> ReplyFormat<'a> {
    let made = key(words.first())
        .and_then(|()| flags(name, words).ok_or(BAD_FORMAT))
        .and_then(|flags| Flags::parse(flags, batch.now_ms))
        .and_then(|flags| flags.operation(name, data));
    match made {
        Ok((operation, command, flags)) => {
            batch.request(decoded, operation);
            ReplyFormat::Meta(MetaForm {
                command,
                line: if flags.returned == 0 { &[] } else { line },
                is_quiet: flags.is_quiet,
                with_value: flags.with_value,
            })
        }
        Err(error) => ReplyFormat::Literal(error),
    }
}

/// Returns the bit of a flag, a letter, in a set of flags.
fn bit(flag: u8) -> u64 {
    1 << (flag & 63)
}

#[derive(Default)]
struct Flags {
    /// Flags that the reply repeats or gives values for, as a set of [`bit`]s.
    returned: u64,
    is_quiet: bool,
    with_value: bool,
    version: Option<u64>,
    client_flags: u32,
    expiry: Option<Expiry>,
    mode: Option<u8>,
    autovivify: Option<Expiry>,
    initial: u64,
    delta: Option<u64>,
}

impl Flags {
    fn parse(words: &[&[u8]], now_ms: u64) -> Result<Self, &'static [u8]> {
        let mut flags = Self::default();
        for &word in words {
            let (flag, token) = word.split_first().ok_or(BAD_FORMAT)?;
            let number = || unsigned(token).ok_or(BAD_TOKEN);
            match flag {
                b'b' => {}
                b'k' | b'O' | b'c' | b'f' | b's' | b't' => flags.returned |= bit(*flag),
                b'q' => flags.is_quiet = true,
                b'v' => flags.with_value = true,
                b'C' => flags.version = Some(number()?),
                b'F' => {
                    flags.client_flags = u32::try_from(number()?).map_err(|_| BAD_TOKEN)?;
                }
                b'T' => flags.expiry = Some(expiry(token, now_ms).map_err(|_| BAD_TOKEN)?),
                b'M' => flags.mode = Some(token.first().copied().ok_or(BAD_TOKEN)?),
                b'N' => flags.autovivify = Some(expiry(token, now_ms).map_err(|_| BAD_TOKEN)?),
                b'J' => flags.initial = number()?,
                b'D' => flags.delta = Some(number()?),
                _ => return Err(UNSUPPORTED),
            }
        }
        Ok(flags)
    }

    fn operation<'a>(self, name: &[u8], data: &'a [u8]) -> HandlerResult<'a> {
        match name {
            b"mg" => self.get(),
            b"ms" => self.set(data),
            b"md" => self.delete(),
            _ => self.count(),
        }
    }

    /// Refuses flags that the command does not support.
    fn without(&self, unsupported: &[(bool, &[u8])]) -> Result<(), &'static [u8]> {
        let returns = |flags: &[u8]| flags.iter().any(|flag| self.returned & bit(*flag) != 0);
        let has = |&(is_there, returned): &(bool, &[u8])| is_there || returns(returned);
        match unsupported.iter().any(has) {
            true => Err(UNSUPPORTED),
            false => Ok(()),
        }
    }

    fn get<'a>(self) -> HandlerResult<'a> {
        self.without(&[(self.version.is_some() || self.autovivify.is_some(), b"")])?;
        let operation = match self.expiry {
            Some(expiry) => Operation::GetAndExpire(expiry),
            None => Operation::Get,
        };
        Ok((operation, MetaCommand::Get, self))
    }

    fn set<'a>(self, data: &'a [u8]) -> HandlerResult<'a> {
        let condition = match self.mode.map(|mode| mode.to_ascii_uppercase()) {
            None | Some(b'S') => Condition::Always,
            Some(b'E') => Condition::IfAbsent,
            Some(b'R') => Condition::IfPresent,
            Some(front @ (b'A' | b'P')) => {
                let is_bound = self.version.is_some() || self.expiry.is_some();
                self.without(&[(is_bound || self.autovivify.is_some(), b"c")])?;
                let operation =
                    Operation::Append { value: data, front: front == b'P', create: false };
                return Ok((operation, MetaCommand::Append, self));
            }
            Some(_) => return Err(b"CLIENT_ERROR invalid mode for ms M token\r\n"),
        };
        let is_bound = self.version.is_some() && condition != Condition::Always;
        self.without(&[(is_bound, b"")])?;
        let operation = Operation::Set {
            value: data,
            options: SetOptions {
                flags: self.client_flags,
                expiry: self.expiry.unwrap_or_default(),
                condition: self.version.map_or(condition, Condition::IfVersion),
                ..SetOptions::default()
            },
        };
        Ok((operation, MetaCommand::Set, self))
    }

    fn delete<'a>(self) -> HandlerResult<'a> {
        self.without(&[(self.expiry.is_some(), b"")])?;
        let operation = Operation::Delete { version: self.version };
        Ok((operation, MetaCommand::Delete, self))
    }

    fn count<'a>(self) -> HandlerResult<'a> {
        self.without(&[(self.version.is_some(), b"t")])?;
        let down = match self.mode.map(|mode| mode.to_ascii_uppercase()) {
            None | Some(b'I' | b'+') => false,
            Some(b'D' | b'-') => true,
            Some(_) => return Err(b"CLIENT_ERROR invalid mode for ma M token\r\n"),
        };
        let operation = Operation::Count(CounterChange {
            delta: self.delta.unwrap_or(1),
            down,
            initial: self.autovivify.map(|expiry| (self.initial, expiry)),
            expiry: self.expiry.unwrap_or(Expiry::Keep),
        });
        Ok((operation, MetaCommand::Count, self))
    }
}

type HandlerResult<'a> = Result<(Operation<'a>, MetaCommand, Flags), &'static [u8]>;
