//! Prints the selected records.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use overside_match::{Exact, SelectedRecord, Sink};
use serde_json::{Value, json};

use super::output::{Output, OutputMode};
use overside_command::{complain, messages::shown};

/// Colors of grep, as SGR parameters (ECMA-48, 8.3.117).
const NAME: &str = "35";
const NUMBER: &str = "32";
const SEPARATOR: &str = "36";
const MATCH: &str = "01;31";

/// Settings that apply to the whole output.
struct Style {
    mode: OutputMode,
    numbers: bool,
    heading: bool,
    colored: bool,
    /// `true` if a separator is printed between groups of adjacent records.
    groups: bool,
    /// `true` with `--invert-match`: matches are in the records around the selected ones.
    invert: bool,
    /// Byte after each printed record.
    end: u8,
}

/// Printer of the records of one file after the other.
pub(super) struct Printer {
    style: Style,
    /// Matcher that finds the matches to show.
    exact: Option<Exact>,
    out: BufWriter<StdoutLock<'static>>,
    /// Name of the file; `None` if it is not shown.
    name: Option<Vec<u8>>,
    /// Handling of the file if it turns out to be binary; `None` if it is printed anyway, or was
    /// reported already.
    binary: Option<Binary>,
    /// Number of the last printed record.
    last: Option<u64>,
    /// `true` if a record of any file was printed so far. `of_this` is `true` if a record of the
    /// current file was.
    anything: bool,
    of_this: bool,
}

/// Handling of a file that turns out to be binary.
pub(super) struct Binary {
    /// Name of the file in the message.
    pub name: OsString,
    /// `true` if the file is known to be binary.
    pub known: bool,
    /// `true` if a binary file counts as not matching.
    pub skip: bool,
}

/// Value of `schema` in the objects that `--json` prints.
const SCHEMA: &str = "match/1";

impl Printer {
    /// Makes a printer. `exact` finds the matches to show; `end` follows each record.
    pub(super) fn new(output: &Output, invert: bool, end: u8, exact: Option<Exact>) -> Self {
        let style = Style {
            mode: output.mode(),
            numbers: output.with_number(),
            heading: output.with_heading(),
            colored: output.is_colored(),
            groups: output.context().is_wanted(),
            invert,
            end,
        };
        Self {
            style,
            exact,
            out: super::stdout(),
            name: None,
            binary: None,
            last: None,
            anything: false,
            of_this: false,
        }
    }

    /// Starts another file. `name` precedes its records and is part of JSON objects.
    pub(super) fn begin(&mut self, name: Option<&OsStr>, binary: Option<Binary>) {
        self.name = name.map(|name| name.as_bytes().to_vec());
        self.binary = binary;
        self.last = None;
        self.of_this = false;
    }

    /// Prints the number of records.
    pub(super) fn count(&mut self, count: u64) -> io::Result<()> {
        if self.style.mode == OutputMode::JsonCount {
            return self.object(&json!({ "schema": SCHEMA, "count": count, "file": self.file() }));
        }
        self.prefix_name(b':')?;
        writeln!(self.out, "{count}")
    }

    /// Prints a file's name.
    pub(super) fn name(&mut self, name: &OsStr) -> io::Result<()> {
        self.colored(NAME, name.as_bytes())?;
        self.out.write_all(b"\n")
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Prints text in a color, like grep: with the rest of the line cleared in case it scrolls.
    fn colored(&mut self, color: &str, text: &[u8]) -> io::Result<()> {
        if !self.style.colored {
            return self.out.write_all(text);
        }
        write!(self.out, "\x1b[{color}m\x1b[K")?;
        self.out.write_all(text)?;
        self.out.write_all(b"\x1b[m\x1b[K")
    }

    fn prefix_name(&mut self, separator: u8) -> io::Result<()> {
        let Some(name) = self.name.take() else {
            return Ok(());
        };
        let written =
            self.colored(NAME, &name).and_then(|()| self.colored(SEPARATOR, &[separator]));
        self.name = Some(name);
        written
    }

    fn prefix(&mut self, number: u64, separator: u8) -> io::Result<()> {
        if !self.style.heading {
            self.prefix_name(separator)?;
        }
        if !self.style.numbers {
            return Ok(());
        }
        self.colored(NUMBER, number.to_string().as_bytes())?;
        self.colored(SEPARATOR, &[separator])
    }

    /// Prints the separator between a record and the record that was printed before it: a heading
    /// or `--`.
    fn begin_record(&mut self, number: u64) -> io::Result<()> {
        let with_heading = self.style.heading && self.name.is_some();
        if with_heading && !self.of_this {
            if self.anything {
                self.out.write_all(b"\n")?;
            }
            if let Some(name) = self.name.clone() {
                self.name(OsStr::from_bytes(&name))?;
            }
        } else if self.style.groups
            && self.anything
            && self.last.is_none_or(|last| last + 1 < number)
        {
            self.colored(SEPARATOR, b"--")?;
            self.out.write_all(b"\n")?;
        }
        (self.anything, self.of_this) = (true, true);
        self.last = Some(number);
        Ok(())
    }

    /// Prints a record. With `matches`, matches in it are marked.
    fn line(&mut self, number: u64, value: &[u8], separator: u8, matches: bool) -> io::Result<()> {
        self.begin_record(number)?;
        self.prefix(number, separator)?;
        let ranges = match self.style.colored && matches {
            true => self.find(value),
            false => Vec::new(),
        };
        let mut printed = 0;
        for range in ranges {
            self.out.write_all(&value[printed..range.start])?;
            self.colored(MATCH, &value[range.clone()])?;
            printed = range.end;
        }
        self.out.write_all(&value[printed..])?;
        self.out.write_all(&[self.style.end])
    }

    /// Prints a match on a line of its own.
    fn part(&mut self, number: u64, part: &[u8]) -> io::Result<()> {
        self.begin_record(number)?;
        self.prefix(number, b':')?;
        self.colored(MATCH, part)?;
        self.out.write_all(&[self.style.end])
    }

    fn find(&self, value: &[u8]) -> Vec<Range<usize>> {
        let exact = self.exact.as_ref();
        exact.map_or_else(Vec::new, |exact| exact.find(value).collect())
    }

    /// Returns the byte ranges of the matches in a selected record; none with `--invert-match`.
    fn ranges(&self, value: &[u8]) -> Vec<Range<usize>> {
        match self.style.invert {
            true => Vec::new(),
            false => self.find(value),
        }
    }

    fn record(&mut self, record: &SelectedRecord<'_>, is_context: bool) -> io::Result<()> {
        let ranges = match is_context {
            true => Vec::new(),
            false => self.ranges(record.value.unwrap_or_default()),
        };
        let ranges = ranges.iter().map(|range| [range.start, range.end]);
        let mut object = json!({
            "schema": SCHEMA,
            "file": self.file(),
            "record": record.number,
            "value": record.value.map(text),
            "matches": ranges.collect::<Vec<_>>(),
        });
        if let Some(offset) = record.offset {
            object["offset"] = offset.into();
        }
        if is_context {
            object["context"] = true.into();
        }
        self.object(&object)
    }

    fn file(&self) -> Option<Value> {
        self.name.as_deref().map(text)
    }

    fn object(&mut self, object: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, object)?;
        self.out.write_all(b"\n")
    }

    /// Reports on stderr that a binary file matches, as grep does. Returns `false` if the file is
    /// text or is printed anyway.
    fn is_binary(&mut self, value: &[u8]) -> io::Result<bool> {
        let Some(binary) = self.binary.take_if(|binary| binary.known || value.contains(&0)) else {
            return Ok(false);
        };
        if !binary.skip {
            self.flush()?;
            complain!("overside match: {}: binary file matches", shown(&binary.name));
        }
        Ok(true)
    }
}

/// Encodes bytes in JSON: a string if they are UTF-8, otherwise an object with them in base64.
fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": BASE64_STANDARD.encode(bytes) }),
    }
}

impl Sink for Printer {
    fn found(&mut self, found: SelectedRecord<'_>) -> io::Result<bool> {
        let value = found.value.unwrap_or_default();
        if self.style.mode != OutputMode::Json && self.is_binary(value)? {
            return Ok(false);
        }
        match self.style.mode {
            OutputMode::Json => self.record(&found, false)?,
            OutputMode::Matches => {
                for range in self.ranges(value) {
                    self.part(found.number, &value[range])?;
                }
            }
            _ => self.line(found.number, value, b':', !self.style.invert)?,
        }
        Ok(true)
    }

    fn context(&mut self, record: SelectedRecord<'_>) -> io::Result<()> {
        let value = record.value.unwrap_or_default();
        match self.style.mode {
            OutputMode::Json => self.record(&record, true),
            // The message about its selected record covers it.
            _ if self.binary.as_ref().is_some_and(|binary| binary.known) => Ok(()),
            _ => self.line(record.number, value, b'-', self.style.invert),
        }
    }

    fn idle(&mut self) -> io::Result<()> {
        self.flush()
    }
}
