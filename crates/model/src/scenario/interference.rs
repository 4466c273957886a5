//! Traffic that a card forwards while its DMA engine or its compression engines work.

use super::{Better, Key, Point, Row, Scenario, ScenarioError, Shown};
use crate::claims::link_words::Loans;
use crate::contention::{self, Demand};
use crate::{Closeness, Initiator, Library, Unit, dma};

/// Interference in closed form: docs/model-link.md.
pub struct Interference;

const KEYS: &[Key] = &[
    Key::profile("profile", "bf3", "the card"),
    Key::choice(
        "beside",
        &["dma", "engine"],
        "dma, engine",
        "what works beside the traffic: a stream of DMAs, or jobs of a compression engine",
    ),
    Key::amount(
        "intensity",
        Unit::Percent,
        (0.1, 100.0),
        "25, 50, 100",
        "of what the DMA engine could move; for `dma` only",
    ),
    Key::amount(
        "traffic",
        Unit::GbPerS,
        (0.001, 1000.0),
        "10 Gb/s",
        "what is forwarded when nothing else works",
    ),
];

impl Scenario for Interference {
    fn name(&self) -> &'static str {
        "interference"
    }

    fn about(&self) -> &'static str {
        "what forwarded traffic loses beside DMA, and does not lose beside engines"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, ScenarioError> {
        let (card, traffic) = (point.word("profile"), point.number("traffic"));
        if point.word("beside") == "engine" {
            return Ok(vec![Row {
                throughput: Some(Shown::given(
                    "traffic",
                    Unit::GbPerS,
                    Better::Higher,
                    traffic,
                )),
                notes: vec!["jobs of the engines do not cross the path of the traffic".into()],
                ..Row::default()
            }]);
        }
        let intensity = point.number("intensity");
        let loans = Loans::of(library, &[card]);
        let shares = |values: &crate::Values<'_>| {
            let peak = dma::peak(values, card, Initiator::Host)?;
            let link = values.get(&dma::of(card, "pcie.rate"))?;
            let demand = |bytes_per_s| Demand {
                bytes_per_s,
                weight: 1.0,
            };
            let shares = contention::shares(link, &[demand(traffic), demand(peak * intensity)]);
            Ok((shares[0], shares[1]))
        };
        let kept = loans.predict(Closeness::Application, |values| {
            let lost = contention::traffic_loss(values, card, intensity)?;
            Ok((traffic * (1.0 - lost)).min(shares(values)?.0))
        });
        // The doubt is about what is lost: what is kept is no more than what was there.
        let kept = kept.map(|mut kept| {
            kept.interval.high = kept.interval.high.min(traffic);
            kept
        });
        let loss = loans.predict(Closeness::Application, |values| {
            contention::traffic_loss(values, card, intensity)
        });
        let moved = loans.predict(Closeness::Card, |values| Ok(shares(values)?.1));
        Ok(vec![Row {
            throughput: Some(Shown::new("traffic", Unit::GbPerS, Better::Higher, kept)),
            more: vec![
                Shown::new("lost", Unit::Percent, Better::Lower, loss),
                Shown::new("DMA moves", Unit::GBPerS, Better::Higher, moved),
            ],
            bottleneck: Some("waiting on the card's path to memory".into()),
            ..Row::default()
        }])
    }
}
