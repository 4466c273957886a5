//! The placement file: placement by operation and size, as `overside advise` writes it.

use std::path::Path;

use overside_config::{Document, Error, Limits, Source, quoted, read_text};
use overside_ops::Operation;
use serde::{Deserialize, Serialize};

use crate::Policy;

/// Required value of a placement file's `schema` key.
pub const SCHEMA: &str = "placement/1";

const LIMITS: Limits = Limits::bytes(256 << 10);
const RULES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = 200;
/// Allowed chunk lengths of a rule, in bytes.
const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=64 << 20;

/// Rules for where operations run, by operation and input size.
///
/// ```
/// use overside_placement::{PlacementFile, Policy};
/// let file = PlacementFile::parse("placement.toml", r#"
///     schema = "placement/1"
///     [[rule]]
///     operation = "compress-deflate"
///     from_bytes = 65536
///     placement = "split:40"
///     device = "dpdk:0000:03:00.0"
///     chunk_bytes = 1048576
/// "#)?;
/// let compress = "compress-deflate".parse()?;
/// assert_eq!(file.rule(compress, Some(1 << 20)).map(|rule| rule.policy()), Policy::split(40.0).ok());
/// assert_eq!(file.rule(compress, Some(100)), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlacementFile {
    schema: String,
    #[serde(default, rename = "rule")]
    rules: Vec<Rule>,
}

/// Placement of inputs of one operation and one range of sizes. Inputs that no rule covers run on
/// the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Name of the operation, for example `compress-deflate`.
    pub operation: String,
    /// Shortest input in bytes, as it is stored, to which the rule applies.
    #[serde(default)]
    pub from_bytes: u64,
    /// Inputs of fewer bytes than these; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_bytes: Option<u64>,
    /// `cpu`, `device`, `split:40` or `adaptive`.
    pub placement: String,
    /// The device, where the placement uses one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Bytes of the chunks that an input is cut into, 1024 to 67108864.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<u64>,
}

impl PlacementFile {
    /// Makes a placement file of these rules and checks them.
    ///
    /// # Errors
    /// The first that is wrong, under the name `file`.
    pub fn new(file: &str, rules: Vec<Rule>) -> Result<Self, Error> {
        let all = Self { schema: SCHEMA.into(), rules };
        all.check().map_err(|error| error.within(file))?;
        Ok(all)
    }

    /// Parses and checks a placement file; `file` is for messages.
    ///
    /// # Errors
    /// The first key that is wrong, and the allowed values.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let document = Document::toml(file, text, LIMITS)?;
        document.schema(SCHEMA)?;
        let all: Self = document.read()?;
        all.check().map_err(|error| document.locate(error))?;
        Ok(all)
    }

    /// Reads and checks the one at `path`, of at most 256 KiB.
    ///
    /// # Errors
    /// As [`read_text`] and [`PlacementFile::parse`].
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_text(path, LIMITS.bytes, Source::Regular)?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Returns the text of the file, as TOML.
    pub fn to_toml(&self) -> String {
        // Numbers, texts and lists of tables can always be written.
        toml::to_string(self).unwrap_or_default()
    }

    /// The rule for an input of `bytes` bytes; if the length is unknown, the one for the longest.
    pub fn rule(&self, operation: Operation, bytes: Option<u64>) -> Option<&Rule> {
        let name = operation.to_string();
        let mut mine = self.rules.iter().filter(|rule| rule.operation == name);
        match bytes {
            Some(bytes) => mine.find(|rule| rule.covers(bytes)),
            None => mine.max_by_key(|rule| rule.from_bytes),
        }
    }

    /// All rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn check(&self) -> Result<(), Error> {
        if self.rules.len() > RULES_MAX {
            let problem = format!("{} rules", self.rules.len());
            return Err(Error::of_key("rule", problem, format!("at most {RULES_MAX}")));
        }
        for (index, rule) in self.rules.iter().enumerate() {
            let key = |key: &str| format!("rule.{index}.{key}");
            rule.check().map_err(|error| Error { key: key(&error.key), ..error })?;
            let earlier = &self.rules[..index];
            if let Some(other) = earlier.iter().position(|other| other.overlaps(rule)) {
                let problem = format!("rule.{other} speaks of the same sizes of it");
                let remedy = "give each size one rule: from_bytes to below_bytes - 1";
                return Err(Error::of_key(&key("from_bytes"), problem, remedy));
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Returns the rule's placement as a policy.
    pub fn policy(&self) -> Policy {
        // It was parsed when the file was checked.
        self.placement.parse().unwrap_or(Policy::Cpu)
    }

    fn covers(&self, bytes: u64) -> bool {
        bytes >= self.from_bytes && self.below_bytes.is_none_or(|below| bytes < below)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let below = |end: Option<u64>, begin| end.is_none_or(|end| begin < end);
        self.operation == other.operation
            && below(self.below_bytes, other.from_bytes)
            && below(other.below_bytes, self.from_bytes)
    }

    fn check(&self) -> Result<(), Error> {
        let wrong =
            |key: &str, problem: String, remedy: &str| Err(Error::of_key(key, problem, remedy));
        if self.operation.parse::<Operation>().is_err() {
            let known: Vec<String> = Operation::all().iter().map(ToString::to_string).collect();
            let problem = format!("nothing is called {}", quoted(&self.operation));
            let error = Error::of_key("operation", problem, "");
            return Err(error.meant(&self.operation, &known));
        }
        if let Some(below) = self.below_bytes
            && below <= self.from_bytes
        {
            let problem = format!("{below} is not above from_bytes, {}", self.from_bytes);
            return wrong("below_bytes", problem, "leave it out for no end");
        }
        let policy: Policy = match self.placement.parse() {
            Ok(policy) => policy,
            Err(_) => {
                let problem = format!("no placement is called {}", quoted(&self.placement));
                let remedy = "cpu, device, split:PERCENT (0 to 100) or adaptive";
                return wrong("placement", problem, remedy);
            }
        };
        let named = |name: &String| {
            (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
        };
        match &self.device {
            Some(name) if !named(name) => {
                let remedy = format!("1 to {NAME_BYTES_MAX} bytes without control characters");
                return wrong("device", "no name of a device".into(), &remedy);
            }
            Some(name) if name == "cpu" && policy.uses_device() => {
                let remedy = "name another, or write placement = \"cpu\"";
                return wrong("device", "the CPU is there anyway".into(), remedy);
            }
            None if policy.uses_device() => {
                let problem = format!("missing, and {policy} needs one");
                return wrong("device", problem, "`overside devices` lists them");
            }
            Some(_) | None => {}
        }
        match self.chunk_bytes {
            Some(chunk) if !CHUNK_BYTES.contains(&chunk) => {
                let remedy = format!("from {} to {}", CHUNK_BYTES.start(), CHUNK_BYTES.end());
                wrong("chunk_bytes", format!("{chunk} is out of range"), &remedy)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(rules: &str) -> String {
        let text = format!("schema = \"placement/1\"\n{rules}");
        PlacementFile::parse("p.toml", &text).unwrap_err().to_string()
    }

    #[test]
    fn the_rule_of_a_size_is_found() {
        let rule = |from_bytes, below_bytes, placement: &str| Rule {
            operation: "decompress-zstd".into(),
            from_bytes,
            below_bytes,
            placement: placement.into(),
            device: Some("emulated:bf3".into()),
            chunk_bytes: None,
        };
        let rules = vec![rule(10, Some(100), "cpu"), rule(100, None, "adaptive")];
        let file = PlacementFile::new("p", rules).unwrap();
        assert_eq!(PlacementFile::parse("p", &file.to_toml()).unwrap(), file);
        let zstd = "decompress-zstd".parse().unwrap();
        let placed = |bytes| file.rule(zstd, bytes).map(Rule::policy);
        assert_eq!(placed(Some(9)), None);
        assert_eq!(placed(Some(10)), Some(Policy::Cpu));
        assert_eq!(placed(Some(99)), Some(Policy::Cpu));
        assert_eq!(placed(Some(100)), Some(Policy::Adaptive));
        assert_eq!(placed(None), Some(Policy::Adaptive));
        assert_eq!(file.rule("copy".parse().unwrap(), None), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let rule = "[[rule]]\noperation = \"copy\"\nplacement = \"cpu\"\n";
        for (rules, said) in [
            ("[[rule]]\noperation = \"copy\"", "placement"),
            ("[[rules]]", "rules"),
            (
                "[[rule]]\noperation = \"zip\"\nplacement = \"cpu\"",
                "rule.0.operation: nothing is called \"zip\"",
            ),
            ("[[rule]]\noperation = \"copy\"\nplacement = \"split:101\"", "rule.0.placement"),
            ("[[rule]]\noperation = \"copy\"\nplacement = \"device\"", "rule.0.device: missing"),
            (
                "[[rule]]\noperation = \"copy\"\nplacement = \"device\"\ndevice = \"a\\nb\"",
                "control characters",
            ),
            (&format!("{rule}chunk_bytes = 1"), "from 1024 to 67108864"),
            (&format!("{rule}chunk_bytes = -1"), "chunk_bytes"),
            (&format!("{rule}from_bytes = 9\nbelow_bytes = 9"), "not above"),
            (&format!("{rule}completion = \"event\""), "completion"),
            (&format!("{rule}{rule}"), "rule.1.from_bytes: rule.0"),
        ] {
            let error = refused(rules);
            assert!(error.contains(said), "{rules}: {error}");
        }
        let other = PlacementFile::parse("p.toml", "schema = \"box/1\"").unwrap_err();
        assert!(other.to_string().contains("placement/1"));
    }
}
