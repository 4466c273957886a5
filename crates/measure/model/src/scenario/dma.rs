//! Transfers between a host and its card: their initiator, how their end is noticed, how long they are.

use overside_config::Error;

use super::{Point, Row};
use crate::Completion;
use crate::dma::{
    self, Access, INLINE_BYTES, LONG_BYTES, Measured, Primitive, SHORT_BYTES, Transfer,
};
use crate::fallback::FallbackEvidence;
use crate::{EvidenceLevel, Initiator, Library};

fn transfer(point: &Point) -> Result<Transfer, Error> {
    let transfer = Transfer {
        primitive: point.choice("primitive"),
        initiator: match point.word("initiator") {
            "host" => Initiator::Host,
            _ => Initiator::Soc,
        },
        completion: point.choice("completion"),
        access: point.choice("access"),
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

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let transfer = transfer(point)?;
    let (card, cores) = (point.word("profile"), point.number("cores"));
    let depth = point.number_if_set("depth");
    let fallback = FallbackEvidence::of(library, &[card]);
    let near = dma::closeness(&fallback, card, &transfer);
    let relative = fallback.predict(near, |values| dma::latency(values, card, &transfer));
    let measured = Measured::of(library, card, &transfer);
    let near = match measured.latency {
        true => EvidenceLevel::Same,
        false => EvidenceLevel::Card,
    };
    let latency =
        fallback.predict(near, |values| dma::latency_ns(values, card, &transfer, measured));
    // A core that polls is busy all the time: there is no doubt about that.
    let polls = transfer.completion == Completion::Poll;
    let busy = |name: &str, cores: f64| {
        if polls {
            return point.given(name, cores);
        }
        let busy = fallback.predict(EvidenceLevel::Same, |values| {
            Ok(cores * dma::core_use(values, card, &transfer)?)
        });
        point.metric(name, busy)
    };
    let mut row = Row {
        latency: Some(point.metric("latency", latency)),
        more: vec![point.metric("over a short DMA", relative), busy("of a core", 1.0)],
        notes: vec![
            "\"over a short DMA\" is the latency over that of a polled DMA of 64 B on the same card"
                .to_owned(),
        ],
        ..Row::default()
    };
    let packets = fallback.own(|values| dma::packets(values, card, transfer.bytes));
    row.more.push(point.metric("packets", packets));
    if let Some(other) = point.word_if_set("other") {
        let both = FallbackEvidence::of(library, &[card, other]);
        let near = dma::over_card_closeness(&both, card, &transfer);
        let over = both.predict(near, |values| dma::over_card(values, card, other, &transfer));
        row.more.push(point.metric("over the other card", over));
    }
    if transfer.primitive == Primitive::Dma {
        let peak = fallback
            .predict(EvidenceLevel::Same, |values| dma::peak(values, card, transfer.initiator));
        row.more.push(point.metric("peak", peak));
        if transfer.completion == Completion::Event {
            let gap =
                fallback.own(|values| values.get(&dma::of(card, "dma.event.throughput.initiator")));
            row.more.push(point.metric("DMAs by the host over those by the card", gap));
        }
        let is_short = transfer.bytes <= SHORT_BYTES && cores == 1.0 && depth.is_none();
        let near =
            if is_short || measured.rate { EvidenceLevel::Same } else { EvidenceLevel::Card };
        let per_s = fallback
            .predict(near, |values| dma::per_s(values, card, &transfer, (cores, depth), measured));
        let near = match measured.rate {
            true => EvidenceLevel::Same,
            false => EvidenceLevel::Card,
        };
        let rate = fallback.predict(near, |values| {
            let mut outcome = dma::per_s(values, card, &transfer, (cores, depth), measured)?;
            outcome.value *= transfer.bytes;
            Ok(outcome)
        });
        let link = (fallback
            .predict(EvidenceLevel::Same, |values| values.get(&dma::of(card, "pcie.rate"))))
        .map_or(f64::INFINITY, |link| link.interval.typ);
        // Nothing moves faster than the link, whatever the doubt.
        row.throughput = Some(point.metric("DMAs", per_s).at_most(link / transfer.bytes));
        row.more.push(point.metric("moved", rate).at_most(link));
    } else {
        row.notes.push("no rate of RDMA between a host and its own card was published".into());
        if transfer.access == Access::Write && transfer.bytes >= LONG_BYTES {
            let words = "long writes: RDMA is taken to be as fast as DMA. Published in words only: \
                         slower on a BlueField-2 (8 MB), faster on a BlueField-3 (2 MB)";
            row.notes.push(words.into());
        }
    }
    row.host_cores = Some(match transfer.initiator {
        Initiator::Soc => point.given("host cores", 0.0),
        Initiator::Host => busy("host cores", cores),
    });
    Ok(vec![row])
}
