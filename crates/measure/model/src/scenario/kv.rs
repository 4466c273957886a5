//! Key-value stores whose engines run on the host, on the card, or on both.

use std::cell::OnceCell;

use overside_config::Error;

use super::{Method, Point, Row, simulated};
use crate::kv::{self, Clients, Design, Keys, Message, Setup, Sides, Testbed};
use crate::{
    Answer, Evaluation, EvidenceLevel, Interval, Library, NoPrediction, Outcome, Prediction,
};

/// Bytes that a request takes of a DMA: a slot of the study's queue pairs.
const SLOT_BYTES: f64 = 32.0;
/// Requests of the study's batch.
const BATCH: f64 = 64.0;

/// A point, read.
struct KvPoint<'a> {
    point: &'a Point,
    card: &'a str,
    setup: Setup,
    keys: Keys,
    load_per_s: Option<f64>,
    in_flight: Option<f64>,
    queue: usize,
}

impl<'a> KvPoint<'a> {
    fn of(point: &'a Point) -> Self {
        let buffer = point.number_if_set("dma_buffer");
        let batch = buffer
            .map_or_else(|| point.number("batch"), |bytes| (bytes / SLOT_BYTES).floor().max(1.0));
        Self {
            point,
            card: point.word("profile"),
            setup: Setup {
                design: point.choice("design"),
                gets: point.number("gets"),
                host_cores: point.number_if_set("host_cores"),
                soc_cores: point.number_if_set("arm_cores"),
                dma_bytes: (batch != BATCH).then_some(batch * SLOT_BYTES),
            },
            keys: Keys { count: point.count("keys"), skew: point.number("skew") },
            load_per_s: point.number_if_set("load"),
            in_flight: point.number_if_set("in_flight"),
            queue: point.count("queue") as usize,
        }
    }

    /// Computes the rate of each side, with all parameters at their typical values.
    fn sides(&self, library: &Library) -> Result<Sides, NoPrediction> {
        self.typical(library, |bed| kv::sides(bed, &self.setup))
    }

    /// Sets as many host cores as the load needs, unless the question gives their number.
    fn with_cores_for_load(mut self, library: &Library) -> Self {
        if let Some(load) = self.load_per_s
            && let Ok(setup) =
                self.typical(library, |bed| kv::with_cores_for(bed, &self.setup, load))
        {
            self.setup = setup;
        }
        self
    }

    /// A formula, all parameters at their typical values.
    fn typical<T: Copy>(
        &self,
        library: &Library,
        formula: impl Fn(&Testbed<'_, '_>) -> Evaluation<T>,
    ) -> Result<T, NoPrediction> {
        let typical = OnceCell::new();
        kv::answer(library, self.card, |bed| {
            // The first evaluation is the typical one.
            let value = formula(bed)?;
            typical.get_or_init(|| value);
            Ok(1.0)
        })?;
        typical.into_inner().ok_or_else(NoPrediction::not_evaluated)
    }

    /// Requests a second; of those that are sent, no more than can be answered.
    fn throughput(&self, library: &Library, evenness: f64) -> Answer {
        let limit = kv::answer(library, self.card, |bed| self.limit(bed, evenness))?;
        Ok(match self.load_per_s {
            Some(load) => {
                let load = Prediction::given(Interval::exactly(load));
                limit.bounded_by(&load, "the load")
            }
            None => limit,
        })
    }

    fn limit(&self, bed: &Testbed<'_, '_>, evenness: f64) -> Evaluation<Outcome> {
        let mut sides = kv::sides(bed, &self.setup)?;
        sides.host_per_s *= evenness;
        sides.soc_per_s *= evenness;
        if evenness < 0.99 {
            // Published under skewed keys only together with updates.
            bed.weaken_evidence(EvidenceLevel::Application);
            sides.bottleneck = "the core with the most wanted keys";
        }
        Ok(Outcome { value: sides.total_per_s(), bottleneck: Some(sides.bottleneck.into()) })
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

    /// Returns how clients send requests in a simulation.
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
        Clients::Closed { in_flight: (in_flight.round() as u64).max(1) }
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

/// About how many events a point simulates.
pub(super) fn events(point: &Point) -> u64 {
    kv::events(point.count("requests"))
}

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let asked = KvPoint::of(point);
    if point.word("store") == "redis" {
        if asked.setup.design != Design::CpuOnly {
            let problem = "Redis was measured without offload only";
            return Err(Error::of_key("store", problem, "take design cpu-only"));
        }
        return Ok(vec![redis(point, library)]);
    }
    if asked.load_per_s.is_some() && asked.in_flight.is_some() {
        let problem = "clients either send a load or wait for their answers";
        let allowed = "`load` or `in_flight`, not both";
        return Err(Error::of_key("in_flight", problem, allowed));
    }
    let asked = asked.with_cores_for_load(library);
    let sides = asked.sides(library);
    let evenness = (sides.as_ref()).map_or(1.0, |sides| kv::evenness(sides, &asked.keys));
    let mut row = closed_form(&asked, library, &sides, evenness);
    let requests = point.count("requests");
    if let (Ok(sides), true) = (&sides, requests > 0) {
        simulate(&mut row, &asked, sides, requests)?;
    }
    Ok(vec![row])
}

fn closed_form(
    asked: &KvPoint<'_>,
    library: &Library,
    sides: &Result<Sides, NoPrediction>,
    evenness: f64,
) -> Row {
    let point = asked.point;
    let name = if asked.load_per_s.is_some() { "time in the server" } else { "latency" };
    let mut row = Row {
        throughput: Some(point.metric("throughput", asked.throughput(library, evenness))),
        latency: Some(point.metric(name, asked.latency(library, evenness))),
        ..Row::default()
    };
    if let Ok(sides) = sides {
        row.host_cores = Some(point.given("host cores", sides.host_cores));
        row.more.push(point.given("Arm cores", sides.soc_cores));
    }
    row.more.extend(details(asked, library));
    let name = "PCIe bytes a request";
    row.more.push(match asked.setup.design {
        Design::DpuOnly => point.given(name, 0.0),
        _ => point.metric(name, pcie_bytes(asked, library)),
    });
    row.notes.push(store_note(asked, library));
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

/// Returns further figures: the rate of each side, the longest latency and, without offload, the
/// parts of a host core's time.
fn details(asked: &KvPoint<'_>, library: &Library) -> Vec<super::Metric> {
    let (point, setup) = (asked.point, &asked.setup);
    let metric = |name: &str, answer| point.metric(name, answer);
    let answer =
        |formula: &dyn Fn(&Testbed<'_, '_>) -> Evaluation| kv::answer(library, asked.card, formula);
    let mut more = Vec::new();
    if asked.load_per_s.is_none() && asked.in_flight.is_none() {
        let longest = answer(&|bed| Ok(kv::latency_ns(bed, setup, true)?.value));
        more.push(metric("longest latency", longest));
    }
    match setup.design {
        Design::CpuOnly => {
            let mix = (kv::YCSB.iter()).find(|(_, gets)| (gets - setup.gets).abs() < 1e-9);
            let Some((mix, _)) = mix else { return more };
            for part in kv::PARTS {
                let share = answer(&|bed| kv::share(bed, part, *mix));
                more.push(metric(&format!("{part} share"), share));
            }
            let communication = answer(&|bed| kv::communication_share(bed, *mix));
            more.push(metric("communication share", communication));
            let polling = answer(&|bed| {
                Ok(kv::share(bed, "receive", *mix)? / kv::communication_share(bed, *mix)?)
            });
            more.push(metric("polling share of communication", polling));
        }
        Design::DpuOnly => {}
        _ => {
            more.push(metric("card side", answer(&|bed| Ok(kv::sides(bed, setup)?.soc_per_s))));
            for (name, message) in [
                ("slot over packet, GET request", Message::GetRequest),
                ("slot over packet, GET response", Message::GetResponse),
                ("slot over packet, SET request", Message::SetRequest),
                ("slot over packet, SET response", Message::SetResponse),
            ] {
                let ratio = answer(&|bed| Ok(1.0 / kv::packet_over_slot(bed, message)?));
                more.push(metric(name, ratio));
            }
        }
    }
    if matches!(setup.design, Design::Dual | Design::Sharded) {
        more.push(metric("host side", answer(&|bed| Ok(kv::sides(bed, setup)?.host_per_s))));
        let spare = answer(&|bed| kv::spare_per_s(bed, setup.gets));
        more.push(metric("host side at most", spare));
    }
    more
}

/// Returns the row of Redis, of which one rate was published.
fn redis(point: &Point, library: &Library) -> Row {
    let rate = kv::answer(library, point.word("profile"), |bed| bed.host("redis.rate"));
    Row {
        throughput: Some(point.metric("throughput", rate)),
        notes: vec!["Redis with 8 threads of the study's host, at a latency of 50 us".into()],
        ..Row::default()
    }
}

/// Note on the store of the figures, and on its distance to another one.
fn store_note(asked: &KvPoint<'_>, library: &Library) -> String {
    let redis = asked.typical(library, |bed| bed.host("redis.rate"));
    let other = redis.map_or_else(
        |_| String::new(),
        |per_s| {
            format!("; Redis served {:.2} million requests a second on the same host", per_s / 1e6)
        },
    );
    format!("The figures are of the store MICA with keys and values of 8 bytes{other}.")
}

/// Bytes that a request and its response move between card and host.
fn pcie_bytes(asked: &KvPoint<'_>, library: &Library) -> Answer {
    let gets = asked.setup.gets;
    kv::answer(library, asked.card, |bed| {
        let packets = |bed: &Testbed<'_, '_>| {
            let of = |message: Message| message.packet_bytes(bed, 8.0, 8.0);
            let get = of(Message::GetRequest)? + of(Message::GetResponse)?;
            let set = of(Message::SetRequest)? + of(Message::SetResponse)?;
            Evaluation::Ok(gets * get + (1.0 - gets) * set)
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

fn simulate(row: &mut Row, asked: &KvPoint<'_>, sides: &Sides, requests: u64) -> Result<(), Error> {
    let point = asked.point;
    let (Some(throughput), Some(latency)) = (&mut row.throughput, &mut row.latency) else {
        return Ok(());
    };
    let clients = asked.clients(&latency.answer, &throughput.answer);
    let seed = point.count("seed");
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
    // Where nothing is dropped of a load, all of it is answered: the rate seen only samples it.
    let is_carried = |load: &f64| result.dropped == 0 && closed.interval.typ >= *load;
    let per_s = asked.load_per_s.filter(is_carried).unwrap_or(result.per_s);
    throughput.answer = Ok(simulated(closed, per_s));
    latency.answer = Ok(simulated(&doubt, mean_ns));
    row.method = Method::Simulated;
    row.more.push(point.metric("99th percentile", Ok(simulated(&doubt, high_ns))));
    let dropped = result.dropped as f64 / requests as f64;
    row.more.push(point.given("dropped", dropped));
    Ok(())
}
