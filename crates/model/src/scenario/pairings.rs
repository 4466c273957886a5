//! Clients and servers of a key-value store on hosts and cards.

use overside_config::Error;

use super::{Better, Key, Metric, Point, Row, Scenario};
use crate::kv::{self, Application, Design, Pairing, Setup, Submode, Testbed};
use crate::{Library, MissingParameter, Outcome, Unit};

/// Pairings of clients and servers.
pub struct Pairings;

/// The way past the card's Arm cores.
const OFF_PATH: &str = "off-path";

const KEYS: &[Key] = &[
    Key::profile("profile", "bf2-200g", "the card"),
    Key::choice(
        "store",
        &["herd", "mica"],
        "herd, mica",
        "HERD over RDMA or MICA over DPDK",
    ),
    Key::choice(
        "pairing",
        &["ch-sh", "ch-sd", "cd-sh", "cd-sd", "cdh-sh"],
        "ch-sh, ch-sd, cd-sh, cd-sd, cdh-sh",
        "clients (c) and server (s) on host (h) or card (d)",
    ),
    Key::amount(
        "gets",
        Unit::Percent,
        (0.0, 100.0),
        "100",
        "requests that are GETs",
    ),
    Key::choice(
        "submode",
        &[OFF_PATH, "sm1-2", "sm3", "sm4-5"],
        OFF_PATH,
        "what forwards to the host: mica with ch-sh only",
    ),
];

impl Scenario for Pairings {
    fn name(&self) -> &'static str {
        "pairings"
    }

    fn about(&self) -> &'static str {
        "clients and servers of a key-value store on host and card, against both on hosts"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let word = point.word("pairing");
        let pairing = Pairing::ALL.into_iter().find(|one| one.name() == word);
        let pairing = pairing.unwrap_or(Pairing::ChSh);
        let store = match point.word("store") {
            "herd" => Application::Herd,
            _ => Application::Mica,
        };
        let gets = point.number("gets");
        let card = point.word("profile");
        let submode = point.word("submode");
        let submode = Submode::ALL.into_iter().find(|one| one.name() == submode);
        if submode.is_some() && (store, pairing) != (Application::Mica, Pairing::ChSh) {
            let problem = format!(
                "{} with {} has no such figure",
                store.name(),
                pairing.name()
            );
            let allowed = format!("{OFF_PATH}, or store mica with pairing ch-sh");
            return Err(Error::of_key("submode", problem, allowed));
        }
        let asked = ScenarioArgs {
            card,
            store,
            pairing,
            gets,
        };
        Ok(vec![match submode {
            Some(submode) => on_path(&asked, submode, library),
            None => off_path(&asked, library),
        }])
    }
}

struct ScenarioArgs<'a> {
    card: &'a str,
    store: Application,
    pairing: Pairing,
    gets: f64,
}

impl ScenarioArgs<'_> {
    fn relative_rate(&self, bed: &Testbed<'_, '_>) -> Result<Outcome, MissingParameter> {
        Ok(Outcome {
            value: kv::relative_rate(bed, self.store, self.pairing, self.gets, false)?,
            bottleneck: Some(self.pairing.bottleneck().into()),
        })
    }
}

fn off_path(asked: &ScenarioArgs<'_>, library: &Library) -> Row {
    let absolute = kv::answer(library, asked.card, |bed| {
        if asked.store == Application::Herd {
            return Err(MissingParameter::parameter("kv.herd.rate"));
        }
        let host = kv::throughput_per_s(bed, &Setup::new(Design::CpuOnly, asked.gets))?;
        let relative = asked.relative_rate(bed)?;
        Ok(Outcome {
            value: host.value * relative.value,
            ..relative
        })
    });
    let relative = kv::answer(library, asked.card, |bed| asked.relative_rate(bed));
    let latency = kv::answer(library, asked.card, |bed| {
        kv::relative_latency(bed, asked.store, asked.pairing, asked.gets)
    });
    let on_host = !matches!(asked.pairing, Pairing::ChSd | Pairing::CdSd);
    let cores = kv::answer(library, asked.card, |bed| bed.cores());
    let cores = cores.map_or(8.0, |cores| cores.interval.typ);
    Row {
        bottleneck: Some(asked.pairing.bottleneck().into()),
        throughput: Some(Metric::new(
            "throughput",
            Unit::MopsPerS,
            Better::Higher,
            absolute,
        )),
        host_cores: Some(Metric::given(
            "host cores of the server",
            Unit::Count,
            Better::Lower,
            if on_host { cores } else { 0.0 },
        )),
        more: vec![
            Metric::new(
                "throughput over ch-sh",
                Unit::Count,
                Better::Higher,
                relative,
            ),
            Metric::new("latency over ch-sh", Unit::Count, Better::Lower, latency),
        ],
        ..Row::default()
    }
}

fn on_path(asked: &ScenarioArgs<'_>, submode: Submode, library: &Library) -> Row {
    let rate = kv::answer(library, asked.card, |bed| {
        kv::submode_rate_per_s(bed, submode)
    });
    let latency = kv::answer(library, asked.card, |bed| {
        kv::submode_latency_ns(bed, submode)
    });
    Row {
        throughput: Some(Metric::new(
            "throughput",
            Unit::MopsPerS,
            Better::Higher,
            rate,
        )),
        latency: Some(Metric::new(
            "latency at full load",
            Unit::Us,
            Better::Lower,
            latency,
        )),
        ..Row::default()
    }
}
