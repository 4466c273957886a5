//! Arrow tables: serialised through a card's engine instead of a host's codec, or partitioned.

use overside_config::Error;

use super::{Better, Key, Method, Metric, Point, Row, Scenario};
use crate::claims::arrow::{Figures, answer};
use crate::{Library, Unit};

/// Arrow tables in closed form: docs/model-fields.md.
pub struct Arrow;

const KEYS: &[Key] = &[
    Key::choice(
        "task",
        &["serialise", "deserialise", "partition"],
        "serialise, deserialise, partition",
        "what is done with the table",
    ),
    Key::choice(
        "codec",
        &["lz4", "zstd"],
        "lz4, zstd",
        "what the host compresses with instead; not for partitions",
    ),
    Key::choice(
        "threads",
        &["one", "all"],
        "one, all",
        "threads of the host; not for partitions",
    ),
];

fn chosen(point: &Point, key: &str, words: [&'static str; 2]) -> &'static str {
    if point.word(key) == words[0] {
        words[0]
    } else {
        words[1]
    }
}

impl Scenario for Arrow {
    fn name(&self) -> &'static str {
        "arrow"
    }

    fn about(&self) -> &'static str {
        "Arrow tables through a card's DEFLATE engine, or partitioned on its cores, against the host"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let codec = chosen(point, "codec", ["lz4", "zstd"]);
        let threads = chosen(point, "threads", ["one", "all"]);
        let ratio = |name: &str, better, figure| {
            Metric::new(name, Unit::Count, better, answer(library, figure))
        };
        let mut notes = vec![
            "No published fact gives bytes a second of these tasks: what follows compares the card with the host"
                .to_owned(),
        ];
        let more = if point.word("task") == "partition" {
            notes.push("partitioning does not depend on the codec or its threads".into());
            vec![ratio("host over card", Better::Neither, Figures::Partition)]
        } else {
            let task = chosen(point, "task", ["serialise", "deserialise"]);
            let speedup = Figures::Speedup(task, codec, threads);
            vec![
                ratio("engine over host", Better::Higher, speedup),
                ratio(
                    "left by the engine",
                    Better::Lower,
                    Figures::Left("deflate"),
                ),
                ratio("left by the host", Better::Lower, Figures::Left(codec)),
            ]
        };
        Ok(vec![Row {
            method: Method::ClosedForm,
            more,
            notes,
            ..Row::default()
        }])
    }
}
