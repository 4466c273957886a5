//! A tree as any type that serde can make; errors name the key.

use std::fmt::Display;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::node::{Key, Node, Value};
use crate::{Error, quoted};

/// Mismatch between a tree and the type that is read from it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub offset: usize,
    key: String,
    problem: String,
    remedy: Box<str>,
    /// An unknown word, and the known ones.
    unknown: Option<(String, &'static [&'static str])>,
    /// `true` once `offset` is that of the innermost value with the problem. Outer values then
    /// leave it unchanged.
    placed: bool,
}

pub(crate) fn read<'de, T: Deserialize<'de>>(root: &'de Node) -> Result<T, Fault> {
    T::deserialize(In(root)).map_err(|fault| fault.at(root.offset))
}

impl Fault {
    fn new(problem: impl Display, remedy: impl Into<String>) -> Self {
        Self {
            offset: 0,
            key: String::new(),
            problem: problem.to_string(),
            remedy: remedy.into().into(),
            unknown: None,
            placed: false,
        }
    }

    fn unknown(problem: String, found: &str, known: &'static [&'static str]) -> Self {
        Self { unknown: Some((found.into(), known)), ..Self::new(problem, "") }
    }

    /// Converts the fault to an [`Error`] without a file and a position.
    pub(crate) fn error(self) -> Error {
        let error = Error::of_key(&self.key, self.problem, self.remedy);
        match self.unknown {
            Some((found, known)) => error.meant(&found, known),
            None => error,
        }
    }

    /// Sets the offset of the faulty value, unless a value inside it has set one already.
    fn at(mut self, offset: usize) -> Self {
        if !self.placed {
            self.offset = offset;
            self.placed = true;
        }
        self
    }

    /// Below this key.
    fn below(mut self, key: impl Display) -> Self {
        self.key =
            if self.key.is_empty() { key.to_string() } else { format!("{key}.{}", self.key) };
        self
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(problem: T) -> Self {
        Self::new(problem, "")
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("not {}", shown(found)), allowed(expected))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("not a list of {length}"), allowed(expected))
    }

    fn unknown_variant(found: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown(format!("{} is not known", quoted(found)), found, expected)
    }

    fn unknown_field(found: &str, expected: &'static [&'static str]) -> Self {
        Self::unknown("no such key".into(), found, expected)
    }

    fn missing_field(key: &'static str) -> Self {
        Self::new("missing", "add it").below(key)
    }

    fn duplicate_field(key: &'static str) -> Self {
        Self::new("there twice", "keep one of them").below(key)
    }
}

/// Returns a value in the form that messages show.
fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Str(text) => quoted(text),
        Unexpected::Unit | Unexpected::Option => "null".into(),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "a table".into(),
        other => other.to_string(),
    }
}

/// Returns the values that a type accepts, in the words of error messages.
fn allowed(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "a string" | "string" | "str" => "text in quotes".into(),
        "a boolean" => "true or false".into(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more".into(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a sequence" => "a list".into(),
        "a map" => "a table".into(),
        text if text.starts_with("struct ") => "a table".into(),
        text => text.into(),
    }
}

/// A node as serde reads it.
#[derive(Clone, Copy)]
struct In<'de>(&'de Node);

impl<'de> Deserializer<'de> for In<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let offset = self.0.offset;
        let made = match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Signed(value) => visitor.visit_i64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items { items, next: 0 }),
            Value::Map(entries) => visitor.visit_map(Entries { entries, next: 0 }),
        };
        made.map_err(|fault| fault.at(offset))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let offset = self.0.offset;
        match &self.0.value {
            Value::Text(text) => {
                let text: StrDeserializer<'_, Fault> = text.as_str().into_deserializer();
                visitor.visit_enum(text).map_err(|fault| fault.at(offset))
            }
            other => Err(Fault::new(format!("not {other}"), "a word in quotes").at(offset)),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'de> {
    items: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.items.get(self.next) else {
            return Ok(None);
        };
        let index = self.next;
        self.next += 1;
        let value = seed.deserialize(In(item));
        value.map(Some).map_err(|fault| fault.at(item.offset).below(index))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.next)
    }
}

struct Entries<'de> {
    entries: &'de [(Key, Node)],
    next: usize,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, _)) = self.entries.get(self.next) else {
            return Ok(None);
        };
        let text: StrDeserializer<'_, Fault> = key.text.as_str().into_deserializer();
        let name = seed.deserialize(text);
        (name.map(Some)).map_err(|fault| fault.at(key.offset).below(short(&key.text)))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        // Serde requests the value of the key that it was given.
        let (key, node) = &self.entries[self.next];
        self.next += 1;
        let value = seed.deserialize(In(node));
        value.map_err(|fault| fault.at(node.offset).below(short(&key.text)))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len() - self.next)
    }
}

/// Shortens a key for an error message: at most 120 characters, without control characters.
fn short(key: &str) -> String {
    key.chars().filter(|c| !c.is_control()).take(120).collect()
}
