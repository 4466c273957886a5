//! Arrow tables: partitioned, or serialised through a card's DEFLATE engine instead of a host's
//! codec.

use crate::codec::rates::{EvidenceTracker, predict};
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Values};

/// The card of that study.
const CARD: &str = "bf2-vpi";

/// Number of threads that the host uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Threads {
    /// One.
    One,
    /// One for each of its cores.
    All,
    /// A number between these.
    Count(f64),
}

/// Side that the engine is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Against<'a> {
    /// `serialise` or `deserialise`.
    pub(crate) way: &'static str,
    /// Codec that the host compresses with.
    pub(crate) codec: &'static str,
    /// Threads of the host.
    pub(crate) threads: Threads,
    /// Table of the study; the range over its tables if `None`.
    pub(crate) data: Option<&'a str>,
    /// Profile of the host.
    pub(crate) host: &'a str,
}

impl Against<'_> {
    fn name(self) -> String {
        let threads = if self.threads == Threads::One { "one" } else { "all" };
        format!("{CARD}/arrow.{}.{}.{threads}", self.way, self.codec)
    }
}

/// Returns the value of a parameter for one of the tables; `None` for the range over all of them.
fn of_table(values: &Values<'_>, name: &str, data: Option<&str>) -> Option<f64> {
    values.get(&format!("{name}.{}", data?)).ok()
}

/// Speed-up of the engine over the host's codec.
fn speedup(
    values: &Values<'_>,
    reach: &EvidenceTracker,
    against: Against<'_>,
) -> Result<f64, MissingParameter> {
    if let Threads::Count(count) = against.threads {
        let with = |threads| speedup(values, reach, Against { threads, ..against });
        let (one, all) = (with(Threads::One)?, with(Threads::All)?);
        let cores = values.get(&format!("{}/cpu.cores", against.host))?;
        let share = (count.ln() / cores.ln()).clamp(0.0, 1.0);
        reach.weaken_to(EvidenceLevel::Application);
        return Ok(one.powf(1.0 - share) * all.powf(share));
    }
    let own = against.name();
    if let Some(value) = of_table(values, &own, against.data) {
        return Ok(value);
    }
    if let Some(own) = reach.own_or(values, &own, EvidenceLevel::Application) {
        reach.weaken_to(EvidenceLevel::Card);
        return Ok(own);
    }
    // Threads help one codec as much as another.
    let other = if against.codec == "lz4" { "zstd" } else { "lz4" };
    let many = if against.threads == Threads::One { Threads::All } else { Threads::One };
    let turned = |codec, threads| Against { codec, threads, ..against }.name();
    let names = [turned(against.codec, many), turned(other, against.threads), turned(other, many)];
    if names.iter().all(|name| values.has(name)) {
        let [same, wanted, base] = names;
        return Ok(values.get(&same)? * values.get(&wanted)? / values.get(&base)?);
    }
    // The other study's engine and LZ4 rates.
    if against.codec == "lz4" && against.threads == Threads::One && against.way == "serialise" {
        let engine = values.get("bf2-soc/codec.engine.rate")?;
        return Ok(engine / values.get("host-coproc-bf2/codec.lz4.compress.rate")?);
    }
    Err(MissingParameter::parameter(own))
}

/// Figure about Arrow tables that a question asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figures<'a> {
    /// Speed-up of the engine over the host's codec.
    Speedup(Against<'a>),
    /// Speed-up of the engine that the card's own cores drive, over the host's codec.
    FromCard(Against<'a>),
    /// The engine, driven by the card's own cores, over the codec on as many of these.
    OverCard(Against<'a>),
    /// Share of the bytes of a table that is left after compression by a codec; `deflate` is the
    /// engine's.
    Left(&'static str, Option<&'a str>),
    /// Partitioning on the host over the card's cores.
    Partition,
    /// Time of the host for the one table whose time was published; `none` is no codec.
    Time(Against<'a>),
}

/// Returns the factor by which an engine is slower for its card's own cores than for the host.
fn slower_from_card(values: &Values<'_>, way: &str) -> Result<f64, MissingParameter> {
    let way = if way == "serialise" { "compress" } else { "decompress" };
    values.get(&format!("bf2-soc/codec.deflate.{way}.split.host"))
}

/// Predicts a figure about Arrow tables.
pub(crate) fn answer(library: &Library, host: &str, figure: Figures<'_>) -> Answer {
    predict(&evidence(library, host), |values, reach| match figure {
        Figures::Speedup(against) => speedup(values, reach, against),
        Figures::FromCard(against) => {
            reach.weaken_to(EvidenceLevel::Application);
            Ok(speedup(values, reach, against)? / slower_from_card(values, against.way)?)
        }
        Figures::OverCard(against) => {
            reach.weaken_to(EvidenceLevel::Application);
            let from_host = speedup(values, reach, against)?;
            let gap = values.get(&format!("{CARD}/arrow.core.gap"))?;
            Ok(from_host / slower_from_card(values, against.way)? * gap)
        }
        Figures::Left(codec, data) => compressed(values, reach, codec, data),
        Figures::Partition => partition(values, reach),
        Figures::Time(against) => time(values, reach, against),
    })
}

/// Returns the host's time for the table whose time was published with one thread: with the engine
/// as fast in each case, times are to each other as its speed-ups.
fn time(
    values: &Values<'_>,
    reach: &EvidenceTracker,
    against: Against<'_>,
) -> Result<f64, MissingParameter> {
    let published =
        |codec: &str| values.get(&format!("{}/arrow.{}.{codec}.time", against.host, against.way));
    if against.threads == Threads::One
        && let Ok(own) = published(against.codec)
    {
        return Ok(own);
    }
    reach.weaken_to(EvidenceLevel::Card);
    let base = Against { codec: "lz4", threads: Threads::One, ..against };
    let slower = speedup(values, reach, against)? / speedup(values, reach, base)?;
    Ok(published(base.codec)? * slower)
}

fn evidence(library: &Library, host: &str) -> Evidence {
    library.evidence(&[CARD, host, "bf2-soc", "host-coproc-bf2"])
}

/// Returns the host's throughput divided by that of the card's cores. The number of cores that each
/// used is not published, so other ratios cannot stand for it.
fn partition(values: &Values<'_>, _: &EvidenceTracker) -> Result<f64, MissingParameter> {
    values.get(&format!("{CARD}/arrow.partition.host"))
}

fn compressed(
    values: &Values<'_>,
    reach: &EvidenceTracker,
    codec: &str,
    data: Option<&str>,
) -> Result<f64, MissingParameter> {
    let name = |codec: &str| format!("{CARD}/arrow.left.{codec}");
    let own = name(codec);
    if let Some(value) = of_table(values, &own, data) {
        return Ok(value);
    }
    if let Some(own) = reach.own_or(values, &own, EvidenceLevel::Application) {
        reach.weaken_to(EvidenceLevel::Card);
        return Ok(own);
    }
    // LZ4 leaves more than DEFLATE, Zstandard less: as far as the other two are apart.
    let of = |codec: &str| values.get(&name(codec));
    match codec {
        "deflate" => Ok((of("lz4")? * of("zstd")?).sqrt()),
        "lz4" => {
            let corpus =
                |codec: &str| values.get(&format!("host-coproc-bf2/codec.{codec}.reduction"));
            Ok(of("deflate")? * (1.0 - corpus("lz4")?) / (1.0 - corpus("deflate")?))
        }
        _ => Err(MissingParameter::parameter(own)),
    }
}
