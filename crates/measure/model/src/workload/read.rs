//! Reads a workload: its types define the form, and other rules are checked key by key.

use std::ops::RangeInclusive;

use overside_config::{Document, Error, Limits, Number, Rate, Size, quoted, units};
use overside_ops::Operation;
use serde::Deserialize;

use super::{Prices, Stage, Task, WORKLOAD_SCHEMA, Watts, Workload};
use crate::Interval;

const LIMITS: Limits = Limits::bytes(256 << 10);
const STAGES: RangeInclusive<usize> = 1..=16;
const PATTERNS: RangeInclusive<usize> = 1..=64;
const PATTERN_CHARS_MAX: usize = 4096;
const NAME_CHARS_MAX: usize = 120;
const BUFFER_DEFAULT_BYTES: u64 = 1 << 20;

const RATE: RangeInclusive<f64> = 1e3..=1e13;
const BUFFER: RangeInclusive<f64> = 64.0..=1e9;
const RATIO: RangeInclusive<f64> = 1e-4..=2.0;
const LEVEL: RangeInclusive<f64> = 0.0..=22.0;
const SHARE: RangeInclusive<f64> = 0.0..=1.0;
const PRICE: RangeInclusive<f64> = 0.0..=1e7;
const WATTS: RangeInclusive<f64> = 0.0..=5000.0;
const YEARS: RangeInclusive<f64> = 0.1..=30.0;
const CORES: RangeInclusive<f64> = 1.0..=65_536.0;
const CARDS: RangeInclusive<f64> = 0.0..=1024.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    #[serde(rename = "schema")]
    _schema: String,
    name: Option<String>,
    rate: Rate,
    buffer: Option<Size>,
    stages: Vec<StageFile>,
    #[serde(default)]
    host: HostFile,
    cards: Option<u32>,
    network: Option<NetworkFile>,
    prices: Option<PricesFile>,
    #[serde(default)]
    watts: WattsFile,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StageFile {
    #[serde(rename = "do")]
    task: String,
    ratio: Option<Number>,
    level: Option<u32>,
    patterns: Option<Vec<String>>,
    like: Option<String>,
    keep: Option<Number>,
    core_rate: Option<Rate>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    cores: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    rate: Option<Rate>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PricesFile {
    currency: Option<String>,
    card: Option<Number>,
    years: Option<Number>,
    core_hour: Option<Number>,
    energy_kwh: Option<Number>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WattsFile {
    card: Option<Number>,
    core: Option<Number>,
}

pub(super) fn workload(file: &str, text: &str) -> Result<Workload, Error> {
    let document = Document::toml(file, text, LIMITS)?;
    document.schema(WORKLOAD_SCHEMA)?;
    let written: WorkloadFile = document.read()?;
    let reader = Reader(&document);
    let buffer = (written.buffer)
        .map(|Size(one)| document.bounded("buffer", one, &BUFFER, units::size))
        .transpose()?;
    document.count("stages", written.stages.len(), STAGES, "stages")?;
    let stages = written.stages.iter().enumerate();
    let stages = stages.map(|(index, stage)| reader.stage(&format!("stages.{index}"), stage));
    let network = written.network.as_ref().and_then(|network| network.rate);
    let workload = Workload {
        name: reader.name("name", written.name, "workload")?,
        rate_bytes_per_s: document.bounded("rate", written.rate.0, &RATE, units::rate)?,
        buffer_bytes: buffer.map_or(BUFFER_DEFAULT_BYTES, |bytes| bytes.typ as u64),
        stages: stages.collect::<Result<_, _>>()?,
        cores: reader.count("host.cores", written.host.cores, &CORES)?,
        cards: reader.count("cards", written.cards, &CARDS)?,
        network_bytes_per_s: reader.rate("network.rate", network)?,
        prices: written.prices.map(|one| reader.prices(one)).transpose()?,
        watts: Watts {
            card: reader.number("watts.card", written.watts.card, &WATTS)?,
            core: reader.number("watts.core", written.watts.core, &WATTS)?,
        },
    };
    contradictions(&document, &workload)?;
    Ok(workload)
}

/// Checks values at their keys.
struct Reader<'a>(&'a Document<'a>);

impl Reader<'_> {
    fn name(&self, key: &str, found: Option<String>, default: &str) -> Result<String, Error> {
        let name = found.unwrap_or_else(|| default.into());
        self.0.text(key, &name, NAME_CHARS_MAX)?;
        Ok(name)
    }

    fn number(
        &self,
        key: &str,
        found: Option<Number>,
        range: &RangeInclusive<f64>,
    ) -> Result<Option<Interval>, Error> {
        let bounded = |Number(one)| self.0.bounded(key, one, range, |value| value.to_string());
        found.map(bounded).transpose()
    }

    fn count(
        &self,
        key: &str,
        found: Option<u32>,
        range: &RangeInclusive<f64>,
    ) -> Result<Option<u32>, Error> {
        self.number(key, found.map(|one| Number(Interval::exactly(f64::from(one)))), range)?;
        Ok(found)
    }

    fn rate(&self, key: &str, found: Option<Rate>) -> Result<Option<Interval>, Error> {
        let bounded = |Rate(one)| self.0.bounded(key, one, &RATE, units::rate);
        found.map(bounded).transpose()
    }

    fn stage(&self, path: &str, written: &StageFile) -> Result<Stage, Error> {
        let task = match written.task.as_str() {
            "send" => Task::Send,
            name => Task::Run(name.parse().map_err(|_| self.unknown_task(path, name))?),
        };
        let matches = task.operation().is_some_and(|one| one.family().has_patterns);
        let codec = task.operation().is_some_and(Operation::has_ratio);
        let compresses = codec
            && task.operation().map(Operation::lengths) == Some(overside_ops::Lengths::Shrinks);
        let works = task != Task::Send;
        let keys = [
            ("patterns", written.patterns.is_some(), matches, "match"),
            ("like", written.like.is_some(), matches, "match"),
            ("ratio", written.ratio.is_some(), codec, "compress and decompress"),
            ("level", written.level.is_some(), compresses, "compress"),
            ("core_rate", written.core_rate.is_some(), works, "other"),
        ];
        if let Some((key, .., of)) = (keys.into_iter()).find(|(_, given, fits, _)| *given && !fits)
        {
            let but = if of == "other" { " than send" } else { "" };
            let (problem, remedy) =
                (format!("{task} has none"), format!("it belongs to {of} stages{but}"));
            return Err(self.0.error(&format!("{path}.{key}"), problem, remedy));
        }
        let key = |key: &str| format!("{path}.{key}");
        let keep = self.number(&key("keep"), written.keep, &SHARE)?;
        if keep.is_some_and(|keep| keep.high <= 0.0) {
            let remedy =
                "above 0 and at most 1; where nothing is kept, leave out the stages behind";
            return Err(self.0.error(&key("keep"), "nothing goes on", remedy));
        }
        Ok(Stage {
            task,
            ratio: self.number(&key("ratio"), written.ratio, &RATIO)?,
            level: self.count(&key("level"), written.level, &LEVEL)?,
            patterns: self.patterns(path, written, matches)?,
            keep: keep.unwrap_or(Interval::exactly(1.0)),
            core_bytes_per_s: self.rate(&key("core_rate"), written.core_rate)?,
        })
    }

    fn unknown_task(&self, path: &str, name: &str) -> Error {
        let mut known: Vec<String> = (Operation::all().iter()).map(ToString::to_string).collect();
        known.push("send".into());
        let problem = format!("nothing is called {}", quoted(name));
        let error = self.0.error(&format!("{path}.do"), problem, "");
        error.meant(name, &known)
    }

    fn patterns(
        &self,
        path: &str,
        written: &StageFile,
        needed: bool,
    ) -> Result<Vec<String>, Error> {
        let key = |key: &str| format!("{path}.{key}");
        match (&written.patterns, &written.like) {
            (Some(_), Some(_)) => {
                let problem = "patterns is there, too";
                Err(self.0.error(&key("like"), problem, "give one of the two"))
            }
            (Some(list), None) => {
                self.0.count(&key("patterns"), list.len(), PATTERNS, "regular expressions")?;
                for (index, one) in list.iter().enumerate() {
                    let key = key(&format!("patterns.{index}"));
                    self.0.text(&key, one, PATTERN_CHARS_MAX)?;
                }
                Ok(list.clone())
            }
            (None, Some(like)) => {
                self.0.text(&key("like"), like, PATTERN_CHARS_MAX)?;
                Ok(vec![like_to_regex(like)])
            }
            (None, None) if needed => {
                let remedy = "say what is looked for; or like, as in \"%green%\"";
                Err(self.0.error(&key("patterns"), "missing", remedy))
            }
            (None, None) => Ok(Vec::new()),
        }
    }

    fn prices(&self, written: PricesFile) -> Result<Prices, Error> {
        let years = self.number("prices.years", written.years, &YEARS)?;
        Ok(Prices {
            currency: self.name("prices.currency", written.currency, "EUR")?,
            card: self.number("prices.card", written.card, &PRICE)?,
            years: years.map_or(4.0, |years| years.typ),
            core_hour: self.number("prices.core_hour", written.core_hour, &PRICE)?,
            energy_kwh: self.number("prices.energy_kwh", written.energy_kwh, &PRICE)?,
        })
    }
}

/// SQL's `LIKE` as a regular expression: `%` is anything, `_` any character.
fn like_to_regex(like: &str) -> String {
    let (open, rest) = match like.strip_prefix('%') {
        Some(rest) => ("", rest),
        None => ("^", like),
    };
    let (middle, close) = match rest.strip_suffix('%') {
        Some(middle) => (middle, ""),
        None => (rest, "$"),
    };
    let mut regex = String::from(open);
    for c in middle.chars() {
        match c {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            c if c.is_alphanumeric() || c.is_whitespace() => regex.push(c),
            c => {
                regex.push('\\');
                regex.push(c);
            }
        }
    }
    regex + close
}

/// Checks for contradictions between several keys.
fn contradictions(document: &Document<'_>, workload: &Workload) -> Result<(), Error> {
    let prices = workload.prices.as_ref();
    let energy = prices.is_some_and(|prices| prices.energy_kwh.is_some());
    if energy && workload.watts.card.is_none() && workload.watts.core.is_none() {
        return Err(document.error(
            "prices.energy_kwh",
            "energy has a price and nothing takes any",
            "give watts.card or watts.core (0 to 5000), or leave the price out",
        ));
    }
    let sends = workload.stages.iter().any(|stage| stage.task == Task::Send);
    if workload.network_bytes_per_s.is_some() && !sends {
        let remedy = "add a stage with do = \"send\", or leave [network] out";
        return Err(document.error("network", "no stage sends anything", remedy));
    }
    Ok(())
}
