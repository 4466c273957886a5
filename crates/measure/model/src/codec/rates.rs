//! Rates of engines, offloads and CPU cores with a codec, from the values in the profiles.
//!
//! Each function falls back on the nearest known value and notes this in an [`EvidenceTracker`].

use std::cell::Cell;

use serde::Deserialize;

use super::{break_even_bytes, offload_rate};
use crate::corpus::{self, File};
use crate::{
    Answer, Evidence, EvidenceLevel, Library, MissingParameter, Outcome, ParameterValue, Quantity,
    Unit, Values,
};

/// A family of formats, or a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Codec {
    /// DEFLATE, on CPUs by zlib.
    Deflate,
    /// DEFLATE by libdeflate.
    Libdeflate,
    /// LZ4.
    Lz4,
}

impl Codec {
    /// Returns the codec's name as it appears in the names of parameters.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deflate => "deflate",
            Self::Libdeflate => "libdeflate",
            Self::Lz4 => "lz4",
        }
    }
}

/// Direction of data through a codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    /// Uncompressed to compressed.
    Compress,
    /// Back.
    Decompress,
}

impl Direction {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Compress => "compress",
            Self::Decompress => "decompress",
        }
    }
}

/// Processor that runs the codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processor {
    /// The engine itself, by its own clock.
    Engine,
    /// The engine as a caller sees it who sets up a context for each input.
    Offload,
    /// A CPU core.
    Cpu,
}

/// The cards of the co-processing study, their engines driven by their own cores.
pub(crate) const CARDS: [&str; 2] = ["bf2-soc", "bf3-soc"];
/// Host profiles of the co-processing study.
pub(crate) const HOSTS: [&str; 2] = ["host-coproc-bf2", "host-coproc-bf3"];

/// Amount of input data that a rate is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    /// The files, each by itself, averaged.
    Files,
    /// All of the corpus, as its mean.
    Corpus,
    /// Sizes from the smallest inputs to the largest.
    Sweep,
    /// Inputs of that many bytes.
    At(f64),
    /// Inputs up to that many.
    Below(f64),
    /// Inputs from that many on.
    AtLeast(f64),
}

/// Inputs below it are called small.
pub(crate) const SMALL_BYTES: f64 = 10.0 * 1024.0 * 1024.0;
/// The smallest inputs that the study speaks of by their size.
const LEAST_BYTES: f64 = 100.0 * 1024.0;

/// Records the weakest evidence that a formula had to use.
pub(crate) struct EvidenceTracker(Cell<EvidenceLevel>);

impl EvidenceTracker {
    /// Weakens the evidence to at most `closeness`.
    pub(crate) fn weaken_to(&self, closeness: EvidenceLevel) {
        self.0.set(self.0.get().max(closeness));
    }

    /// The parameter itself where it is known; its substitute otherwise is no nearer than
    /// `closeness`.
    pub(crate) fn own_or(
        &self,
        values: &Values<'_>,
        name: &str,
        closeness: EvidenceLevel,
    ) -> Option<f64> {
        let own = values.get(name).ok();
        if own.is_none() {
            self.weaken_to(closeness);
        }
        own
    }
}

/// Collects the parameters of all machines of the codec studies, and of the profiles in `others`.
pub(crate) fn evidence(library: &Library, others: &[&str]) -> Evidence {
    let [bf2_soc, bf3_soc] = CARDS;
    let [host_bf2, host_bf3] = HOSTS;
    let known = [bf2_soc, bf3_soc, host_bf2, host_bf3, "bf2", "bf3"];
    library.evidence(&[&known, others].concat())
}

/// Predicts with the closeness that the formula itself finds it has.
pub(crate) fn predict<F, O>(evidence: &Evidence, formula: F) -> Answer
where
    F: Fn(&Values<'_>, &EvidenceTracker) -> Result<O, MissingParameter>,
    O: Into<Outcome>,
{
    let tracker = EvidenceTracker(Cell::new(EvidenceLevel::Same));
    let near = evidence.predict(EvidenceLevel::Same, |values| formula(values, &tracker))?;
    match tracker.0.get() {
        EvidenceLevel::Same => Ok(near),
        further => {
            let ignored = EvidenceTracker(Cell::new(EvidenceLevel::Same));
            evidence.predict(further, |values| formula(values, &ignored))
        }
    }
}

/// The geometric mean.
pub(crate) fn middle(all: &[f64]) -> f64 {
    (all.iter().map(|one| one.ln()).sum::<f64>() / all.len() as f64).exp()
}

/// A file's length on the side that rates count: the input of compression, or of decompression.
pub(crate) fn counted_bytes(file: &File, codec: Codec, way: Direction) -> f64 {
    match (way, codec) {
        (Direction::Compress, _) => file.bytes,
        (Direction::Decompress, Codec::Lz4) => file.lz4_bytes,
        (Direction::Decompress, _) => file.deflate_bytes,
    }
}

/// Returns the typical size for an amount; `None` for the files themselves.
fn typical_bytes(amount: Amount, codec: Codec, way: Direction) -> Option<f64> {
    let largest =
        (corpus::SILESIA.iter()).map(|file| counted_bytes(file, codec, way)).fold(0.0, f64::max);
    match amount {
        Amount::Files | Amount::Corpus => None,
        Amount::At(bytes) => Some(bytes),
        Amount::Below(bytes) => Some((LEAST_BYTES * bytes).sqrt()),
        Amount::AtLeast(bytes) => Some((bytes * largest.max(bytes)).sqrt()),
        Amount::Sweep => Some((LEAST_BYTES * largest).sqrt()),
    }
}

/// The first parameter of a card with the cost of ending a context, for any of its operations.
pub(crate) fn context_name(values: &Values<'_>, card: &str) -> Option<String> {
    const OPERATIONS: [&str; 4] =
        ["all", "compress-deflate", "decompress-deflate", "decompress-lz4-block"];
    let names = OPERATIONS.map(|operation| format!("{card}/context.end.{operation}"));
    names.into_iter().find(|name| values.has(name))
}

/// Returns the time in nanoseconds to end one context and set up the next, where the card's own
/// cores do it. It is work of the core, so a faster core needs less time.
pub(crate) fn context_ns(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    card: &str,
) -> Result<f64, MissingParameter> {
    if let Some(own) = context_name(values, card) {
        return values.get(&own);
    }
    tracker.weaken_to(EvidenceLevel::Application);
    let [bf2, bf3] = CARDS;
    let gain = values.get(&format!("{bf3}/codec.core.gain"));
    // Whole files were measured from the host of a BF-3 too.
    let from = |card: &str| context_name(values, card).and_then(|name| values.get(&name).ok());
    let known = if card == bf3 {
        let other = from(bf2).zip(gain.ok()).map(|(time, gain)| time / (1.0 + gain));
        other.or_else(|| from("bf3"))
    } else {
        (from("bf3").zip(gain.ok())).map(|(time, gain)| time * (1.0 + gain))
    };
    known.ok_or_else(|| MissingParameter::parameter(format!("{card}/context.end.all")))
}

/// Bytes a second of the engine itself.
pub(crate) fn engine_rate(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    card: &str,
    (codec, way): (Codec, Direction),
    amount: Amount,
) -> Result<f64, MissingParameter> {
    let stem = format!("{card}/codec.{}.{}.engine", codec.name(), way.name());
    let kinds = match amount {
        Amount::Corpus => ["corpus", "", "sweep"],
        Amount::Sweep => ["sweep", "", "corpus"],
        _ => ["", "corpus", "sweep"],
    };
    // DEFLATE's mean over the files is its mean over the corpus.
    let same = amount == Amount::Corpus && codec != Codec::Lz4;
    for (rank, kind) in kinds.into_iter().enumerate() {
        let name = if kind.is_empty() { stem.clone() } else { format!("{stem}.{kind}") };
        if values.has(&name) {
            if rank > 0 && !(same && kind.is_empty()) {
                tracker.weaken_to(EvidenceLevel::Card);
            }
            return values.get(&name);
        }
    }
    tracker.weaken_to(EvidenceLevel::Card);
    if !card.ends_with("-soc") {
        return host_engine_rate(values, tracker, card, (codec, way), amount);
    }
    if way == Direction::Decompress && codec == Codec::Lz4 && card == CARDS[0] {
        return Err(MissingParameter::parameter(stem));
    }
    if way == Direction::Compress && card == CARDS[1] {
        return Err(MissingParameter::parameter(stem));
    }
    all_tasks_rate(values, tracker, card)
}

/// Rate of the engine where the host drives it: its part of a shared input, or else its own clock,
/// which does not depend on the initiator of a job.
fn host_engine_rate(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    card: &str,
    (codec, way): (Codec, Direction),
    amount: Amount,
) -> Result<f64, MissingParameter> {
    let split = format!("{card}/codec.{}.{}.split", codec.name(), way.name());
    if !values.has(&split) {
        return engine_rate(values, tracker, &format!("{card}-soc"), (codec, way), amount);
    }
    // Shared inputs count the uncompressed side.
    let left = match way {
        Direction::Compress => 1.0,
        Direction::Decompress => 1.0 - reduction(values, tracker, codec, HOSTS[0])?,
    };
    Ok(values.get(&split)? * left)
}

/// Bytes a second of the engine, mean over all kinds of task.
pub(crate) fn all_tasks_rate(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    card: &str,
) -> Result<f64, MissingParameter> {
    let own = format!("{card}/codec.engine.rate");
    if let Some(own) = tracker.own_or(values, &own, EvidenceLevel::Application) {
        return Ok(own);
    }
    let mut kinds = Vec::new();
    for name in ["deflate.decompress.engine", "lz4.decompress.engine"] {
        kinds.extend(values.get(&format!("{card}/codec.{name}")));
    }
    if card == CARDS[0] {
        kinds.extend(values.get("bf2/codec.deflate.compress.split"));
    }
    if kinds.is_empty() {
        return Err(MissingParameter::parameter(own));
    }
    Ok(middle(&kinds))
}

/// Bytes a second that a caller sees who sets up a context for each input.
fn offload(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    card: &str,
    what: (Codec, Direction),
    amount: Amount,
) -> Result<f64, MissingParameter> {
    tracker.weaken_to(EvidenceLevel::Card);
    let context = context_ns(values, tracker, card)?;
    let rate = engine_rate(values, tracker, card, what, Amount::Files)?;
    Ok(match typical_bytes(amount, what.0, what.1) {
        Some(bytes) => offload_rate(context, bytes, rate),
        None => {
            corpus::mean(|file| offload_rate(context, counted_bytes(file, what.0, what.1), rate))
        }
    })
}

/// Names under which a core's rate may stand, the best first.
fn cpu_names(codec: Codec, way: Direction, amount: Amount) -> Vec<String> {
    let stem = format!("codec.{}.{}", codec.name(), way.name());
    let kinds: &[&str] = match (codec, way, amount) {
        (Codec::Deflate, Direction::Decompress, Amount::At(bytes)) if bytes < SMALL_BYTES => {
            &["small", "rate"]
        }
        (Codec::Deflate, Direction::Decompress, Amount::Below(_)) => &["small", "rate"],
        (Codec::Deflate, Direction::Decompress, Amount::At(_) | Amount::AtLeast(_)) => {
            &["large", "rate"]
        }
        (Codec::Deflate, Direction::Decompress, _) => &["rate", "large", "small"],
        // The two published means differ by a factor of two: none stands for the other.
        (Codec::Lz4, Direction::Decompress, Amount::Corpus) => &["corpus"],
        _ => &["rate"],
    };
    kinds.iter().map(|kind| format!("{stem}.{kind}")).collect()
}

/// Bytes a second of one core that compresses at a level. The study averaged over levels 1 to 3,
/// and shared inputs at level 6.
pub(crate) fn cpu_rate_at_level(
    values: &Values<'_>,
    machine: &str,
    codec: Codec,
    level: u64,
) -> Result<f64, MissingParameter> {
    let kind = match (codec, level) {
        (Codec::Deflate, 1..=3) | (Codec::Libdeflate, 1) => "rate",
        (Codec::Deflate, 6) => "split",
        _ => {
            return Err(MissingParameter::nothing(
                format!("no rate of {} at level {level} was published", codec.name()),
                "ask for level 1 to 3 or 6 of deflate, or 1 of libdeflate",
            ));
        }
    };
    values.get(&format!("{machine}/codec.{}.compress.{kind}", codec.name()))
}

/// Bytes a second of one core, where it is known for that machine.
fn own_cpu(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    machine: &str,
    what: (Codec, Direction),
    amount: Amount,
) -> Option<f64> {
    let names = cpu_names(what.0, what.1, amount);
    for (rank, name) in names.iter().enumerate() {
        if let Ok(rate) = values.get(&format!("{machine}/{name}")) {
            if rank > 0 {
                tracker.weaken_to(EvidenceLevel::Card);
            }
            return Some(rate);
        }
    }
    None
}

/// Bytes a second of one core, by way of another machine's.
fn other_cpu(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    machine: &str,
    what: (Codec, Direction),
    amount: Amount,
) -> Result<f64, MissingParameter> {
    let [bf2, bf3] = CARDS;
    let [host2, host3] = HOSTS;
    let unknown = || {
        MissingParameter::parameter(format!("{machine}/{}", cpu_names(what.0, what.1, amount)[0]))
    };
    // Published rates of single cores differ a hundredfold with LZ4: none stands for another.
    if what == (Codec::Lz4, Direction::Decompress) && machine == bf2 {
        return Err(unknown());
    }
    let gain = values.get(&format!("{bf3}/codec.core.gain")).ok();
    let gap = |card: &str| values.get(&format!("{card}/codec.core.gap")).ok();
    let own_gap = gap(if machine == bf2 || machine == host2 { bf2 } else { bf3 });
    let routes = match machine {
        _ if machine == bf2 => {
            [(bf3, gain.map(|gain| 1.0 / (1.0 + gain))), (host2, own_gap.map(|gap| 1.0 - gap))]
        }
        _ if machine == bf3 => {
            [(bf2, gain.map(|gain| 1.0 + gain)), (host3, own_gap.map(|gap| 1.0 - gap))]
        }
        _ if machine == host2 => [(host3, Some(1.0)), (bf2, own_gap.map(|gap| 1.0 / (1.0 - gap)))],
        _ => [(host2, Some(1.0)), (bf3, own_gap.map(|gap| 1.0 / (1.0 - gap)))],
    };
    tracker.weaken_to(EvidenceLevel::Application);
    let mut routes = routes
        .into_iter()
        .filter_map(|(from, factor)| Some(own_cpu(values, tracker, from, what, amount)? * factor?));
    routes.next().ok_or_else(unknown)
}

/// Bytes a second of a doer on a machine.
pub(crate) fn rate(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    (doer, machine): (Processor, &str),
    (codec, way): (Codec, Direction),
    amount: Amount,
) -> Result<f64, MissingParameter> {
    if matches!(amount, Amount::At(_)) {
        tracker.weaken_to(EvidenceLevel::Card);
    }
    // An engine knows formats, not libraries.
    let format = match codec {
        Codec::Libdeflate => Codec::Deflate,
        codec => codec,
    };
    match doer {
        Processor::Engine => engine_rate(values, tracker, machine, (format, way), amount),
        Processor::Offload => offload(values, tracker, machine, (format, way), amount),
        Processor::Cpu => match own_cpu(values, tracker, machine, (codec, way), amount) {
            Some(rate) => Ok(rate),
            None => other_cpu(values, tracker, machine, (codec, way), amount),
        },
    }
}

/// The size from which an engine with a context for each input beats a core: its rate on large
/// inputs counts.
pub(crate) fn faster_from(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    (card, cpu): (&str, &str),
    what: (Codec, Direction),
) -> Result<f64, MissingParameter> {
    tracker.weaken_to(EvidenceLevel::Card);
    let engine = engine_rate(values, tracker, card, what, Amount::Files)?;
    let large = Amount::AtLeast(SMALL_BYTES);
    let cpu = rate(values, tracker, (Processor::Cpu, cpu), what, large)?;
    let context = context_ns(values, tracker, card)?;
    break_even_bytes(context, 1e9 / engine, 1e9 / cpu).ok_or_else(|| {
        MissingParameter::nothing("the engine is never faster", "ask for another card or operation")
    })
}

/// Name of the parameter for the rate of all threads of a machine over that of one core.
pub(crate) const THREADS: &str = "codec.threads";
/// Host of the study that compared engines with all threads.
const THREADED_HOST: &str = "host-dpbento";

/// Returns the rate of all threads of `host` over that of one core: at most as many times as it has
/// cores. The least is what was published of Arrow's codecs, 64 cores of which are some four times
/// one. `None` if the number of cores is not known.
pub(crate) fn thread_gain(library: &Library, host: &str) -> Option<Quantity> {
    const ARROW: &str = "bf2-vpi/arrow.serialise.lz4";
    let evidence = library.evidence(&[host, "bf2-vpi", "host-bitar"]);
    let known = |name: &str| match evidence.get(name) {
        Some(ParameterValue::Quantity(known)) => Some(known),
        _ => None,
    };
    let own = known(&format!("{host}/cpu.cores"))?;
    let (one, all) = (known(&format!("{ARROW}.one"))?, known(&format!("{ARROW}.all"))?);
    let cores = known("host-bitar/cpu.cores")?.interval().typ;
    let exponent = (one.interval().typ / all.interval().typ).ln() / cores.ln();
    let most = own.interval().typ;
    Some(Quantity {
        facts: [own, one, all].into_iter().flat_map(|one| one.facts.clone()).collect(),
        ..Quantity::range(most.powf(exponent), most, Unit::Count)
    })
}

/// The size from which an engine beats all threads of a machine, where a job takes `fixed_ns`
/// besides: by the published ratio of the two, or else by the rate of a core and [`THREADS`].
pub(crate) fn faster_from_all(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    (card, host): (&str, &str),
    what: (Codec, Direction),
    fixed_ns: f64,
) -> Result<f64, MissingParameter> {
    tracker.weaken_to(EvidenceLevel::Application);
    let engine = engine_rate(values, tracker, card, what, Amount::Files)?;
    let plain = |name: &str| name.trim_end_matches("-soc").trim_end_matches("-cores").to_owned();
    let stem = format!("{}/codec.{}.{}.speedup", plain(card), what.0.name(), what.1.name());
    let published = if host == THREADED_HOST {
        Some(stem)
    } else {
        (plain(host) == plain(card)).then(|| format!("{stem}.own"))
    };
    let all = match published.filter(|name| values.has(name)) {
        // Published for large data.
        Some(name) => engine / values.at(&name, 1e9)?,
        None => {
            let large = Amount::AtLeast(SMALL_BYTES);
            rate(values, tracker, (Processor::Cpu, host), what, large)?
                * values.get(&format!("{host}/{THREADS}"))?
        }
    };
    break_even_bytes(fixed_ns, 1e9 / engine, 1e9 / all).ok_or_else(|| {
        MissingParameter::nothing("the engine is never faster", "ask for another card or operation")
    })
}

/// Share of its size by which an input shrinks: on `host`, else on the study's.
pub(crate) fn reduction(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    codec: Codec,
    host: &str,
) -> Result<f64, MissingParameter> {
    let name = |host| format!("{host}/codec.{}.reduction", codec.name());
    if let Some(known) = [name(host), name(HOSTS[0])].iter().find(|name| values.has(name)) {
        return values.get(known);
    }
    tracker.weaken_to(EvidenceLevel::Card);
    let left = |file: &File| match codec {
        Codec::Lz4 => file.lz4_bytes / file.bytes,
        _ => file.deflate_bytes / file.bytes,
    };
    Ok(1.0 - corpus::mean(left))
}

/// Time to end a context over the engine's time for the mean file.
pub(crate) fn context_over_engine(
    values: &Values<'_>,
    tracker: &EvidenceTracker,
    card: &str,
) -> Result<f64, MissingParameter> {
    tracker.weaken_to(EvidenceLevel::Application);
    let context = context_ns(values, tracker, card)?;
    let rate = all_tasks_rate(values, tracker, card)?;
    Ok(context / (corpus::mean(|file| file.bytes) / rate * 1e9))
}
