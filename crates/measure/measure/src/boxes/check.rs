//! Checks JSON against the part of JSON Schema that the box's schema uses, reporting everything
//! that is wrong in words a user can act on.

use std::collections::HashSet;

use overside_config::{Error, Key, Node, Value as Found, quoted, suggest};
use serde_json::Value;

use super::written::{NAME_PATTERN, SHARE_PATTERN, TIME_PATTERN, amount, is_name};
use super::{PROBLEMS_MAX, join};

/// Reports what in a tree the schema forbids.
pub(super) fn check(root: &Node, schema: &Value) -> Result<(), Vec<Error>> {
    let mut checker = Checker { definitions: &schema["$defs"], problems: Vec::new(), untold: 0 };
    checker.value(&root.value, schema, "");
    if checker.untold > 0 {
        let message = format!("and {} more problems", checker.untold);
        checker.problems.push(Error::of_key("", message, ""));
    }
    if checker.problems.is_empty() { Ok(()) } else { Err(checker.problems) }
}

struct Checker<'a> {
    definitions: &'a Value,
    problems: Vec<Error>,
    untold: usize,
}

impl<'a> Checker<'a> {
    fn report(&mut self, problem: Error) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        } else {
            self.untold += 1;
        }
    }

    fn say(&mut self, pointer: &str, message: String) {
        self.report(Error::of_key(pointer, message, ""));
    }

    /// The alternatives of a schema, those of nested `anyOf` too. Alternatives differ in their
    /// type, so the first that takes a value's type is the one that was meant.
    fn flatten(&self, schema: &'a Value, branches: &mut Vec<&'a Value>) {
        let definition = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
        if let Some(name) = definition {
            self.flatten(&self.definitions[name], branches);
        } else if let Some(alternatives) = schema["anyOf"].as_array() {
            alternatives.iter().for_each(|branch| self.flatten(branch, branches));
        } else {
            branches.push(schema);
        }
    }

    fn value(&mut self, tree: &Found, schema: &'a Value, pointer: &str) {
        let mut branches = Vec::new();
        self.flatten(schema, &mut branches);
        let Some(schema) = branches.iter().find(|branch| takes(branch, tree)) else {
            let mut expected: Vec<_> = branches.iter().flat_map(|branch| words(branch)).collect();
            expected.dedup();
            let expected = either(&expected);
            return self.say(pointer, format!("expected {expected}, found {}", shown(tree)));
        };
        match tree {
            Found::Null | Found::Bool(_) => {}
            Found::Unsigned(value) => self.number(*value as f64, tree, schema, pointer),
            Found::Signed(value) => self.number(*value as f64, tree, schema, pointer),
            Found::Float(value) => self.number(*value, tree, schema, pointer),
            Found::Text(text) if example(schema).is_some() => {
                let numbers = branches.iter().find(|branch| branch["type"] == "number");
                let pattern = schema["pattern"].as_str().unwrap_or_default();
                match (amount(text, pattern), numbers) {
                    (Some(number), Some(numbers)) => self.number(number, tree, numbers, pointer),
                    _ => self.say(
                        pointer,
                        format!("expected {}, found {}", either(&words(schema)), quoted(text)),
                    ),
                }
            }
            Found::Text(text) => self.text(text, schema, pointer),
            Found::List(items) => self.list(items, schema, pointer),
            Found::Map(entries) => self.object(entries, schema, pointer),
        }
    }

    fn number(&mut self, value: f64, shown: &Found, schema: &Value, pointer: &str) {
        let bound = |key: &str| schema[key].as_f64();
        let low = bound("minimum").is_some_and(|bound| value < bound);
        let high = bound("maximum").is_some_and(|bound| value > bound);
        if low {
            self.say(pointer, format!("{shown} is too small, the least is {}", schema["minimum"]));
        } else if high {
            self.say(pointer, format!("{shown} is too large, the most is {}", schema["maximum"]));
        } else if bound("exclusiveMinimum").is_some_and(|bound| value <= bound) {
            let bound = &schema["exclusiveMinimum"];
            self.say(pointer, format!("{shown} is too small, it must be above {bound}"));
        }
    }

    fn text(&mut self, text: &str, schema: &Value, pointer: &str) {
        let allowed = allowed_words(schema);
        if !allowed.is_empty() {
            if !allowed.contains(&text) {
                let known: Vec<_> = allowed.iter().map(|word| format!("{word:?}")).collect();
                let message = format!("expected {}, found {}", either(&known), quoted(text));
                let suggestion = suggest(text, &allowed);
                self.report(Error {
                    suggestion: suggestion.map(Into::into),
                    ..Error::of_key(pointer, message, "")
                });
            }
            return;
        }
        if text.is_empty() && schema["minLength"].as_u64() > Some(0) {
            return self.say(pointer, "must not be empty".into());
        }
        let longest = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
        let length = text.chars().count() as u64;
        if length > longest {
            let message = format!("{length} characters are too many, the most is {longest}");
            return self.say(pointer, message);
        }
        if schema["pattern"] == NAME_PATTERN && !is_name(text) {
            let message = format!(
                "{} is no name: letters, digits, '_', '-' and '.' only, a letter or digit first",
                quoted(text)
            );
            self.say(pointer, message);
        }
    }

    fn list(&mut self, items: &[Node], schema: &'a Value, pointer: &str) {
        let count = items.len() as u64;
        let least = schema["minItems"].as_u64().unwrap_or(0);
        let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX);
        if count < least || count > most {
            let message = match (least, most) {
                (least, most) if least == most => {
                    format!("expected a list of {least}, found {count}")
                }
                (1, _) if count == 0 => "an empty list; it needs at least one item".into(),
                (_, most) => format!("{count} items are too many, the most is {most}"),
            };
            return self.say(pointer, message);
        }
        let unique = schema["uniqueItems"] == true;
        let mut seen = HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let place = join(pointer, index);
            self.value(&item.value, &schema["items"], &place);
            if let Found::Text(text) = &item.value
                && unique
                && !seen.insert(text)
            {
                self.say(&place, format!("{} stands in this list twice", quoted(text)));
            }
        }
    }

    fn object(&mut self, entries: &[(Key, Node)], schema: &'a Value, pointer: &str) {
        let mut meant = Vec::new();
        let properties = &schema["properties"];
        let known = properties.as_object().into_iter().flat_map(|properties| properties.keys());
        let known: Vec<_> = known.filter(|key| *key != "$schema").collect();
        let count = entries.len() as u64;
        if count > schema["maxProperties"].as_u64().unwrap_or(u64::MAX) {
            let message =
                format!("{count} keys are too many, the most is {}", schema["maxProperties"]);
            return self.say(pointer, message);
        }
        for (key, value) in entries {
            let (key, value) = (&key.text, &value.value);
            let place = join(pointer, key);
            if let Some(property) = properties.get(key) {
                self.value(value, property, &place);
            } else if schema["additionalProperties"].is_object() {
                self.text(key, &schema["propertyNames"], &place);
                self.value(value, &schema["additionalProperties"], &place);
            } else {
                let message = format!("unknown key {}", quoted(key));
                let suggestion = suggest(key, &known);
                meant.extend(suggestion.clone());
                self.report(Error {
                    suggestion: suggestion.map(Into::into),
                    ..Error::of_key(&place, message, "")
                });
            }
        }
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        for key in required.iter().filter_map(Value::as_str) {
            // A key that is there, but misspelt, has been told already.
            let there =
                entries.iter().map(|(name, _)| &name.text).chain(&meant).any(|name| name == key);
            if !there {
                self.say(pointer, format!("the key {key:?} is missing"));
            }
        }
    }
}

/// Returns an example of an amount with a unit that matches the schema's pattern; `None` if the
/// schema has no such pattern.
fn example(schema: &Value) -> Option<&'static str> {
    match schema["pattern"].as_str()? {
        TIME_PATTERN => Some("a time like \"10s\""),
        SHARE_PATTERN => Some("a share like \"5%\""),
        _ => None,
    }
}

/// Returns a value in the form that messages show.
fn shown(tree: &Found) -> String {
    match tree {
        Found::Map(_) => "an object".into(),
        other => other.to_string(),
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => vec!["string"], // `const` and `enum` stand for words
    }
}

fn takes(schema: &Value, tree: &Found) -> bool {
    let whole = matches!(tree, Found::Unsigned(_) | Found::Signed(_));
    types(schema).into_iter().any(|kind| kind == tree.kind() || (kind == "integer" && whole))
}

/// The words that a text may be; none: any text.
fn allowed_words(schema: &Value) -> Vec<&str> {
    let mut words: Vec<_> = schema["const"].as_str().into_iter().collect();
    words.extend(schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str));
    let alternatives = schema["oneOf"].as_array().into_iter().flatten();
    words.extend(alternatives.filter_map(|one| one["const"].as_str()));
    words
}

/// Describes the values that a schema accepts, for error messages.
fn words(schema: &Value) -> Vec<String> {
    let allowed = allowed_words(schema);
    if !allowed.is_empty() {
        return allowed.iter().map(|word| format!("{word:?}")).collect();
    }
    if let Some(example) = example(schema) {
        return vec![example.into()];
    }
    let word = |kind| match kind {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "array" => "a list",
        "object" if schema["properties"]["pow2"].is_object() => "a range {\"pow2\": [from, to]}",
        "object" => "an object",
        other => other,
    };
    types(schema).into_iter().filter(|kind| *kind != "null").map(|kind| word(kind).into()).collect()
}

fn either(words: &[String]) -> String {
    match words {
        [] => "nothing".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
