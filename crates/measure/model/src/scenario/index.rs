//! Index offload: a card holds a part of an index and answers look-ups beside the host.

use overside_config::Error;

use super::{Point, Row};
use crate::query::{evidence, index_gain};
use crate::{Answer, EvidenceLevel, Library, Prediction, Profile};

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let (card, host) = (point.word("profile"), point.word("host"));
    let cores = point.number_if_set("cores");
    let evidence = evidence(library, &[card, host]);
    let alone = evidence.predict(EvidenceLevel::Same, |v| v.get(&format!("{host}/index.lookup")));
    let gain = evidence.predict(EvidenceLevel::Application, |v| index_gain(v, card, cores, host));
    let over = gain.clone().and_then(|gain| gain.shifted(|gain| 1.0 + gain));
    // Cores are counted, not measured: there is no doubt about them.
    let host_cores = library.profile(host).and_then(Profile::cores);
    Ok(vec![Row {
        throughput: Some(point.metric("look-ups", together(&over, &alone))),
        host_cores: host_cores.map(|cores| point.given("host cores", cores)),
        more: vec![
            point.metric("gain", gain),
            point.metric("over the host alone", over),
            point.metric("host alone", alone),
        ],
        bottleneck: Some("cores of both".into()),
        notes: vec![
            "Both are kept busy: the card's part of the index is as large as its share of the look-ups.".into(),
        ],
        ..Row::default()
    }])
}

/// The look-ups of both. The doubt about the card's part is none about the host's: the interval is
/// that of the ratio and of the host's look-ups, and no wider.
fn together(over: &Answer, alone: &Answer) -> Answer {
    let parts = [over.clone()?, alone.clone()?];
    let interval = parts[0].interval.with(parts[1].interval, |over, alone| over * alone);
    Ok(Prediction { interval, ..Prediction::combined(&parts, |typ| typ[0] * typ[1])? })
}
