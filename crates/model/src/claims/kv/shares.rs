//! Shares of a core's time, and bytes that queue pairs save.

use super::{About, Claim, as_change, claimed, less};
use crate::kv::{self, Message, PARTS, Testbed, YCSB};
use crate::{EvidenceLevel, MissingParameter};

pub(super) fn claim(about: &About<'_>) -> Option<Claim> {
    bytes_saved(about)
        .or_else(|| hash(about))
        .or_else(|| profile(about))
}

fn bytes_saved(about: &About<'_>) -> Option<Claim> {
    if !(about.title.contains("qp") && about.title.contains("bytes")) {
        return None;
    }
    let response = about.keys.contains("resp");
    let message = match (
        about.keys.contains("get"),
        about.keys.contains("set"),
        response,
    ) {
        (true, _, false) => Message::GetRequest,
        (true, _, true) => Message::GetResponse,
        (_, true, false) => Message::SetRequest,
        (_, true, true) => Message::SetResponse,
        _ => return None,
    };
    Some(claimed("kv", 0.01, move |library| {
        let ratio = kv::answer(library, "bf2-200g", move |bed| {
            bed.weaken_evidence(EvidenceLevel::Card);
            kv::packet_over_slot(bed, message)
        })?;
        Ok(as_change(ratio, less))
    }))
}

fn hash(about: &About<'_>) -> Option<Claim> {
    if !(about.title.contains("hash") && about.title.contains("share")) {
        return None;
    }
    let store = ["mica", "herd"].into_iter().find(|name| about.says(name))?;
    let keys = &about.keys;
    let side = match (
        keys.contains("host"),
        keys.contains("dpu") || about.card().is_some(),
    ) {
        (true, _) => "host",
        (_, true) => "soc",
        _ => return None,
    };
    Some(claimed("pairings", 0.01, move |library| {
        kv::answer(library, "bf2-200g", move |bed| {
            bed.pairing_host(&format!("hash.{store}.{side}"))
        })
    }))
}

/// The largest, or the mean, of a share over the cards and mixes that are meant.
fn over(
    about: &About<'_>,
    share: impl Fn(&Testbed<'_, '_>, char) -> Result<f64, MissingParameter> + 'static,
) -> Claim {
    let cards = about
        .card()
        .map_or(vec!["bf2-200g", "bf3-8c"], |one| vec![one]);
    let mixes = about
        .mix()
        .map_or(YCSB.map(|(mix, _)| mix).to_vec(), |one| vec![one]);
    let most = about.is_most();
    claimed("kv", 0.01, move |library| {
        let (cards, mixes) = (cards.clone(), mixes.clone());
        kv::answer(library, "bf2-200g", |bed| {
            let mut all = Vec::new();
            for card in &cards {
                for mix in &mixes {
                    all.push(share(&bed.of(card), *mix)?);
                }
            }
            if all.len() > 1 {
                bed.weaken_evidence(EvidenceLevel::Card);
            }
            Ok(if most {
                all.iter().copied().fold(0.0, f64::max)
            } else {
                all.iter().sum::<f64>() / all.len() as f64
            })
        })
    })
}

fn profile(about: &About<'_>) -> Option<Claim> {
    let title = &about.title;
    if !title.contains("share") || about.unit != "%" || title.contains("dpu-only") {
        return None;
    }
    if title.contains("polling") {
        let polling = |bed: &Testbed<'_, '_>, mix| {
            Ok(kv::share(bed, "receive", mix)? / kv::communication_share(bed, mix)?)
        };
        return Some(over(about, polling));
    }
    if title.contains("communication") {
        return Some(over(about, kv::communication_share));
    }
    if title.contains("processing") {
        return Some(over(about, |bed, mix| kv::share(bed, "getset", mix)));
    }
    let part = PARTS.into_iter().find(|part| title.contains(part))?;
    Some(over(about, move |bed, mix| kv::share(bed, part, mix)))
}
