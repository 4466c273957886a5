//! Content of a file, as a tree in which each value has its offset in the text.

use std::fmt;

use crate::quoted;

/// Bounds on a file that is parsed: bytes, nesting and number of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of its text.
    pub bytes: u64,
    /// Maximum depth of tables and lists inside each other.
    pub depth: usize,
    /// Values in all.
    pub values: usize,
}

impl Limits {
    /// Limit of `bytes` bytes; depth and values are those that any of these files needs.
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes, depth: 16, values: 500_000 }
    }
}

/// A value and where it begins.
#[derive(Clone, Debug)]
pub struct Node {
    /// Number of bytes before the value in the text.
    pub offset: usize,
    /// The value.
    pub value: Value,
}

/// A value of TOML or JSON.
#[derive(Clone, Debug)]
pub enum Value {
    /// JSON's `null`.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number that is not negative.
    Unsigned(u64),
    /// A negative whole number.
    Signed(i64),
    /// A number with a fraction or an exponent, or an infinite one of TOML.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in the order of the text where the format keeps one.
    Map(Vec<(Key, Node)>),
}

/// A key and where it begins.
#[derive(Clone, Debug)]
pub struct Key {
    /// Number of bytes before the key in the text.
    pub offset: usize,
    /// The key.
    pub text: String,
}

impl Value {
    /// Returns the name of the value's type in JSON Schema.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Unsigned(_) | Self::Signed(_) | Self::Float(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "array",
            Self::Map(_) => "object",
        }
    }
}

/// Formats the value for error messages; a list or table is only named, not printed.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Signed(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => f.write_str(&quoted(value)),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a table"),
        }
    }
}

impl Node {
    /// The value below the keys of `path`, or the last of them that is there, and where its key
    /// begins. Keys may have dots in them. An item of a list is named by its number, or by a text
    /// that it holds.
    pub(crate) fn find(&self, path: &str) -> usize {
        self.found(path).map_or(self.offset, |(offset, _)| offset)
    }

    /// Returns the byte offset of the key or list item that a JSON pointer (without its first `/`)
    /// leads to. If the last steps of the pointer do not exist, returns the offset of the last one
    /// that does.
    pub(crate) fn at_pointer(&self, pointer: &str) -> usize {
        let (mut offset, mut node) = (self.offset, self);
        for key in pointer.split('/') {
            let key = key.replace("~1", "/").replace("~0", "~");
            let next = match &node.value {
                Value::Map(entries) => (entries.iter())
                    .find(|(name, _)| name.text == key)
                    .map(|(name, node)| (name.offset, node)),
                Value::List(items) => (key.parse().ok())
                    .and_then(|index: usize| items.get(index))
                    .map(|item| (item.offset, item)),
                _ => None,
            };
            match next {
                Some(found) => (offset, node) = found,
                None => break,
            }
        }
        offset
    }

    /// Returns the byte offset of the deepest key or list item on `path`, and how many bytes of
    /// `path` lead to it. `None` if not even the first step exists.
    fn found(&self, path: &str) -> Option<(usize, usize)> {
        let below = |offset: usize, node: &Self, key: &str| {
            let rest = path.strip_prefix(key)?;
            let deeper = match rest.strip_prefix('.') {
                Some(rest) => node.found(rest),
                None if rest.is_empty() => None,
                None => return None,
            };
            let (offset, length) = deeper.unwrap_or((offset, 0));
            Some((offset, key.len() + length))
        };
        match &self.value {
            Value::Map(entries) => (entries.iter())
                .filter_map(|(key, node)| below(key.offset, node, &key.text))
                .max_by_key(|(_, length)| *length),
            Value::List(items) => (items.iter().enumerate())
                .filter_map(|(index, item)| {
                    below(item.offset, item, &index.to_string()).or_else(|| {
                        let names = item.names();
                        (names.filter_map(|name| below(item.offset, item, name)))
                            .max_by_key(|(_, length)| *length)
                    })
                })
                .max_by_key(|(_, length)| *length),
            _ => None,
        }
    }

    /// Texts that an item of a list holds, by which it may be named.
    fn names(&self) -> impl Iterator<Item = &str> {
        let entries = match &self.value {
            Value::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        entries
            .iter()
            .flat_map(|(_, node)| match &node.value {
                Value::List(items) => items.as_slice(),
                _ => std::slice::from_ref(node),
            })
            .filter_map(|node| match &node.value {
                Value::Text(text) => Some(text.as_str()),
                _ => None,
            })
    }
}
