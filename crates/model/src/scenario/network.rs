//! Networks: TCP that ends on a machine's cores or passes a card, and RDMA's detour through one.

use overside_config::Error;

use super::{Better, Key, Metric, Point, Row, Scenario};
use crate::claims::link_words::Loans;
use crate::network::{self, Submode, Verb};
use crate::{EvidenceLevel, Library, Unit};

/// Networks in closed form: docs/model-link.md.
pub struct NetworkScenario;

const KEYS: &[Key] = &[
    Key::profile(
        "profile",
        "bf2-200g",
        "the card, or the machine on which streams end",
    ),
    Key::choice(
        "path",
        &["ends", "sm1", "sm2", "sm3", "sm4", "sm5", "off-path"],
        "sm1, sm2, sm3, sm4, sm5, off-path",
        "whether streams end on its cores, or how it forwards those of its host",
    ),
    Key::count(
        "threads",
        1,
        1024,
        "1",
        "streams, a thread each; for `ends` only",
    ),
    Key::amount(
        "bytes",
        Unit::B,
        (1.0, 1_073_741_824.0),
        "64 B",
        "a message of RDMA; for sm4 only",
    ),
];

impl Scenario for NetworkScenario {
    fn name(&self) -> &'static str {
        "network"
    }

    fn about(&self) -> &'static str {
        "TCP through a card or ending on it, and how much longer RDMA takes through its switch"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let machine = point.word("profile");
        let loans = Loans::of(library, &[machine]);
        let tcp = |answer| Some(Metric::new("TCP", Unit::GbPerS, Better::Higher, answer));
        let Some(submode) = Submode::of(point.word("path")) else {
            let threads = point.number("threads");
            let ending = loans.predict(EvidenceLevel::Card, |values| {
                network::tcp_ending(values, machine, threads)
            });
            return Ok(vec![Row {
                throughput: tcp(ending),
                ..Row::default()
            }]);
        };
        let mut row = Row {
            throughput: tcp(loans.predict(EvidenceLevel::Card, |values| {
                network::tcp_through(values, machine, submode)
            })),
            bottleneck: Some(
                if submode.is_slow_path() {
                    "the card's cores"
                } else {
                    "the hosts"
                }
                .into(),
            ),
            ..Row::default()
        };
        if submode == Submode::Sm4 {
            let long = point.number("bytes") >= crate::dma::SHORT_BYTES;
            for (name, verb) in [
                ("read", Verb::Read),
                ("write", Verb::Write),
                ("send", Verb::SendRecv),
            ] {
                let longer = loans.predict(EvidenceLevel::Card, |values| {
                    network::rdma_detour(values, machine, verb, long)
                });
                let name = format!("RDMA {name} longer by");
                row.more
                    .push(Metric::new(&name, Unit::Percent, Better::Lower, longer));
            }
        }
        Ok(vec![row])
    }
}
