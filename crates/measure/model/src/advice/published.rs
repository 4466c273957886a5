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
    /// The shortest buffers that it was published for.
    from_bytes: u64,
}

const RATES: [PublishedRate; 5] = [
    PublishedRate {
        operation: "compress-deflate",
        title: "Compress to DEFLATE",
        library: "libdeflate level 1, Silesia data",
        rate: "codec.libdeflate.compress.rate",
        of_compressed: false,
        reduction: Some("codec.deflate.reduction"),
        pattern: None,
        from_bytes: RATES_FROM_BYTES,
    },
    PublishedRate {
        operation: "decompress-deflate",
        title: "Decompress DEFLATE",
        library: "libdeflate, Silesia data",
        rate: "codec.libdeflate.decompress.rate",
        of_compressed: true,
        reduction: Some("codec.deflate.reduction"),
        pattern: None,
        from_bytes: RATES_FROM_BYTES,
    },
    PublishedRate {
        operation: "compress-lz4-block",
        title: "Compress to LZ4 blocks",
        library: "lz4 level 1, Silesia data",
        rate: "codec.lz4.compress.rate",
        of_compressed: false,
        reduction: Some("codec.lz4.reduction"),
        pattern: None,
        from_bytes: RATES_FROM_BYTES,
    },
    PublishedRate {
        operation: "decompress-lz4-block",
        title: "Decompress LZ4 blocks",
        library: "lz4, Silesia data",
        rate: "codec.lz4.decompress.corpus",
        of_compressed: true,
        reduction: Some("codec.lz4.reduction"),
        pattern: None,
        from_bytes: RATES_FROM_BYTES,
    },
    PublishedRate {
        operation: "match-count",
        title: "Count matching records (Q4)",
        library: "Hyperscan, traffic accidents",
        rate: "codec.regex.hyperscan.rate",
        of_compressed: false,
        reduction: None,
        pattern: Some("Ramp to (.+)"),
        from_bytes: 16_383,
    },
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
