//! Clients and servers on host and card.

use super::{About, Claim, Comparison, Measure, as_change, claimed, less, more};
use crate::EvidenceLevel;
use crate::kv::{self, Application, Pairing};

/// The pairings that a text names, in its order; clients on a card count as one.
fn pairings(text: &str) -> Vec<Pairing> {
    let mut found: Vec<(usize, Pairing)> = [
        ("ch-sh", Pairing::ChSh),
        ("ch-sd", Pairing::ChSd),
        ("cd-sd", Pairing::CdSd),
        ("cd-sh", Pairing::CdSh),
        ("cdh-sh", Pairing::CdhSh),
        ("offloaded", Pairing::CdSd),
        ("client on dpu", Pairing::CdSd),
    ]
    .into_iter()
    .filter_map(|(name, pairing)| Some((text.find(name)?, pairing)))
    .collect();
    found.sort_by_key(|(at, _)| *at);
    let mut in_order: Vec<Pairing> = Vec::new();
    for (_, pairing) in found {
        if !in_order.contains(&pairing) {
            in_order.push(pairing);
        }
    }
    in_order
}

pub(super) fn claim(about: &About<'_>) -> Option<Claim> {
    let store = match (about.title.contains("herd"), about.title.contains("mica")) {
        (true, false) => Application::Herd,
        (false, true) => Application::Mica,
        _ => return None,
    };
    let named = pairings(&about.title);
    let gets = about.gets().unwrap_or(0.95);
    let measure = about.measure()?;
    let comparison = about.comparison()?;
    let title = about.title.replace(['-', ' '], "");
    let newest =
        title.contains("bf1/2>bf3") || title.contains("bf2>bf3") || title.contains("bf3vsbf2");
    let against_older = title.contains("bf3chsdvschshonbf2");
    let unit = match comparison {
        Comparison::Times => 1.0,
        Comparison::Percent => 0.01 * about.sign(),
    };
    let change = match measure {
        Measure::Latency => less,
        _ => more,
    };
    let finish = move |answer: crate::Answer| match comparison {
        Comparison::Times => answer,
        Comparison::Percent => answer.map(|ratio| as_change(ratio, change)),
    };
    let latency = measure == Measure::Latency;
    // All ratios are of the better over the worse: throughput gained, or latency saved.
    match &named[..] {
        [Pairing::ChSh] if newest => Some(claimed("pairings", unit, move |library| {
            finish(kv::answer(library, "bf3-8c", |bed| {
                kv::generation_gain(bed, store, gets, latency)
            }))
        })),
        [Pairing::ChSd, Pairing::ChSh] if against_older && store == Application::Mica => {
            Some(claimed("pairings", unit, move |library| {
                finish(kv::answer(library, "bf3-8c", |bed| {
                    let ratio = kv::soc_against_older_host(bed, gets, latency)?;
                    Ok(if latency { 1.0 / ratio } else { ratio })
                }))
            }))
        }
        [Pairing::CdhSh] => Some(claimed("pairings", unit, move |library| {
            finish(kv::answer(library, "bf2-200g", |bed| {
                kv::relative_rate(bed, store, Pairing::CdhSh, gets, true)
            }))
        })),
        [first, second, ..] => {
            let card = about.card().unwrap_or("bf2-200g");
            let (first, second) = (*first, *second);
            let requests = about.keys.contains("requests");
            let most = !about.says("peak") && !requests;
            Some(claimed("pairings", unit, move |library| {
                finish(kv::answer(library, card, |bed| {
                    if latency {
                        let of = |one| kv::relative_latency(bed, store, one, gets);
                        // Which is sooner depends on the card; the source names it first.
                        return Ok(of(second)? / of(first)?);
                    }
                    if requests {
                        // What clients ask for, against what they get at the peak.
                        bed.weaken_evidence(EvidenceLevel::Card);
                    }
                    let of = |one| kv::relative_rate(bed, store, one, gets, most);
                    Ok(of(first)? / of(second)?)
                }))
            }))
        }
        _ => None,
    }
}
