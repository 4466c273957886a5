//! A key-value store as queues in front of cores, request by request.
//!
//! The cost of a request to a core comes from the closed form; the simulation adds effects without
//! a formula: requests that wait because others chose the same core, keys that are asked for more
//! often than others, clients that send whether or not they are answered, and full receive queues.

use super::Sides;
use crate::sim::{
    Arrivals, Calendar, Latencies, Model, Random, SimulationError, Station, Zipf, run,
};

/// Way in which clients send requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clients {
    /// Each client waits for its answer before it sends again.
    Closed {
        /// Requests in flight.
        in_flight: u64,
    },
    /// At random times, even if earlier ones were not answered.
    Open {
        /// Requests a second.
        per_s: f64,
        /// Requests that wait in front of a core; more are dropped.
        queue: usize,
    },
}

/// Distribution of the requested keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keys {
    /// Number of keys in the store.
    pub count: u64,
    /// Exponent of their frequencies; 0 is uniform.
    pub skew: f64,
}

/// Result of one simulation. Rate and latencies leave out the answers before the queues settle.
#[derive(Clone, Debug)]
pub struct SimulationResult {
    /// Answers a second.
    pub per_s: f64,
    /// Times that requests spent in the server, in nanoseconds.
    pub latencies: Latencies,
    /// Requests for which there was no room.
    pub dropped: u64,
    /// Events that happened.
    pub events: u64,
}

/// Number of keys whose core is looked up one by one to compute the load of cores.
const RANKS: u64 = 1 << 14;

/// Returns the place of a key's partition in [0, 1), from the key's rank.
fn place(rank: u64) -> f64 {
    // One number drawn by splitmix64 with the rank as its seed.
    Random::new(rank).uniform()
}

/// The part of all cores' capacity that the keys let them use: cores other than the one with the
/// most wanted partitions wait for it. 1 where keys are uniform.
pub fn evenness(sides: &Sides, keys: &Keys) -> f64 {
    if keys.skew == 0.0 {
        return 1.0;
    }
    let cores = CoreMap::of(sides);
    let frequency = |rank: u64| (rank as f64 + 1.0).powf(-keys.skew);
    let single = keys.count.min(RANKS);
    let mut load = vec![0.0; cores.count()];
    let mut sum = 0.0;
    for rank in 0..single {
        let frequency = frequency(rank);
        load[cores.at(place(rank))] += frequency;
        sum += frequency;
    }
    // The others are so many that each core has its share of them.
    let (from, to) = (single as f64 + 0.5, keys.count as f64 + 0.5);
    let rest = if (keys.skew - 1.0).abs() < 1e-9 {
        (to / from).ln()
    } else {
        (to.powf(1.0 - keys.skew) - from.powf(1.0 - keys.skew)) / (1.0 - keys.skew)
    };
    let total = sum + rest.max(0.0);
    let most = (0..cores.count())
        .map(|core| (load[core] + rest.max(0.0) * cores.share(core)) / (total * cores.share(core)));
    1.0 / most.fold(1.0, f64::max)
}

/// The cores that clients talk to: each serves a share of the partitions as large as its share of
/// the capacity.
#[derive(Clone, Debug)]
struct CoreMap {
    soc_cores: usize,
    host_cores: usize,
    soc_share: f64,
}

/// Rounds to whole cores, at least one.
fn whole(cores: f64) -> usize {
    cores.round().max(1.0) as usize
}

impl CoreMap {
    fn of(sides: &Sides) -> Self {
        let served = |per_s: f64, cores: f64| if per_s > 0.0 { whole(cores) } else { 0 };
        Self {
            soc_cores: served(sides.soc_per_s, sides.soc_cores),
            host_cores: served(sides.host_per_s, sides.host_cores),
            soc_share: sides.soc_per_s / (sides.soc_per_s + sides.host_per_s),
        }
    }

    fn count(&self) -> usize {
        self.soc_cores + self.host_cores
    }

    /// The core for position `place` of [0, 1); Arm cores first.
    fn at(&self, place: f64) -> usize {
        let index = |within: f64, cores: usize| ((within * cores as f64) as usize).min(cores - 1);
        if place < self.soc_share {
            index(place / self.soc_share, self.soc_cores)
        } else {
            let within = (place - self.soc_share) / (1.0 - self.soc_share);
            self.soc_cores + index(within, self.host_cores)
        }
    }

    fn share(&self, core: usize) -> f64 {
        if core < self.soc_cores {
            self.soc_share / self.soc_cores as f64
        } else {
            (1.0 - self.soc_share) / self.host_cores as f64
        }
    }
}

/// A core that takes a time that is not a whole number of nanoseconds.
#[derive(Clone, Debug)]
struct Core {
    station: Station,
    service_ns: f64,
    owed_ns: f64,
}

impl Core {
    /// A core of `cores` that serve `per_s` together.
    fn of(cores: usize, per_s: f64, queue: usize) -> Self {
        Self {
            station: Station::bounded(1, queue),
            service_ns: cores as f64 / per_s * 1e9,
            owed_ns: 0.0,
        }
    }

    /// Admits a request that arrives now. Returns the time at which it is done, in nanoseconds;
    /// `None` if there is no room.
    fn admit(&mut self, now_ns: u64) -> Option<u64> {
        let time_ns = self.service_ns + self.owed_ns;
        let service = self.station.admit(now_ns, time_ns as u64)?;
        self.owed_ns = time_ns.fract();
        Some(service.done_ns)
    }
}

enum Event {
    /// A request of a client that does not wait for answers.
    Sent,
    /// An Arm core has handed a request to the host.
    HandedOver { core: u32, since_ns: u64 },
    /// The request is answered.
    Answered { since_ns: u64 },
}

struct Store {
    random: Random,
    zipf: Option<Zipf>,
    map: CoreMap,
    talking: Vec<Core>,
    /// Host cores that process for Arm cores: one for each of them, or fewer for all.
    processing: Vec<Core>,
    arrivals: Option<Arrivals>,
    to_send: u64,
    /// Answers that are not counted: those before all queues are as full as they get.
    to_skip: u64,
    counted_from_ns: u64,
    /// Time of the last answer that is counted. Answers after the last request was sent are not
    /// counted: they meet emptier queues.
    counted_to_ns: u64,
    answered: u64,
    latencies: Latencies,
    dropped: u64,
}

impl Store {
    fn send(&mut self, now_ns: u64, calendar: &mut Calendar<Event>) {
        self.to_send -= 1;
        let place = match &self.zipf {
            Some(zipf) => place(zipf.draw(&mut self.random)),
            None => self.random.uniform(),
        };
        let core = self.map.at(place);
        let Some(done_ns) = self.talking[core].admit(now_ns) else {
            self.dropped += 1;
            return;
        };
        let since_ns = now_ns;
        if core < self.map.soc_cores && !self.processing.is_empty() {
            let core = core as u32;
            calendar.at(done_ns, Event::HandedOver { core, since_ns });
        } else {
            calendar.at(done_ns, Event::Answered { since_ns });
        }
    }
}

impl Model for Store {
    type Event = Event;

    fn handle(&mut self, event: Event, calendar: &mut Calendar<Event>) {
        let now_ns = calendar.now_ns();
        match event {
            Event::Sent => {
                self.send(now_ns, calendar);
                if self.to_send > 0
                    && let Some(arrivals) = &mut self.arrivals
                {
                    calendar.at(arrivals.next_ns(&mut self.random), Event::Sent);
                }
            }
            Event::HandedOver { core, since_ns } => {
                let to = core as usize % self.processing.len();
                match self.processing[to].admit(now_ns) {
                    Some(done_ns) => calendar.at(done_ns, Event::Answered { since_ns }),
                    None => self.dropped += 1,
                }
            }
            Event::Answered { since_ns } => {
                if self.to_skip > 0 {
                    self.to_skip -= 1;
                    self.counted_from_ns = now_ns;
                } else if self.to_send > 0 {
                    self.answered += 1;
                    self.counted_to_ns = now_ns;
                    self.latencies.record(now_ns - since_ns);
                }
                if self.arrivals.is_none() && self.to_send > 0 {
                    self.send(now_ns, calendar);
                }
            }
        }
    }
}

/// About how many events `requests` cause.
pub fn events(requests: u64) -> u64 {
    requests.saturating_mul(3)
}

/// Answers that are not counted: a tenth, or with clients that wait for answers as many as it
/// takes until they all wait for the same core, if that is the one that limits.
fn skipped(clients: Clients, requests: u64) -> u64 {
    let settled = match clients {
        Clients::Closed { in_flight } => in_flight.saturating_mul(50),
        Clients::Open { .. } => 0,
    };
    settled.clamp(requests / 10, requests / 2)
}

/// Simulates clients that send `requests` requests, at least 100, to a store with the cores of `sides`.
/// Answers before queues have reached their steady length are not counted.
///
/// # Errors
/// [`SimulationError`].
pub fn simulate(
    sides: &Sides,
    clients: Clients,
    keys: &Keys,
    requests: u64,
    seed: u64,
) -> Result<SimulationResult, SimulationError> {
    let requests = requests.max(100);
    let queue = match clients {
        Clients::Closed { .. } => usize::MAX,
        Clients::Open { queue, .. } => queue,
    };
    let map = CoreMap::of(sides);
    let (soc, host) = (map.soc_cores, map.host_cores);
    let arm_core = (soc > 0).then(|| Core::of(soc, sides.soc_per_s, queue));
    let host_core = (host > 0).then(|| Core::of(host, sides.host_per_s, queue));
    let talking = (arm_core.into_iter().flat_map(|one| vec![one; soc]))
        .chain(host_core.into_iter().flat_map(|one| vec![one; host]))
        .collect();
    let processing = sides.processing_per_s.map_or(Vec::new(), |per_s| {
        let cores = whole(sides.host_cores);
        vec![Core::of(cores, per_s, queue); cores]
    });
    let arrivals = match clients {
        Clients::Open { per_s, .. } => Some(Arrivals::new(0, 1e9 / per_s)),
        Clients::Closed { .. } => None,
    };
    let mut store = Store {
        random: Random::new(seed),
        zipf: (keys.skew > 0.0).then(|| Zipf::new(keys.count, keys.skew)),
        map,
        talking,
        processing,
        arrivals,
        to_send: requests,
        to_skip: skipped(clients, requests),
        counted_from_ns: 0,
        counted_to_ns: 0,
        answered: 0,
        latencies: Latencies::new(),
        dropped: 0,
    };
    let mut calendar = Calendar::new();
    match clients {
        Clients::Open { .. } => calendar.at(0, Event::Sent),
        Clients::Closed { in_flight } => {
            for _ in 0..in_flight.clamp(1, requests) {
                store.send(0, &mut calendar);
            }
        }
    }
    let events = run(&mut store, &mut calendar, u64::MAX, events(requests))?;
    let elapsed_ns = store.counted_to_ns.saturating_sub(store.counted_from_ns);
    Ok(SimulationResult {
        per_s: store.answered as f64 / elapsed_ns.max(1) as f64 * 1e9,
        latencies: store.latencies,
        dropped: store.dropped,
        events,
    })
}
