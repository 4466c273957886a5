//! Key-value stores whose engines run on the host, on the card, or on both.

use std::cell::Cell;

use overside_config::Error;

use super::{Better, Key, Method, Metric, Point, Row, Scenario, simulated};
use crate::kv::{self, Clients, Design, Keys, Message, Setup, Sides, Testbed};
use crate::{Answer, EvidenceLevel, Library, MissingParameter, NoPrediction, Outcome, Unit};

/// Bytes that a request takes of a DMA: a slot of the study's queue pairs.
const SLOT_BYTES: f64 = 32.0;
/// Requests of the study's batch.
const BATCH: f64 = 64.0;
/// The most requests that one point simulates.
const REQUESTS_MAX: u64 = 100_000_000;

/// Designs of key-value stores.
pub struct Kv;

const KEYS: &[Key] = &[
    Key::profile("profile", "bf2-200g", "the card"),
    Key::choice(
        "design",
        &["cpu-only", "dpu-only", "lat", "sav", "dual", "shrd"],
        "cpu-only, dpu-only, lat, sav, dual, shrd",
        "where the engines run: docs/model-kv.md",
    ),
    Key::amount(
        "gets",
        Unit::Percent,
        (0.0, 100.0),
        "100",
        "requests that are GETs; 50, 95 and 100 are YCSB A, B and C",
    ),
    Key::count(
        "host_cores",
        1,
        256,
        "",
        "host cores that serve; the study's number if not set",
    ),
    Key::count(
        "arm_cores",
        1,
        256,
        "",
        "Arm cores that serve; all if not set",
    ),
    Key::count(
        "batch",
        1,
        65_536,
        "64",
        "requests that one DMA hands over, of 32 bytes each",
    ),
    Key::amount(
        "load",
        Unit::MopsPerS,
        (0.001, 10_000.0),
        "",
        "what clients send, answered or not; as fast as they are answered if not set",
    ),
    Key::count(
        "in_flight",
        1,
        1_000_000,
        "",
        "requests that clients keep in flight without a load; the study's number if not set",
    ),
    Key::amount(
        "skew",
        Unit::Count,
        (0.0, 2.0),
        "0",
        "exponent of the keys' frequencies; YCSB's zipf has 0.99",
    ),
    Key::count("keys", 1, 1_000_000_000_000, "192000000", "keys"),
    Key::count(
        "queue",
        1,
        1_000_000,
        "1024",
        "requests that wait in front of a core under a load; more are dropped",
    ),
    Key::count(
        "requests",
        0,
        REQUESTS_MAX,
        "0",
        "requests to simulate; 0 is the closed form alone",
    ),
    Key::count("seed", 0, u64::MAX, "1", "of the simulation"),
];

/// A point, read.
struct Question<'a> {
    card: &'a str,
    setup: Setup,
    keys: Keys,
    load_per_s: Option<f64>,
    in_flight: Option<f64>,
    queue: usize,
}

impl<'a> Question<'a> {
    fn of(point: &'a Point) -> Self {
        let word = point.word("design");
        let design = Design::ALL.into_iter().find(|one| one.name() == word);
        let batch = point.number("batch");
        Self {
            card: point.word("profile"),
            setup: Setup {
                // The key takes the names of designs only.
                design: design.unwrap_or(Design::CpuOnly),
                gets: point.number("gets"),
                host_cores: point.number_if_set("host_cores"),
                soc_cores: point.number_if_set("arm_cores"),
                dma_bytes: (batch != BATCH).then_some(batch * SLOT_BYTES),
            },
            keys: Keys {
                count: point.count("keys"),
                skew: point.number("skew"),
            },
            load_per_s: point.number_if_set("load"),
            in_flight: point.number_if_set("in_flight"),
            queue: point.count("queue") as usize,
        }
    }

    /// What each side serves, all parameters at their typical values.
    fn sides(&self, library: &Library) -> Result<Sides, NoPrediction> {
        let typical = Cell::new(None);
        kv::answer(library, self.card, |bed| {
            let sides = kv::sides(bed, &self.setup)?;
            // The first evaluation is the typical one.
            typical.set(typical.get().or(Some(sides)));
            Ok(sides.total_per_s())
        })?;
        typical.get().ok_or_else(|| NoPrediction {
            why: "the formula was not evaluated".into(),
            remedy: "look at the parameters' values: `overside profile show`".into(),
        })
    }

    /// Requests a second; of those that are sent, no more than can be answered.
    fn throughput(&self, library: &Library, evenness: f64) -> Answer {
        kv::answer(library, self.card, |bed| {
            let limit = self.limit(bed, evenness)?;
            Ok(match self.load_per_s {
                Some(load) if load < limit.value => Outcome {
                    value: load,
                    bottleneck: Some("the load".into()),
                },
                _ => limit,
            })
        })
    }

    fn limit(&self, bed: &Testbed<'_, '_>, evenness: f64) -> Result<Outcome, MissingParameter> {
        let mut sides = kv::sides(bed, &self.setup)?;
        sides.host_per_s *= evenness;
        sides.soc_per_s *= evenness;
        if evenness < 0.99 {
            // Published under skewed keys only together with updates.
            bed.weaken_evidence(EvidenceLevel::Application);
            sides.bottleneck = "the core with the most wanted keys";
        }
        Ok(Outcome {
            value: sides.total_per_s(),
            bottleneck: Some(sides.bottleneck.into()),
        })
    }

    /// Mean latency under full load, or the time in the server under a load.
    fn latency(&self, library: &Library, evenness: f64) -> Answer {
        let Some(load) = self.load_per_s else {
            return kv::answer(library, self.card, |bed| {
                let limit = self.limit(bed, evenness)?;
                let value = match self.in_flight {
                    Some(in_flight) => in_flight / limit.value * 1e9,
                    None => kv::latency_ns(bed, &self.setup, false)?.value / evenness,
                };
                Ok(Outcome { value, ..limit })
            });
        };
        if self.keys.skew > 0.0 {
            return Err(NoPrediction {
                why: "there is no formula for skewed keys under a load".into(),
                remedy: "simulate it: set `requests`".into(),
            });
        }
        let sides = self.sides(library)?;
        if load >= sides.total_per_s() {
            return Err(NoPrediction {
                why: "more is sent than can be answered, so that queues grow until they are full"
                    .into(),
                remedy: "ask for a lower load, or simulate it: set `requests`".into(),
            });
        }
        kv::answer(library, self.card, |bed| {
            bed.weaken_evidence(EvidenceLevel::Application);
            Ok(in_server_ns(&kv::sides(bed, &self.setup)?, load))
        })
    }

    /// What clients do in a simulation.
    fn clients(&self, latency: &Answer, throughput: &Answer) -> Clients {
        if let Some(per_s) = self.load_per_s {
            let queue = self.queue;
            return Clients::Open { per_s, queue };
        }
        let published = || {
            let latency_ns = latency.as_ref().ok()?.interval.typ;
            Some(latency_ns * throughput.as_ref().ok()?.interval.typ / 1e9)
        };
        let in_flight = self.in_flight.or_else(published).unwrap_or(1024.0);
        Clients::Closed {
            in_flight: (in_flight.round() as u64).max(1),
        }
    }
}

/// Mean time in the server when requests arrive at random: each core is a queue of its own whose
/// service takes a fixed time (M/D/1).
fn in_server_ns(sides: &Sides, load: f64) -> f64 {
    let queue = |cores: f64, per_s: f64, share: f64| {
        let (service_ns, busy) = (cores / per_s * 1e9, (load * share / per_s).min(0.999));
        service_ns * (1.0 + busy / (2.0 * (1.0 - busy)))
    };
    let soc_share = sides.soc_per_s / (sides.soc_per_s + sides.host_per_s);
    let mut mean = 0.0;
    if soc_share > 0.0 {
        mean += soc_share * queue(sides.soc_cores, sides.soc_per_s, soc_share);
    }
    if soc_share < 1.0 {
        let share = 1.0 - soc_share;
        mean += share * queue(sides.host_cores, sides.host_per_s, share);
    }
    if let Some(per_s) = sides.processing_per_s {
        // Arm cores hand requests over at even intervals; with a core each nothing waits.
        let service_ns = sides.host_cores / per_s * 1e9;
        mean += if sides.host_cores < sides.soc_cores {
            queue(sides.host_cores, per_s, 1.0)
        } else {
            service_ns
        };
    }
    mean
}

impl Scenario for Kv {
    fn name(&self) -> &'static str {
        "kv"
    }

    fn about(&self) -> &'static str {
        "key-value stores with both engines on the host or the card, or communication offloaded"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn events(&self, point: &Point) -> u64 {
        kv::events(point.count("requests"))
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let asked = Question::of(point);
        if asked.load_per_s.is_some() && asked.in_flight.is_some() {
            let problem = "clients either send a load or wait for their answers";
            return Err(Error::of_key(
                "in_flight",
                problem,
                "`load` or `in_flight`, not both",
            ));
        }
        let sides = asked.sides(library);
        let evenness = (sides.as_ref()).map_or(1.0, |sides| kv::evenness(sides, &asked.keys));
        let mut row = closed_form(&asked, library, &sides, evenness);
        let requests = point.count("requests");
        if let (Ok(sides), true) = (&sides, requests > 0) {
            simulate(&mut row, &asked, sides, requests, point.count("seed"))?;
        }
        Ok(vec![row])
    }
}

fn closed_form(
    asked: &Question<'_>,
    library: &Library,
    sides: &Result<Sides, NoPrediction>,
    evenness: f64,
) -> Row {
    let throughput = asked.throughput(library, evenness);
    let latency = asked.latency(library, evenness);
    let name = if asked.load_per_s.is_some() {
        "time in the server"
    } else {
        "latency"
    };
    let mut row = Row {
        throughput: Some(Metric::new(
            "throughput",
            Unit::MopsPerS,
            Better::Higher,
            throughput,
        )),
        latency: Some(Metric::new(name, Unit::Us, Better::Lower, latency)),
        ..Row::default()
    };
    if let Ok(sides) = sides {
        let given = |name, cores| Metric::given(name, Unit::Count, Better::Lower, cores);
        row.host_cores = Some(given("host cores", sides.host_cores));
        row.more.push(given("Arm cores", sides.soc_cores));
    }
    let (name, less) = ("PCIe bytes a request", Better::Lower);
    row.more.push(match asked.setup.design {
        Design::DpuOnly => Metric::given(name, Unit::B, less, 0.0),
        _ => Metric::new(name, Unit::B, less, pcie_bytes(asked, library)),
    });
    if asked.keys.skew > 0.0 {
        row.notes.push(
            "Skewed keys: each core serves its own partitions, all requests at the same cost. \
             Caches answer for wanted keys faster, for which there is no published figure: the \
             throughput is a lower bound."
                .into(),
        );
    }
    if asked.load_per_s.is_some() {
        row.notes.push(
            "Time in the server: no published fact gives the network's part of an unloaded \
             request."
                .into(),
        );
    }
    row
}

/// Bytes that a request and its response move between card and host.
fn pcie_bytes(asked: &Question<'_>, library: &Library) -> Answer {
    let gets = asked.setup.gets;
    kv::answer(library, asked.card, |bed| {
        let packets = |bed: &Testbed<'_, '_>| {
            let of = |message: Message| message.packet_bytes(bed, 8.0, 8.0);
            let get = of(Message::GetRequest)? + of(Message::GetResponse)?;
            let set = of(Message::SetRequest)? + of(Message::SetResponse)?;
            Ok::<_, MissingParameter>(gets * get + (1.0 - gets) * set)
        };
        let slots = Message::GetRequest.slot_bytes() + Message::GetResponse.slot_bytes();
        let sides = kv::sides(bed, &asked.setup)?;
        let host_share = sides.host_per_s / (sides.host_per_s + sides.soc_per_s);
        match asked.setup.design {
            Design::CpuOnly => packets(bed),
            Design::Latency | Design::Saving => Ok(slots),
            Design::Dual => Ok(host_share * packets(bed)? + (1.0 - host_share) * slots),
            Design::Sharded => Ok(host_share * packets(bed)?),
            // There is nothing to move: the formula is not asked.
            Design::DpuOnly => Ok(0.0),
        }
    })
}

fn simulate(
    row: &mut Row,
    asked: &Question<'_>,
    sides: &Sides,
    requests: u64,
    seed: u64,
) -> Result<(), Error> {
    let (Some(throughput), Some(latency)) = (&mut row.throughput, &mut row.latency) else {
        return Ok(());
    };
    let clients = asked.clients(&latency.answer, &throughput.answer);
    let result = kv::simulate(sides, clients, &asked.keys, requests, seed).map_err(|error| {
        Error::of_key("requests", error.to_string(), "less load or fewer requests")
    })?;
    let Ok(closed) = &throughput.answer else {
        return Ok(());
    };
    // A time is as doubtful as the rate that it comes from.
    let doubt = latency.answer.as_ref().unwrap_or(closed).clone();
    let mean_ns = result.latencies.mean_ns();
    let high_ns = result.latencies.quantile_ns(0.99) as f64;
    throughput.answer = Ok(simulated(closed, result.per_s));
    latency.answer = Ok(simulated(&doubt, mean_ns));
    row.method = Method::Simulated;
    row.more.push(Metric::new(
        "99th percentile",
        Unit::Us,
        Better::Lower,
        Ok(simulated(&doubt, high_ns)),
    ));
    let dropped = result.dropped as f64 / requests as f64;
    row.more.push(Metric::given(
        "dropped",
        Unit::Percent,
        Better::Lower,
        dropped,
    ));
    Ok(())
}
