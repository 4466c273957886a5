//! Orderings between engines, offloads and CPU cores.

use super::about::{Amount, CARDS, Codec, Doer, HOSTS, Side, Way};
use super::rates::{Reach, evidence, predict, rate};
use super::{SCENARIO, context_over_engine, matching};
use crate::claims::OrderingClaim;
use crate::facts::Ordering;
use crate::{Answer, Interval, Library, MissingParameter, Values};

/// Named predictions, in the order in which a claim compares them.
type Sides = Vec<(String, Interval)>;

fn side(doer: Doer, machines: &[&'static str]) -> Side {
    let machines = machines.to_vec();
    Side { doer, machines }
}

/// Collects predictions; one that is missing spoils the claim.
struct Asked<'a> {
    library: &'a Library,
    sides: Result<Sides, String>,
}

impl<'a> Asked<'a> {
    fn of(library: &'a Library) -> Self {
        Self {
            library,
            sides: Ok(Vec::new()),
        }
    }

    fn add(mut self, name: &str, answer: Answer) -> Self {
        if let Ok(sides) = &mut self.sides {
            match answer {
                Ok(prediction) => sides.push((name.into(), prediction.interval)),
                Err(none) => self.sides = Err(none.to_string()),
            }
        }
        self
    }

    fn rate(self, name: &str, side: &Side, what: (Codec, Way), amount: Amount) -> Self {
        let answer = predict(&evidence(self.library), |values, reach| {
            rate(values, reach, side, what, amount)
        });
        self.add(name, answer)
    }

    fn matching(
        self,
        name: &str,
        formula: impl Fn(&Values<'_>, &Reach) -> Result<f64, MissingParameter>,
    ) -> Self {
        let answer = predict(&matching::evidence(self.library), formula);
        self.add(name, answer)
    }

    /// The claim, which `holds` judges by the typical predictions.
    fn claim(self, holds: impl Fn(&[f64]) -> bool) -> OrderingClaim {
        match self.sides {
            Ok(sides) => {
                let typical: Vec<f64> = sides.iter().map(|(_, one)| one.typ).collect();
                OrderingClaim::Claimed {
                    scenario: SCENARIO,
                    holds: holds(&typical),
                    sides,
                }
            }
            Err(reason) => OrderingClaim::NotModelled { reason },
        }
    }
}

fn falling(typical: &[f64]) -> bool {
    typical.windows(2).all(|pair| pair[0] > pair[1])
}

/// Claims orderings by name.
pub(crate) fn ordering(ordering: &Ordering, library: &Library) -> Option<OrderingClaim> {
    let asked = Asked::of(library);
    let [bf2, bf3] = CARDS;
    let cpus: Vec<_> = CARDS.into_iter().chain(HOSTS).collect();
    let cpus = side(Doer::Cpu, &cpus);
    let offload = |card| side(Doer::Offload, &[card]);
    let deflate = (Codec::Deflate, Way::Compress);
    let inflate = (Codec::Deflate, Way::Decompress);
    let lz4 = (Codec::Lz4, Way::Decompress);
    Some(match ordering.id.as_str() {
        "ord.R1" => asked
            .add(
                "end of a context over the engine's time, BF-2",
                predict(&evidence(library), |values, reach| {
                    context_over_engine(values, reach, bf2)
                }),
            )
            .rate(
                "DEFLATE seen by the caller, BF-2",
                &offload(bf2),
                inflate,
                Amount::Files,
            )
            .rate("the same, BF-3", &offload(bf3), inflate, Amount::Files)
            .claim(|typ| typ[0] > 3.0 && (typ[1] / typ[2]).ln().abs() < 1.5_f64.ln()),
        "ord.R2" => {
            let (small, large) = (Amount::Below(super::about::SMALL_BYTES), Amount::At(64e6));
            asked
                .rate("CPU, small inputs", &cpus, deflate, small)
                .rate(
                    "BF-2 with a context for each, small inputs",
                    &offload(bf2),
                    deflate,
                    small,
                )
                .rate("the same, 64 MB", &offload(bf2), deflate, large)
                .rate("CPU, 64 MB", &cpus, deflate, large)
                .claim(|typ| typ[0] > typ[1] && typ[2] > typ[3])
        }
        "ord.R3" => {
            let (host, files) = (side(Doer::Cpu, &[HOSTS[0]]), Amount::Files);
            let strong = side(Doer::Cpu, &[bf3, HOSTS[0], HOSTS[1]]);
            asked
                .rate(
                    "LZ4 on the BF-2's host",
                    &host,
                    (Codec::Lz4, Way::Compress),
                    files,
                )
                .rate(
                    "libdeflate",
                    &strong,
                    (Codec::Libdeflate, Way::Compress),
                    files,
                )
                .rate(
                    "BF-2 with a context for each file",
                    &offload(bf2),
                    deflate,
                    files,
                )
                .rate("zlib", &strong, deflate, files)
                .claim(falling)
        }
        "ord.R4" => {
            let library = (Codec::Libdeflate, Way::Decompress);
            let corpus = Amount::Corpus;
            asked
                .rate("engine", &side(Doer::Engine, &CARDS), inflate, corpus)
                .rate("libdeflate", &cpus, library, corpus)
                .rate("zlib", &cpus, inflate, corpus)
                .rate(
                    "BF-2 and BF-3 with a context for each file",
                    &side(Doer::Offload, &CARDS),
                    inflate,
                    corpus,
                )
                .claim(falling)
        }
        "ord.R5" => {
            let strong = side(Doer::Cpu, &[bf3, HOSTS[0], HOSTS[1]]);
            asked
                .rate("engine", &side(Doer::Engine, &[bf3]), lz4, Amount::Files)
                .rate("BF-3's cores and hosts", &strong, lz4, Amount::Files)
                .rate(
                    "BF-3 with a context for each file",
                    &offload(bf3),
                    lz4,
                    Amount::Files,
                )
                .claim(|typ| falling(typ) && typ[1] > 5.0 * typ[2])
        }
        "ord.R6" => {
            let query = |name: &'static str| {
                move |values: &Values<'_>, _: &Reach| matching::by_buffer(values, name, 1024.0)
            };
            let library = |name: &'static str| {
                move |values: &Values<'_>, _: &Reach| {
                    values.get(&format!("host-coproc-bf2/codec.regex.{name}.rate"))
                }
            };
            asked
                .matching("Q4", query("q4"))
                .matching("Q1", query("q1"))
                .matching("Q2", query("q2"))
                .matching("engine, mean of the queries", matching::mean_of_queries)
                .matching("hyperscan", library("hyperscan"))
                .matching("re2", library("re2"))
                .claim(|typ| falling(&typ[..3]) && falling(&typ[3..]))
        }
        _ => return None,
    })
}
