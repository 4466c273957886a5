//! Filter of log events: `LEVEL`, or levels per part as in `info,link=debug`.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

use crate::LogError;

/// Prefix of the names of this project's crates.
const PROJECT: &str = "overside";
/// Most detailed level for other libraries: their details are of no use to people who run this.
const LIBRARIES: LevelFilter = LevelFilter::WARN;

/// A level for everything, and others for single parts. The last one of a part counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    level: LevelFilter,
    /// Crate names, and the levels that they have instead.
    parts: Vec<(String, LevelFilter)>,
}

impl Filter {
    /// The level of everything that no other is given for.
    pub fn level(&self) -> LevelFilter {
        self.level
    }

    /// The level of a part, named as in filters.
    pub fn level_of(&self, part: &str) -> LevelFilter {
        let crate_name = crate_name(part);
        let mut parts = self.parts.iter().rev();
        let found = parts.find(|(name, _)| *name == crate_name);
        found.map_or(self.level, |(_, level)| *level)
    }

    /// Returns `true` if the filter lets no event of any part through.
    pub fn is_off(&self) -> bool {
        let mut levels = self.parts.iter().map(|(_, level)| level);
        self.level == LevelFilter::OFF && levels.all(|level| *level == LevelFilter::OFF)
    }

    pub(crate) fn targets(&self) -> Targets {
        let parts = self.parts.iter().cloned();
        Targets::new()
            .with_default(self.level.min(LIBRARIES))
            .with_target(PROJECT, self.level)
            .with_targets(parts)
    }
}

impl From<LevelFilter> for Filter {
    fn from(level: LevelFilter) -> Self {
        let parts = Vec::new();
        Self { level, parts }
    }
}

/// Writes the filter as it is read.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        let mut parts = self.parts.iter();
        parts.try_for_each(|(part, level)| write!(f, ",{part}={level}"))
    }
}

impl FromStr for Filter {
    type Err = LogError;

    /// A part is a crate: `link` for `overside_link`, `backend_remote`, `agent`. Without a level
    /// for all, other parts stay at `warn`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || LogError::Filter(text.into());
        let level = |word: &str| match word.to_ascii_lowercase().as_str() {
            "off" => Ok(LevelFilter::OFF),
            "error" => Ok(LevelFilter::ERROR),
            "warn" => Ok(LevelFilter::WARN),
            "info" => Ok(LevelFilter::INFO),
            "debug" => Ok(LevelFilter::DEBUG),
            "trace" => Ok(LevelFilter::TRACE),
            _ => Err(refused()),
        };
        let mut filter = Self::from(LevelFilter::WARN);
        for word in text.split(',').map(str::trim) {
            match word.split_once('=') {
                None => filter.level = level(word)?,
                Some(("", _)) => return Err(refused()),
                Some((part, word)) => {
                    filter.parts.push((crate_name(part), level(word)?));
                }
            }
        }
        Ok(filter)
    }
}

fn crate_name(part: &str) -> String {
    let part = part.replace('-', "_");
    match part.starts_with(PROJECT) {
        true => part,
        false => format!("{PROJECT}_{part}"),
    }
}
