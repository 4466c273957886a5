//! Claims on Arrow tables: partitioning them, and serialising them through a card's DEFLATE engine
//! instead of a host's codec.

use super::engines::about::{is_ratio, unit_in_base};
use super::engines::rates::{Reach, middle, predict};
use super::{Claim, OrderingClaim};
use crate::facts::{Figure, Ordering};
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Values};

const SCENARIO: &str = "arrow";
/// The card of that study.
const CARD: &str = "bf2-vpi";
const HOST: &str = "host-bitar";

/// What the host compresses with, and with how many of its threads.
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

fn threads(text: &str) -> Option<&'static str> {
    if ["1t", "1 thread", "single"]
        .iter()
        .any(|one| text.contains(one))
    {
        Some("one")
    } else {
        let all = ["mt", "multi", "threads"];
        all.iter().any(|one| text.contains(one)).then_some("all")
    }
}

/// Speed-up of the engine over the host's codec.
fn speedup(
    values: &Values<'_>,
    reach: &Reach,
    way: &str,
    against: Against,
) -> Result<f64, MissingParameter> {
    let own = against.name(way);
    if values.has(&own) {
        return values.get(&own);
    }
    reach.to(EvidenceLevel::Application);
    // Threads help one codec as much as another.
    let turned = |codec, threads| Against { codec, threads }.name(way);
    let other = if against.codec == "lz4" {
        "zstd"
    } else {
        "lz4"
    };
    let many = if against.threads == "one" {
        "all"
    } else {
        "one"
    };
    let names = [
        turned(against.codec, many),
        turned(other, against.threads),
        turned(other, many),
    ];
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

fn claimed(
    figure: &Figure<'_>,
    formula: impl Fn(&Values<'_>, &Reach) -> Result<f64, MissingParameter> + 'static,
) -> Option<Claim> {
    Some(Claim {
        scenario: SCENARIO,
        unit_in_base: unit_in_base(figure),
        predict: Box::new(move |library| predict(&evidence(library), &formula)),
    })
}

/// Which way a table goes, as in the names of parameters.
fn way(workload: &str) -> Option<&'static str> {
    if workload.contains("deserialis") {
        Some("deserialise")
    } else {
        workload.contains("serialis").then_some("serialise")
    }
}

/// What is asked of a way of treating tables.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Figures {
    /// Speed-up of the engine over the host's codec: direction, codec, one thread or all.
    Speedup(&'static str, &'static str, &'static str),
    /// What a codec leaves of the bytes; `deflate` is the engine's.
    Left(&'static str),
    /// Partitioning on the host over the card's cores.
    Partition,
}

/// Predicts a figure about Arrow tables.
pub(crate) fn answer(library: &Library, figure: Figures) -> Answer {
    predict(&evidence(library), |values, reach| {
        reach.to(EvidenceLevel::Card);
        match figure {
            Figures::Speedup(way, codec, threads) => {
                speedup(values, reach, way, Against { codec, threads })
            }
            Figures::Left(codec) => compressed(values, reach, codec),
            Figures::Partition => partition(values, reach),
        }
    })
}

fn evidence(library: &Library) -> Evidence {
    library.evidence(&[CARD, HOST, "bf2-soc", "host-coproc-bf2"])
}

/// Claims figures about Arrow tables.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let workload = fact.workload.to_lowercase();
    let metric = fact.metric.to_lowercase();
    if workload.contains("partition") && is_ratio(figure) {
        let coded = ["lz4", "zstd"].iter().any(|codec| workload.contains(codec));
        return claimed(figure, move |values, reach| {
            if coded {
                reach.to(EvidenceLevel::Application);
            }
            partition(values, reach)
        });
    }
    if metric == "compressed/uncompressed" {
        return left(figure, &workload);
    }
    let way = way(&workload)?;
    if metric == "time" {
        return time(figure, &workload);
    }
    if !is_ratio(figure) || !metric.contains("speedup") {
        return None;
    }
    let keys = figure.path.join(" ").to_lowercase();
    let text = format!("{workload} {keys}");
    let threads = threads(&text)?;
    let codec = ["lz4", "zstd"]
        .into_iter()
        .find(|codec| text.contains(codec));
    claimed(figure, move |values, reach| {
        // A data set among several: what is known is the range over them.
        reach.to(EvidenceLevel::Card);
        match codec {
            Some(codec) => speedup(values, reach, way, Against { codec, threads }),
            None => {
                let mut both = Vec::new();
                for codec in ["lz4", "zstd"] {
                    both.push(speedup(values, reach, way, Against { codec, threads })?);
                }
                Ok(middle(&both))
            }
        }
    })
}

/// The host's throughput over the card's cores'. How many cores each used is not published, so
/// nothing else stands for it.
fn partition(values: &Values<'_>, _: &Reach) -> Result<f64, MissingParameter> {
    values.get(&format!("{CARD}/arrow.partition.host"))
}

/// What is left of the bytes.
fn left(figure: &Figure<'_>, workload: &str) -> Option<Claim> {
    let codec = ["lz4", "zstd"]
        .into_iter()
        .find(|codec| workload.contains(codec));
    let codec = codec.or_else(|| workload.contains("bitar").then_some("deflate"))?;
    claimed(figure, move |values, reach| {
        reach.to(EvidenceLevel::Card);
        compressed(values, reach, codec)
    })
}

fn compressed(values: &Values<'_>, reach: &Reach, codec: &str) -> Result<f64, MissingParameter> {
    let own = format!("{CARD}/arrow.left.{codec}");
    if values.has(&own) {
        return values.get(&own);
    }
    reach.to(EvidenceLevel::Application);
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

/// One thread's time for the one table whose time was published.
fn time(figure: &Figure<'_>, workload: &str) -> Option<Claim> {
    let codec = if workload.contains("lz4") {
        "lz4"
    } else if workload.contains("no codec") || workload.contains("none") {
        "none"
    } else {
        return None;
    };
    workload.contains("1 thread").then_some(())?;
    workload.contains("particles").then_some(())?;
    let name = format!("{HOST}/arrow.serialise.{codec}.time");
    claimed(figure, move |values, _| values.get(&name))
}

/// Claims orderings about Arrow tables.
pub(crate) fn ordering(ordering: &Ordering, library: &Library) -> Option<OrderingClaim> {
    let evidence = evidence(library);
    let sides = match ordering.id.as_str() {
        "ord.T2" => ["zstd", "deflate", "lz4"]
            .into_iter()
            .map(|codec| {
                let left = predict(&evidence, |values, reach| compressed(values, reach, codec));
                Ok((format!("left by {codec}"), left?.interval))
            })
            .collect(),
        "ord.T3" => predict(&evidence, partition).map(|ratio| {
            let one = crate::Interval::exactly(1.0);
            vec![("BF-2".into(), one), ("host".into(), ratio.interval)]
        }),
        _ => return None,
    };
    let sides: Result<Vec<(String, crate::Interval)>, crate::NoPrediction> = sides;
    Some(match sides {
        Ok(sides) => OrderingClaim::Claimed {
            scenario: SCENARIO,
            holds: sides.windows(2).all(|pair| pair[0].1.typ < pair[1].1.typ),
            sides,
        },
        Err(none) => OrderingClaim::NotModelled {
            reason: none.to_string(),
        },
    })
}
