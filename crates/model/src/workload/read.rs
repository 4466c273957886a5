//! Reads a workload key by key, so that each mistake is named with what is allowed.

use overside_ops::Operation;
use toml::{Table, Value};

use super::{
    FILE_BYTES_MAX, Prices, Stage, Task, WORKLOAD_SCHEMA, Watts, Workload, WorkloadError, with_unit,
};
use crate::{Dimension, Interval};

const STAGES_MAX: usize = 16;
const PATTERNS_MAX: usize = 64;
const PATTERN_BYTES_MAX: usize = 4096;
const NAME_CHARS_MAX: usize = 120;
const BUFFER_DEFAULT_BYTES: u64 = 1 << 20;

/// The least and the most that is allowed.
type Range = (f64, f64);

const RATE: Range = (1e3, 1e13);
const BUFFER: Range = (64.0, 1e9);
const RATIO: Range = (1e-4, 2.0);
const SHARE: Range = (0.0, 1.0);
const PRICE: Range = (0.0, 1e7);
const WATTS: Range = (0.0, 5000.0);
const YEARS: Range = (0.1, 30.0);
const CORES: Range = (1.0, 65_536.0);
const CARDS: Range = (0.0, 1024.0);

const KEYS: &[&str] = &[
    "schema", "name", "rate", "buffer", "stages", "host", "cards", "network", "prices", "watts",
];
const STAGE_KEYS: &[&str] = &["do", "ratio", "patterns", "like", "keep", "core_rate"];

/// One table of the file, and where it stands.
struct Section<'a> {
    file: &'a str,
    path: String,
    table: &'a Table,
}

pub(super) fn workload(file: &str, text: &str) -> Result<Workload, WorkloadError> {
    let whole = |problem: String, remedy: &str| WorkloadError {
        file: file.into(),
        key: "the file".into(),
        problem,
        remedy: remedy.into(),
    };
    if text.len() > FILE_BYTES_MAX {
        return Err(whole(
            format!("{} bytes long", text.len()),
            &format!("a workload has at most {FILE_BYTES_MAX} bytes"),
        ));
    }
    let table: Table = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        let problem = format!("no TOML, line {line}: {}", error.message());
        whole(problem, "docs/advise.md shows one")
    })?;
    let top = Section {
        file,
        path: String::new(),
        table: &table,
    };
    top.only(KEYS)?;
    if top.text("schema")? != WORKLOAD_SCHEMA {
        return Err(top.wrong(
            "schema",
            "another form",
            format!("it is \"{WORKLOAD_SCHEMA}\""),
        ));
    }
    let buffer = top.amount("buffer", Dimension::Size, BUFFER, "1 MiB")?;
    let workload = Workload {
        name: match table.get("name") {
            Some(_) => top.text("name")?.into(),
            None => "workload".into(),
        },
        rate_bytes_per_s: top
            .amount("rate", Dimension::Rate, RATE, "40 Gb/s")?
            .ok_or_else(|| top.absent("rate", "what enters the first stage, as in \"40 Gb/s\""))?,
        buffer_bytes: buffer.map_or(BUFFER_DEFAULT_BYTES, |bytes| bytes.typ as u64),
        stages: stages(&top)?,
        cores: inner(&top, "host", &["cores"])?
            .map(|host| host.count("cores", CORES))
            .transpose()?
            .flatten(),
        cards: top.count("cards", CARDS)?,
        network_bytes_per_s: inner(&top, "network", &["rate"])?
            .map(|network| network.amount("rate", Dimension::Rate, RATE, "100 Gb/s"))
            .transpose()?
            .flatten(),
        prices: prices(&top)?,
        watts: watts(&top)?,
    };
    contradictions(&top, &workload)?;
    Ok(workload)
}

fn stages(top: &Section<'_>) -> Result<Vec<Stage>, WorkloadError> {
    let list = match top.table.get("stages") {
        Some(Value::Array(list)) if !list.is_empty() && list.len() <= STAGES_MAX => list,
        Some(Value::Array(list)) => {
            let found = format!("{} stages", list.len());
            return Err(top.wrong("stages", &found, format!("1 to {STAGES_MAX} stages")));
        }
        Some(_) => {
            return Err(top.wrong("stages", "no list", "write [[stages]] before each".into()));
        }
        None => return Err(top.absent("stages", "what is done, a [[stages]] each")),
    };
    (list.iter().enumerate())
        .map(|(index, value)| {
            let path = format!("stages.{index}");
            let Value::Table(table) = value else {
                return Err(top.wrong(&path, "no table", "write [[stages]] before each".into()));
            };
            let section = Section {
                file: top.file,
                path: format!("{path}."),
                table,
            };
            stage(&section)
        })
        .collect()
}

fn stage(section: &Section<'_>) -> Result<Stage, WorkloadError> {
    section.only(STAGE_KEYS)?;
    let task = match section.text("do")? {
        "send" => Task::Send,
        name => Task::Run(name.parse().map_err(|_| unknown_task(section, name))?),
    };
    let matches = matches!(task, Task::Run(Operation::Match(_)));
    let codec = matches!(
        task,
        Task::Run(Operation::Compress(_) | Operation::Decompress(_))
    );
    for (key, fits, of) in [
        ("patterns", matches, "match stages"),
        ("like", matches, "match stages"),
        ("ratio", codec, "compress and decompress stages"),
        ("core_rate", task != Task::Send, "stages other than send"),
    ] {
        if section.table.contains_key(key) && !fits {
            let problem = format!("{task} has none");
            return Err(section.wrong(key, &problem, format!("it belongs to {of}")));
        }
    }
    let keep = section.number("keep", SHARE)?;
    if keep.is_some_and(|keep| keep.high <= 0.0) {
        let remedy = "above 0 and at most 1; where nothing is kept, leave out the stages behind";
        return Err(section.wrong("keep", "nothing goes on", remedy.into()));
    }
    Ok(Stage {
        task,
        ratio: section.number("ratio", RATIO)?,
        patterns: patterns(section, matches)?,
        keep: keep.unwrap_or(Interval::exactly(1.0)),
        core_bytes_per_s: section.amount("core_rate", Dimension::Rate, RATE, "500 MB/s")?,
    })
}

fn unknown_task(section: &Section<'_>, name: &str) -> WorkloadError {
    let mut known: Vec<String> = (Operation::all().iter()).map(ToString::to_string).collect();
    known.push("send".into());
    let remedy = match crate::suggest(name, &known) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("there are: {}", known.join(", ")),
    };
    section.wrong("do", &format!("nothing is called {name:?}"), remedy)
}

fn patterns(section: &Section<'_>, needed: bool) -> Result<Vec<String>, WorkloadError> {
    let expression = |value: &Value| {
        let text = value.as_str()?;
        (!text.is_empty() && text.len() <= PATTERN_BYTES_MAX).then(|| text.to_owned())
    };
    let remedy = || {
        format!("1 to {PATTERNS_MAX} regular expressions of 1 to {PATTERN_BYTES_MAX} bytes, in [ ]")
    };
    match (section.table.get("patterns"), section.table.get("like")) {
        (Some(_), Some(_)) => Err(section.wrong(
            "like",
            "patterns is there, too",
            "give one of the two".into(),
        )),
        (Some(Value::Array(list)), None) if (1..=PATTERNS_MAX).contains(&list.len()) => {
            let all: Option<Vec<String>> = list.iter().map(expression).collect();
            all.ok_or_else(|| section.wrong("patterns", "not all are texts", remedy()))
        }
        (Some(_), None) => Err(section.wrong("patterns", "no such list", remedy())),
        (None, Some(value)) => match expression(value) {
            Some(like) => Ok(vec![like_to_regex(&like)]),
            None => Err(section.wrong("like", "no such text", "as in \"%green%\"".into())),
        },
        (None, None) if needed => {
            Err(section.absent("patterns", "what is looked for; or like, as in \"%green%\""))
        }
        (None, None) => Ok(Vec::new()),
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

fn prices(top: &Section<'_>) -> Result<Option<Prices>, WorkloadError> {
    let keys = ["currency", "card", "years", "core_hour", "energy_kwh"];
    let Some(prices) = inner(top, "prices", &keys)? else {
        return Ok(None);
    };
    Ok(Some(Prices {
        currency: match prices.table.get("currency") {
            Some(_) => prices.text("currency")?.into(),
            None => "EUR".into(),
        },
        card: prices.number("card", PRICE)?,
        years: prices
            .number("years", YEARS)?
            .map_or(4.0, |years| years.typ),
        core_hour: prices.number("core_hour", PRICE)?,
        energy_kwh: prices.number("energy_kwh", PRICE)?,
    }))
}

fn watts(top: &Section<'_>) -> Result<Watts, WorkloadError> {
    let Some(watts) = inner(top, "watts", &["card", "core"])? else {
        return Ok(Watts::default());
    };
    Ok(Watts {
        card: watts.number("card", WATTS)?,
        core: watts.number("core", WATTS)?,
    })
}

/// What no single key is to blame for.
fn contradictions(top: &Section<'_>, workload: &Workload) -> Result<(), WorkloadError> {
    let prices = workload.prices.as_ref();
    let energy = prices.is_some_and(|prices| prices.energy_kwh.is_some());
    if energy && workload.watts.card.is_none() && workload.watts.core.is_none() {
        let remedy = "give watts.card or watts.core (0 to 5000), or leave the price out";
        return Err(top.wrong(
            "prices.energy_kwh",
            "energy has a price and nothing takes any",
            remedy.into(),
        ));
    }
    let sends = workload.stages.iter().any(|stage| stage.task == Task::Send);
    if workload.network_bytes_per_s.is_some() && !sends {
        let remedy = "add a stage with do = \"send\", or leave [network] out";
        return Err(top.wrong("network", "no stage sends anything", remedy.into()));
    }
    Ok(())
}

fn inner<'a>(
    top: &Section<'a>,
    name: &str,
    keys: &[&str],
) -> Result<Option<Section<'a>>, WorkloadError> {
    let table = match top.table.get(name) {
        None => return Ok(None),
        Some(Value::Table(table)) => table,
        Some(_) => {
            let remedy = format!("write [{name}] and its keys below: {}", keys.join(", "));
            return Err(top.wrong(name, "no table", remedy));
        }
    };
    let section = Section {
        file: top.file,
        path: format!("{name}."),
        table,
    };
    section.only(keys)?;
    Ok(Some(section))
}

impl Section<'_> {
    fn wrong(&self, key: &str, problem: &str, remedy: String) -> WorkloadError {
        WorkloadError {
            file: self.file.into(),
            key: format!("{}{key}", self.path),
            problem: problem.into(),
            remedy,
        }
    }

    fn absent(&self, key: &str, what: &str) -> WorkloadError {
        self.wrong(key, "missing", format!("it says {what}"))
    }

    /// Refuses keys that are not known.
    fn only(&self, known: &[&str]) -> Result<(), WorkloadError> {
        let Some(key) = self.table.keys().find(|key| !known.contains(&key.as_str())) else {
            return Ok(());
        };
        let remedy = match crate::suggest(key, known) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => format!("there are: {}", known.join(", ")),
        };
        let shown: String = key.chars().take(NAME_CHARS_MAX).collect();
        Err(self.wrong(&shown, "no such key", remedy))
    }

    fn text(&self, key: &str) -> Result<&str, WorkloadError> {
        match self.table.get(key) {
            Some(Value::String(text)) if (1..=NAME_CHARS_MAX).contains(&text.chars().count()) => {
                Ok(text)
            }
            Some(_) => {
                let remedy = format!("a text of 1 to {NAME_CHARS_MAX} characters");
                Err(self.wrong(key, "not such a text", remedy))
            }
            None => Err(self.absent(key, "a text")),
        }
    }

    fn count(&self, key: &str, range: Range) -> Result<Option<u32>, WorkloadError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Integer(number)) if (range.0..=range.1).contains(&(*number as f64)) => {
                Ok(u32::try_from(*number).ok())
            }
            Some(found) => {
                let remedy = format!("a whole number from {} to {}", range.0, range.1);
                Err(self.wrong(key, &shown(found), remedy))
            }
        }
    }

    /// A number, or `[low, high]`.
    fn number(&self, key: &str, range: Range) -> Result<Option<Interval>, WorkloadError> {
        self.interval(key, range, "", |value| match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        })
    }

    /// A text with a unit, or a list of two.
    fn amount(
        &self,
        key: &str,
        dimension: Dimension,
        range: Range,
        example: &str,
    ) -> Result<Option<Interval>, WorkloadError> {
        let of = format!(", written as \"{example}\"");
        self.interval(key, range, &of, |value| {
            let (amount, unit) = with_unit(value.as_str()?)?;
            (unit.dimension() == dimension).then_some(amount)
        })
    }

    fn interval(
        &self,
        key: &str,
        (least, most): Range,
        written: &str,
        read: impl Fn(&Value) -> Option<f64>,
    ) -> Result<Option<Interval>, WorkloadError> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        let remedy = || {
            let unit = match written {
                "" => "",
                _ if least == BUFFER.0 => " bytes",
                _ => " bytes a second",
            };
            format!("from {least} to {most}{unit}{written}, or two of them as [low, high]")
        };
        let ends = match value {
            Value::Array(list) => match list.as_slice() {
                [low, high] => read(low).zip(read(high)),
                _ => None,
            },
            one => read(one).map(|one| (one, one)),
        };
        let allowed = |x: f64| (least..=most).contains(&x);
        match ends {
            Some((low, high)) if allowed(low) && allowed(high) && low <= high => {
                let middle = if low > 0.0 {
                    (low * high).sqrt()
                } else {
                    high / 2.0
                };
                Ok(Some(Interval {
                    low,
                    typ: if low == high { low } else { middle },
                    high,
                }))
            }
            Some((low, high)) if low > high => {
                Err(self.wrong(key, "its low end is above its high end", remedy()))
            }
            _ => Err(self.wrong(key, &shown(value), remedy())),
        }
    }
}

/// A value in a message, however long it is.
fn shown(value: &Value) -> String {
    let text: String = value.to_string().chars().take(60).collect();
    format!("not {text}")
}
