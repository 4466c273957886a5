//! Makes replies from answers.

use super::meta::{MetaCommand, MetaForm};
use super::{Pending, ReplyFormat};
use overside_kv_store::{Answer, Refusal, Value};

/// Writer of replies.
pub(crate) struct Writer {
    /// Time at which the batch was executed, in milliseconds since 1970.
    pub now_ms: u64,
    /// Number of answers of the current command that have been written.
    pub answers: u32,
}

impl Writer {
    /// Appends the reply for the next answer to a command. Returns `true` if the reply is complete.
    #[inline]
    pub(super) fn write(
        &mut self,
        command: &Pending<ReplyFormat<'_>>,
        key: &[u8],
        answer: &Answer<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        match &command.form {
            ReplyFormat::Meta(form) => match answer {
                Answer::Refused(refusal) => out.extend_from_slice(refused(*refusal)),
                _ => self.meta(form, answer, out),
            },
            ReplyFormat::Values { with_version } => {
                match answer {
                    Answer::Value(found) => value(key, found, *with_version, out),
                    Answer::Refused(refusal) => out.extend_from_slice(refused(*refusal)),
                    _ => {}
                }
                self.answers += 1;
                if self.answers < command.requests {
                    return false;
                }
                self.answers = 0;
                out.extend_from_slice(b"END\r\n");
            }
            form => write_line(form, answer, out),
        }
        true
    }

    fn meta(&self, form: &MetaForm<'_>, answer: &Answer<'_>, out: &mut Vec<u8>) {
        let code: &[u8; 2] = match (form.command, answer) {
            (MetaCommand::Get, Answer::Value(_)) if form.with_value => b"VA",
            (MetaCommand::Count, Answer::Counter { .. }) if form.with_value => b"VA",
            (MetaCommand::Get, Answer::Missing) => b"EN",
            (MetaCommand::Append, Answer::Missing) | (_, Answer::NotStored) => b"NS",
            (_, Answer::Missing) => b"NF",
            (_, Answer::VersionDiffers) => b"EX",
            _ => b"HD",
        };
        let is_usual = match form.command {
            MetaCommand::Get => code == b"EN",
            _ => code == b"HD",
        };
        if form.is_quiet && is_usual {
            return;
        }
        out.extend_from_slice(code);
        let mut digits = itoa::Buffer::new();
        let data: &[u8] = match answer {
            Answer::Value(value) => value.data,
            Answer::Counter { value, .. } => digits.format(*value).as_bytes(),
            _ => b"",
        };
        if code == b"VA" {
            out.push(b' ');
            number(data.len() as u64, out);
        }
        if !form.line.is_empty() {
            self.flags(form, answer, out);
        }
        out.extend_from_slice(b"\r\n");
        if code == b"VA" {
            out.extend_from_slice(data);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Appends the values that the flags request, if the answer has them.
    fn flags(&self, form: &MetaForm<'_>, answer: &Answer<'_>, out: &mut Vec<u8>) {
        let (key, flags) = form.key_and_flags();
        let is_base64 = flags.clone().any(|flag| flag == b"b");
        for flag in flags {
            match flag[0] {
                b'O' => {
                    out.push(b' ');
                    out.extend_from_slice(flag);
                }
                b'k' => {
                    out.extend_from_slice(b" k");
                    out.extend_from_slice(key);
                    if is_base64 {
                        out.extend_from_slice(b" b");
                    }
                }
                name => {
                    if let Some(field) = self.field(name, answer) {
                        out.extend_from_slice(&[b' ', name]);
                        match field {
                            None => out.extend_from_slice(b"-1"),
                            Some(field) => number(field, out),
                        }
                    }
                }
            }
        }
    }

    /// Returns the number for a flag, or `Some(None)` if it is unlimited; `None` if the answer has
    /// no such number.
    fn field(&self, flag: u8, answer: &Answer<'_>) -> Option<Option<u64>> {
        Some(match (flag, *answer) {
            (b't', Answer::Value(value)) => {
                let left_ms = value.expires_at_ms.map(|at| at.saturating_sub(self.now_ms));
                left_ms.map(|ms| ms.div_ceil(1000))
            }
            (b'c', Answer::Value(Value { version, .. }))
            | (b'c', Answer::Stored { version } | Answer::Counter { version, .. }) => Some(version),
            (b'f', Answer::Value(value)) => Some(u64::from(value.flags)),
            (b's', Answer::Value(value)) => Some(value.data.len() as u64),
            _ => return None,
        })
    }
}

fn value(key: &[u8], found: &Value<'_>, with_version: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    number(u64::from(found.flags), out);
    out.push(b' ');
    number(found.data.len() as u64, out);
    if with_version {
        out.push(b' ');
        number(found.version, out);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(found.data);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes a reply of one line.
fn write_line(form: &ReplyFormat<'_>, answer: &Answer<'_>, out: &mut Vec<u8>) {
    let is_quiet = matches!(
        form,
        ReplyFormat::Stored { is_quiet: true }
            | ReplyFormat::Appended { is_quiet: true }
            | ReplyFormat::Deleted { is_quiet: true }
            | ReplyFormat::Counted { is_quiet: true }
            | ReplyFormat::Touched { is_quiet: true }
    );
    if is_quiet {
        return;
    }
    if let Answer::Refused(refusal) = answer {
        return out.extend_from_slice(refused(*refusal));
    }
    match form {
        ReplyFormat::Counted { .. } => match answer {
            Answer::Counter { value, .. } => {
                number(*value, out);
                out.extend_from_slice(b"\r\n");
            }
            _ => out.extend_from_slice(b"NOT_FOUND\r\n"),
        },
        ReplyFormat::Stored { .. } => out.extend_from_slice(match answer {
            Answer::Stored { .. } => b"STORED\r\n",
            Answer::VersionDiffers => b"EXISTS\r\n",
            Answer::Missing => b"NOT_FOUND\r\n",
            _ => b"NOT_STORED\r\n",
        }),
        ReplyFormat::Appended { .. } => out.extend_from_slice(match answer {
            Answer::Number(_) => b"STORED\r\n",
            _ => b"NOT_STORED\r\n",
        }),
        ReplyFormat::Deleted { .. } => out.extend_from_slice(match answer {
            Answer::Done => b"DELETED\r\n",
            _ => b"NOT_FOUND\r\n",
        }),
        ReplyFormat::Touched { .. } => out.extend_from_slice(match answer {
            Answer::Done => b"TOUCHED\r\n",
            _ => b"NOT_FOUND\r\n",
        }),
        ReplyFormat::Literal(_) | ReplyFormat::Values { .. } | ReplyFormat::Meta(_) => {}
    }
}

fn refused(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::OutOfMemory => b"SERVER_ERROR out of memory storing object\r\n",
        Refusal::TooLarge => b"SERVER_ERROR object too large for cache\r\n",
        Refusal::NotAnInteger => {
            b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
        }
        Refusal::WrongKind => b"SERVER_ERROR the key holds another kind of value\r\n",
        Refusal::ReadOnly => b"SERVER_ERROR the store takes no writes now\r\n",
        Refusal::Loading => b"SERVER_ERROR the replica has no complete copy of its primary yet\r\n",
        _ => b"SERVER_ERROR internal error\r\n",
    }
}
