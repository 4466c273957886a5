//! Arguments of a question: a file `scenario/1`, the values that the command line sets, and the
//! points of their product.

use std::collections::BTreeMap;

use overside_config::{Document, Error, Limits, Position};
use serde::Deserialize;
use serde::de::{IntoDeserializer, value::StrDeserializer};

use super::{Key, Scenario, Value};
use crate::Library;

/// Maximum number of points that one question may ask for.
pub const MAX_POINTS: usize = 10_000;
const LIMITS: Limits = Limits::bytes(1 << 20);

/// A question as it was written, not yet compared with the scenario's keys.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioArgs {
    /// Origin of the question, for messages: a file's name, or the scenario's.
    pub from: String,
    /// The scenario's name.
    pub scenario: String,
    /// Description of the question from its file; empty if there is none.
    pub about: String,
    /// Values by key; several of one key are a sweep.
    pub values: BTreeMap<String, Vec<String>>,
    /// Positions of the keys in the file, for messages.
    positions: BTreeMap<String, Position>,
}

/// A file of the form "scenario/1".
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioFile {
    #[serde(rename = "schema")]
    _schema: String,
    scenario: String,
    #[serde(default)]
    about: String,
    profile: Option<Values>,
    host: Option<Values>,
    #[serde(default)]
    parameters: BTreeMap<String, Values>,
}

/// Value of a key, or a list of values for a sweep.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a value is a number, text, or a list of these")]
enum Values {
    One(Scalar),
    Many(Vec<Scalar>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Bool(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Values {
    fn texts(self) -> Vec<String> {
        let all = match self {
            Self::One(one) => vec![one],
            Self::Many(all) => all,
        };
        let text = |one| match one {
            Scalar::Bool(yes) => yes.to_string(),
            Scalar::Whole(number) => number.to_string(),
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text,
        };
        all.into_iter().map(text).collect()
    }
}

/// One point of a question: a value for each key of the scenario that is set.
#[derive(Clone, Debug)]
pub struct Point {
    pub(super) scenario: &'static Scenario,
    values: BTreeMap<&'static str, Value>,
}

impl ScenarioArgs {
    /// The scenario of that name as it is by default.
    pub fn of(scenario: &str) -> Self {
        Self {
            from: scenario.into(),
            scenario: scenario.into(),
            about: String::new(),
            values: BTreeMap::new(),
            positions: BTreeMap::new(),
        }
    }

    /// The preset of that name, or the scenario as it is by default.
    ///
    /// # Errors
    /// [`Error`] if there is neither.
    pub fn named(name: &str) -> Result<Self, Error> {
        if let Some(preset) = super::presets().iter().find(|preset| preset.name == name) {
            return Self::parse(name, preset.text);
        }
        let presets = super::presets().iter().map(|preset| preset.name);
        let kinds = super::scenarios().iter().map(|scenario| scenario.name.as_str());
        let names: Vec<_> = presets.chain(kinds).collect();
        if names.contains(&name) {
            return Ok(Self::of(name));
        }
        let problem = "no file, preset or scenario is called that";
        Err(Error::of_file(name, problem, "").meant(name, &names))
    }

    /// Reads a file of the form "scenario/1"; `from` is for messages.
    ///
    /// # Errors
    /// [`Error`], naming the key.
    pub fn parse(from: &str, text: &str) -> Result<Self, Error> {
        let document = Document::toml(from, text, LIMITS)?;
        document.schema("scenario/1")?;
        let file: ScenarioFile = document.read()?;
        if file.scenario.is_empty() {
            return Err(document.error("scenario", "empty", "write the name of a scenario"));
        }
        let mut asked = Self { scenario: file.scenario, about: file.about, ..Self::of(from) };
        let top = [("profile", file.profile), ("host", file.host)];
        let top =
            top.into_iter().filter_map(|(key, values)| Some((key.into(), key.into(), values?)));
        let parameters = (file.parameters.into_iter())
            .map(|(key, values)| (format!("parameters.{key}"), key, values));
        for (path, key, values) in top.chain(parameters) {
            let texts = values.texts();
            document.count(&path, texts.len(), 1..=MAX_POINTS, "values")?;
            let there =
                document.error(&path, "set twice, at the top and in [parameters]", "keep one");
            asked.positions.extend(there.position.map(|at| (key.clone(), at)));
            if asked.values.insert(key, texts).is_some() {
                return Err(there);
            }
        }
        Ok(asked)
    }

    /// An error that has a key, with where it is set.
    pub(super) fn locate(&self, error: Error) -> Error {
        Error { position: self.positions.get(&error.key).copied(), ..error.within(&self.from) }
    }

    /// Sets `key` to a value as the command line writes it; commas between several.
    pub fn set(&mut self, key: &str, values: &str) {
        let scenario = super::scenarios().iter().find(|one| one.name == self.scenario);
        let known = scenario.and_then(|one| one.keys.iter().find(|one| one.name == key));
        let values = match known {
            Some(key) => key.split(values),
            None => values.split(',').map(str::trim).collect(),
        };
        self.values.insert(key.into(), values.into_iter().map(str::to_owned).collect());
    }

    /// All points, the last key's values changing fastest.
    ///
    /// # Errors
    /// [`Error`] for a key that the scenario does not have, a value that it does not take,
    /// or too many points.
    pub fn points(
        &self,
        scenario: &'static Scenario,
        library: &Library,
    ) -> Result<Vec<Point>, Error> {
        self.known(scenario)?;
        let mut points = vec![Point { scenario, values: BTreeMap::new() }];
        for key in &scenario.keys {
            let values = self.read(key, library)?;
            if values.is_empty() || !points.iter().any(|point| point.reads(key)) {
                continue;
            }
            if points.len().saturating_mul(values.len()) > MAX_POINTS {
                let problem = format!("the product of all lists is more than {MAX_POINTS} points");
                let allowed = format!("up to {MAX_POINTS} points");
                return Err(self.locate(Error::of_key(&key.name, problem, allowed)));
            }
            let with = |point: &Point, value: &Value| {
                let mut point = point.clone();
                point.values.insert(&key.name, value.clone());
                point
            };
            points = (points.iter())
                .flat_map(|point| match point.reads(key) {
                    true => values.iter().map(|value| with(point, value)).collect(),
                    false => vec![point.clone()],
                })
                .collect();
        }
        Ok(points)
    }

    fn known(&self, scenario: &Scenario) -> Result<(), Error> {
        let names: Vec<_> = scenario.keys.iter().map(|key| key.name.as_str()).collect();
        match self.values.keys().find(|key| !names.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let problem = format!("the scenario {} has no such key", scenario.name);
                Err(self.locate(Error::of_key(key, problem, "").meant(key, &names)))
            }
        }
    }

    fn read(&self, key: &Key, library: &Library) -> Result<Vec<Value>, Error> {
        let default: Vec<String> = (key.default.split(','))
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect();
        let texts = self.values.get(&key.name).unwrap_or(&default);
        let read = texts
            .iter()
            .map(|text| key.read(text, library).map_err(|refused| self.locate(refused)));
        read.collect()
    }
}

impl Point {
    /// Returns `true` if the key means anything with the values of the keys before it.
    fn reads(&self, key: &Key) -> bool {
        let Some(only) = &key.only else { return true };
        self.word_if_set(&only.key).is_some_and(|value| only.of.iter().any(|of| of == value))
    }

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
        self.number_if_set(key).unwrap_or_else(|| panic!("the scenario has no number {key}"))
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
        self.word_if_set(key).unwrap_or_else(|| panic!("the scenario has no word {key}"))
    }

    /// Returns the variant of an enum for a key's word.
    ///
    /// # Panics
    /// As [`Point::number`].
    pub(super) fn choice<T: serde::de::DeserializeOwned>(&self, key: &str) -> T {
        let word: StrDeserializer<'_, serde::de::value::Error> = self.word(key).into_deserializer();
        T::deserialize(word).unwrap_or_else(|error| panic!("{key}: {error}"))
    }

    /// All that is set, by key, as tables show it.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        (self.values.iter()).map(|(key, value)| (*key, value.text.as_str()))
    }
}
