//! Index offload: a card holds a part of an index and answers look-ups beside the host.

use overside_config::Error;

use super::{Point, Row};
use crate::query::{evidence, index_gain};
use crate::{EvidenceLevel, Library, Profile};

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let (card, host) = (point.word("profile"), point.word("host"));
    let cores = point.number_if_set("cores");
    let evidence = evidence(library, &[card, host]);
    let near = EvidenceLevel::Application;
    let alone = format!("{host}/index.lookup");
    let both =
        evidence.predict(near, |v| Ok((1.0 + index_gain(v, card, cores, host)?) * v.get(&alone)?));
    let gain = evidence.predict(near, |v| index_gain(v, card, cores, host));
    // Cores are counted, not measured: there is no doubt about them.
    let host_cores = library.profile(host).and_then(Profile::cores);
    let alone = evidence.predict(EvidenceLevel::Same, |v| v.get(&alone));
    Ok(vec![Row {
        throughput: Some(point.metric("look-ups", both)),
        host_cores: host_cores
            .map(|cores| point.given("host cores", cores)),
        more: vec![
            point.metric("gain", gain),
            point.metric("host alone", alone),
        ],
        bottleneck: Some("cores of both".into()),
        notes: vec![
            "Both are kept busy: the card's part of the index is as large as its share of the look-ups.".into(),
        ],
        ..Row::default()
    }])
}
