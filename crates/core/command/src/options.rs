//! Options that several verbs have.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::builder::{RangedU64ValueParser, TypedValueParser};
use overside_config::{Dimension, parse_amount, parse_seconds};
use overside_placement::{Policy, Verify};

const THREADS_MAX: u64 = 1024;
const SIZE_LIKE: &str = "sizes are written like 65536, 64KiB or 1MiB";
const TIME_LIKE: &str = "times are written like 90, 90s, 50ms or 10min";

/// A number of threads.
pub fn thread_count() -> impl TypedValueParser<Value = NonZeroUsize> {
    count_up_to(THREADS_MAX)
}

/// A number from 1 to `most`.
pub fn count_up_to(most: u64) -> impl TypedValueParser<Value = NonZeroUsize> {
    let number = RangedU64ValueParser::<usize>::new().range(1..=most);
    number.map(|count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN))
}

/// Option for the number of CPU threads.
#[derive(clap::Args, Debug, Default)]
pub struct Threads {
    /// CPU threads [default: one per core]
    #[arg(short = 'p', long, value_name = "N", value_parser = thread_count())]
    threads: Option<NonZeroUsize>,
}

impl Threads {
    /// Number of threads: the option's, or the number of cores.
    pub fn count(&self) -> usize {
        let cores = || available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads.map_or_else(cores, NonZeroUsize::get)
    }
}

/// Placement of jobs.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Placement")]
pub struct Placement {
    /// Device to use beside the CPU, or several: A+B; `overside devices` lists them
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    device: Option<String>,
    /// cpu, device, split:P (P percent of the bytes on the device; P+Q on two) or adaptive
    /// [default: adaptive with --device, otherwise cpu]
    #[arg(long, value_name = "WHERE")]
    placement: Option<Policy>,
    /// Results of the device that the CPU verifies before they are used: all, sampled (1 of 16) or
    /// none [default: all; of match, sampled]
    #[arg(long, value_name = "WHICH")]
    verify: Option<Verify>,
    #[command(flatten)]
    threads: Threads,
}

impl Placement {
    /// Number of CPU threads.
    pub fn threads(&self) -> usize {
        self.threads.count()
    }

    /// Returns the device beside the CPU; `None` for `cpu`, which is always there.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref().filter(|name| *name != "cpu")
    }

    /// Returns which of the device's results are verified; `None` without the option.
    pub fn verify(&self) -> Option<Verify> {
        self.verify
    }

    /// Returns the placement: the option's, or `cpu` without a device and `adaptive` with one.
    ///
    /// # Errors
    /// A placement that needs a device, without a device.
    pub fn policy(&self) -> Result<Policy, String> {
        Policy::settled(self.placement, self.device().is_some()).ok_or_else(|| {
            let asked = self.placement.unwrap_or(Policy::Device);
            format!("--placement {asked} needs a --device; `overside devices` lists them")
        })
    }
}

/// Parses a size within these bounds: `65536`, `64K`, `64KiB`, `1M`.
pub fn size_within(
    allowed: RangeInclusive<usize>,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync + 'static {
    move |text| {
        let bytes = size(text).ok_or(SIZE_LIKE)?;
        let (least, most) = (*allowed.start() as f64, *allowed.end() as f64);
        if !(least..=most).contains(&bytes) {
            return Err(format!("it is from {least} to {most} bytes"));
        }
        Ok(bytes as usize)
    }
}

/// Parses a time within these bounds of seconds: `90`, `90s`, `50ms`, `10min`.
pub fn time_within(
    allowed: RangeInclusive<f64>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let plain = || text.trim().parse().ok();
        let seconds = parse_seconds(text).or_else(plain).ok_or(TIME_LIKE)?;
        if !allowed.contains(&seconds) {
            let (least, most) = (allowed.start(), allowed.end());
            return Err(format!("it is from {least} to {most} seconds"));
        }
        Ok(Duration::from_secs_f64(seconds))
    }
}

/// Bytes, a whole number of them. A letter alone is a power of two, as for dd(1), in either case.
fn size(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => "B",
        "k" | "kib" => "KiB",
        "m" | "mib" => "MiB",
        "g" | "gib" => "GiB",
        _ => &text[digits.len()..],
    };
    let (number, unit) = parse_amount(&format!("{digits}{unit}"), Dimension::Size, None)?;
    let bytes = number * unit.in_base();
    (bytes.fract() == 0.0).then_some(bytes)
}
