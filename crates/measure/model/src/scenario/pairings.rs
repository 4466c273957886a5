//! Clients and servers of a key-value store on hosts and cards.

use overside_config::Error;

use super::{Metric, Point, Row};
use crate::kv::{self, Application, Design, Pairing, Setup, Submode, Testbed};
use crate::{Evaluation, EvidenceLevel, Library, MissingParameter, Outcome};

/// The way past the card's Arm cores.
const OFF_PATH: &str = "off-path";

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let pairings =
        Pairings { point, library, store: point.choice("store"), pairing: point.choice("pairing") };
    let (store, pairing) = (pairings.store, pairings.pairing);
    if point.word("submode") == OFF_PATH {
        return Ok(vec![pairings.off_path(point.number("gets"))]);
    }
    if (store, pairing) != (Application::Mica, Pairing::ChSh) {
        let (store, pairing) = (store.name(), pairing.name());
        let problem = format!("{store} with {pairing} has no such figure");
        let allowed = format!("{OFF_PATH}, or store mica with pairing ch-sh");
        return Err(Error::of_key("submode", problem, allowed));
    }
    Ok(vec![pairings.on_path(point.choice("submode"))])
}

/// A point, read.
struct Pairings<'a> {
    point: &'a Point,
    library: &'a Library,
    store: Application,
    pairing: Pairing,
}

impl Pairings<'_> {
    fn metric<O: Into<Outcome>>(
        &self,
        name: &str,
        formula: impl Fn(&Testbed<'_, '_>) -> Evaluation<O>,
    ) -> Metric {
        let card = self.point.word("profile");
        (self.point).metric(name, kv::answer(self.library, card, formula))
    }

    fn relative_rate(&self, bed: &Testbed<'_, '_>, gets: f64) -> Evaluation<Outcome> {
        Ok(Outcome {
            value: kv::relative_rate(bed, self.store, self.pairing, gets, false)?,
            bottleneck: Some(self.pairing.bottleneck().into()),
        })
    }

    fn off_path(&self, gets: f64) -> Row {
        let throughput = self.metric("throughput", |bed| {
            if self.store == Application::Herd {
                return Err(MissingParameter::parameter("kv.herd.rate"));
            }
            let host = kv::throughput_per_s(bed, &Setup::new(Design::CpuOnly, gets))?;
            let relative = self.relative_rate(bed, gets)?;
            Ok(Outcome { value: host.value * relative.value, ..relative })
        });
        let on_host = !matches!(self.pairing, Pairing::ChSd | Pairing::CdSd);
        let cores = kv::answer(self.library, self.point.word("profile"), |bed| bed.cores());
        let cores = cores.map_or(8.0, |cores| cores.interval.typ);
        let host_cores = if on_host { cores } else { 0.0 };
        let most = self.metric("throughput over ch-sh, where they differ most", |bed| {
            kv::relative_rate(bed, self.store, self.pairing, gets, true)
        });
        let mut more = vec![most];
        match self.pairing {
            Pairing::ChSh => more.extend(self.generations(gets)),
            Pairing::ChSd if self.store == Application::Mica => more.extend([
                self.metric("throughput over ch-sh behind a BF-2", |bed| {
                    kv::soc_against_older_host(bed, gets, false)
                }),
                self.metric("latency over ch-sh behind a BF-2", |bed| {
                    kv::soc_against_older_host(bed, gets, true)
                }),
            ]),
            _ => {}
        }
        Row {
            bottleneck: Some(self.pairing.bottleneck().into()),
            throughput: Some(throughput),
            host_cores: Some(self.point.given("host cores of the server", host_cores)),
            more: [
                self.metric("throughput over ch-sh", |bed| self.relative_rate(bed, gets)),
                self.metric("latency over ch-sh", |bed| {
                    kv::relative_latency(bed, self.store, self.pairing, gets)
                }),
            ]
            .into_iter()
            .chain(more)
            .collect(),
            ..Row::default()
        }
    }

    /// Both on hosts: against the cards before, and the share of a core for hashing.
    fn generations(&self, gets: f64) -> Vec<Metric> {
        let share = |side: &str| {
            let name = format!("hash.{}.{side}", self.store.name());
            move |bed: &Testbed<'_, '_>| bed.pairing_host(&name)
        };
        let mut more = vec![
            self.metric("hash share on the host", share("host")),
            self.metric("hash share on the card", share("soc")),
        ];
        if self.point.word("profile") == "bf3-8c" {
            more.push(self.metric("throughput over the generation before", |bed| {
                kv::generation_gain(bed, self.store, gets, false)
            }));
            more.push(self.metric("latency of the generation before over it", |bed| {
                kv::generation_gain(bed, self.store, gets, true)
            }));
        }
        more
    }

    fn on_path(&self, submode: Submode) -> Row {
        let rate = self.metric("throughput", |bed| {
            // Published as a ratio to the slowest only.
            if submode != Submode::SoftwareSwitch {
                bed.weaken_evidence(EvidenceLevel::Card);
            }
            kv::submode_rate_per_s(bed, submode)
        });
        let latency =
            self.metric("latency at full load", |bed| kv::submode_latency_ns(bed, submode));
        Row { throughput: Some(rate), latency: Some(latency), ..Row::default() }
    }
}
