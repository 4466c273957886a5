//! Published rates of a study's host, used for a host on which nothing was measured.
//!
//! A core of this host is assumed to have the rate of one of [`HOST`], within the factor by which
//! another card or codec may differ, and all cores to do as many times as much.

use super::question::{CpuEvidence, CpuRate, Host, MeasuredOperation, Question};
use crate::advice::device::RATES_FROM_BYTES;
use crate::{EvidenceLevel, Interval, Library, Profile};

/// The profile of the study's host.
const HOST: &str = "host-coproc-bf2";

/// Published rate of one core of that host for one operation.
struct PublishedRate {
    operation: &'static str,
    title: &'static str,
    library: &'static str,
    /// The value that has the rate.
    rate: &'static str,
    /// `true` if it counts compressed bytes.
    of_compressed: bool,
    /// The value by how much the data got smaller; none for matching.
    reduction: Option<&'static str>,
    /// The published query that was searched for.
    pattern: Option<&'static str>,
    /// The level of compression that a workload names it by.
    level: Option<u32>,
    /// `true` if it is no part of an answer unless the operation is named.
    is_example: bool,
    /// The shortest buffers that it was published for.
    from_bytes: u64,
}

/// A codec's rate, on the study's files.
const fn codec(
    operation: &'static str,
    (title, library): (&'static str, &'static str),
    rate: &'static str,
    reduction: &'static str,
) -> PublishedRate {
    PublishedRate {
        operation,
        title,
        library,
        rate,
        of_compressed: false,
        reduction: Some(reduction),
        pattern: None,
        level: None,
        is_example: false,
        from_bytes: RATES_FROM_BYTES,
    }
}

/// A search for one of the study's four queries, for whose mean a core's rate was published.
const fn query(title: &'static str, pattern: &'static str) -> PublishedRate {
    PublishedRate {
        operation: "match-count",
        title,
        library: "Hyperscan, mean of four patterns, traffic accidents",
        rate: "codec.regex.hyperscan.rate",
        of_compressed: false,
        reduction: None,
        pattern: Some(pattern),
        level: None,
        is_example: true,
        from_bytes: 16_383,
    }
}

const RATES: [PublishedRate; 9] = [
    PublishedRate {
        level: Some(1),
        ..codec(
            "compress-deflate",
            ("Compress to DEFLATE (level 1)", "libdeflate level 1, Silesia data"),
            "codec.libdeflate.compress.rate",
            "codec.deflate.reduction",
        )
    },
    PublishedRate {
        level: Some(6),
        is_example: true,
        ..codec(
            "compress-deflate",
            ("Compress to DEFLATE (level 6)", "zlib level 6, Silesia data"),
            "codec.deflate.compress.split",
            "codec.deflate.reduction",
        )
    },
    PublishedRate {
        of_compressed: true,
        ..codec(
            "decompress-deflate",
            ("Decompress DEFLATE", "libdeflate, Silesia data"),
            "codec.libdeflate.decompress.rate",
            "codec.deflate.reduction",
        )
    },
    PublishedRate {
        level: Some(1),
        ..codec(
            "compress-lz4-block",
            ("Compress to LZ4 blocks", "lz4 level 1, Silesia data"),
            "codec.lz4.compress.rate",
            "codec.lz4.reduction",
        )
    },
    PublishedRate {
        of_compressed: true,
        ..codec(
            "decompress-lz4-block",
            ("Decompress LZ4 blocks", "lz4, Silesia data"),
            "codec.lz4.decompress.corpus",
            "codec.lz4.reduction",
        )
    },
    query("Count matching records (Q1)", "At (.+)Exit (.+)"),
    query("Count matching records (Q2)", "(.+) on (.+) at Exit (.+)"),
    query("Count matching records (Q3)", "on (.+) at (.+)"),
    query("Count matching records (Q4)", "Ramp to (.+)"),
];

/// Builds a question for a host of `cores` cores from published figures instead of measurements.
pub fn published_question(library: &Library, cores: u32) -> Question {
    let host = library.profile(HOST);
    let measured = host.map(|host| {
        let rates = RATES.iter();
        (rates.filter_map(|one| one.measured(host, cores))).collect()
    });
    Question {
        host: Host { threads: Some(cores) },
        measured: measured.unwrap_or_default(),
        buffer_bytes: None,
    }
}

/// Returns the statement of a fact of that host and its source. `None` if its profile does not have
/// the fact.
pub(super) fn citation(fact: &str) -> Option<String> {
    Library::published().profile(HOST)?.citation(fact)
}

impl PublishedRate {
    /// `None` if the profile has no such value.
    fn measured(&self, host: &Profile, cores: u32) -> Option<MeasuredOperation> {
        let rate = host.values.get(self.rate)?;
        let reduction = self.reduction.map(|name| host.values.get(name));
        let (ratio, facts) = match reduction {
            Some(reduction) => {
                let reduction = reduction?;
                let left = reduction.interval();
                let ratio =
                    Interval { low: 1.0 - left.high, typ: 1.0 - left.typ, high: 1.0 - left.low };
                (Some(ratio), [&rate.facts[..], &reduction.facts].concat())
            }
            None => (None, rate.facts.clone()),
        };
        let plain = match ratio.filter(|_| self.of_compressed) {
            Some(ratio) => rate.interval().over(ratio),
            None => rate.interval(),
        };
        let factor = EvidenceLevel::Application.factor();
        let core = Interval { low: plain.low / factor, typ: plain.typ, high: plain.high * factor };
        Some(MeasuredOperation {
            operation: self.operation.into(),
            title: self.title.into(),
            patterns: self.pattern.map(Into::into).into_iter().collect(),
            level: self.level,
            is_example: self.is_example,
            ratio: ratio.map(|ratio| ratio.typ),
            cpu: vec![CpuRate {
                bytes: self.from_bytes,
                bytes_per_s: core.scale(f64::from(cores)),
                threads: cores,
                core_bytes_per_s: Some(core),
                library: self.library.into(),
                evidence: CpuEvidence::Published,
                facts,
            }],
            devices: Vec::new(),
        })
    }
}
