//! A key-value store of which each stage's cost was measured, in other designs and with more cores.

use overside_config::Error;

use super::{Method, Point, Row, simulated};
use crate::kv::{self, Clients, Keys, Sides};
use crate::{
    Answer, Evaluation, Evidence, EvidenceLevel, MissingParameter, NoPrediction, Outcome, Quantity,
    Unit, Values,
};

/// What stretches all times, within the doubt about the measurement.
const PACE: &str = "pace";
/// What a request costs the communication engine.
const COMMUNICATION: [&str; 4] = ["receive", "parse", "respond", "other"];
/// And the processing engine.
const PROCESSING: [&str; 2] = ["process", "persist"];

/// Where the engines run.
#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StagesDesign {
    CpuOnly,
    DpuOnly,
    Lat,
    Sav,
}

/// Whose cores play the DPU's.
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
    /// What a link adds on the two sides.
    link_ns: [f64; 2],
    client_ns: f64,
    client_cores: Option<f64>,
    host_cores: f64,
    dpu_cores: f64,
    dpu_speed: f64,
    in_flight: f64,
    keys: Keys,
    evidence: Evidence,
}

/// What the cores do in a second, and what they burn for a request.
struct Capacity {
    sides: Sides,
    /// What the clients' cores get through.
    clients_per_s: f64,
    host_ns: f64,
    dpu_ns: f64,
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
            in_flight: point.number("in_flight"),
            keys: Keys {
                count: point.count("keys"),
                skew: point.number("skew"),
            },
            evidence,
        })
    }

    /// With all times longer by `pace`.
    fn capacity(&self, pace: f64) -> Capacity {
        let [link_communication, link_processing] = self.link_ns;
        let is_offloaded = matches!(self.design, StagesDesign::Lat | StagesDesign::Sav);
        let host_cores = match self.design {
            StagesDesign::CpuOnly | StagesDesign::Sav => self.host_cores,
            StagesDesign::Lat => self.dpu_cores,
            StagesDesign::DpuOnly => 0.0,
        };
        let (host_ns, dpu_ns) = match self.design {
            StagesDesign::CpuOnly => (self.communication_ns + self.processing_ns, 0.0),
            StagesDesign::DpuOnly => (0.0, self.communication_ns + self.processing_ns),
            StagesDesign::Lat | StagesDesign::Sav => (
                self.processing_ns + link_processing,
                self.communication_ns + link_communication,
            ),
        };
        let (host_ns, dpu_ns) = (host_ns * pace, dpu_ns * pace / self.dpu_speed);
        let per_s = |cores: f64, ns: f64| if ns > 0.0 { cores * 1e9 / ns } else { 0.0 };
        let is_shared = self.dpu == DpuCores::Clients;
        let dpu_cores = match dpu_ns > 0.0 {
            true => self.dpu_cores,
            false => 0.0,
        };
        let soc_per_s = match (is_shared, self.client_cores) {
            // Work of the clients takes the rest of those cores.
            (true, Some(cores)) => per_s(cores.min(dpu_cores), dpu_ns),
            _ => per_s(dpu_cores, dpu_ns),
        };
        let processing_per_s = is_offloaded.then(|| per_s(host_cores, host_ns));
        let is_host_limit = processing_per_s.is_some_and(|processed| processed < soc_per_s);
        let client_ns = self.client_ns * pace + if is_shared { dpu_ns } else { 0.0 };
        Capacity {
            sides: Sides {
                host_per_s: match is_offloaded {
                    true => 0.0,
                    false => per_s(host_cores, host_ns),
                },
                soc_per_s,
                processing_per_s,
                host_cores,
                soc_cores: dpu_cores,
                bottleneck: match self.design == StagesDesign::CpuOnly || is_host_limit {
                    true => "host cores",
                    false => "DPU cores",
                },
            },
            clients_per_s: (self.client_cores)
                .map_or(f64::INFINITY, |cores| per_s(cores, client_ns)),
            host_ns,
            dpu_ns,
        }
    }

    fn predict(&self, formula: impl Fn(Capacity) -> Outcome) -> Answer {
        self.evidence
            .predict(EvidenceLevel::Same, |values: &Values<'_>| {
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
        self.evidence
            .predict(EvidenceLevel::Same, |values: &Values<'_>| {
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
    let typical = asked.capacity(1.0);
    if typical.sides.total_per_s() <= 0.0 {
        let problem = "all times are zero";
        return Err(Error::of_key(
            "process",
            problem,
            "times that were measured",
        ));
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
        host_cores: Some(point.given("host cores", typical.sides.host_cores)),
        more: vec![
            point.given("DPU cores", typical.sides.soc_cores),
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

/// Replaces what the formulas say by what the queues in front of the cores do.
fn simulate(
    row: &mut Row,
    asked: &StagesPoint,
    typical: &Capacity,
    requests: u64,
    point: &Point,
) -> Result<(), Error> {
    let clients = Clients::Closed {
        in_flight: asked.in_flight as u64,
    };
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
    row.more
        .push(point.metric("99th percentile", Ok(simulated(&doubt, high_ns))));
    row.method = Method::Simulated;
    Ok(())
}
