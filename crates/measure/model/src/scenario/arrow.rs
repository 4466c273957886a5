//! Arrow tables: serialised through a card's engine instead of a host's codec, or partitioned.

use overside_config::Error;

use super::{Point, Row};
use crate::Library;
use crate::arrow::{Against, Figures, Threads, answer};

fn chosen(point: &Point, key: &str, words: [&'static str; 2]) -> &'static str {
    if point.word(key) == words[0] { words[0] } else { words[1] }
}

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let ratio =
        |name: &str, figure| point.metric(name, answer(library, point.word("host"), figure));
    let data = point.word_if_set("data");
    let mut notes = vec![
        "No published fact gives bytes a second of these tasks: what follows compares the card with the host"
            .to_owned(),
    ];
    if point.word("task") == "partition" {
        let more = vec![ratio("host over card", Figures::Partition)];
        return Ok(vec![Row { more, notes, ..Row::default() }]);
    }
    let codec = match point.word("codec") {
        "none" => "none",
        _ => chosen(point, "codec", ["lz4", "zstd"]),
    };
    let against = Against {
        way: chosen(point, "task", ["serialise", "deserialise"]),
        codec,
        threads: match (point.word("threads"), point.number_if_set("threads")) {
            ("one" | "1", _) => Threads::One,
            (_, Some(count)) => Threads::Count(count),
            _ => Threads::All,
        },
        data,
        host: point.word("host"),
    };
    let by_card = point.word("initiator") == "card";
    let speedup = if by_card { Figures::FromCard(against) } else { Figures::Speedup(against) };
    let mut more = Vec::new();
    if codec != "none" && by_card {
        more.push(ratio("engine over the card's cores", Figures::OverCard(against)));
        notes.push("what drives the engine from the card is of another study's BlueField-2".into());
    }
    if codec != "none" {
        more.extend([
            ratio("engine over host", speedup),
            ratio("left by the engine", Figures::Left("deflate", data)),
            ratio("left by the host", Figures::Left(codec, data)),
        ]);
    }
    let is_timed = codec != "none" || against.threads == Threads::One;
    if against.way == "serialise" && is_timed && matches!(data, None | Some("particles")) {
        let particles = Against { data: Some("particles"), ..against };
        more.push(ratio("time on the host", Figures::Time(particles)));
        notes.push("\"time on the host\" is of its study's table of particles".into());
    }
    Ok(vec![Row { more, notes, ..Row::default() }])
}
