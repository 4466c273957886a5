//! Shared inputs over the files of a corpus, from published rates of cards and hosts.

use super::Split;
pub(crate) use crate::codec::rates::{Codec, Direction};
use crate::codec::rates::{EvidenceTracker, HOSTS, context_name, evidence, predict};
use crate::corpus::{self, File};
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Outcome, Setting, Values};

/// The study cuts DEFLATE inputs to this length.
const CUT_BYTES: f64 = 2_097_152.0;
/// The share at which the study gives the CPU time saved.
const SAVED_AT: f64 = 0.9;

/// Machine whose cores drive the engine and do the CPU's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The host's cores.
    Host,
    /// The card's own.
    Card,
}

/// A co-processing question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitQuestion<'a> {
    /// The machine whose core does the CPU's part; the study's if none.
    pub(crate) host: Option<&'a str>,
    pub(crate) codec: Codec,
    pub(crate) way: Direction,
    pub(crate) driver: Driver,
    pub(crate) setting: Setting,
}

impl SplitQuestion<'_> {
    /// The card: LZ4 runs on a BF-3 only.
    fn card(&self) -> &'static str {
        if self.codec == Codec::Lz4 { "bf3" } else { "bf2" }
    }

    /// With nothing on the engine there is no context to set up.
    fn with_share(self, share: f64) -> Self {
        let setting = if share > 0.0 { self.setting } else { Setting::Static };
        Self { setting, ..self }
    }

    /// An input: a file, or its first 2 MiB, on the uncompressed side.
    fn input(&self, file: &File) -> f64 {
        if self.codec == Codec::Lz4 { file.bytes } else { CUT_BYTES }
    }
}

/// Figure of a split that a question asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figures {
    /// Bytes a second of the uncompressed side, with a share on the device.
    Throughput(f64),
    /// Time of the mean input, with a share on the device.
    Time(f64),
    /// CPU time saved, with a share on the device.
    Saved(f64),
    /// The share with the highest throughput.
    Best,
}

/// Predicts a figure of a split.
pub(crate) fn answer(library: &Library, asked: SplitQuestion<'_>, figure: Figures) -> Answer {
    let mut prediction = unbounded(library, asked, figure)?;
    if matches!(figure, Figures::Saved(_) | Figures::Best) {
        // Doubt reaches no further than the whole.
        prediction.interval.high = prediction.interval.high.min(1.0);
    }
    Ok(prediction)
}

fn unbounded(library: &Library, asked: SplitQuestion<'_>, figure: Figures) -> Answer {
    predict(&known(library, asked.host), |values, tracker| {
        if let Figures::Saved(share) = figure {
            return saved(values, tracker, asked, share).map(Outcome::from);
        }
        let asked = match figure {
            Figures::Throughput(share) | Figures::Time(share) => asked.with_share(share),
            Figures::Best | Figures::Saved(_) => asked,
        };
        let split = split_of(values, tracker, asked)?;
        let (value, share) = match figure {
            Figures::Throughput(share) => (throughput(values, tracker, asked, share)?, share),
            Figures::Time(share) => {
                tracker.weaken_to(EvidenceLevel::Card);
                (corpus::mean(|file| split(file).time_ns(share)), share)
            }
            Figures::Best | Figures::Saved(_) => {
                let best = best_share(values, tracker, asked)?;
                (best, best)
            }
        };
        // What limits the file in the middle of the corpus stands for all.
        let limit = corpus::silesia("dickens").map(|file| split(&file).bottleneck(share));
        Ok(Outcome { value, bottleneck: limit.map(str::to_owned) })
    })
}

/// Collects the known parameters. Adds the longest jobs, which are not among the profiles' values.
fn known(library: &Library, host: Option<&str>) -> Evidence {
    let mut evidence = evidence(library, host.as_slice());
    for (card, operation) in [("bf2", "deflate"), ("bf3", "lz4")] {
        let Some(profile) = library.profile(card) else {
            continue;
        };
        let mut operations = profile.operations.iter();
        let entry = operations.find(|entry| entry.does.iter().any(|one| one.contains(operation)));
        if let Some(entry) = entry {
            let name = format!("{card}/longest-job");
            evidence.insert(name, crate::ParameterValue::Quantity(entry.max_source.clone()));
        }
    }
    evidence
}

/// Bytes a second of the CPU's part and of the device's, on the uncompressed side, mean over files.
fn target_rates(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    asked: SplitQuestion<'_>,
) -> Result<(f64, f64), MissingParameter> {
    let SplitQuestion { codec, way, .. } = asked;
    let study = if codec == Codec::Lz4 { HOSTS[1] } else { HOSTS[0] };
    let host = asked.host.unwrap_or(study);
    let expand = |codec: Codec| -> Result<f64, MissingParameter> {
        let reduction = values.get(&format!("{}/codec.{}.reduction", HOSTS[0], codec.name()))?;
        Ok(1.0 / (1.0 - reduction))
    };
    if codec == Codec::Lz4 {
        tracker.weaken_to(EvidenceLevel::Card);
        let expand = expand(codec)?;
        let cpu = values.get(&format!("{host}/codec.lz4.decompress.rate"))?;
        let device = values.get("bf3-soc/codec.lz4.decompress.engine")?;
        return Ok((cpu * expand, device * expand));
    }
    let name = format!("codec.{}.{}.split", codec.name(), way.name());
    let (cpu, device) = (format!("{host}/{name}"), format!("bf2/{name}"));
    let measured = format!("{host}/codec.deflate.compress.rate");
    let cpu = if asked.host.is_some() && way == Direction::Compress && !values.has(&cpu) {
        // At the level that it was measured with.
        values.get(&measured)?
    } else if values.has(&cpu) || way == Direction::Compress {
        // Nothing relates zlib's level 6, which the CPU's part uses, to the published levels.
        values.get(&cpu)?
    } else {
        tracker.weaken_to(EvidenceLevel::Application);
        values.get(&format!("{host}/codec.deflate.decompress.rate"))? * expand(codec)?
    };
    let device = if values.has(&device) {
        values.get(&device)?
    } else {
        tracker.weaken_to(EvidenceLevel::Application);
        match way {
            Direction::Compress => values.get("bf2-soc/codec.engine.rate")?,
            Direction::Decompress => {
                values.get("bf2-soc/codec.deflate.decompress.engine")? * expand(codec)?
            }
        }
    };
    Ok((cpu, device))
}

/// Returns the factor by which all times are longer where the card's cores do the CPU's part and
/// drive the engine; 1 for the host's cores.
fn slowdown(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    asked: SplitQuestion<'_>,
) -> Result<f64, MissingParameter> {
    if asked.driver == Driver::Host {
        return Ok(1.0);
    }
    let stem = |way: Direction| format!("bf2-soc/codec.deflate.{}.split.host", way.name());
    if asked.codec != Codec::Lz4 && values.has(&stem(asked.way)) {
        return values.get(&stem(asked.way));
    }
    tracker.weaken_to(EvidenceLevel::Application);
    let other = match asked.way {
        Direction::Compress => Direction::Decompress,
        Direction::Decompress => Direction::Compress,
    };
    if asked.codec != Codec::Lz4 && values.has(&stem(other)) {
        return values.get(&stem(other));
    }
    let soc = format!("{}-soc", asked.card());
    Ok(1.0 / (1.0 - values.get(&format!("{soc}/codec.core.gap"))?))
}

/// Nanoseconds that a context costs, driven by the host.
fn context(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    asked: SplitQuestion<'_>,
) -> Result<f64, MissingParameter> {
    if asked.setting == Setting::Static {
        return Ok(0.0);
    }
    let operation = match (asked.codec, asked.way) {
        (Codec::Lz4, _) => "decompress-lz4-block",
        (_, Direction::Compress) => "compress-deflate",
        (_, Direction::Decompress) => "decompress-deflate",
    };
    let own = format!("{}/context.end.{operation}", asked.card());
    if values.has(&own) {
        return values.get(&own);
    }
    tracker.weaken_to(EvidenceLevel::Application);
    let other = context_name(values, asked.card()).ok_or(MissingParameter::parameter(own))?;
    values.get(&other)
}

/// The split of one file's input.
fn split_of(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    asked: SplitQuestion<'_>,
) -> Result<impl Fn(&File) -> Split, MissingParameter> {
    let (cpu, device) = target_rates(values, tracker, asked)?;
    let context_ns = context(values, tracker, asked)?;
    let largest_job_bytes = values.get(&format!("{}/longest-job", asked.card()))?;
    let slowdown = slowdown(values, tracker, asked)?;
    Ok(move |file: &File| Split {
        bytes: asked.input(file),
        cpu_rate: cpu / slowdown * corpus::relative_speed(file),
        device_rate: device / slowdown,
        context_ns: context_ns * slowdown,
        largest_job_bytes,
    })
}

/// Bytes a second at a share, mean over the files of size over time.
fn throughput(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    asked: SplitQuestion<'_>,
    share: f64,
) -> Result<f64, MissingParameter> {
    let asked = asked.with_share(share);
    if share > 0.0 && share < 1.0 || asked.setting == Setting::Reconfiguration {
        tracker.weaken_to(EvidenceLevel::Card);
    }
    let split = split_of(values, tracker, asked)?;
    Ok(corpus::mean(|file| split(file).throughput(share)))
}

/// The best share for the mean over the files, in hundredths.
fn best_share(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    asked: SplitQuestion<'_>,
) -> Result<f64, MissingParameter> {
    tracker.weaken_to(EvidenceLevel::Application);
    let split = split_of(values, tracker, asked)?;
    let at = |percent: u32| {
        let share = f64::from(percent) / 100.0;
        corpus::mean(|file| split(file).throughput(share))
    };
    let mut best = (0, at(0));
    for percent in 1..=100 {
        let throughput = at(percent);
        if throughput > best.1 {
            best = (percent, throughput);
        }
    }
    Ok(f64::from(best.0) / 100.0)
}

/// Share of the CPU time that is saved at a share on the device.
fn saved(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    asked: SplitQuestion<'_>,
    share: f64,
) -> Result<f64, MissingParameter> {
    let SplitQuestion { codec, way, .. } = asked;
    let own = format!("{}/codec.{}.{}.saved", asked.card(), codec.name(), way.name());
    if asked.driver == Driver::Host && share == SAVED_AT && values.has(&own) {
        return values.get(&own);
    }
    tracker.weaken_to(EvidenceLevel::Card);
    let split = split_of(values, tracker, asked)?;
    Ok(corpus::mean(|file| split(file).cpu_saved(share)))
}
