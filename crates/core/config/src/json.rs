//! JSON (RFC 8259) as a tree: keys in order, keys that stand twice noticed, depth and count bounded.
//!
//! The structure is read here, so that each value has its position; the library reads texts and
//! numbers, and makes the message about text that is no JSON.

use std::collections::HashSet;

use crate::error::Position;
use crate::node::{Key, Node, Value};
use crate::{Error, Limits, quoted};

/// Maximum number of problems that are reported of one text.
const PROBLEMS_MAX: usize = 100;

/// Reason why parsing ends early.
enum End {
    /// Invalid syntax; the library has the message.
    Syntax,
    /// A limit is exceeded from this byte on.
    Limit(usize, String),
}

pub(crate) fn parse(file: &str, text: &str, limits: Limits) -> Result<Node, Vec<Error>> {
    let mut parser = Parser { text, at: 0, left: limits.values, limits, repeated: Vec::new() };
    let root = parser.value(0).and_then(|root| {
        parser.space();
        (parser.at == text.len()).then_some(root).ok_or(End::Syntax)
    });
    let error = |offset: usize, key: &str, problem: String| Error {
        position: Some(Position::of(text, offset)),
        key: key.into(),
        ..Error::of_file(file, problem, "")
    };
    let mut errors: Vec<Error> = (parser.repeated.iter())
        .map(|(offset, path, key)| {
            error(*offset, path, format!("the key {} stands here twice", quoted(key)))
        })
        .collect();
    match root {
        Ok(root) if errors.is_empty() => return Ok(root),
        Ok(_) => {}
        Err(End::Limit(offset, problem)) => errors.push(error(offset, "", problem)),
        Err(End::Syntax) => errors.push(not_json(file, text)),
    }
    Err(errors)
}

/// Returns the error for a text that is not JSON, with the library's message and position.
fn not_json(file: &str, text: &str) -> Error {
    let Err(error) = serde_json::from_str::<serde_json::Value>(text) else {
        return Error::of_file(file, "not JSON", "");
    };
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let message = message.replace("EOF while parsing", "the text ends inside");
    Error {
        position: Some(Position::counted(error.line(), error.column())),
        ..Error::of_file(file, format!("not JSON: {message}"), "")
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    left: usize,
    limits: Limits,
    /// Repeated keys: the byte offset of the repetition, its JSON pointer, and the key.
    repeated: Vec<(usize, String, String)>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes a byte behind white space, if it is that one.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let is = self.peek() == Some(byte);
        self.at += usize::from(is);
        is
    }

    fn value(&mut self, depth: usize) -> Result<Node, End> {
        self.parse(depth, &mut String::new())
    }

    /// Parses the value at `path`.
    fn parse(&mut self, depth: usize, path: &mut String) -> Result<Node, End> {
        self.space();
        let offset = self.at;
        if depth > self.limits.depth {
            let problem = format!("nested more than {} deep", self.limits.depth);
            return Err(End::Limit(offset, problem));
        }
        let Some(left) = self.left.checked_sub(1) else {
            let problem = format!("more than {} values", self.limits.values);
            return Err(End::Limit(offset, problem));
        };
        self.left = left;
        let value = match self.peek().ok_or(End::Syntax)? {
            b'{' => self.map(depth, path)?,
            b'[' => self.list(depth, path)?,
            b'"' => Value::Text(self.string()?),
            _ => self.scalar()?,
        };
        Ok(Node { offset, value })
    }

    fn map(&mut self, depth: usize, path: &mut String) -> Result<Value, End> {
        self.at += 1;
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        if self.take(b'}') {
            return Ok(Value::Map(entries));
        }
        loop {
            self.space();
            let offset = self.at;
            let text = self.string()?;
            let before = push(path, &text);
            if !seen.insert(text.clone()) && self.repeated.len() < PROBLEMS_MAX {
                self.repeated.push((offset, path.clone(), text.clone()));
            }
            if !self.take(b':') {
                return Err(End::Syntax);
            }
            let node = self.parse(depth + 1, path)?;
            path.truncate(before);
            entries.push((Key { offset, text }, node));
            if self.take(b'}') {
                return Ok(Value::Map(entries));
            }
            if !self.take(b',') {
                return Err(End::Syntax);
            }
        }
    }

    fn list(&mut self, depth: usize, path: &mut String) -> Result<Value, End> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::List(items));
        }
        loop {
            let before = push(path, &items.len().to_string());
            items.push(self.parse(depth + 1, path)?);
            path.truncate(before);
            if self.take(b']') {
                return Ok(Value::List(items));
            }
            if !self.take(b',') {
                return Err(End::Syntax);
            }
        }
    }

    fn string(&mut self) -> Result<String, End> {
        let begin = self.at;
        if self.peek() != Some(b'"') {
            return Err(End::Syntax);
        }
        self.at += 1;
        loop {
            match self.peek().ok_or(End::Syntax)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.library(begin)
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self) -> Result<Value, End> {
        let begin = self.at;
        let part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        while self.peek().is_some_and(part) {
            self.at += 1;
        }
        match &self.text[begin..self.at] {
            "null" => return Ok(Value::Null),
            "true" => return Ok(Value::Bool(true)),
            "false" => return Ok(Value::Bool(false)),
            _ => {}
        }
        let number: serde_json::Number = self.library(begin)?;
        Ok(match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Value::Unsigned(number),
            (None, Some(number)) => Value::Signed(number),
            (None, None) => Value::Float(number.as_f64().ok_or(End::Syntax)?),
        })
    }

    fn library<T: serde::de::DeserializeOwned>(&self, begin: usize) -> Result<T, End> {
        let text = self.text.get(begin..self.at).ok_or(End::Syntax)?;
        serde_json::from_str(text).map_err(|_| End::Syntax)
    }
}

/// Extends a JSON pointer by a key; returns its old length.
fn push(pointer: &mut String, key: &str) -> usize {
    let before = pointer.len();
    pointer.push('/');
    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
    before
}
