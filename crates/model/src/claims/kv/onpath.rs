//! A server on the host behind a card on the path.

use super::{About, Claim, Comparison, Measure, as_change, claimed, less};
use crate::EvidenceLevel;
use crate::kv::{self, Submode};

/// The submodes that a text names, in its order.
fn submodes(text: &str) -> Vec<Submode> {
    let mut found: Vec<(usize, Submode)> = [
        ("sm1", Submode::SoftwareSwitch),
        ("sm2", Submode::SoftwareSwitch),
        ("sm3", Submode::Forwarder),
        ("sm4", Submode::HardwareSwitch),
        ("sm5", Submode::HardwareSwitch),
    ]
    .into_iter()
    .filter_map(|(name, mode)| Some((text.find(name)?, mode)))
    .collect();
    found.sort_by_key(|(at, _)| *at);
    found.dedup_by_key(|(_, mode)| *mode);
    found.into_iter().map(|(_, mode)| mode).collect()
}

pub(super) fn claim(about: &About<'_>) -> Option<Claim> {
    if !about.title.contains("mica") {
        return None;
    }
    let modes = submodes(&format!("{} {}", about.keys, about.title));
    let measure = about.measure()?;
    let between_cards = about.title.contains("bf-3 vs bf-2");
    match (&modes[..], measure, about.comparison()) {
        (&[mode], Measure::Throughput, None) => {
            let (card, unit) = (about.card()?, about.in_base(measure)?);
            Some(claimed("kv", unit, move |library| {
                kv::answer(library, card, |bed| {
                    // Published as a ratio to the slowest only.
                    if mode != Submode::SoftwareSwitch {
                        bed.weaken_evidence(EvidenceLevel::Card);
                    }
                    kv::submode_rate_per_s(bed, mode)
                })
            }))
        }
        (&[mode], Measure::Latency, None) => {
            let (card, unit) = (about.card()?, about.in_base(measure)?);
            Some(claimed("kv", unit, move |library| {
                kv::answer(library, card, |bed| kv::submode_latency_ns(bed, mode))
            }))
        }
        (&[above, below], Measure::Throughput, Some(Comparison::Times)) => {
            let card = about.card()?;
            Some(claimed("kv", 1.0, move |library| {
                kv::answer(library, card, |bed| {
                    // Neither of the two was published against the other.
                    if above != Submode::SoftwareSwitch && below != Submode::SoftwareSwitch {
                        bed.weaken_evidence(EvidenceLevel::Card);
                    }
                    let above = kv::submode_rate_per_s(bed, above)?.value;
                    Ok(above / kv::submode_rate_per_s(bed, below)?.value)
                })
            }))
        }
        (&[mode], Measure::Latency, Some(Comparison::Percent)) if between_cards => {
            Some(claimed("kv", 0.01 * about.sign(), move |library| {
                let ratio = kv::answer(library, "bf3-8c", |bed| {
                    let old = kv::submode_latency_ns(&bed.of("bf2-200g"), mode)?.value;
                    Ok(old / kv::submode_latency_ns(bed, mode)?.value)
                })?;
                Ok(as_change(ratio, less))
            }))
        }
        _ => None,
    }
}
