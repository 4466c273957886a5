//! Replies.

use super::meta::{MetaCommand, MetaForm};
use super::{Form, Pending};
use crate::{Answer, Refusal, Value};

/// Writes replies.
pub(super) struct Writer {
    /// When the batch was executed.
    pub now_ms: u64,
    /// Answers of the current command that have been written.
    pub answers: u32,
}

impl Writer {
    /// Appends what is made of the next answer to a command; whether its reply is complete now.
    #[inline]
    pub fn write(
        &mut self,
        command: &Pending<Form<'_>>,
        key: &[u8],
        answer: &Answer<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        match &command.form {
            Form::Meta(form) => match answer {
                Answer::Refused(refusal) => out.extend_from_slice(refused(*refusal)),
                _ => self.meta(form, answer, out),
            },
            Form::Values { with_version } => {
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

    /// Appends what flags ask for, if the answer has it.
    fn flags(&self, form: &MetaForm<'_>, answer: &Answer<'_>, out: &mut Vec<u8>) {
        let found = details(answer);
        let (key, flags) = form.key_and_flags();
        let is_base64 = flags.clone().any(|flag| flag == b"b");
        for flag in flags {
            self.flag(flag, (key, is_base64), found.as_ref(), out);
        }
    }

    fn flag(
        &self,
        flag: &[u8],
        (key, is_base64): (&[u8], bool),
        found: Option<&Value<'_>>,
        out: &mut Vec<u8>,
    ) {
        match (flag[0], found) {
            (b'O', _) => {
                out.push(b' ');
                out.extend_from_slice(flag);
            }
            (b'k', _) => {
                out.extend_from_slice(b" k");
                out.extend_from_slice(key);
                if is_base64 {
                    out.extend_from_slice(b" b");
                }
            }
            (b'c', Some(value)) => {
                out.extend_from_slice(b" c");
                number(value.version, out);
            }
            (b'f', Some(value)) => {
                out.extend_from_slice(b" f");
                number(u64::from(value.flags), out);
            }
            (b's', Some(value)) => {
                out.extend_from_slice(b" s");
                number(value.data.len() as u64, out);
            }
            (b't', Some(value)) => match value.expires_at_ms {
                None => out.extend_from_slice(b" t-1"),
                Some(at) => {
                    out.extend_from_slice(b" t");
                    number(at.saturating_sub(self.now_ms).div_ceil(1000), out);
                }
            },
            _ => {}
        }
    }
}

/// What a reply can say of the item.
fn details<'a>(answer: &Answer<'a>) -> Option<Value<'a>> {
    match *answer {
        Answer::Value(value) => Some(value),
        Answer::Stored { version } | Answer::Counter { version, .. } => Some(Value {
            version,
            ..Value::default()
        }),
        _ => None,
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

/// Writes a reply that is one line.
fn write_line(form: &Form<'_>, answer: &Answer<'_>, out: &mut Vec<u8>) {
    let is_quiet = matches!(
        form,
        Form::Stored { is_quiet: true }
            | Form::Appended { is_quiet: true }
            | Form::Deleted { is_quiet: true }
            | Form::Counted { is_quiet: true }
            | Form::Touched { is_quiet: true }
    );
    if is_quiet {
        return;
    }
    if let Answer::Refused(refusal) = answer {
        return out.extend_from_slice(refused(*refusal));
    }
    match form {
        Form::Counted { .. } => match answer {
            Answer::Counter { value, .. } => {
                number(*value, out);
                out.extend_from_slice(b"\r\n");
            }
            _ => out.extend_from_slice(b"NOT_FOUND\r\n"),
        },
        Form::Stored { .. } => out.extend_from_slice(match answer {
            Answer::Stored { .. } => b"STORED\r\n",
            Answer::VersionDiffers => b"EXISTS\r\n",
            Answer::Missing => b"NOT_FOUND\r\n",
            _ => b"NOT_STORED\r\n",
        }),
        Form::Appended { .. } => out.extend_from_slice(match answer {
            Answer::Number(_) => b"STORED\r\n",
            _ => b"NOT_STORED\r\n",
        }),
        Form::Deleted { .. } => out.extend_from_slice(match answer {
            Answer::Done => b"DELETED\r\n",
            _ => b"NOT_FOUND\r\n",
        }),
        Form::Touched { .. } => out.extend_from_slice(match answer {
            Answer::Done => b"TOUCHED\r\n",
            _ => b"NOT_FOUND\r\n",
        }),
        Form::Literal(_) | Form::Values { .. } | Form::Meta(_) => {}
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
