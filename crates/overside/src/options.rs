//! Options that several verbs have.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::thread::available_parallelism;

use overside_placement::Policy;
use overside_probe::network::Role;

/// The most threads that can be asked for.
const THREADS_MAX: usize = 1024;
const SIZE_LIKE: &str = "sizes are written like 65536, 64KiB or 1MiB";

/// As many as there are cores.
pub fn threads_default() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

/// The value of `--threads`.
pub fn threads(parser: &mut lexopt::Parser) -> Result<usize, String> {
    let threads = value(parser, "--threads")?;
    if !(1..=THREADS_MAX).contains(&threads) {
        return Err(format!("--threads is from 1 to {THREADS_MAX}"));
    }
    Ok(threads)
}

/// The value of `--chunk` in bytes.
pub fn chunk_bytes(
    parser: &mut lexopt::Parser,
    allowed: RangeInclusive<usize>,
) -> Result<usize, String> {
    let Size(bytes) = value(parser, "--chunk")?;
    if !allowed.contains(&bytes) {
        let range = format!("{} to {}", allowed.start(), allowed.end());
        return Err(format!("--chunk is from {range} bytes, not {bytes}"));
    }
    Ok(bytes)
}

/// The value of `--role`.
pub fn role(parser: &mut lexopt::Parser) -> Result<Role, String> {
    let role: String = value(parser, "--role")?;
    match role.as_str() {
        "host" => Ok(Role::Host),
        "dpu" => Ok(Role::Dpu),
        _ => Err(format!("--role is host or dpu, not {role:?}")),
    }
}

/// What follows from `--placement` and `--device`. A device called `cpu` is none: it is there
/// anyway.
pub fn placement(asked: Option<Policy>, device: &mut Option<String>) -> Result<Policy, String> {
    device.take_if(|name| name == "cpu");
    Policy::settled(asked, device.is_some()).ok_or_else(|| {
        let asked = asked.unwrap_or(Policy::Device);
        format!("--placement {asked} needs a --device; `overside devices` lists them")
    })
}

/// That a verb has no such option, and which one was meant.
pub fn unknown(verb: &str, option: &str, known: &[String]) -> String {
    if option.chars().count() == 1 {
        return format!("there is no option -{option}; `overside {verb} --help` lists all");
    }
    match overside_backends::closest(option, known) {
        Some(meant) => format!("there is no option --{option}; did you mean --{meant}?"),
        None => format!("there is no option --{option}; `overside {verb} --help` lists all"),
    }
}

/// The value of an option.
pub fn value<T: FromStr>(parser: &mut lexopt::Parser, option: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    let text = parser.value().map_err(|error| error.to_string())?;
    let text =
        (text.to_str()).ok_or_else(|| format!("{option}: {} is not text", text.display()))?;
    text.parse()
        .map_err(|error| format!("{option} {text}: {error}"))
}

/// Bytes, written as `65536`, `64K`, `64KiB`, `1M`.
struct Size(usize);

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            _ => return Err(SIZE_LIKE),
        };
        let number: usize = digits.parse().map_err(|_| SIZE_LIKE)?;
        (number.checked_mul(1 << shift))
            .map(Self)
            .ok_or("that is too large")
    }
}
