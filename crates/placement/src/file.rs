//! The placement file: what should run where, by operation and size, as `overside advise` writes it.

use std::io::Read;
use std::path::Path;

use overside_ops::Operation;
use serde::{Deserialize, Serialize};

use crate::Policy;

/// What its `schema` says.
pub const SCHEMA: &str = "placement/1";

const FILE_BYTES_MAX: u64 = 256 << 10;
const RULES_MAX: usize = 1024;
const NAME_BYTES_MAX: usize = 200;
/// What chunks may be asked for, in bytes.
const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=64 << 20;

/// What should run where.
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
/// assert_eq!(file.rule(compress, Some(1 << 20)).map(|rule| rule.policy()), Some(Policy::Split(40.0)));
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

/// What should be done with inputs of one operation from one size to another. What no rule speaks
/// of runs on the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// As in `compress-deflate`.
    pub operation: String,
    /// Inputs of so many bytes, as they lie there, and more.
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

/// A placement file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// What the system says.
        reason: String,
    },
    /// Not a file of the form "placement/1".
    #[error("{file}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// Line, key and what was expected there.
        message: String,
    },
    /// A value that is not allowed.
    #[error("{file}: {key}: {problem}; {remedy}")]
    Value {
        /// The file.
        file: String,
        /// The key, with dots between the tables and numbers from 0 for the rules.
        key: String,
        /// What is wrong.
        problem: String,
        /// What is allowed.
        remedy: String,
    },
}

impl PlacementFile {
    /// Of these rules.
    ///
    /// # Errors
    /// [`FileError::Value`] names the first that is wrong, under the name `file`.
    pub fn new(file: &str, rules: Vec<Rule>) -> Result<Self, FileError> {
        let all = Self {
            schema: SCHEMA.into(),
            rules,
        };
        all.check(file)?;
        Ok(all)
    }

    /// Reads and checks one; `file` is for messages.
    ///
    /// # Errors
    /// [`FileError::Syntax`], [`FileError::Value`].
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        let all: Self = toml::from_str(text).map_err(|error| FileError::Syntax {
            file: file.into(),
            message: located(text, &error),
        })?;
        all.check(file)?;
        Ok(all)
    }

    /// Reads and checks the one at `path`, of at most 256 KiB.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let file = path.display().to_string();
        let refused = |reason: String| FileError::Read {
            file: file.clone(),
            reason,
        };
        let about = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
        // Opening a pipe would wait for somebody to write to it.
        if !about.is_file() {
            return Err(refused("no regular file".into()));
        }
        let open = std::fs::File::open(path).map_err(|error| refused(error.to_string()))?;
        let mut text = String::new();
        (open.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
            .map_err(|error| refused(error.to_string()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(refused(format!("longer than {FILE_BYTES_MAX} bytes")));
        }
        Self::parse(&file, &text)
    }

    /// As a file's text.
    pub fn to_toml(&self) -> String {
        // Numbers, texts and lists of tables can always be written.
        toml::to_string(self).unwrap_or_default()
    }

    /// The rule for an input of so many bytes; where that is not known, the one for the longest.
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

    fn check(&self, file: &str) -> Result<(), FileError> {
        let wrong = |key: String, problem: String, remedy: &str| {
            Err(FileError::Value {
                file: file.into(),
                key,
                problem,
                remedy: remedy.into(),
            })
        };
        if self.schema != SCHEMA {
            let problem = format!("not {:?}", shortened(&self.schema));
            return wrong("schema".into(), problem, "it is \"placement/1\"");
        }
        if self.rules.len() > RULES_MAX {
            let problem = format!("{} rules", self.rules.len());
            return wrong("rule".into(), problem, "at most 1024");
        }
        for (index, rule) in self.rules.iter().enumerate() {
            if let Some((key, problem, remedy)) = rule.problem() {
                return wrong(format!("rule.{index}.{key}"), problem, &remedy);
            }
            let earlier = &self.rules[..index];
            if let Some(other) = earlier.iter().position(|other| other.overlaps(rule)) {
                let problem = format!("rule.{other} speaks of the same sizes of it");
                let remedy = "give each size one rule: from_bytes to below_bytes - 1";
                return wrong(format!("rule.{index}.from_bytes"), problem, remedy);
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Its placement.
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

    /// The key that is wrong, in which way, and what is allowed.
    fn problem(&self) -> Option<(&'static str, String, String)> {
        if self.operation.parse::<Operation>().is_err() {
            let known: Vec<String> = Operation::all().iter().map(ToString::to_string).collect();
            let problem = format!("nothing is called {:?}", shortened(&self.operation));
            return Some((
                "operation",
                problem,
                format!("there are: {}", known.join(", ")),
            ));
        }
        if let Some(below) = self.below_bytes
            && below <= self.from_bytes
        {
            let problem = format!("{below} is not above from_bytes, {}", self.from_bytes);
            return Some(("below_bytes", problem, "leave it out for no end".into()));
        }
        let policy: Policy = match self.placement.parse() {
            Ok(policy) => policy,
            Err(_) => {
                let problem = format!("no placement is called {:?}", shortened(&self.placement));
                let remedy = "cpu, device, split:PERCENT (0 to 100) or adaptive";
                return Some(("placement", problem, remedy.into()));
            }
        };
        let named = |name: &String| {
            (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
        };
        match &self.device {
            Some(name) if !named(name) => {
                let remedy = format!("1 to {NAME_BYTES_MAX} bytes without control characters");
                return Some(("device", "no name of a device".into(), remedy));
            }
            Some(name) if name == "cpu" && policy.uses_device() => {
                let remedy = "name another, or write placement = \"cpu\"";
                return Some(("device", "the CPU is there anyway".into(), remedy.into()));
            }
            None if policy.uses_device() => {
                let problem = format!("missing, and {policy} needs one");
                return Some(("device", problem, "`overside devices` lists them".into()));
            }
            Some(_) | None => {}
        }
        let chunk = self.chunk_bytes?;
        if CHUNK_BYTES.contains(&chunk) {
            return None;
        }
        let remedy = format!("from {} to {}", CHUNK_BYTES.start(), CHUNK_BYTES.end());
        Some(("chunk_bytes", format!("not {chunk}"), remedy))
    }
}

/// What is wrong with a text, and where.
fn located(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return message.into();
    };
    let number = before.matches('\n').count();
    let line = shortened(text.lines().nth(number).unwrap_or_default().trim());
    format!("line {}, {line:?}: {message}", number + 1)
}

/// As much of a text as a message can hold.
fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(rules: &str) -> String {
        let text = format!("schema = \"placement/1\"\n{rules}");
        PlacementFile::parse("p.toml", &text)
            .unwrap_err()
            .to_string()
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
            (
                "[[rule]]\noperation = \"copy\"\nplacement = \"split:101\"",
                "rule.0.placement",
            ),
            (
                "[[rule]]\noperation = \"copy\"\nplacement = \"device\"",
                "rule.0.device: missing",
            ),
            (
                "[[rule]]\noperation = \"copy\"\nplacement = \"device\"\ndevice = \"a\\nb\"",
                "control characters",
            ),
            (&format!("{rule}chunk_bytes = 1"), "from 1024 to 67108864"),
            (&format!("{rule}chunk_bytes = -1"), "chunk_bytes"),
            (
                &format!("{rule}from_bytes = 9\nbelow_bytes = 9"),
                "not above",
            ),
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
