//! What is asked: a file `scenario/1`, what the command line sets, and the points of their product.

use std::collections::BTreeMap;

use super::{Key, Scenario, ScenarioError, Value};
use crate::Library;

/// The most points that one question may ask for.
pub const MAX_POINTS: usize = 10_000;
/// The longest file that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// Keys that may stand at the top of a file beside `schema` and `scenario`.
const TOP: [&str; 2] = ["profile", "host"];

/// A question as it was written, not yet compared with what the scenario takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Where it is from, for messages: a file's name, or the scenario's.
    pub from: String,
    /// The scenario's name.
    pub scenario: String,
    /// What the file says about itself.
    pub about: String,
    /// Values by key; several of one key are a sweep.
    pub values: BTreeMap<String, Vec<String>>,
}

/// One point of a question: a value for each key of the scenario that is set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    values: BTreeMap<&'static str, Value>,
}

impl Asked {
    /// The scenario of that name as it is by default.
    pub fn of(scenario: &str) -> Self {
        Self {
            from: scenario.into(),
            scenario: scenario.into(),
            about: String::new(),
            values: BTreeMap::new(),
        }
    }

    /// The ready-made question of that name, or the scenario as it is by default.
    ///
    /// # Errors
    /// [`ScenarioError`] if there is neither.
    pub fn named(name: &str) -> Result<Self, ScenarioError> {
        if let Some(ready) = super::ready().iter().find(|ready| ready.name == name) {
            return Self::parse(name, ready.text);
        }
        let ready = super::ready().iter().map(|ready| ready.name);
        let kinds = super::scenarios().iter().map(|scenario| scenario.name());
        let names: Vec<_> = ready.chain(kinds).collect();
        if names.contains(&name) {
            return Ok(Self::of(name));
        }
        let problem = "no file, ready-made question or scenario is called that".into();
        Err(ScenarioError::new("", problem, names.join(", "))
            .meant(name, &names)
            .within(name))
    }

    /// Reads a file of the form "scenario/1"; `from` is for messages.
    ///
    /// # Errors
    /// [`ScenarioError`], naming the key.
    pub fn parse(from: &str, text: &str) -> Result<Self, ScenarioError> {
        let error = |key: &str, problem: String, allowed: &str| {
            Err(ScenarioError::new(key, problem, allowed).within(from))
        };
        if text.len() > MAX_FILE_BYTES {
            return error(
                "",
                "too long".into(),
                &format!("up to {MAX_FILE_BYTES} bytes"),
            );
        }
        let file: toml::Table = match toml::from_str(text) {
            Ok(file) => file,
            Err(bad) => return error("", bad.to_string().trim_end().into(), "TOML"),
        };
        let mut asked = Self::of("");
        asked.from = from.into();
        let mut schema = None;
        for (key, value) in &file {
            match (key.as_str(), value) {
                ("schema", toml::Value::String(text)) => schema = Some(text.as_str()),
                ("scenario", toml::Value::String(text)) => asked.scenario.clone_from(text),
                ("about", toml::Value::String(text)) => asked.about.clone_from(text),
                ("parameters", toml::Value::Table(table)) => {
                    for (key, value) in table {
                        asked.insert(&format!("parameters.{key}"), key, value)?;
                    }
                }
                ("schema" | "scenario" | "about", _) => {
                    return error(key, "not text".into(), "a string");
                }
                ("parameters", _) => return error(key, "not a table".into(), "[parameters]"),
                (top, value) if TOP.contains(&top) => asked.insert(top, top, value)?,
                (other, _) => {
                    let known = [
                        "schema",
                        "scenario",
                        "about",
                        "profile",
                        "host",
                        "parameters",
                    ];
                    let unknown = ScenarioError::new(other, "unknown key".into(), known.join(", "));
                    return Err(unknown.meant(other, &known).within(from));
                }
            }
        }
        match schema {
            Some("scenario/1") => {}
            Some(other) => return error("schema", format!("{other:?}"), "\"scenario/1\""),
            None => return error("schema", "missing".into(), "schema = \"scenario/1\""),
        }
        if asked.scenario.is_empty() {
            return error("scenario", "missing".into(), "the name of a scenario");
        }
        Ok(asked)
    }

    fn insert(&mut self, path: &str, key: &str, value: &toml::Value) -> Result<(), ScenarioError> {
        let list = match value {
            toml::Value::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut texts = Vec::with_capacity(list.len());
        for value in list {
            texts.push(match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(yes) => yes.to_string(),
                other => {
                    let problem = format!("a value cannot be a {}", other.type_str());
                    let allowed = "a number, a string, or a list of these";
                    return Err(ScenarioError::new(path, problem, allowed).within(&self.from));
                }
            });
        }
        if texts.is_empty() || texts.len() > MAX_POINTS {
            let problem = format!("a list of {} values", texts.len());
            let allowed = format!("1 to {MAX_POINTS} values");
            return Err(ScenarioError::new(path, problem, allowed).within(&self.from));
        }
        if self.values.insert(key.into(), texts).is_some() {
            let problem = "set twice, at the top and in [parameters]".into();
            return Err(ScenarioError::new(path, problem, "once").within(&self.from));
        }
        Ok(())
    }

    /// Sets `key` to a value as the command line writes it; commas between several.
    pub fn set(&mut self, key: &str, values: &str) {
        let values = values.split(',').map(|one| one.trim().to_owned());
        self.values.insert(key.into(), values.collect());
    }

    /// All points, the last key's values changing fastest.
    ///
    /// # Errors
    /// [`ScenarioError`] for a key that the scenario does not have, a value that it does not take,
    /// or too many points.
    pub fn points(
        &self,
        scenario: &dyn Scenario,
        library: &Library,
    ) -> Result<Vec<Point>, ScenarioError> {
        let keys = scenario.keys();
        self.known(scenario.name(), keys)?;
        let mut points = vec![Point::default()];
        for key in keys {
            let values = self.read(key, library)?;
            if values.is_empty() {
                continue;
            }
            if points.len().saturating_mul(values.len()) > MAX_POINTS {
                let problem = format!("the product of all lists is more than {MAX_POINTS} points");
                let allowed = format!("up to {MAX_POINTS} points");
                return Err(ScenarioError::new(key.name, problem, allowed).within(&self.from));
            }
            points = (points.iter())
                .flat_map(|point| {
                    values.iter().map(|value| {
                        let mut point = point.clone();
                        point.values.insert(key.name, value.clone());
                        point
                    })
                })
                .collect();
        }
        Ok(points)
    }

    fn known(&self, scenario: &str, keys: &[Key]) -> Result<(), ScenarioError> {
        let names: Vec<_> = keys.iter().map(|key| key.name).collect();
        match self
            .values
            .keys()
            .find(|key| !names.contains(&key.as_str()))
        {
            None => Ok(()),
            Some(key) => {
                let problem = format!("the scenario {scenario} has no such key");
                let error = ScenarioError::new(key, problem, names.join(", "));
                Err(error.meant(key, &names).within(&self.from))
            }
        }
    }

    fn read(&self, key: &Key, library: &Library) -> Result<Vec<Value>, ScenarioError> {
        let default: Vec<String> = (key.default.split(','))
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect();
        let texts = self.values.get(key.name).unwrap_or(&default);
        let read = texts.iter().map(|text| {
            key.read(text, library).map_err(|refused| ScenarioError {
                from: self.from.clone(),
                key: key.name.into(),
                problem: refused.problem,
                allowed: key.allowed(library),
                suggestion: refused.suggestion,
            })
        });
        read.collect()
    }
}

impl Point {
    /// The value of `key`; `None` if it is not set.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// A number in base units; `None` if it is not set.
    pub fn number_if_set(&self, key: &str) -> Option<f64> {
        self.get(key)?.number
    }

    /// A number in base units, of a key that has a default.
    ///
    /// # Panics
    /// If the scenario has no such key, which is a mistake in the scenario.
    pub fn number(&self, key: &str) -> f64 {
        self.number_if_set(key)
            .unwrap_or_else(|| panic!("the scenario has no number {key}"))
    }

    /// A whole number, of a key that has a default.
    ///
    /// # Panics
    /// As [`Point::number`].
    pub fn count(&self, key: &str) -> u64 {
        // The text is exact where a floating-point number is not, as for seeds.
        let exact = self.get(key).and_then(|value| value.text.parse().ok());
        exact.unwrap_or_else(|| self.number(key) as u64)
    }

    /// A word, or the name of a profile; `None` if it is not set.
    pub fn word_if_set(&self, key: &str) -> Option<&str> {
        self.get(key).map(|value| value.text.as_str())
    }

    /// A word, or the name of a profile, of a key that has a default.
    ///
    /// # Panics
    /// As [`Point::number`].
    pub fn word(&self, key: &str) -> &str {
        self.word_if_set(key)
            .unwrap_or_else(|| panic!("the scenario has no word {key}"))
    }

    /// All that is set, by key, as tables show it.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        (self.values.iter()).map(|(key, value)| (*key, value.text.as_str()))
    }
}
