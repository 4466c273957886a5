//! Arrow tables: partitioned, or serialised through a card's DEFLATE engine instead of a host's
//! codec.

use crate::codec::rates::{EvidenceTracker, predict};
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Values};

/// The card of that study.
const CARD: &str = "bf2-vpi";

/// Codec that the host compresses with, and the threads that it uses: `one` or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Against {
    codec: &'static str,
    threads: &'static str,
}

impl Against {
    fn name(self, way: &str) -> String {
        format!("{CARD}/arrow.{way}.{}.{}", self.codec, self.threads)
    }
}

/// Speed-up of the engine over the host's codec.
fn speedup(
    values: &Values<'_>,
    reach: &EvidenceTracker,
    way: &str,
    against: Against,
) -> Result<f64, MissingParameter> {
    let own = against.name(way);
    if let Some(own) = reach.own_or(values, &own, EvidenceLevel::Application) {
        return Ok(own);
    }
    // Threads help one codec as much as another.
    let turned = |codec, threads| Against { codec, threads }.name(way);
    let other = if against.codec == "lz4" { "zstd" } else { "lz4" };
    let many = if against.threads == "one" { "all" } else { "one" };
    let names = [turned(against.codec, many), turned(other, against.threads), turned(other, many)];
    if names.iter().all(|name| values.has(name)) {
        let [same, wanted, base] = names;
        return Ok(values.get(&same)? * values.get(&wanted)? / values.get(&base)?);
    }
    // The other study's engine and LZ4 rates.
    if against.codec == "lz4" && against.threads == "one" && way == "serialise" {
        let engine = values.get("bf2-soc/codec.engine.rate")?;
        return Ok(engine / values.get("host-coproc-bf2/codec.lz4.compress.rate")?);
    }
    Err(MissingParameter::parameter(own))
}

/// Figure about Arrow tables that a question asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figures {
    /// Speed-up of the engine over the host's codec: direction, codec, one thread or all.
    Speedup(&'static str, &'static str, &'static str),
    /// Speed-up of the engine that the card's own cores drive, over the host's codec: as `Speedup`.
    FromCard(&'static str, &'static str, &'static str),
    /// The engine, driven by the card's own cores, over the codec on as many of these.
    OverCard(&'static str, &'static str, &'static str),
    /// Share of the bytes that is left after compression by a codec; `deflate` is the engine's.
    Left(&'static str),
    /// Partitioning on the host over the card's cores.
    Partition,
    /// Time of one thread to serialise the one table whose time was published; `none` is no codec.
    Time(&'static str),
}

/// Returns the factor by which an engine is slower for its card's own cores than for the host.
fn slower_from_card(values: &Values<'_>, way: &str) -> Result<f64, MissingParameter> {
    let way = if way == "serialise" { "compress" } else { "decompress" };
    values.get(&format!("bf2-soc/codec.deflate.{way}.split.host"))
}

/// Predicts a figure about Arrow tables.
pub(crate) fn answer(library: &Library, host: &str, figure: Figures) -> Answer {
    predict(&evidence(library, host), |values, reach| {
        // Of several data sets the range over them is known.
        if matches!(figure, Figures::Speedup(..) | Figures::Left(_)) {
            reach.weaken_to(EvidenceLevel::Card);
        }
        match figure {
            Figures::Speedup(way, codec, threads) => {
                speedup(values, reach, way, Against { codec, threads })
            }
            Figures::FromCard(way, codec, threads) => {
                reach.weaken_to(EvidenceLevel::Application);
                let from_host = speedup(values, reach, way, Against { codec, threads })?;
                Ok(from_host / slower_from_card(values, way)?)
            }
            Figures::OverCard(way, codec, threads) => {
                reach.weaken_to(EvidenceLevel::Application);
                let from_host = speedup(values, reach, way, Against { codec, threads })?;
                let gap = values.get(&format!("{CARD}/arrow.core.gap"))?;
                Ok(from_host / slower_from_card(values, way)? * gap)
            }
            Figures::Left(codec) => compressed(values, reach, codec),
            Figures::Partition => partition(values, reach),
            Figures::Time(codec) => values.get(&format!("{host}/arrow.serialise.{codec}.time")),
        }
    })
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
) -> Result<f64, MissingParameter> {
    let own = format!("{CARD}/arrow.left.{codec}");
    if let Some(own) = reach.own_or(values, &own, EvidenceLevel::Application) {
        return Ok(own);
    }
    // LZ4 leaves more than DEFLATE, Zstandard less: as far as the other two are apart.
    let of = |codec: &str| values.get(&format!("{CARD}/arrow.left.{codec}"));
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
