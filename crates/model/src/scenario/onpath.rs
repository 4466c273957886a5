//! Frames that a card's own cores forward: what a load does to rate, latency and losses.

use overside_config::Error;

use super::{Better, Key, Method, Metric, Point, Row, Scenario};
use crate::network::{self, Submode};
use crate::sim::{Arrivals, Calendar, Latencies, Model, Random, SimulationError, Station, run};
use crate::{
    Answer, Evidence, EvidenceLevel, Library, MissingParameter, Outcome, ParameterValue, Quantity,
    Unit, Values,
};

/// Simulations of one point, for four figures: the path's rate in the middle and at both ends of
/// each parameter that it follows from, of which there are up to three.
const RUNS: u64 = 28;
/// What the path carries, where the question gives it.
const GIVEN: &str = "path_rate";

/// `onpath`.
pub(super) struct OnPath;

const KEYS: &[Key] = &[
    Key::profile("profile", "bf2-200g", "the card"),
    Key::choice(
        "submode",
        &["sm1", "sm2", "sm3"],
        "sm2",
        "who forwards: Open vSwitch in the kernel, on DPDK, or a DPDK driver alone",
    ),
    Key::amount(
        "path_rate",
        Unit::GbPerS,
        (0.001, 1600.0),
        "",
        "what the path carries; what is published of the card and submode if not set",
    ),
    Key::amount(
        "load",
        Unit::GbPerS,
        (0.001, 1600.0),
        "5, 10, 15, 20, 25, 28, 30",
        "what is sent to it on average",
    ),
    Key::amount("frame", Unit::B, (64.0, 65_536.0), "1025", "one frame"),
    Key::count(
        "cores",
        1,
        256,
        "1",
        "the card's cores that forward; each carries an equal part",
    ),
    Key::count(
        "queue",
        1,
        1_000_000,
        "1024",
        "frames that wait; more are dropped",
    ),
    Key::count("frames", 1000, 10_000_000, "100000", "frames to simulate"),
    Key::count("seed", 0, u64::MAX, "1", "of the simulation"),
];

impl Scenario for OnPath {
    fn name(&self) -> &'static str {
        "onpath"
    }

    fn about(&self) -> &'static str {
        "frames that the card's own cores forward, at random: rate, latency, losses"
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn events(&self, point: &Point) -> u64 {
        (point.count("frames") * 2).saturating_mul(RUNS)
    }

    fn rows(&self, point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
        let card = point.word("profile");
        let mut evidence = library.evidence(&[card]);
        // The key takes the names of submodes only.
        let submode = Submode::of(point.word("submode")).unwrap_or(Submode::Sm2);
        if let Some(rate) = point.number_if_set(GIVEN) {
            evidence.insert(GIVEN, ParameterValue::Quantity(given(rate)));
        }
        let path = |values: &Values<'_>| match values.has(GIVEN) {
            true => values.get(GIVEN),
            false => network::tcp_through(values, card, submode),
        };
        let load = Load::of(point);
        let predict = |figure: fn(&Ran) -> f64| predict(&evidence, path, load, figure);
        let throughput = predict(Ran::bytes_per_s);
        let known = throughput.is_ok();
        let or_none = |name: &str, better, answer: Answer| match answer {
            Err(_) if known => Metric::given(name, Unit::Percent, better, 0.0),
            answer => Metric::new(name, Unit::Percent, better, answer).at_most(1.0),
        };
        let more = vec![
            Metric::new("p99 latency", Unit::Us, Better::Lower, predict(Ran::p99_ns)),
            or_none("lost", Better::Lower, predict(Ran::lost)),
            or_none("card cores busy", Better::Lower, predict(Ran::busy)),
        ];
        // No more comes out than goes in.
        let shown = Metric::new("throughput", Unit::GbPerS, Better::Higher, throughput);
        let note = "latency is what waiting and forwarding on the card add; the wire, the switch \
                    and the host's stack are not in it";
        Ok(vec![Row {
            method: Method::Simulated,
            throughput: Some(shown.at_most(point.number("load"))),
            latency: Some(Metric::new(
                "mean latency",
                Unit::Us,
                Better::Lower,
                predict(Ran::mean_ns),
            )),
            more,
            notes: vec![note.into()],
            ..Row::default()
        }])
    }
}

/// A rate in bytes a second that the question gives.
fn given(rate: f64) -> Quantity {
    Quantity {
        value: Some(rate / Unit::MBPerS.in_base()),
        low: None,
        high: None,
        unit: Unit::MBPerS,
        facts: Vec::new(),
        citation: Some("the question".into()),
        note: None,
    }
}

fn predict(
    evidence: &Evidence,
    path: impl Fn(&Values<'_>) -> Result<f64, MissingParameter>,
    load: Load,
    figure: impl Fn(&Ran) -> f64,
) -> Answer {
    evidence.predict(EvidenceLevel::Card, |values: &Values<'_>| {
        let ran = load
            .run(path(values)?)
            .map_err(|error| MissingParameter::nothing(error.to_string(), "ask for less work"))?;
        let bottleneck = (ran.lost() > 0.0).then(|| "the card's cores".to_owned());
        Ok(Outcome {
            value: figure(&ran),
            bottleneck,
        })
    })
}

/// What is sent, and to what.
#[derive(Clone, Copy, Debug)]
struct Load {
    gap_ns: f64,
    frame_bytes: f64,
    cores: usize,
    queue: usize,
    frames: u64,
    seed: u64,
}

/// What came of it.
struct Ran {
    latencies: Latencies,
    frames: u64,
    frame_bytes: f64,
    time_ns: f64,
    busy: f64,
}

impl Ran {
    fn bytes_per_s(&self) -> f64 {
        self.latencies.count() as f64 * self.frame_bytes / self.time_ns * 1e9
    }

    fn mean_ns(&self) -> f64 {
        self.latencies.mean_ns()
    }

    fn p99_ns(&self) -> f64 {
        self.latencies.quantile_ns(0.99) as f64
    }

    fn lost(&self) -> f64 {
        1.0 - self.latencies.count() as f64 / self.frames as f64
    }

    fn busy(&self) -> f64 {
        self.busy
    }
}

struct State {
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

    /// Sends all frames over a path that carries so much.
    fn run(self, bytes_per_s: f64) -> Result<Ran, SimulationError> {
        let service_ns = self.frame_bytes / bytes_per_s * 1e9 * self.cores as f64;
        let mut state = State {
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
        Ok(Ran {
            latencies: state.latencies,
            frames: self.frames,
            frame_bytes: self.frame_bytes,
            time_ns: end_ns.max(1) as f64,
            busy: state.path.utilisation(end_ns),
        })
    }
}

impl Model for State {
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
