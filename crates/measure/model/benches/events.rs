//! Benchmark of the events a second that the simulator handles on one core.
//!
//! `cargo bench -p overside-model --bench events`. Each line is one kind of model, run several
//! times; printed are the median and the range, in millions of events a second. The promise is
//! one million.

use std::hint::black_box;
use std::time::Instant;

use overside_model::sim::{Arrivals, Calendar, Latencies, Model, Random, Station, Zipf, run};

fn main() {
    // `cargo bench` passes `--bench`; `cargo test --benches` passes nothing, and only tries it.
    let whole = std::env::args().any(|argument| argument == "--bench");
    let (events, turns) = if whole { (10_000_000, 7) } else { (10_000, 1) };
    println!("millions of events a second on one core: median (range)");
    report("one engine, open loop", turns, || queue(125.0, 1, events));
    report("eight cores, open loop", turns, || queue(15.0, 8, events));
    for clients in [16, 1024, 65_536] {
        let name = format!("{clients} clients, closed loop, skewed keys");
        report(&name, turns, || closed(clients, events));
    }
}

fn report(name: &str, turns: usize, one: impl Fn() -> u64) {
    let mut rates: Vec<_> = (0..turns)
        .map(|_| {
            let begun = Instant::now();
            let events = black_box(one());
            events as f64 / begun.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    let (least, most) = (rates[0], rates[turns - 1]);
    println!("{name:<45} {:6.1} ({least:.1} to {most:.1})", rates[turns / 2]);
}

struct Queue {
    random: Random,
    arrivals: Arrivals,
    engine: Station,
    latencies: Latencies,
    left: u64,
}

enum QueueEvent {
    Arrives,
    Done { since_ns: u64 },
}

impl Model for Queue {
    type Event = QueueEvent;

    fn handle(&mut self, event: QueueEvent, calendar: &mut Calendar<QueueEvent>) {
        let now_ns = calendar.now_ns();
        match event {
            QueueEvent::Arrives => {
                if let Some(service) = self.engine.admit(now_ns, 100) {
                    calendar.at(service.done_ns, QueueEvent::Done { since_ns: now_ns });
                }
                self.left = self.left.saturating_sub(1);
                if self.left > 0 {
                    calendar.at(self.arrivals.next_ns(&mut self.random), QueueEvent::Arrives);
                }
            }
            QueueEvent::Done { since_ns } => self.latencies.record(now_ns - since_ns),
        }
    }
}

fn queue(mean_ns: f64, servers: usize, events: u64) -> u64 {
    let mut model = Queue {
        random: Random::new(1),
        arrivals: Arrivals::new(0, mean_ns),
        engine: Station::new(servers),
        latencies: Latencies::new(),
        left: events / 2,
    };
    let mut calendar = Calendar::new();
    calendar.at(0, QueueEvent::Arrives);
    run(&mut model, &mut calendar, u64::MAX, u64::MAX).expect("one arrival waits at a time")
}

/// Clients that ask for skewed keys, each answered by one of eight partitions.
struct Closed {
    random: Random,
    keys: Zipf,
    partitions: Vec<Station>,
    latencies: Latencies,
    left: u64,
}

enum ClosedEvent {
    Sends { client: u32 },
    Answered { client: u32, since_ns: u64 },
}

impl Model for Closed {
    type Event = ClosedEvent;

    fn handle(&mut self, event: ClosedEvent, calendar: &mut Calendar<ClosedEvent>) {
        let now_ns = calendar.now_ns();
        match event {
            ClosedEvent::Sends { client } => {
                let partition = self.keys.draw(&mut self.random) as usize % self.partitions.len();
                if let Some(service) = self.partitions[partition].admit(now_ns, 80) {
                    let since_ns = now_ns;
                    calendar.at(service.done_ns, ClosedEvent::Answered { client, since_ns });
                }
            }
            ClosedEvent::Answered { client, since_ns } => {
                self.latencies.record(now_ns - since_ns);
                self.left = self.left.saturating_sub(1);
                if self.left > 0 {
                    let think_ns = self.random.exponential(1000.0) as u64;
                    calendar.after(think_ns, ClosedEvent::Sends { client });
                }
            }
        }
    }
}

fn closed(clients: u32, events: u64) -> u64 {
    let mut model = Closed {
        random: Random::new(1),
        keys: Zipf::new(1_000_000, 0.99),
        partitions: vec![Station::new(1); 8],
        latencies: Latencies::new(),
        left: events / 2,
    };
    let mut calendar = Calendar::new();
    for client in 0..clients {
        calendar.at(u64::from(client), ClosedEvent::Sends { client });
    }
    run(&mut model, &mut calendar, u64::MAX, u64::MAX).expect("few clients")
}
