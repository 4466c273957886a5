//! Transfers between a host and its card: who starts them, how their end is noticed, how long they are.

use overside_config::Error;

use super::{Better, Key, Metric, Point, Row, Scenario};
use crate::claims::link_words::Loans;
use crate::dma::{self, Access, Completion, INLINE_BYTES, Primitive, Transfer};
use crate::{Answer, EvidenceLevel, Initiator, Library, Unit};

/// DMA and RDMA in closed form: docs/model-link.md.
pub struct DmaScenario;

const KEYS: &[Key] = &[
    Key::profile("profile", "bf2-200g", "the card"),
    Key::choice(
        "primitive",
        &["dma", "rdma", "rdma-inline"],
        "dma, rdma",
        "how bytes are moved",
    ),
    Key::choice(
        "initiator",
        &["host", "dpu"],
        "host, dpu",
        "whose cores start it",
    ),
    Key::choice(
        "completion",
        &["poll", "event"],
        "poll",
        "how its end is noticed",
    ),
    Key::choice(
        "access",
        &["read", "write"],
        "read, write",
        "which way bytes go, seen from the initiator",
    ),
    Key::amount(
        "bytes",
        Unit::B,
        (1.0, 134_217_728.0),
        "64 B, 64 KiB, 2 MiB",
        "one transfer",
    ),
    Key::count("cores", 1, 256, "1", "cores that start transfers"),
    Key::count(
        "depth",
        1,
        65_536,
        "",
        "transfers that each core has in flight; as many as it takes if not set",
    ),
];

fn transfer(point: &Point) -> Result<Transfer, Error> {
    let transfer = Transfer {
        primitive: match point.word("primitive") {
            "rdma" => Primitive::Rdma,
            "rdma-inline" => Primitive::RdmaInline,
            _ => Primitive::Dma,
        },
        initiator: match point.word("initiator") {
            "host" => Initiator::Host,
            _ => Initiator::Soc,
        },
        completion: match point.word("completion") {
            "event" => Completion::Event,
            _ => Completion::Poll,
        },
        access: match point.word("access") {
            "read" => Access::Read,
            _ => Access::Write,
        },
        bytes: point.number("bytes"),
    };
    if transfer.primitive == Primitive::RdmaInline {
        if transfer.access == Access::Read {
            let problem = "a read has no payload to put into its request".to_owned();
            return Err(Error::of_key("access", problem, "write with rdma-inline"));
        }
        if transfer.bytes > INLINE_BYTES {
            let problem = format!("{} bytes do not fit into a request", transfer.bytes);
            let allowed = format!("up to {INLINE_BYTES} B with rdma-inline");
            return Err(Error::of_key("bytes", problem, allowed));
        }
    }
    Ok(transfer)
}

impl Scenario for DmaScenario {
    fn name(&self) -> &'static str {
        "dma"
    }

    fn about(&self) -> &'static str {
        "transfers between a host and its card: DMA against RDMA, host against card, polling against events"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let transfer = transfer(point)?;
        let (card, cores) = (point.word("profile"), point.number("cores"));
        let depth = point.number_if_set("depth");
        let loans = Loans::of(library, &[card]);
        let relative = loans.predict(EvidenceLevel::Card, |values| {
            dma::latency(values, card, &transfer)
        });
        let latency = loans.predict(EvidenceLevel::Card, |values| {
            dma::latency_ns(values, card, &transfer)
        });
        // A core that polls is busy all the time: there is no doubt about that.
        let polls = transfer.completion == Completion::Poll;
        let busy = |name: &str, unit, cores: f64| {
            if polls {
                return Metric::given(name, unit, Better::Lower, cores);
            }
            let busy = loans.predict(EvidenceLevel::Card, |values| {
                Ok(cores * dma::core_use(values, card, &transfer)?)
            });
            Metric::new(name, unit, Better::Lower, busy)
        };
        let mut row = Row {
            latency: Some(Metric::new("latency", Unit::Us, Better::Lower, latency)),
            more: vec![
                Metric::new("over a short DMA", Unit::Count, Better::Lower, relative),
                busy("of a core", Unit::Percent, 1.0),
            ],
            notes: vec![
                "\"over a short DMA\" is the latency over that of a polled DMA of 64 B on the same card"
                    .to_owned(),
            ],
            ..Row::default()
        };
        if transfer.primitive == Primitive::Dma {
            let per_s = loans.predict(EvidenceLevel::Card, |values| {
                dma::per_s(values, card, &transfer, cores, depth)
            });
            let rate = loans.predict(EvidenceLevel::Card, |values| {
                let mut outcome = dma::per_s(values, card, &transfer, cores, depth)?;
                outcome.value *= transfer.bytes;
                Ok(outcome)
            });
            let link = (loans.predict(EvidenceLevel::Same, |values| {
                values.get(&dma::of(card, "pcie.rate"))
            }))
            .map_or(f64::INFINITY, |link| link.interval.typ);
            // Nothing moves faster than the link, whatever the doubt.
            let within = |mut answer: Answer, most: f64| {
                if let Ok(known) = &mut answer {
                    known.interval.high = known.interval.high.min(most).max(known.interval.typ);
                }
                answer
            };
            let (per_s, rate) = (within(per_s, link / transfer.bytes), within(rate, link));
            row.throughput = Some(Metric::new("DMAs", Unit::MopsPerS, Better::Higher, per_s));
            row.more
                .push(Metric::new("moved", Unit::GBPerS, Better::Higher, rate));
        } else {
            row.notes
                .push("no rate of RDMA between a host and its own card was published".into());
        }
        row.host_cores = Some(match transfer.initiator {
            Initiator::Soc => Metric::given("host cores", Unit::Count, Better::Lower, 0.0),
            Initiator::Host => busy("host cores", Unit::Count, cores),
        });
        Ok(vec![row])
    }
}
