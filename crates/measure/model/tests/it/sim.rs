//! The simulator against queueing theory.

use overside_model::sim::{
    Arrivals, Calendar, Latencies, Model, Random, SimulationError, Station, Zipf, run,
};
use proptest::prelude::*;

/// Queue with random arrivals, and the waits and the order that were observed.
struct Queue {
    random: Random,
    arrivals: Arrivals,
    service: Service,
    station: Station,
    waits: Latencies,
    order: Vec<u64>,
}

#[derive(Clone, Copy)]
enum Service {
    Fixed,
    Exponential,
}

impl Model for Queue {
    /// A job arrives.
    type Event = ();

    fn handle(&mut self, (): (), calendar: &mut Calendar<()>) {
        let now_ns = calendar.now_ns();
        let service_ns = match self.service {
            Service::Fixed => SERVICE_NS,
            Service::Exponential => self.random.exponential(SERVICE_NS),
        };
        let served = (self.station.admit(now_ns, service_ns as u64)).expect("there is room");
        self.waits.record(served.start_ns - now_ns);
        self.order.push(served.start_ns);
        calendar.at(self.arrivals.next_ns(&mut self.random), ());
    }
}

const SERVICE_NS: f64 = 1000.0;

/// `jobs` jobs at a load of `rho` on `servers`.
fn queue(servers: usize, rho: f64, service: Service, seed: u64, jobs: u64) -> (Queue, u64) {
    let mean_ns = SERVICE_NS / (rho * servers as f64);
    let mut model = Queue {
        random: Random::new(seed),
        arrivals: Arrivals::new(0, mean_ns),
        service,
        station: Station::new(servers),
        waits: Latencies::new(),
        order: Vec::new(),
    };
    let mut calendar = Calendar::new();
    calendar.at(0, ());
    let end_ns = (jobs as f64 * mean_ns) as u64;
    run(&mut model, &mut calendar, end_ns, u64::MAX).expect("few events wait");
    (model, end_ns)
}

/// The mean wait of M/M/k in service times, by Erlang's formula.
fn erlang_wait(servers: usize, rho: f64) -> f64 {
    let load = rho * servers as f64;
    let mut term = 1.0;
    let mut sum = 1.0;
    for k in 1..servers {
        term *= load / k as f64;
        sum += term;
    }
    let last = term * load / servers as f64 / (1.0 - rho);
    last / (sum + last) / (servers as f64 * (1.0 - rho))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_job_of_fixed_length_waits_as_pollaczek_and_khinchine_say(
        rho in 0.1..0.8f64, seed in any::<u64>(),
    ) {
        let (seen, _) = queue(1, rho, Service::Fixed, seed, 200_000);
        let theory = rho / (2.0 * (1.0 - rho)) * SERVICE_NS;
        let error = (seen.waits.mean_ns() / theory - 1.0).abs();
        prop_assert!(error < 0.08, "{} against {theory}", seen.waits.mean_ns());
    }

    #[test]
    fn a_job_of_random_length_waits_as_erlang_says(
        servers in 1..12usize, rho in 0.3..0.8f64, seed in any::<u64>(),
    ) {
        let (seen, _) = queue(servers, rho, Service::Exponential, seed, 300_000);
        let theory = erlang_wait(servers, rho) * SERVICE_NS;
        // Of several servers few jobs wait at low load: the error is set against the service.
        let error = (seen.waits.mean_ns() - theory).abs() / (theory + 0.2 * SERVICE_NS);
        prop_assert!(error < 0.1, "{} against {theory}", seen.waits.mean_ns());
    }

    #[test]
    fn the_busy_share_is_the_load(servers in 1..9usize, rho in 0.1..0.9f64, seed in any::<u64>()) {
        let (seen, end_ns) = queue(servers, rho, Service::Fixed, seed, 50_000);
        let busy = seen.station.utilisation(end_ns);
        prop_assert!((busy / rho - 1.0).abs() < 0.05, "{busy} against {rho}");
    }

    #[test]
    fn who_comes_first_is_served_first(servers in 1..9usize, seed in any::<u64>()) {
        let (seen, _) = queue(servers, 0.9, Service::Exponential, seed, 5_000);
        prop_assert!(seen.order.is_sorted());
    }

    #[test]
    fn the_same_seed_gives_the_same_and_another_something_else(seed in any::<u64>()) {
        let one = queue(3, 0.7, Service::Exponential, seed, 2_000).0;
        let two = queue(3, 0.7, Service::Exponential, seed, 2_000).0;
        let other = queue(3, 0.7, Service::Exponential, seed ^ 1, 2_000).0;
        prop_assert_eq!(&one.order, &two.order);
        prop_assert_ne!(&one.order, &other.order);
    }

    #[test]
    fn a_station_is_as_a_queue_kept_by_hand(
        servers in 1..5usize,
        room in 0..4usize,
        jobs in prop::collection::vec((0..50u64, 0..100u64), 1..200),
    ) {
        let mut station = Station::bounded(servers, room);
        let mut free = vec![0u64; servers];
        let mut starts: Vec<u64> = Vec::new();
        let mut now_ns = 0;
        for (gap, service) in jobs {
            now_ns += gap;
            let first = (0..servers).min_by_key(|at| free[*at]).expect("a server");
            let start = free[first].max(now_ns);
            let waiting = starts.iter().filter(|start| **start > now_ns).count();
            let refused = start > now_ns && waiting >= room;
            let seen = station.admit(now_ns, service).map(|one| (one.start_ns, one.done_ns));
            prop_assert_eq!(seen, (!refused).then_some((start, start + service)));
            if !refused {
                free[first] = start + service;
                starts.push(start);
            }
        }
    }

    #[test]
    fn keys_are_as_skewed_as_asked(items in 2..2000u64, skew in 0.0..1.5f64, seed in any::<u64>()) {
        let zipf = Zipf::new(items, skew);
        let mut random = Random::new(seed);
        let (draws, mut counts) = (40_000, [0u32; 2]);
        for _ in 0..draws {
            let rank = zipf.draw(&mut random);
            prop_assert!(rank < items);
            if rank < 2 {
                counts[rank as usize] += 1;
            }
        }
        let all: f64 = (1..=items).map(|rank| (rank as f64).powf(-skew)).sum();
        for (rank, count) in (1..).zip(counts) {
            let share = f64::from(rank).powf(-skew) / all;
            let expected = share * f64::from(draws);
            let slack = 6.0 * (expected * (1.0 - share)).sqrt() + 1.0;
            prop_assert!((f64::from(count) - expected).abs() < slack, "{count} for {expected}");
        }
    }
}

#[test]
fn events_of_the_same_time_happen_in_the_order_they_were_put_in() {
    struct Order(Vec<u32>);
    impl Model for Order {
        type Event = u32;
        fn handle(&mut self, event: u32, calendar: &mut Calendar<u32>) {
            self.0.push(event);
            if event == 0 {
                // The past is now.
                calendar.at(3, 100);
            }
        }
    }
    let mut calendar = Calendar::new();
    for event in 0..50 {
        calendar.at(7, event);
    }
    let mut model = Order(Vec::new());
    assert_eq!(run(&mut model, &mut calendar, 7, 51), Ok(51));
    let expected: Vec<_> = (0..50).chain([100]).collect();
    assert_eq!(model.0, expected);
    assert_eq!(calendar.now_ns(), 7);
}

#[test]
fn a_simulation_that_does_not_end_is_ended() {
    struct Endless;
    impl Model for Endless {
        type Event = ();
        fn handle(&mut self, (): (), calendar: &mut Calendar<()>) {
            calendar.after(1, ());
        }
    }
    let mut calendar = Calendar::new();
    calendar.at(0, ());
    assert_eq!(
        run(&mut Endless, &mut calendar, u64::MAX, 1000),
        Err(SimulationError::TooManyEvents { handled: 1000 })
    );
    let more = run(&mut Endless, &mut calendar, 5000, u64::MAX).expect("it goes on");
    // From 1000 to 5000, both included.
    assert_eq!(more, 4001);
}
