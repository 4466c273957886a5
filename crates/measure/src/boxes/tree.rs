//! JSON as it stands in the text: keys in order, repeated keys noticed, depth and count bounded.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::problem::{MAX_PROBLEMS, Problem, join, quote};

/// A box needs eight.
const MAX_DEPTH: usize = 16;
/// Keeps the tree of a text of many small values within tens of megabytes.
const MAX_VALUES: usize = 500_000;

/// A JSON value.
#[derive(Debug)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

impl Tree {
    /// The schema's word for its type.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "array",
            Self::Object(_) => "object",
        }
    }
}

/// How messages show a value.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(&quote(value)),
            Self::List(_) => f.write_str("a list"),
            Self::Object(_) => f.write_str("an object"),
        }
    }
}

/// Reads JSON. Repeated keys are collected; anything else that is wrong ends the reading.
pub(super) fn read(text: &str) -> Result<Tree, Vec<Problem>> {
    if text.len() > super::MAX_TEXT_BYTES {
        let message = format!(
            "the box is {} bytes long; at most {} are read",
            text.len(),
            super::MAX_TEXT_BYTES
        );
        return Err(vec![Problem::new("", message)]);
    }
    let mut state = State {
        repeated: Vec::new(),
        values: 0,
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let tree = Reader {
        state: &mut state,
        pointer: String::new(),
        depth: 0,
    }
    .deserialize(&mut json)
    .and_then(|tree| json.end().map(|()| tree));
    match tree {
        Ok(tree) if state.repeated.is_empty() => Ok(tree),
        Ok(_) => Err(state.repeated),
        Err(error) => {
            // serde_json ends its message with the place, which is better said first.
            let place = format!(" at line {} column {}", error.line(), error.column());
            let message = error.to_string();
            let message = message.strip_suffix(&place).unwrap_or(&message);
            let message = message.replace("EOF while parsing", "the text ends inside");
            let message = format!(
                "line {}, column {}: {message}",
                error.line(),
                error.column()
            );
            state.repeated.push(Problem::new("", message));
            Err(state.repeated)
        }
    }
}

struct State {
    repeated: Vec<Problem>,
    values: usize,
}

struct Reader<'a> {
    state: &'a mut State,
    pointer: String,
    depth: usize,
}

impl Reader<'_> {
    fn inside(&mut self, key: impl fmt::Display) -> Reader<'_> {
        let pointer = join(&self.pointer, key);
        Reader {
            state: self.state,
            pointer,
            depth: self.depth + 1,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        if self.depth > MAX_DEPTH {
            return Err(D::Error::custom(format!(
                "nested more than {MAX_DEPTH} deep"
            )));
        }
        self.state.values += 1;
        if self.state.values > MAX_VALUES {
            return Err(D::Error::custom(format!("more than {MAX_VALUES} values")));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a finite number"))?;
        Ok(Tree::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(self.inside(items.len()))? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(self.inside(&key))?;
            if !seen.insert(key.clone()) && self.state.repeated.len() < MAX_PROBLEMS {
                let message = format!("the key {} stands here twice", quote(&key));
                self.state
                    .repeated
                    .push(Problem::new(join(&self.pointer, &key), message));
            }
            entries.push((key, value));
        }
        Ok(Tree::Object(entries))
    }
}
