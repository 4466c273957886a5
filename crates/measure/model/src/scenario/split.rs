//! One input shared between a CPU core and a compression engine.

use overside_config::Error;

use super::{Point, Row};
use crate::Library;
use crate::split::published::{Codec, Direction, Driver, Figures, SplitQuestion, answer};

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let is = |key: &str, word: &str| point.word(key) == word;
    let asked = SplitQuestion {
        codec: if is("codec", "lz4") { Codec::Lz4 } else { Codec::Deflate },
        way: if is("direction", "compress") { Direction::Compress } else { Direction::Decompress },
        driver: if is("initiator", "card") { Driver::Card } else { Driver::Host },
        setting: point.choice("setting"),
        host: point.word_if_set("host"),
    };
    if asked.codec == Codec::Lz4 && asked.way == Direction::Compress {
        let problem = "no card of the studies compresses LZ4";
        return Err(Error::of_key("direction", problem, "decompress with lz4"));
    }
    let share = point.number("share");
    let ask = |figure| answer(library, asked, figure);
    let mut notes = vec![
        "bytes of the uncompressed side; arithmetic mean over the Silesia files of size over time"
            .to_owned(),
    ];
    if asked.host.is_some() {
        notes.push(
            "the study compresses with zlib level 6; another host's core does what is known of its zlib"
                .to_owned(),
        );
    }
    let mut more = Vec::new();
    match ask(Figures::Best) {
        Err(none) if none.why == "the formula gives 0" => {
            let (way, setting) = (point.word("direction"), point.word("setting"));
            notes.push(format!("{way}, {setting}: nothing on the engine is best"));
        }
        best => more.push(point.metric("best share", best)),
    }
    // Of nothing on the engine nothing is saved.
    if share > 0.0 {
        more.push(point.metric("CPU time saved", ask(Figures::Saved(share))));
    }
    let host_cores = f64::from(u8::from(asked.driver == Driver::Host));
    Ok(vec![Row {
        throughput: Some(point.metric("throughput", ask(Figures::Throughput(share)))),
        latency: Some(point.metric("time", ask(Figures::Time(share)))),
        host_cores: Some(point.given("host cores", host_cores)),
        more,
        notes,
        ..Row::default()
    }])
}
