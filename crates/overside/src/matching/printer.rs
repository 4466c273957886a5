//! Prints the records that were found.

use std::ffi::OsStr;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use overside_match::{Exact, SelectedRecord, Sink};
use serde_json::{Value, json};

use super::arguments::{Arguments, OutputMode};

/// Prints what is found in one file.
pub struct Printer<'a> {
    arguments: &'a Arguments,
    mode: OutputMode,
    name: Option<&'a OsStr>,
    exact: Option<Exact>,
    out: BufWriter<StdoutLock<'static>>,
}

impl<'a> Printer<'a> {
    /// `exact` is needed to show what matches, `name` for objects.
    pub fn new(arguments: &'a Arguments, name: Option<&'a OsStr>, exact: Option<Exact>) -> Self {
        let out = super::stdout();
        Self {
            arguments,
            mode: arguments.output.mode(),
            name,
            exact,
            out,
        }
    }

    /// Prints how many records there are.
    pub fn count(&mut self, count: u64) -> io::Result<()> {
        if self.mode == OutputMode::JsonCount {
            return self.object(&json!({ "count": count, "file": self.file() }));
        }
        self.prefix(None)?;
        writeln!(self.out, "{count}")
    }

    /// Prints a file's name.
    pub fn name(&mut self, name: &OsStr) -> io::Result<()> {
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(b"\n")
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn prefix(&mut self, number: Option<u64>) -> io::Result<()> {
        if let Some(name) = self.name {
            self.out.write_all(name.as_bytes())?;
            self.out.write_all(b":")?;
        }
        match number {
            Some(number) => write!(self.out, "{number}:"),
            None => Ok(()),
        }
    }

    fn line(&mut self, number: u64, value: &[u8]) -> io::Result<()> {
        self.prefix(self.arguments.output.line_number.then_some(number))?;
        self.out.write_all(value)?;
        self.out.write_all(b"\n")
    }

    /// Where a record's matches lie.
    fn ranges(&self, value: &[u8]) -> Vec<Range<usize>> {
        match &self.exact {
            Some(exact) if !self.arguments.invert => exact.find(value).collect(),
            _ => Vec::new(),
        }
    }

    fn record(&mut self, found: &SelectedRecord<'_>) -> io::Result<()> {
        let ranges = self.ranges(found.value.unwrap_or_default());
        let ranges = ranges.iter().map(|range| [range.start, range.end]);
        let mut object = json!({
            "file": self.file(),
            "record": found.number,
            "value": found.value.map(text),
            "matches": ranges.collect::<Vec<_>>(),
        });
        if let Some(offset) = found.offset {
            object["offset"] = offset.into();
        }
        self.object(&object)
    }

    fn file(&self) -> Option<Value> {
        self.name.map(|name| text(name.as_bytes()))
    }

    fn object(&mut self, object: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, object)?;
        self.out.write_all(b"\n")
    }
}

/// Bytes as JSON: a string if they are UTF-8, else an object with them in base64.
fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": BASE64_STANDARD.encode(bytes) }),
    }
}

impl Sink for Printer<'_> {
    fn found(&mut self, found: SelectedRecord<'_>) -> io::Result<bool> {
        let value = found.value.unwrap_or_default();
        match self.mode {
            OutputMode::Json => self.record(&found)?,
            OutputMode::Matches => {
                for range in self.ranges(value) {
                    self.line(found.number, &value[range])?;
                }
            }
            _ => self.line(found.number, value)?,
        }
        Ok(true)
    }

    fn idle(&mut self) -> io::Result<()> {
        self.flush()
    }
}
