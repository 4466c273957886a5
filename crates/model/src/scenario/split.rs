//! One input shared between a CPU core and a compression engine.

use overside_config::Error;

use super::{Better, Key, Method, Metric, Point, Row, Scenario};
use crate::claims::split::{Asked, Codec, Driver, Figures, Way, answer};
use crate::{Library, Setting, Unit};

/// Co-processing in closed form: docs/model-fields.md.
pub struct SplitScenario;

const KEYS: &[Key] = &[
    Key::choice(
        "codec",
        &["deflate", "lz4"],
        "deflate",
        "DEFLATE on a BlueField-2, inputs of 2 MiB; LZ4 on a BlueField-3, whole files",
    ),
    Key::choice(
        "direction",
        &["compress", "decompress"],
        "decompress",
        "which way",
    ),
    Key::amount(
        "share",
        Unit::Percent,
        (0.0, 100.0),
        "0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100",
        "share of the bytes on the engine",
    ),
    Key::choice(
        "setting",
        &["static", "reconfiguration"],
        "static, reconfiguration",
        "whether a context is kept, or set up for each input",
    ),
    Key::choice(
        "initiator",
        &["host", "card"],
        "host",
        "whose cores drive the engine and do the CPU's part",
    ),
];

impl Scenario for SplitScenario {
    fn name(&self) -> &'static str {
        "split"
    }

    fn about(&self) -> &'static str {
        "One input shared between a CPU core and a compression engine, mean over a corpus"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let is = |key: &str, word: &str| point.word(key) == word;
        let asked = Asked {
            codec: if is("codec", "lz4") {
                Codec::Lz4
            } else {
                Codec::Deflate
            },
            way: if is("direction", "compress") {
                Way::Compress
            } else {
                Way::Decompress
            },
            driver: if is("initiator", "card") {
                Driver::Card
            } else {
                Driver::Host
            },
            setting: if is("setting", "static") {
                Setting::Static
            } else {
                Setting::Reconfiguration
            },
        };
        if asked.codec == Codec::Lz4 && asked.way == Way::Compress {
            let problem = "no card of the studies compresses LZ4";
            return Err(Error::of_key("direction", problem, "decompress with lz4"));
        }
        let share = point.number("share");
        let ask = |figure| answer(library, asked, figure);
        let mut notes = vec![
            "bytes of the uncompressed side; arithmetic mean over the Silesia files of size over time"
                .to_owned(),
        ];
        let mut more = Vec::new();
        match ask(Figures::Best) {
            Err(none) if none.why == "the formula gives 0" => {
                notes.push(format!(
                    "with {}, nothing on the engine is best",
                    point.word("setting")
                ));
            }
            best => more.push(Metric::new(
                "best share",
                Unit::Percent,
                Better::Neither,
                best,
            )),
        }
        // Of nothing on the engine nothing is saved.
        if share > 0.0 {
            more.push(Metric::new(
                "CPU time saved",
                Unit::Percent,
                Better::Higher,
                ask(Figures::Saved(share)),
            ));
        }
        let throughput = ask(Figures::Throughput(share));
        let latency = ask(Figures::Time(share));
        Ok(vec![Row {
            method: Method::ClosedForm,
            throughput: Some(Metric::new(
                "throughput",
                Unit::MiBPerS,
                Better::Higher,
                throughput,
            )),
            latency: Some(Metric::new("time", Unit::Ms, Better::Lower, latency)),
            host_cores: Some(Metric::given(
                "host cores",
                Unit::Count,
                Better::Lower,
                if asked.driver == Driver::Host {
                    1.0
                } else {
                    0.0
                },
            )),
            more,
            notes,
            ..Row::default()
        }])
    }
}
