//! Index offload: a card holds a part of an index and answers look-ups beside the host.

use overside_config::Error;

use super::{Better, Key, Metric, Point, Row, Scenario};
use crate::query::{evidence, index_gain};
use crate::{EvidenceLevel, Library, Unit};

/// An index on host and card in closed form: docs/model-machine.md.
pub struct Index;

const KEYS: &[Key] = &[
    Key::profile("profile", "bf3", "the card that holds a part"),
    Key::profile("host", "host-dpbento", "the host that holds the rest"),
    Key::count(
        "cores",
        1,
        1024,
        "",
        "cores of the card that look up; all where it is not set",
    ),
];

impl Scenario for Index {
    fn name(&self) -> &'static str {
        "index"
    }

    fn about(&self) -> &'static str {
        "uniform look-ups in a B+tree of which a card holds a part, against the host alone"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let (card, host) = (point.word("profile"), point.word("host"));
        let cores = point.number_if_set("cores");
        let evidence = evidence(library, &[card, host]);
        let near = EvidenceLevel::Application;
        let alone = format!("{host}/index.lookup");
        let both = evidence.predict(near, |v| {
            Ok((1.0 + index_gain(v, card, cores, host)?) * v.get(&alone)?)
        });
        let gain = evidence.predict(near, |v| index_gain(v, card, cores, host));
        // Cores are counted, not measured: there is no doubt about them.
        let host_cores = (library.profile(host))
            .and_then(|one| one.values.get("cpu.cores"))
            .map(|cores| cores.interval().typ);
        let alone = evidence.predict(EvidenceLevel::Same, |v| v.get(&alone));
        Ok(vec![Row {
            throughput: Some(Metric::new("look-ups", Unit::MopsPerS, Better::Higher, both)),
            host_cores: host_cores
                .map(|cores| Metric::given("host cores", Unit::Count, Better::Lower, cores)),
            more: vec![
                Metric::new("gain", Unit::Percent, Better::Higher, gain),
                Metric::new("host alone", Unit::MopsPerS, Better::Higher, alone),
            ],
            bottleneck: Some("cores of both".into()),
            notes: vec![
                "Both are kept busy: the card's part of the index is as large as its share of the look-ups.".into(),
            ],
            ..Row::default()
        }])
    }
}
