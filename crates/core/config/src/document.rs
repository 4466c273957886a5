//! A file's text as a tree, and as a type.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use crate::error::Position;
use crate::file::too_long;
use crate::node::{Key, Node, Value};
use crate::{Error, Interval, Limits, de, json, quoted};

/// A file's text as a tree.
#[derive(Debug)]
pub struct Document<'a> {
    file: &'a str,
    text: &'a str,
    root: Node,
}

impl<'a> Document<'a> {
    /// Parses TOML. `file` is the name that error messages show.
    ///
    /// # Errors
    /// [`Error`]: not TOML, or more than `limits`.
    pub fn toml(file: &'a str, text: &'a str, limits: Limits) -> Result<Self, Error> {
        if text.len() as u64 > limits.bytes {
            return Err(too_long(file, limits.bytes));
        }
        let table = DeTable::parse(text).map_err(|error| Error {
            position: error.span().map(|span| Position::of(text, span.start)),
            ..Error::of_file(file, format!("not TOML: {}", error.message()), "")
        })?;
        let mut left = limits.values;
        let mut tree = TomlTree { file, text, left: &mut left, limits };
        let root = tree.map(table.get_ref(), 0, 0)?;
        Ok(Self { file, text, root })
    }

    /// Parses JSON and keeps the order of the keys. `file` is the name that error messages show.
    ///
    /// # Errors
    /// Everything that is wrong: keys that stand twice, and then that it is no JSON, or more than
    /// `limits`.
    pub fn json(file: &'a str, text: &'a str, limits: Limits) -> Result<Self, Vec<Error>> {
        if text.len() as u64 > limits.bytes {
            return Err(vec![too_long(file, limits.bytes)]);
        }
        let root = json::parse(file, text, limits)?;
        Ok(Self { file, text, root })
    }

    /// The tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Deserializes the tree into a value of type `T`.
    ///
    /// # Errors
    /// [`Error`]: the first key that the type does not take.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, Error> {
        de::read(&self.root).map_err(|fault| Error {
            position: Some(Position::of(self.text, fault.offset)),
            ..fault.error().within(self.file)
        })
    }

    /// An error that has a key, with the file and the key's position.
    pub fn locate(&self, error: Error) -> Error {
        let offset = match error.key.strip_prefix('/') {
            Some(pointer) => self.root.at_pointer(pointer),
            None => self.root.find(&error.key),
        };
        Error { position: Some(Position::of(self.text, offset)), ..error.within(self.file) }
    }

    /// Returns an error for the value at `key`, with the file and the position of the key.
    pub fn error(&self, key: &str, problem: impl Into<String>, remedy: impl Into<String>) -> Error {
        self.locate(Error::of_key(key, problem, remedy))
    }

    /// Refuses another `schema` than `expected`, before anything else is read.
    ///
    /// # Errors
    /// [`Error`].
    pub fn schema(&self, expected: &str) -> Result<(), Error> {
        let problem = match self.root.get("schema").map(|node| &node.value) {
            Some(Value::Text(found)) if found == expected => return Ok(()),
            Some(found) => format!("{found} is not known"),
            None => "missing".into(),
        };
        Err(self.error("schema", problem, format!("write schema = \"{expected}\"")))
    }

    /// Checks that a value is in a range; messages show it by `shown`.
    ///
    /// # Errors
    /// [`Error`].
    pub fn bounded(
        &self,
        key: &str,
        found: Interval,
        range: &RangeInclusive<f64>,
        shown: impl Fn(f64) -> String,
    ) -> Result<Interval, Error> {
        if found.is_within(range) {
            return Ok(found);
        }
        let problem = if found.low == found.high {
            format!("{} is out of range", shown(found.low))
        } else {
            format!("{} to {} is out of range", shown(found.low), shown(found.high))
        };
        let (least, most) = (shown(*range.start()), shown(*range.end()));
        Err(self.error(key, problem, format!("from {least} to {most}")))
    }

    /// Refuses text that is empty or of more than `chars_max` characters.
    ///
    /// # Errors
    /// [`Error`].
    pub fn text(&self, key: &str, found: &str, chars_max: usize) -> Result<(), Error> {
        if (1..=chars_max).contains(&found.chars().count()) {
            return Ok(());
        }
        let problem = if found.is_empty() {
            "empty".to_owned()
        } else {
            format!("{} is too long", quoted(found))
        };
        Err(self.error(key, problem, format!("text of 1 to {chars_max} characters")))
    }

    /// Refuses a list of another length.
    ///
    /// # Errors
    /// [`Error`].
    pub fn count(
        &self,
        key: &str,
        found: usize,
        range: RangeInclusive<usize>,
        of: impl Display,
    ) -> Result<(), Error> {
        if range.contains(&found) {
            return Ok(());
        }
        let (least, most) = (range.start(), range.end());
        Err(self.error(key, format!("{found} {of}"), format!("{least} to {most} {of}")))
    }
}

/// The value of a type in YAML of at most `bytes_max` bytes; `file` is for messages.
///
/// # Errors
/// [`Error`]: not YAML, longer, or not of that type.
pub fn parse_yaml<T: DeserializeOwned>(file: &str, text: &str, bytes_max: u64) -> Result<T, Error> {
    if text.len() as u64 > bytes_max {
        return Err(too_long(file, bytes_max));
    }
    serde_yaml_ng::from_str(text).map_err(|error| {
        let position = error.location().map(|at| Position::counted(at.line(), at.column()));
        let problem = error.to_string();
        // It ends with the place, which is said first.
        let problem = match problem.rfind(" at line ") {
            Some(end) if position.is_some() => &problem[..end],
            _ => &problem,
        };
        Error { position, ..Error::of_file(file, problem, "") }
    })
}

impl Node {
    /// The value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => {
                entries.iter().find(|(name, _)| name.text == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }
}

/// Turns the TOML library's tree into ours.
struct TomlTree<'a> {
    file: &'a str,
    text: &'a str,
    left: &'a mut usize,
    limits: Limits,
}

impl TomlTree<'_> {
    fn error(&self, offset: usize, problem: String, remedy: &str) -> Error {
        Error {
            position: Some(Position::of(self.text, offset)),
            ..Error::of_file(self.file, problem, remedy)
        }
    }

    fn enter(&mut self, offset: usize, depth: usize) -> Result<(), Error> {
        let Limits { depth: deepest, values, .. } = self.limits;
        if depth > deepest {
            return Err(self.error(offset, format!("nested more than {deepest} deep"), ""));
        }
        *self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| self.error(offset, format!("more than {values} values"), ""))?;
        Ok(())
    }

    fn map(&mut self, table: &DeTable<'_>, offset: usize, depth: usize) -> Result<Node, Error> {
        self.enter(offset, depth)?;
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            let name = Key { offset: key.span().start, text: key.get_ref().to_string() };
            let node = self.value(value.get_ref(), value.span().start, depth + 1)?;
            entries.push((name, node));
        }
        // The library sorts them.
        entries.sort_by_key(|(key, _)| key.offset);
        Ok(Node { offset, value: Value::Map(entries) })
    }

    fn value(&mut self, value: &DeValue<'_>, offset: usize, depth: usize) -> Result<Node, Error> {
        let value = match value {
            DeValue::Table(table) => return self.map(table, offset, depth),
            DeValue::Array(items) => {
                self.enter(offset, depth)?;
                let items = items.iter();
                let items =
                    items.map(|item| self.value(item.get_ref(), item.span().start, depth + 1));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            scalar => {
                self.enter(offset, depth)?;
                self.scalar(scalar, offset)?
            }
        };
        Ok(Node { offset, value })
    }

    fn scalar(&self, value: &DeValue<'_>, offset: usize) -> Result<Value, Error> {
        let digits = |text: &str| text.replace('_', "");
        match value {
            DeValue::String(text) => Ok(Value::Text(text.to_string())),
            DeValue::Boolean(value) => Ok(Value::Bool(*value)),
            DeValue::Float(number) => (digits(number.as_str()).parse())
                .map(Value::Float)
                .map_err(|_| self.error(offset, "not a number".into(), "")),
            DeValue::Integer(number) => {
                i64::from_str_radix(&digits(number.as_str()), number.radix())
                    .map(|number| {
                        u64::try_from(number).map_or(Value::Signed(number), Value::Unsigned)
                    })
                    .map_err(|_| {
                        self.error(
                            offset,
                            "not a whole number of 64 bits".into(),
                            "write a smaller one",
                        )
                    })
            }
            _ => Err(self.error(offset, "a date".into(), "no key takes one; write text in quotes")),
        }
    }
}
