//! Frames that a card's own cores forward: the effect of load on rate, latency and losses.

use overside_config::Error;

use super::{Method, Point, Row};
use crate::network::{self, Submode};
use crate::sim::{Arrivals, Calendar, Latencies, Model, Random, SimulationError, Station, run};
use crate::{
    Answer, Evaluation, Evidence, EvidenceLevel, Library, MissingParameter, Outcome, Quantity,
    Unit, Values,
};

/// Simulations of one point, for four figures: the path's rate in the middle and at both ends of
/// each parameter that it follows from, of which there are up to three.
const RUNS: u64 = 28;
/// Key, and parameter, for the rate of the path where the question gives it.
const GIVEN: &str = "path_rate";

/// About how many events a point simulates.
pub(super) fn events(point: &Point) -> u64 {
    (point.count("frames") * 2).saturating_mul(RUNS)
}

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let card = point.word("profile");
    let mut evidence = library.evidence(&[card]);
    let submode: Submode = point.choice("submode");
    if let Some(rate) = point.number_if_set(GIVEN) {
        let rate = Quantity::number(rate / Unit::MBPerS.in_base(), Unit::MBPerS);
        evidence.insert(GIVEN, rate);
    }
    let port = network::port(library, card);
    let port_per_s = (port.as_ref()).map_or(f64::INFINITY, |port| port.interval.typ);
    let path = |values: &Values<'_>| {
        let cores = match values.has(GIVEN) {
            true => values.get(GIVEN),
            false => network::tcp_through(values, card, submode),
        }?;
        Ok(cores.min(port_per_s))
    };
    let load = Load::of(point);
    let predict = |figure: fn(&ForwardingResult) -> f64| predict(&evidence, path, load, figure);
    let throughput = predict(ForwardingResult::bytes_per_s);
    let known = throughput.is_ok();
    let or_none = |name: &str, answer: Answer| match answer {
        Err(_) if known => point.given(name, 0.0),
        answer => point.metric(name, answer).at_most(1.0),
    };
    let more = vec![
        point.metric("p99 latency", predict(|ran| ran.latencies.quantile_ns(0.99) as f64)),
        or_none("lost", predict(ForwardingResult::lost)),
        or_none("card cores busy", predict(|ran| ran.busy)),
    ];
    // No more comes out than goes in.
    let shown = point.metric("throughput", network::within_port(throughput, port.as_ref()));
    let mut notes = vec![
        "latency is what waiting and forwarding on the card add; the wire, the switch and the host's \
         stack are not in it"
            .to_owned(),
    ];
    if point.count("cores") > 1 {
        let cores = point.count("cores");
        notes.push(format!(
            "the path's rate is that of all its cores: {cores} of them forward as much together, \
             each frame takes {cores} times as long"
        ));
    }
    Ok(vec![Row {
        method: Method::Simulated,
        throughput: Some(shown.at_most(point.number("load"))),
        latency: Some(point.metric("mean latency", predict(|ran| ran.latencies.mean_ns()))),
        more,
        notes,
        ..Row::default()
    }])
}

fn predict(
    evidence: &Evidence,
    path: impl Fn(&Values<'_>) -> Evaluation,
    load: Load,
    figure: impl Fn(&ForwardingResult) -> f64,
) -> Answer {
    evidence.predict(EvidenceLevel::Card, |values: &Values<'_>| {
        let ran = load
            .run(path(values)?)
            .map_err(|error| MissingParameter::nothing(error.to_string(), "ask for less work"))?;
        let bottleneck = (ran.lost() > 0.0).then(|| "the card's cores".to_owned());
        Ok(Outcome { value: figure(&ran), bottleneck })
    })
}

/// Frames that are sent, and the cores and the queue that forward them.
#[derive(Clone, Copy, Debug)]
struct Load {
    gap_ns: f64,
    frame_bytes: f64,
    cores: usize,
    queue: usize,
    frames: u64,
    seed: u64,
}

/// Latencies, elapsed time and utilization of one run that forwards all frames.
struct ForwardingResult {
    latencies: Latencies,
    frames: u64,
    frame_bytes: f64,
    time_ns: f64,
    busy: f64,
}

impl ForwardingResult {
    fn bytes_per_s(&self) -> f64 {
        self.latencies.count() as f64 * self.frame_bytes / self.time_ns * 1e9
    }

    fn lost(&self) -> f64 {
        1.0 - self.latencies.count() as f64 / self.frames as f64
    }
}

struct Forwarding {
    random: Random,
    arrivals: Arrivals,
    path: Station,
    service_ns: u64,
    left: u64,
    latencies: Latencies,
}

enum Event {
    Arrives,
    Forwarded { since_ns: u64 },
}

impl Load {
    fn of(point: &Point) -> Self {
        let frame_bytes = point.number("frame");
        Self {
            gap_ns: frame_bytes / point.number("load") * 1e9,
            frame_bytes,
            cores: point.count("cores") as usize,
            queue: point.count("queue") as usize,
            frames: point.count("frames"),
            seed: point.count("seed"),
        }
    }

    /// Sends all frames over a path of this rate.
    fn run(self, bytes_per_s: f64) -> Result<ForwardingResult, SimulationError> {
        let service_ns = self.frame_bytes / bytes_per_s * 1e9 * self.cores as f64;
        let mut state = Forwarding {
            random: Random::new(self.seed),
            arrivals: Arrivals::new(0, self.gap_ns),
            path: Station::bounded(self.cores, self.queue),
            service_ns: service_ns.round().max(1.0) as u64,
            left: self.frames,
            latencies: Latencies::new(),
        };
        let mut calendar = Calendar::new();
        calendar.at(state.arrivals.next_ns(&mut state.random), Event::Arrives);
        run(&mut state, &mut calendar, u64::MAX, self.frames * 2)?;
        let end_ns = calendar.now_ns();
        Ok(ForwardingResult {
            latencies: state.latencies,
            frames: self.frames,
            frame_bytes: self.frame_bytes,
            time_ns: end_ns.max(1) as f64,
            busy: state.path.utilisation(end_ns),
        })
    }
}

impl Model for Forwarding {
    type Event = Event;

    fn handle(&mut self, event: Event, calendar: &mut Calendar<Event>) {
        let now_ns = calendar.now_ns();
        match event {
            Event::Arrives => {
                if let Some(service) = self.path.admit(now_ns, self.service_ns) {
                    calendar.at(service.done_ns, Event::Forwarded { since_ns: now_ns });
                }
                self.left -= 1;
                if self.left > 0 {
                    calendar.at(self.arrivals.next_ns(&mut self.random), Event::Arrives);
                }
            }
            Event::Forwarded { since_ns } => self.latencies.record(now_ns - since_ns),
        }
    }
}
