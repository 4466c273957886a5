//! Claims on traffic that a card forwards while its engines work (study 000, section 5.10).

use super::link_words::{About, Loans};
use super::{Claim, OrderingClaim};
use crate::facts::{Figure, Ordering};
use crate::{EvidenceLevel, Interval, Library, contention, network};

const SCENARIO: &str = "interference";

/// The claim on a figure of routed traffic.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    let about = About::of(figure);
    let routed = about.workload.contains("rout") || about.workload.contains("iperf");
    if about.paper != "000" || !routed || about.metric.contains("after") {
        return None;
    }
    let card = *about.cards().first()?;
    if about.workload.contains("dma") && about.percent && about.negative {
        return Some(Claim {
            scenario: SCENARIO,
            unit_in_base: about.unit(),
            predict: Box::new(move |library| {
                Loans::of(library, &[card]).predict(EvidenceLevel::Same, |values| {
                    contention::traffic_loss(values, card, 1.0)
                })
            }),
        });
    }
    if about.metric.contains("throughput") && !about.percent {
        return Some(Claim {
            scenario: SCENARIO,
            unit_in_base: figure.known_unit()?.in_base(),
            predict: Box::new(move |library| {
                Loans::of(library, &[card]).predict(EvidenceLevel::Same, |values| {
                    network::tcp_ending(values, card, 1.0)
                })
            }),
        });
    }
    None
}

/// The claim on an ordering of routed traffic.
pub(crate) fn ordering(ordering: &Ordering, library: &Library) -> Option<OrderingClaim> {
    if ordering.id != "ord.C6" {
        return None;
    }
    let loans = Loans::of(library, &["bf3"]);
    let loss = loans.predict(EvidenceLevel::Application, |values| {
        contention::traffic_loss(values, "bf3", 1.0)
    });
    Some(match loss {
        Ok(loss) => OrderingClaim::Claimed {
            scenario: SCENARIO,
            // Jobs of the engines do not cross the path of the traffic.
            holds: loss.interval.typ > 0.0,
            sides: vec![
                ("loss beside DMA".to_owned(), loss.interval),
                ("loss beside engine jobs".to_owned(), Interval::exactly(0.0)),
            ],
        },
        Err(why) => OrderingClaim::NotModelled {
            reason: why.to_string(),
        },
    })
}
