//! A key-value store of which each stage's cost was measured, in other designs and with more cores.

use overside_config::Error;

use super::{Method, Point, Row, simulated};
use crate::kv::{self, Clients, Keys, Sides};
use crate::{
    Answer, Evaluation, Evidence, EvidenceLevel, MissingParameter, NoPrediction, Outcome, Quantity,
    Unit, Values,
};

/// Parameter that stretches all times, within the doubt about the measurement.
const PACE: &str = "pace";
/// Keys for the costs of a request in the communication engine.
const COMMUNICATION: [&str; 4] = ["receive", "parse", "respond", "other"];
/// Keys for the costs of a request in the processing engine.
const PROCESSING: [&str; 2] = ["process", "persist"];

/// Placement of the communication and processing engines on host and DPU.
#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StagesDesign {
    CpuOnly,
    DpuOnly,
    Lat,
    Sav,
    Dual,
    Shrd,
    Proc,
}

/// Machine whose cores are used as the DPU's.
#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum DpuCores {
    /// The card's own.
    Card,
    /// The clients', as with an agent in place of a DPU on a machine with few cores.
    Clients,
}

/// A point, read. Times are nanoseconds of a measured core for a request.
struct StagesPoint {
    design: StagesDesign,
    dpu: DpuCores,
    communication_ns: f64,
    processing_ns: f64,
    /// Time that a link adds on the communication side and on the processing side.
    link_ns: [f64; 2],
    client_ns: f64,
    client_cores: Option<f64>,
    host_cores: f64,
    dpu_cores: f64,
    dpu_speed: f64,
    /// Part of the requests that come to another core of a side than the one with their keys or the link to them.
    elsewhere: f64,
    in_flight: f64,
    keys: Keys,
    evidence: Evidence,
}

/// Rates of the cores, and the CPU time that a request takes on host and DPU.
struct Capacity {
    sides: Sides,
    /// Requests a second that the clients' cores can handle; infinite if their number is not given.
    clients_per_s: f64,
    host_ns: f64,
    dpu_ns: f64,
    /// The cores that serve.
    host_cores: f64,
    dpu_cores: f64,
}

/// Cores, and the cost of a request on one of them.
#[derive(Clone, Copy, Debug)]
struct Cores {
    cores: f64,
    ns: f64,
}

impl Cores {
    const NONE: Self = Self { cores: 0.0, ns: 0.0 };

    fn per_s(self) -> f64 {
        match self.ns > 0.0 {
            true => self.cores * 1e9 / self.ns,
            false => 0.0,
        }
    }
}

/// Assignment of stages to cores.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Cores of the side with clients.
    host: Cores,
    dpu: Cores,
    /// Cores that only have the keys.
    host_processing: Cores,
    dpu_processing: Cores,
    /// Each core with clients has the same part of the work: the slowest limits all.
    is_even: bool,
}

impl Work {
    /// Creates the work of cores with clients, without any cores that only process.
    fn of(host: Cores, dpu: Cores) -> Self {
        Self {
            host,
            dpu,
            host_processing: Cores::NONE,
            dpu_processing: Cores::NONE,
            is_even: false,
        }
    }

    fn longer(mut self, pace: f64) -> Self {
        let all = [&mut self.host, &mut self.dpu];
        let processing = [&mut self.host_processing, &mut self.dpu_processing];
        for cores in all.into_iter().chain(processing) {
            cores.ns *= pace;
        }
        self
    }
}

impl Capacity {
    fn outcome(&self) -> Outcome {
        let served = self.sides.total_per_s();
        let is_served = served <= self.clients_per_s;
        Outcome {
            value: served.min(self.clients_per_s),
            bottleneck: Some(match is_served {
                true => self.sides.bottleneck.into(),
                false => "the clients' cores".into(),
            }),
        }
    }
}

impl StagesPoint {
    fn of(point: &Point) -> Result<Self, NoPrediction> {
        let cost = |key: &str| {
            point.number_if_set(key).ok_or_else(|| NoPrediction {
                why: format!("{key} was not measured"),
                remedy: "overside kv profile --json > profile.json, and then overside simulate kv \
                         --from profile.json"
                    .into(),
            })
        };
        let sum = |keys: &[&str]| keys.iter().map(|key| cost(key)).sum::<Result<f64, _>>();
        let doubt = 1.0 + point.number("doubt");
        let pace = Quantity {
            low: Some(1.0 / doubt),
            high: Some(doubt),
            ..Quantity::number(1.0, Unit::Count)
        };
        let mut evidence = Evidence::new();
        evidence.insert(PACE, pace);
        Ok(Self {
            design: point.choice("design"),
            dpu: point.choice("dpu"),
            communication_ns: sum(&COMMUNICATION)?,
            processing_ns: sum(&PROCESSING)?,
            link_ns: [cost("link_communication")?, cost("link_processing")?],
            client_ns: cost("client")?,
            client_cores: point.number_if_set("client_cores"),
            host_cores: point.number("host_cores"),
            dpu_cores: point.number("dpu_cores"),
            dpu_speed: point.number("dpu_speed"),
            elsewhere: 1.0 - point.number("at_owner"),
            in_flight: point.number("in_flight"),
            keys: Keys { count: point.count("keys"), skew: point.number("skew") },
            evidence,
        })
    }

    /// The cores and the cost of a request on them, before any doubt.
    fn work(&self) -> Work {
        let (complete_ns, speed) = (self.communication_ns + self.processing_ns, self.dpu_speed);
        let [link_communication, link_processing] = self.link_ns;
        let asking_ns = self.communication_ns + link_communication;
        let answering_ns = self.processing_ns + link_processing;
        // A core of the side that passes a request on asks, and another one answers.
        let passed_on_ns = self.elsewhere * (link_communication + link_processing);
        let among = |cores: f64| if cores > 1.0 { passed_on_ns } else { 0.0 };
        let host = |cores: f64, ns: f64| Cores { cores, ns };
        let dpu = |cores: f64, ns: f64| Cores { cores, ns: ns / speed };
        let (all_host, all_dpu) = (self.host_cores, self.dpu_cores);
        match self.design {
            StagesDesign::CpuOnly => {
                Work::of(host(all_host, complete_ns + among(all_host)), Cores::NONE)
            }
            StagesDesign::DpuOnly => {
                Work::of(Cores::NONE, dpu(all_dpu, complete_ns + among(all_dpu)))
            }
            StagesDesign::Lat => Work {
                host_processing: host(all_dpu, answering_ns),
                ..Work::of(Cores::NONE, dpu(all_dpu, asking_ns + among(all_dpu)))
            },
            // Each of the DPU's cores has a link to the one with the keys.
            StagesDesign::Sav => Work {
                host_processing: host(all_host, answering_ns),
                ..Work::of(Cores::NONE, dpu(all_dpu, asking_ns))
            },
            StagesDesign::Dual => self.dual(dpu(all_dpu, asking_ns + among(all_dpu))),
            StagesDesign::Proc => Work {
                dpu_processing: dpu(all_dpu, answering_ns),
                ..Work::of(host(all_host, asking_ns + among(all_host)), Cores::NONE)
            },
            // Every core has the same part of the keys.
            StagesDesign::Shrd => {
                let ns = complete_ns + passed_on_ns;
                Work { is_even: true, ..Work::of(host(all_host, ns), dpu(all_dpu, ns)) }
            }
        }
    }

    /// Every host core executes the same part of all requests. Those with clients of their own serve as many as
    /// the DPU's requests leave time for.
    fn dual(&self, dpu: Cores) -> Work {
        let [link_communication, link_processing] = self.link_ns;
        let (all, serving) = (self.host_cores, self.host_cores - 1.0);
        let answering_ns = self.processing_ns + link_processing;
        // What a request of a client of the host takes of a core with clients, and of every core.
        let own_ns = self.communication_ns + self.elsewhere * link_communication;
        let each_ns = self.processing_ns + self.elsewhere * link_processing;
        let most_dpu_per_s = 1e9 * all / answering_ns;
        let dpu_per_s = dpu.per_s().min(most_dpu_per_s);
        let left = 1.0 - dpu_per_s / most_dpu_per_s;
        let host_per_s = 1e9 * left / (own_ns / serving + each_ns / all);
        let of_host = host_per_s / (host_per_s + dpu_per_s);
        let processing_ns = (of_host * each_ns + (1.0 - of_host) * answering_ns) / all;
        Work {
            host_processing: Cores { cores: 1.0, ns: processing_ns },
            ..Work::of(
                Cores { cores: serving, ns: serving * 1e9 / host_per_s.max(1e-9) },
                Cores { cores: dpu.cores, ns: dpu.cores * 1e9 / dpu_per_s },
            )
        }
    }

    /// Returns the capacity with all times multiplied by `pace`.
    fn capacity(&self, pace: f64) -> Capacity {
        let work = self.work().longer(pace);
        let is_shared = self.dpu == DpuCores::Clients;
        let mut dpu = work.dpu;
        if let (true, Some(cores)) = (is_shared, self.client_cores) {
            // Work of the clients takes the rest of those cores.
            dpu.cores = dpu.cores.min(cores);
        }
        let mut rates = [work.host.per_s(), dpu.per_s()];
        if work.is_even {
            let slowest = (rates[0] / work.host.cores).min(rates[1] / dpu.cores);
            rates = [work.host.cores * slowest, dpu.cores * slowest];
        }
        let asked_per_s = rates[0] + rates[1];
        let processing = match work.dpu_processing.ns > 0.0 {
            true => work.dpu_processing,
            false => work.host_processing,
        };
        let processing_per_s = (processing.ns > 0.0).then(|| processing.per_s());
        let is_processing_limit = processing_per_s.is_some_and(|most| most < asked_per_s);
        let of_host = rates[0] / asked_per_s;
        let host_ns = of_host * work.host.ns + work.host_processing.ns;
        let dpu_ns = (1.0 - of_host) * work.dpu.ns + work.dpu_processing.ns;
        let is_host_limit = match is_processing_limit {
            true => work.dpu_processing.ns == 0.0,
            false => of_host > 0.0 && (of_host == 1.0 || work.host.ns > work.dpu.ns),
        };
        let client_ns = self.client_ns * pace + if is_shared { dpu_ns } else { 0.0 };
        // The simulation has two kinds of cores that talk to clients, and lets those of the second hand over.
        let (talking, sides) = match processing_per_s {
            None => (rates, [work.host.cores, work.dpu.cores]),
            Some(_) => ([0.0, asked_per_s], [processing.cores, work.host.cores + work.dpu.cores]),
        };
        Capacity {
            sides: Sides {
                host_per_s: talking[0],
                soc_per_s: talking[1],
                processing_per_s,
                host_cores: sides[0],
                soc_cores: sides[1],
                bottleneck: match is_host_limit {
                    true => "host cores",
                    false => "DPU cores",
                },
            },
            clients_per_s: (self.client_cores)
                .map_or(f64::INFINITY, |cores| Cores { cores, ns: client_ns }.per_s()),
            host_ns,
            dpu_ns,
            host_cores: work.host.cores + work.host_processing.cores,
            dpu_cores: work.dpu.cores + work.dpu_processing.cores,
        }
    }

    fn predict(&self, formula: impl Fn(Capacity) -> Outcome) -> Answer {
        self.evidence.predict(EvidenceLevel::Same, |values: &Values<'_>| {
            let pace = values.get(PACE)?;
            Evaluation::<_>::Ok(formula(self.capacity(pace)))
        })
    }

    fn throughput(&self, evenness: f64) -> Answer {
        self.predict(|capacity| {
            let mut outcome = capacity.outcome();
            let even = capacity.sides.total_per_s() * evenness;
            if even < outcome.value {
                outcome.value = even;
                outcome.bottleneck = Some("the core with the most wanted keys".into());
            }
            outcome
        })
    }

    fn time(&self, of: impl Fn(&Capacity) -> f64) -> Answer {
        self.evidence.predict(EvidenceLevel::Same, |values: &Values<'_>| {
            let time = of(&self.capacity(values.get(PACE)?));
            match time > 0.0 {
                true => Ok(time),
                false => Err(MissingParameter::nothing("it does nothing", "nothing")),
            }
        })
    }
}

/// About how many events a point simulates.
pub(super) fn events(point: &Point) -> u64 {
    kv::events(point.count("requests"))
}

/// Answers one point.
pub(super) fn rows(point: &Point, _: &crate::Library) -> Result<Vec<Row>, Error> {
    let asked = match StagesPoint::of(point) {
        Ok(asked) => asked,
        Err(missing) => {
            return Ok(vec![Row {
                throughput: Some(point.metric("throughput", Err(missing))),
                ..Row::default()
            }]);
        }
    };
    if asked.design == StagesDesign::Dual && asked.host_cores < 2.0 {
        let needs = "2 or more with design dual: one only answers the DPU";
        return Err(Error::of_key("host_cores", "one core is too few", needs));
    }
    let typical = asked.capacity(1.0);
    if typical.sides.total_per_s() <= 0.0 {
        let problem = "all times are zero";
        return Err(Error::of_key("process", problem, "times that were measured"));
    }
    let evenness = kv::evenness(&typical.sides, &asked.keys);
    let throughput = asked.throughput(evenness);
    let in_flight = asked.in_flight;
    let latency = throughput.clone().map(|mut rate| {
        let per_s = rate.interval;
        // The more are answered, the shorter they wait.
        rate.interval.low = in_flight / per_s.high * 1e9;
        rate.interval.typ = in_flight / per_s.typ * 1e9;
        rate.interval.high = in_flight / per_s.low * 1e9;
        rate
    });
    let time = |name: &str, ns: f64, of: fn(&Capacity) -> f64| match ns > 0.0 {
        true => point.metric(name, asked.time(of)),
        false => point.given(name, 0.0),
    };
    let mut row = Row {
        throughput: Some(point.metric("throughput", throughput)),
        latency: Some(point.metric("latency", latency)),
        host_cores: Some(point.given("host cores", typical.host_cores)),
        more: vec![
            point.given("DPU cores", typical.dpu_cores),
            time("host CPU a request", typical.host_ns, |all| all.host_ns),
            time("DPU CPU a request", typical.dpu_ns, |all| all.dpu_ns),
        ],
        ..Row::default()
    };
    let requests = point.count("requests");
    if requests > 0 {
        simulate(&mut row, &asked, &typical, requests, point)?;
    }
    Ok(vec![row])
}

/// Replaces the formulas' figures by those of simulated queues in front of the cores.
fn simulate(
    row: &mut Row,
    asked: &StagesPoint,
    typical: &Capacity,
    requests: u64,
    point: &Point,
) -> Result<(), Error> {
    let clients = Clients::Closed { in_flight: asked.in_flight as u64 };
    let seed = point.count("seed");
    let result = kv::simulate(&typical.sides, clients, &asked.keys, requests, seed);
    let result = result.map_err(|error| {
        Error::of_key("requests", error.to_string(), "less load or fewer requests")
    })?;
    let (Some(throughput), Some(latency)) = (&mut row.throughput, &mut row.latency) else {
        return Ok(());
    };
    let (Ok(closed), Ok(doubt)) = (throughput.answer.clone(), latency.answer.clone()) else {
        return Ok(());
    };
    if result.per_s > typical.clients_per_s {
        row.notes
            .push("The clients' cores are the limit: formulas answer, not the simulation.".into());
        return Ok(());
    }
    throughput.answer = Ok(simulated(&closed, result.per_s));
    latency.answer = Ok(simulated(&doubt, result.latencies.mean_ns()));
    let high_ns = result.latencies.quantile_ns(0.99) as f64;
    row.more.push(point.metric("99th percentile", Ok(simulated(&doubt, high_ns))));
    row.method = Method::Simulated;
    Ok(())
}
