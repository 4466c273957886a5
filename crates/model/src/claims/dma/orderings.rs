//! Which transfers are faster than which.

use super::super::OrderingClaim;
use super::super::link_words::Loans;
use super::{MIB, SCENARIO, SHORT};
use crate::Completion;
use crate::dma::{self, Access, Primitive, Transfer};
use crate::facts::Ordering;
use crate::{Answer, EvidenceLevel, Initiator, Interval, Library};

/// The claim on an ordering of DMA and RDMA.
pub(crate) fn ordering(ordering: &Ordering, library: &Library) -> Option<OrderingClaim> {
    let id = ordering.id.strip_prefix("ord.")?;
    let cards = ["bf2-200g", "bf3-8c"];
    let all = Loans::of(library, &["bf2-200g", "bf3-8c", "bf2", "bf3"]);
    let polled = |primitive, initiator, access, bytes| Transfer {
        primitive,
        initiator,
        completion: Completion::Poll,
        access,
        bytes,
    };
    let event = |initiator| Transfer {
        completion: Completion::Event,
        ..polled(Primitive::Dma, initiator, Access::Write, SHORT)
    };
    let time = |card: &'static str, transfer: Transfer| {
        all.predict(EvidenceLevel::Card, |values| {
            dma::latency(values, card, &transfer)
        })
    };
    let busy = |card: &'static str, transfer: Transfer| {
        all.predict(EvidenceLevel::Card, |values| {
            dma::core_use(values, card, &transfer)
        })
    };
    let (host, soc) = (Initiator::Host, Initiator::Soc);
    let (read, write) = (Access::Read, Access::Write);
    let (dma, rdma) = (Primitive::Dma, Primitive::Rdma);
    let mut pairs: Vec<(String, Answer, Answer)> = Vec::new();
    let mut less =
        |what: &str, left: Answer, right: Answer| pairs.push((what.to_owned(), left, right));
    match id {
        "D1a" => cards.iter().for_each(|card| {
            less(
                &format!("{card}: event, host < card"),
                time(card, event(host)),
                time(card, event(soc)),
            );
        }),
        "D1b" => {
            for card in cards {
                for who in [host, soc] {
                    less(
                        &format!("{card}: polling < event"),
                        time(card, polled(dma, who, write, SHORT)),
                        time(card, event(who)),
                    );
                }
            }
        }
        "D1d" => {
            for (name, low, high) in [
                ("dma.event.initiator", cards[1], cards[0]),
                ("dma.event.throughput.initiator", cards[0], cards[1]),
            ] {
                let get = |card: &str| {
                    all.predict(EvidenceLevel::Same, |values| {
                        values.get(&dma::of(card, name))
                    })
                };
                less(&format!("{name}: {low} < {high}"), get(low), get(high));
            }
        }
        "D2" => {
            for bytes in [MIB / 16.0, 2.0 * MIB] {
                for (who, way) in [(host, read), (host, write), (soc, read), (soc, write)] {
                    less(
                        &format!("polled, {bytes} bytes: {} < {}", cards[0], cards[1]),
                        time(cards[0], polled(dma, who, way, bytes)),
                        time(cards[1], polled(dma, who, way, bytes)),
                    );
                }
            }
            let rate = |card: &str| {
                all.predict(EvidenceLevel::Same, |values| {
                    dma::short_per_s(values, card, soc, Completion::Poll)
                })
            };
            less(
                "short polled DMAs a second: bf3-8c < bf2-200g",
                rate(cards[1]),
                rate(cards[0]),
            );
        }
        "D2x" => {
            let peak = |card: &str| {
                all.predict(EvidenceLevel::Same, |values| dma::peak(values, card, host))
            };
            less("peak rate: bf2 < bf3", peak("bf2"), peak("bf3"));
        }
        "D3" => {
            for card in cards {
                for who in [host, soc] {
                    let long = Transfer {
                        bytes: 8.0 * MIB,
                        ..event(who)
                    };
                    less(
                        &format!("{card}: core use, 8 MB < 2 B"),
                        busy(card, long),
                        busy(
                            card,
                            Transfer {
                                bytes: 2.0,
                                ..event(who)
                            },
                        ),
                    );
                }
            }
        }
        "D4a" => less(
            "bf2-200g, short reads by the card: DMA < RDMA",
            time(cards[0], polled(dma, soc, read, SHORT)),
            time(cards[0], polled(rdma, soc, read, SHORT)),
        ),
        "D4b" => {
            for card in cards {
                for who in [host, soc] {
                    less(
                        &format!("{card}, 2 MiB reads: RDMA < DMA"),
                        time(card, polled(rdma, who, read, 2.0 * MIB)),
                        time(card, polled(dma, who, read, 2.0 * MIB)),
                    );
                }
            }
        }
        "D5a" => {
            for card in cards {
                for who in [host, soc] {
                    let plain = || time(card, polled(rdma, who, write, SHORT));
                    less(
                        &format!("{card}, short writes: RDMA < DMA"),
                        plain(),
                        time(card, polled(dma, who, write, SHORT)),
                    );
                    less(
                        &format!("{card}, short writes: inline < RDMA"),
                        time(card, polled(Primitive::RdmaInline, who, write, SHORT)),
                        plain(),
                    );
                }
            }
        }
        "D5b" => {
            return Some(OrderingClaim::NotModelled {
                reason: "no magnitude of long writes over RDMA was published, to predict it from"
                    .into(),
            });
        }
        "K5" => {
            return Some(alike(&cards.map(|card| {
                (
                    time(card, polled(dma, soc, write, 2.0)),
                    time(card, polled(dma, soc, write, 2048.0)),
                )
            })));
        }
        _ => return None,
    }
    Some(ordered(SCENARIO, pairs))
}

/// Two latencies count as alike if they differ by less than a quarter.
fn alike(pairs: &[(Answer, Answer)]) -> OrderingClaim {
    let mut sides = Vec::new();
    let mut holds = true;
    for pair in pairs {
        let (Ok(left), Ok(right)) = pair else {
            return OrderingClaim::NotModelled {
                reason: "a side has no prediction".into(),
            };
        };
        let apart = left.interval.typ / right.interval.typ;
        holds &= (0.8..=1.25).contains(&apart);
        sides.push(("2 B".to_owned(), left.interval));
        sides.push(("2 KB".to_owned(), right.interval));
    }
    OrderingClaim::Claimed {
        scenario: SCENARIO,
        holds,
        sides,
    }
}

/// A claim that each left side is the smaller one.
pub(crate) fn ordered(
    scenario: &'static str,
    pairs: Vec<(String, Answer, Answer)>,
) -> OrderingClaim {
    let mut sides: Vec<(String, Interval)> = Vec::new();
    let mut holds = true;
    for (what, left, right) in pairs {
        match (left, right) {
            (Ok(left), Ok(right)) => {
                holds &= left.interval.typ < right.interval.typ;
                sides.push((format!("{what}: left"), left.interval));
                sides.push((format!("{what}: right"), right.interval));
            }
            (Err(why), _) | (_, Err(why)) => {
                return OrderingClaim::NotModelled {
                    reason: format!("{what}: {why}"),
                };
            }
        }
    }
    OrderingClaim::Claimed {
        scenario,
        holds,
        sides,
    }
}
