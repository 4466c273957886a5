//! Claims on figures of TCP and RDMA: through a card (study 002, section 3.2) and ending on one
//! (study 001, section 6.2).

use super::dma::ordered;
use super::link_words::{About, Loans, count_before, span};
use super::{Claim, OrderingClaim};
use crate::facts::{Figure, FigureValue, Ordering};
use crate::network::{self, Submode, Verb};
use crate::{Answer, EvidenceLevel, Library};

const SCENARIO: &str = "network";
const CARDS: [&str; 3] = ["bf1", "bf2-200g", "bf3-8c"];

/// The claim on a figure of a network.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    let about = About::of(figure);
    let is = |word: &str| about.workload.contains(word);
    let on_path = is("on-path") || is("onpath");
    if is("tcp") && on_path {
        through(&about, figure)
    } else if (is("roce") || is("rdma")) && on_path {
        detour(&about, figure)
    } else if about.paper == "001" && (is("tcp") || is("rdma")) {
        ending(&about, figure)
    } else {
        None
    }
}

fn claimed(unit_in_base: f64, predict: impl Fn(&Library) -> Answer + 'static) -> Option<Claim> {
    Some(Claim {
        scenario: SCENARIO,
        unit_in_base,
        predict: Box::new(predict),
    })
}

/// The first submode that a text names.
fn submode(text: &str) -> Option<Submode> {
    let known = [
        ("sm1-2", Submode::Sm2),
        ("sm4-5", Submode::Sm4),
        ("sm1", Submode::Sm1),
        ("sm2", Submode::Sm2),
        ("sm3", Submode::Sm3),
        ("sm4", Submode::Sm4),
        ("sm5", Submode::Sm5),
        ("off-path", Submode::OffPath),
    ];
    let found = known
        .iter()
        .filter_map(|(word, one)| Some((text.find(word)?, *one)));
    found.min_by_key(|(at, _)| *at).map(|(_, one)| one)
}

/// Whether a submode's rate was published, follows from others, or is only known to lie between.
fn closeness(loans: &Loans, card: &str, modes: &[Submode]) -> EvidenceLevel {
    let near = |mode: &Submode| {
        let direct = match mode {
            Submode::Sm1 => "tcp.sm1.rate",
            Submode::Sm2 | Submode::Sm3 => "tcp.sm2.rate",
            Submode::Sm4 | Submode::Sm5 | Submode::OffPath => "tcp.fastpath.rate",
        };
        if *mode == Submode::Sm3 && !loans.knows(card, "tcp.sm3.gain") {
            EvidenceLevel::Application
        } else if loans.knows(card, direct) {
            EvidenceLevel::Same
        } else {
            EvidenceLevel::Card
        }
    };
    (modes.iter().map(near).max()).unwrap_or(EvidenceLevel::Same)
}

fn ratio(
    library: &Library,
    left: (&'static str, Submode),
    right: (&'static str, Submode),
    below: bool,
) -> Answer {
    let loans = Loans::of(library, &[left.0, right.0]);
    let near = closeness(&loans, left.0, &[left.1]).max(closeness(&loans, right.0, &[right.1]));
    loans.predict(near, |values| {
        let ratio = network::tcp_through(values, left.0, left.1)?
            / network::tcp_through(values, right.0, right.1)?;
        Ok(if below { 1.0 - ratio } else { ratio })
    })
}

fn through(about: &About, figure: &Figure<'_>) -> Option<Claim> {
    let metric = about.metric.clone();
    let device = about.cards_in(&about.device);
    if metric.contains("ipc") {
        return None;
    }
    if metric.contains("overhead") {
        let cards = if device.is_empty() {
            CARDS.to_vec()
        } else {
            device
        };
        return claimed(about.unit(), move |library| {
            let one = |card: &&'static str| {
                ratio(library, (card, Submode::Sm4), (card, Submode::Sm3), false)
            };
            span(cards.iter().map(one).collect())
        });
    }
    if about.device.contains("->") {
        let (from, to) = (*device.first()?, *device.get(1)?);
        let mode = submode(&about.keys)
            .or_else(|| submode(&about.workload))
            .or_else(|| submode(&metric))?;
        return claimed(about.unit(), move |library| {
            ratio(library, (to, mode), (from, mode), false)
        });
    }
    let card = *about.cards().first()?;
    let parts = (metric.split_once(" below ").map(|it| (true, it)))
        .or_else(|| metric.split_once('/').map(|it| (false, it)));
    if let Some((below, (left, right))) = parts {
        let (left, right) = (submode(left)?, submode(right)?);
        if below != about.percent {
            return None;
        }
        return claimed(about.unit(), move |library| {
            ratio(library, (card, left), (card, right), below)
        });
    }
    if !metric.contains("bandwidth") && !metric.contains("throughput") {
        return None;
    }
    let mode = submode(&about.keys)
        .or_else(|| submode(&about.workload))
        .or_else(|| submode(&metric))?;
    let unit = rate_unit(figure)?;
    claimed(unit, move |library| {
        let loans = Loans::of(library, &[card]);
        let near = closeness(&loans, card, &[mode]);
        loans.predict(near, |values| network::tcp_through(values, card, mode))
    })
}

/// Bytes a second of one of the figure's units.
fn rate_unit(figure: &Figure<'_>) -> Option<f64> {
    match figure.unit.trim() {
        "Gbps" | "Gb/s" | "Gbit/s" => Some(0.125e9),
        _ => Some(figure.known_unit()?.in_base()),
    }
}

fn detour(about: &About, figure: &Figure<'_>) -> Option<Claim> {
    if !about.percent || !about.metric.contains("latency") {
        return None;
    }
    let verb = match (about.says("read"), about.says("write"), about.says("send")) {
        _ if about.keys.contains("read") => Verb::Read,
        _ if about.keys.contains("write") => Verb::Write,
        _ if about.keys.contains("send") => Verb::SendRecv,
        (true, false, false) => Verb::Read,
        (false, true, false) => Verb::Write,
        (false, false, true) => Verb::SendRecv,
        _ => return None,
    };
    let long = about.says("large") || matches!(figure.value, FigureValue::Range(..));
    let cards = about.cards();
    if cards.is_empty() {
        return None;
    }
    let class = if long { "large" } else { "small" };
    let name = match verb {
        Verb::Read => "read",
        Verb::Write => "write",
        Verb::SendRecv => "send",
    };
    claimed(about.unit(), move |library| {
        let one = |card: &&'static str| {
            let loans = Loans::of(library, &[card]);
            let known = loans.knows(card, &format!("rdma.onpath.{name}.{class}"));
            let near = if known {
                EvidenceLevel::Same
            } else {
                EvidenceLevel::Card
            };
            loans.predict(near, |values| {
                network::rdma_detour(values, card, verb, long)
            })
        };
        span(cards.iter().map(one).collect())
    })
}

/// The machine that a text of study 001 names.
fn machine(about: &About, text: &str) -> Option<&'static str> {
    if text.contains("host") {
        return Some("host-dpbento");
    }
    about.cards_in(text).first().copied()
}

fn ending(about: &About, figure: &Figure<'_>) -> Option<Claim> {
    let rdma = about.workload.contains("rdma");
    let metric = about.metric.as_str();
    if metric.contains("connections to peak") {
        let card = *about.cards().first()?;
        return claimed(1.0, move |library| {
            Loans::of(library, &[card]).predict(EvidenceLevel::Same, |values| {
                network::rdma_connections(values, card)
            })
        });
    }
    if about.percent {
        let card = *about.cards_in(&about.device).first()?;
        let name = match (rdma, metric.contains("latency")) {
            (true, true) => "rdma.remote.latency",
            (true, false) => "rdma.remote.rate",
            (false, true) => "tcp.remote.latency",
            (false, false) => return None,
        };
        let down = about.negative;
        return claimed(about.unit(), move |library| {
            Loans::of(library, &[card]).predict(EvidenceLevel::Same, |values| {
                let change = values.get(&crate::dma::of(card, name))? - 1.0;
                Ok(if down { -change } else { change })
            })
        });
    }
    if rdma {
        return None;
    }
    let threads = |text: &str| {
        count_before(text, &["t ", "thread"]).or_else(|| count_before(&format!("{text} "), &["t "]))
    };
    let rate = |library: &Library, machine: &'static str, threads: f64| {
        let loans = Loans::of(library, &[machine]);
        let peak = loans.knows(machine, "tcp.peak.rate");
        let core = loans.knows(machine, "tcp.core.rate");
        let direct = core && (threads <= 1.0 || peak);
        let near = if direct {
            EvidenceLevel::Same
        } else {
            EvidenceLevel::Application
        };
        loans.predict(near, |values| network::tcp_ending(values, machine, threads))
    };
    if let Some((left, right)) = about
        .device
        .split_once('/')
        .filter(|_| metric.contains("ratio"))
    {
        let general = threads(metric).unwrap_or(1.0);
        let (one, other) = (machine(about, left)?, machine(about, right)?);
        let (n, m) = (
            threads(left).unwrap_or(general),
            threads(right).unwrap_or(general),
        );
        return claimed(1.0, move |library| {
            let loans = Loans::of(library, &[one, other]);
            let known = [one, other]
                .iter()
                .all(|it| loans.knows(it, "tcp.core.rate") && loans.knows(it, "tcp.peak.rate"));
            let near = if known {
                EvidenceLevel::Same
            } else {
                EvidenceLevel::Application
            };
            loans.predict(near, |values| {
                Ok(network::tcp_ending(values, one, n)?.value
                    / network::tcp_ending(values, other, m)?.value)
            })
        });
    }
    if !metric.contains("throughput") && !metric.contains("peak") {
        return None;
    }
    let here = machine(about, &about.keys).or_else(|| machine(about, &about.device))?;
    let threads = threads(metric).or_else(|| threads(&about.conditions))?;
    let unit = rate_unit(figure)?;
    claimed(unit, move |library| rate(library, here, threads))
}

/// The claim on an ordering of networks.
pub(crate) fn ordering(ordering: &Ordering, library: &Library) -> Option<OrderingClaim> {
    let id = ordering.id.strip_prefix("ord.")?;
    let all = Loans::of(
        library,
        &["bf1", "bf2-200g", "bf3-8c", "bf2", "host-dpbento"],
    );
    let rate = |card: &str, mode| {
        all.predict(EvidenceLevel::Card, |values| {
            network::tcp_through(values, card, mode)
        })
    };
    let detour = |card: &str, verb, long| {
        all.predict(EvidenceLevel::Same, |values| {
            network::rdma_detour(values, card, verb, long)
        })
    };
    let one = || all.predict(EvidenceLevel::Same, |_| Ok(1.0));
    let verbs = [Verb::Read, Verb::Write, Verb::SendRecv];
    let mut pairs: Vec<(String, Answer, Answer)> = Vec::new();
    match id {
        "N1b" => {
            for card in CARDS {
                for (left, right) in [
                    (Submode::Sm2, Submode::Sm3),
                    (Submode::Sm3, Submode::Sm4),
                    (Submode::Sm1, Submode::Sm3),
                ] {
                    pairs.push((
                        format!("{card}: {left:?} < {right:?}"),
                        rate(card, left),
                        rate(card, right),
                    ));
                }
            }
        }
        "N1c" => {
            let deficit = |card: &str| {
                all.predict(EvidenceLevel::Card, |values| {
                    let slow = network::tcp_through(values, card, Submode::Sm2)?;
                    Ok(1.0 - slow / network::tcp_through(values, card, Submode::Sm4)?)
                })
            };
            for (later, earlier) in [("bf3-8c", "bf2-200g"), ("bf2-200g", "bf1")] {
                pairs.push((
                    format!("deficit: {later} < {earlier}"),
                    deficit(later),
                    deficit(earlier),
                ));
            }
        }
        "N2" => {
            for card in CARDS {
                for verb in verbs {
                    let longer = all.predict(EvidenceLevel::Same, |values| {
                        Ok(1.0 + network::rdma_detour(values, card, verb, false)?)
                    });
                    pairs.push((
                        format!("{card}, {verb:?}: off-path < on-path"),
                        one(),
                        longer,
                    ));
                }
            }
        }
        "N2b" => {
            for earlier in ["bf1", "bf2-200g"] {
                for verb in verbs {
                    pairs.push((
                        format!("{verb:?}, long: {earlier} < bf3-8c"),
                        detour(earlier, verb, true),
                        detour("bf3-8c", verb, true),
                    ));
                }
            }
        }
        "N3" => {
            return Some(OrderingClaim::NotModelled {
                reason: "latencies of RDMA between a card and a remote host were published in words only".into(),
            });
        }
        "B5" => {
            for threads in [1.0, 4.0] {
                let ends = |machine: &str| {
                    all.predict(EvidenceLevel::Same, |values| {
                        network::tcp_ending(values, machine, threads)
                    })
                };
                pairs.push((
                    format!("TCP, {threads} threads: bf2 < host"),
                    ends("bf2"),
                    ends("host-dpbento"),
                ));
            }
            let card = all.predict(EvidenceLevel::Same, |values| {
                values.get("bf2/rdma.remote.latency")
            });
            pairs.push(("RDMA read latency: bf2 < host".to_owned(), card, one()));
        }
        _ => return None,
    }
    Some(ordered(SCENARIO, pairs))
}
