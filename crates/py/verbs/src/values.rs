//! Values of options: texts, read to their form in JSON.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use overside_command::options::{size_within, time_within};
use serde_json::{Value, json};

/// Port of Arrow Flight SQL unless another is given.
const PORT: u16 = 31337;

type Read = Result<Value, String>;

pub(crate) fn text(text: &str) -> Read {
    Ok(text.into())
}

pub(crate) fn path(text: &str) -> Read {
    Ok(json!({"$path": text}))
}

/// Reads the path or name of a run, `@` or `@N`.
pub(crate) fn run(text: &str) -> Read {
    Ok(json!({"$run": text}))
}

/// Reads one of several names between commas; an empty one is none.
pub(crate) fn name(text: &str) -> Read {
    let name = text.trim();
    Ok(Some(name).filter(|name| !name.is_empty()).into())
}

/// Reads the name that a run is to have.
pub(crate) fn run_name(text: &str) -> Read {
    let first = |letter: char| letter.is_ascii_alphanumeric();
    let other = |letter: char| first(letter) || "._-".contains(letter);
    match (1..=60).contains(&text.len()) && text.starts_with(first) && text.chars().all(other) {
        true => Ok(text.into()),
        false => Err(
            "it is no name: up to 60 letters, digits, '.', '_' and '-', the first a letter or a digit"
                .into(),
        ),
    }
}

/// Reads a key and a pattern of its values.
pub(crate) fn filter(text: &str) -> Read {
    match text.split_once('=') {
        Some((key, glob)) if !key.is_empty() && !glob.is_empty() => Ok(json!([key, glob])),
        _ => Err("not KEY=GLOB".into()),
    }
}

/// Reads a table's name in SQL and its path.
pub(crate) fn table(text: &str) -> Read {
    let (name, file) = text.split_once('=').unwrap_or_default();
    let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_name = (1..=63).contains(&name.len())
        && name.chars().all(letter)
        && !name.starts_with(|first: char| first.is_ascii_digit());
    match is_name && !file.is_empty() {
        true => Ok(json!([name, path(file)?])),
        false => Err("not NAME=PATH with a name of letters, digits and _".into()),
    }
}

/// Reads `IP`, which may have a scope as in fe80::1%eth0, `IP:PORT` or `[IP]:PORT`.
pub(crate) fn address(text: &str) -> Read {
    let address = |host: &str, port: u16| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let (ip, _) = bare.split_once('%').unwrap_or((bare, ""));
        ip.parse::<IpAddr>().is_ok().then(|| json!([bare, port]))
    };
    let with_port = || {
        let (host, port) = text.rsplit_once(':')?;
        address(host, port.parse().ok()?)
    };
    let read = address(text, PORT).or_else(with_port);
    read.ok_or_else(|| "not an address like 127.0.0.1:31337".into())
}

/// Reads one of these words.
pub(crate) fn one_of<const N: usize>(
    words: [&'static str; N],
) -> impl TypedValueParser<Value = Value> {
    PossibleValuesParser::new(words).map(Value::from)
}

/// Reads a way through a card. The literature's submode SM2 is on-path-2.
pub(crate) fn card_mode() -> impl TypedValueParser<Value = Value> {
    let on_path = [
        ("on-path-1", "SM1"),
        ("on-path-2", "SM2"),
        ("on-path-3", "SM3"),
        ("on-path-4", "SM4"),
        ("on-path-5", "SM5"),
    ];
    let modes = on_path.map(|(mode, alias)| PossibleValue::new(mode).alias(alias));
    let every = [PossibleValue::new("off-path")].into_iter().chain(modes);
    PossibleValuesParser::new(every).map(|mode| {
        let mode = mode.to_ascii_lowercase();
        let number = mode.strip_prefix("sm").map(|number| format!("on-path-{number}"));
        number.unwrap_or(mode).into()
    })
}

/// Reads a size within bounds, in bytes.
pub(crate) fn size(
    allowed: RangeInclusive<usize>,
) -> impl Fn(&str) -> Read + Clone + Send + Sync + 'static {
    let parse = size_within(allowed);
    move |text| parse(text).map(Value::from)
}

/// Reads a time within bounds, in seconds.
pub(crate) fn seconds(
    allowed: RangeInclusive<f64>,
) -> impl Fn(&str) -> Read + Clone + Send + Sync + 'static {
    let parse = time_within(allowed);
    move |text| parse(text).map(|time| time.as_secs_f64().into())
}

/// Reads a whole number within bounds.
pub(crate) fn whole(allowed: RangeInclusive<u64>) -> impl TypedValueParser<Value = Value> {
    clap::value_parser!(u64).range(allowed).map(Value::from)
}

fn number(text: &str, allowed: RangeInclusive<f64>, kind: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("not {kind}"))
}

pub(crate) fn price(text: &str) -> Read {
    let allowed = f64::MIN_POSITIVE..=1e7;
    number(text, allowed, "a price like 2000 or 0.04").map(Value::from)
}

pub(crate) fn days(text: &str) -> Read {
    number(text, 0.0..=100_000.0, "a number of days").map(Value::from)
}

/// Reads a share like 0.05 or 5%.
pub(crate) fn share(text: &str) -> Read {
    let (digits, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let allowed = f64::MIN_POSITIVE..=10.0 * unit;
    number(digits, allowed, "a share like 0.05 or 5%").map(|share| (share / unit).into())
}
