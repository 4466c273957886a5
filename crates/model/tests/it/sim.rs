//! The simulator against queueing theory.

use overside_model::sim::{
    Arrivals, Bounded, Calendar, Completion, Context, ContextState, ContextTimes, Cores, FairLink,
    Gap, Latencies, Level, Link, LinkRate, Model, Random, SimulationError, Station, Zipf, run,
};
use proptest::prelude::*;

/// What a queue with random arrivals was seen to do.
struct Queue {
    random: Random,
    arrivals: Arrivals,
    service: Gap,
    station: Station,
    waits: Latencies,
    sojourns: Latencies,
    inside: Level,
    order: Vec<u64>,
}

enum Event {
    Arrives,
    Done { since_ns: u64 },
}

impl Model for Queue {
    type Event = Event;

    fn handle(&mut self, event: Event, calendar: &mut Calendar<Event>) {
        let now_ns = calendar.now_ns();
        match event {
            Event::Arrives => {
                let service_ns = self.service.draw(&mut self.random) as u64;
                let service = self
                    .station
                    .admit(now_ns, service_ns)
                    .expect("there is room");
                self.waits.record(service.start_ns - now_ns);
                self.inside.add(now_ns, 1);
                self.order.push(service.start_ns);
                calendar.at(service.done_ns, Event::Done { since_ns: now_ns });
                calendar.at(self.arrivals.next_ns(&mut self.random), Event::Arrives);
            }
            Event::Done { since_ns } => {
                self.sojourns.record(now_ns - since_ns);
                self.inside.add(now_ns, -1);
            }
        }
    }
}

const SERVICE_NS: f64 = 1000.0;

/// `jobs` jobs at a load of `rho` on `servers`.
fn queue(servers: usize, rho: f64, service: Gap, seed: u64, jobs: u64) -> (Queue, u64) {
    let mean_ns = SERVICE_NS / (rho * servers as f64);
    let mut model = Queue {
        random: Random::new(seed),
        arrivals: Arrivals::new(Gap::Exponential { mean_ns }),
        service,
        station: Station::new(servers),
        waits: Latencies::new(),
        sojourns: Latencies::new(),
        inside: Level::new(),
        order: Vec::new(),
    };
    let mut calendar = Calendar::new();
    calendar.at(0, Event::Arrives);
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
        let (seen, _) = queue(1, rho, Gap::Fixed { ns: SERVICE_NS }, seed, 200_000);
        let theory = rho / (2.0 * (1.0 - rho)) * SERVICE_NS;
        let error = (seen.waits.mean_ns() / theory - 1.0).abs();
        prop_assert!(error < 0.08, "{} against {theory}", seen.waits.mean_ns());
    }

    #[test]
    fn a_job_of_random_length_waits_as_erlang_says(
        servers in 1..12usize, rho in 0.3..0.8f64, seed in any::<u64>(),
    ) {
        let service = Gap::Exponential { mean_ns: SERVICE_NS };
        let (seen, _) = queue(servers, rho, service, seed, 300_000);
        let theory = erlang_wait(servers, rho) * SERVICE_NS;
        // Of several servers few jobs wait at low load: the error is set against the service.
        let error = (seen.waits.mean_ns() - theory).abs() / (theory + 0.2 * SERVICE_NS);
        prop_assert!(error < 0.1, "{} against {theory}", seen.waits.mean_ns());
    }

    #[test]
    fn little_s_law_holds(servers in 1..5usize, rho in 0.1..0.9f64, seed in any::<u64>()) {
        let service = Gap::Exponential { mean_ns: SERVICE_NS };
        let (seen, end_ns) = queue(servers, rho, service, seed, 50_000);
        let per_ns = seen.sojourns.count() as f64 / end_ns as f64;
        let inside = seen.inside.mean(end_ns);
        let law = per_ns * seen.sojourns.mean_ns();
        // Those still inside at the end are in the mean and not among the sojourns.
        prop_assert!((inside / law - 1.0).abs() < 0.02, "{inside} against {law}");
    }

    #[test]
    fn the_busy_share_is_the_load(servers in 1..9usize, rho in 0.1..0.9f64, seed in any::<u64>()) {
        let (seen, end_ns) = queue(servers, rho, Gap::Fixed { ns: SERVICE_NS }, seed, 50_000);
        let busy = seen.station.utilisation(end_ns);
        prop_assert!((busy / rho - 1.0).abs() < 0.05, "{busy} against {rho}");
    }

    #[test]
    fn who_comes_first_is_served_first(servers in 1..9usize, seed in any::<u64>()) {
        let service = Gap::Exponential { mean_ns: SERVICE_NS };
        let (seen, _) = queue(servers, 0.9, service, seed, 5_000);
        prop_assert!(seen.order.is_sorted());
    }

    #[test]
    fn the_same_seed_gives_the_same_and_another_something_else(seed in any::<u64>()) {
        let service = Gap::Exponential { mean_ns: SERVICE_NS };
        let one = queue(3, 0.7, service, seed, 2_000).0;
        let two = queue(3, 0.7, service, seed, 2_000).0;
        let other = queue(3, 0.7, service, seed ^ 1, 2_000).0;
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
    fn a_token_bucket_never_passes_more_than_rate_and_burst_allow(
        rate_mb in 1..5000u32,
        burst in 0..100_000u32,
        messages in prop::collection::vec((0..2_000u64, 1..9_000u64), 1..300),
    ) {
        let bytes_per_s = f64::from(rate_mb) * 1e6;
        let burst_bytes = f64::from(burst);
        let mut link = Link::new(LinkRate { burst_bytes, ..LinkRate::new(bytes_per_s) });
        let (mut now_ns, mut sent, mut last) = (0, 0.0, 0);
        for (gap, bytes) in messages {
            now_ns += gap;
            sent += bytes as f64;
            let left_ns = link.send(now_ns, bytes).expect("no limit").left_ns;
            prop_assert!(left_ns >= now_ns && left_ns >= last);
            last = left_ns;
            let allowed = burst_bytes + bytes_per_s * (left_ns + 1) as f64 / 1e9;
            prop_assert!(sent <= allowed * 1.000_001 + 1.0, "{sent} bytes, {allowed} allowed");
        }
    }

    #[test]
    fn what_a_busy_link_carries_is_its_rate(rate_mb in 10..50_000u32, bytes in 64..100_000u64) {
        let bytes_per_s = f64::from(rate_mb) * 1e6;
        let mut link = Link::new(LinkRate::new(bytes_per_s));
        let left_ns = (0..1000).filter_map(|_| link.send(0, bytes)).last().expect("sent").left_ns;
        let seen = 1000.0 * bytes as f64 / (left_ns as f64 / 1e9);
        // Half a part of a nanosecond may be lost a message.
        prop_assert!((seen / bytes_per_s - 1.0).abs() < 0.001, "{seen} for {bytes_per_s}");
    }

    #[test]
    fn busy_users_share_by_weight(a in 1..10u32, b in 1..10u32, sizes in (64..2000u64, 64..9000u64)) {
        let mut link = FairLink::new(1e9, &[f64::from(a), f64::from(b)], 8);
        let mut now_ns = 0;
        for _ in 0..40_000 {
            for (user, bytes) in [(0, sizes.0), (1, sizes.1)] {
                while link.waiting(user) < 4 {
                    link.offer(user, bytes, ());
                }
            }
            now_ns = link.next(now_ns).expect("both have something").done_ns;
        }
        let seen = link.carried_bytes(0) as f64 / link.carried_bytes(1) as f64;
        prop_assert!((seen / (f64::from(a) / f64::from(b)) - 1.0).abs() < 0.02, "{seen}");
        let carried = (link.carried_bytes(0) + link.carried_bytes(1)) as f64;
        prop_assert!((carried / now_ns as f64 - 1.0).abs() < 0.02);
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

#[test]
fn packets_and_headers_take_their_time() {
    let mut link = Link::new(LinkRate {
        packet_bytes: 1000,
        packet_overhead_bytes: 100,
        packet_ns: 50.0,
        latency_ns: 300,
        ..LinkRate::new(1e9)
    });
    // Three packets: 2500 bytes and 300 of headers at one a nanosecond, and 150 ns.
    let sent = link.send(10, 2500).expect("no limit");
    assert_eq!((sent.left_ns, sent.arrived_ns), (2960, 3260));
}

#[test]
fn a_full_buffer_drops() {
    let mut link = Link::new(LinkRate {
        buffer_bytes: 3000.0,
        ..LinkRate::new(1e9)
    });
    let taken = (0..5).filter(|_| link.send(0, 1000).is_some()).count();
    assert_eq!((taken, link.dropped(), link.carried_bytes()), (3, 2, 3000));
    assert!(link.send(1000, 1000).is_some());

    let mut queue = Bounded::new(2);
    let taken: Vec<_> = (0..4).map(|job| queue.push(job)).collect();
    assert_eq!(taken, [true, true, false, false]);
    assert_eq!(queue.take(9).collect::<Vec<_>>(), [0, 1]);
    assert_eq!((queue.dropped(), queue.taken_in(), queue.most()), (2, 2, 2));
}

#[test]
fn a_bucket_that_was_left_alone_lets_a_burst_through_at_once() {
    let mut link = Link::new(LinkRate {
        burst_bytes: 5000.0,
        ..LinkRate::new(1e9)
    });
    let mut left = |now_ns| link.send(now_ns, 2500).expect("no limit").left_ns;
    assert_eq!([left(0), left(0), left(0)], [0, 0, 2500]);
    assert_eq!([left(100_000), left(100_000)], [100_000, 100_000]);
}

#[test]
fn a_core_that_sleeps_is_late_and_idle_one_that_polls_neither() {
    let run = |completion| {
        let mut cores = Cores::new(1, completion, usize::MAX);
        let done: Vec<_> = [1000, 1050, 5000]
            .map(|now_ns| cores.admit(now_ns, 100).expect("room").done_ns)
            .into();
        (done, cores.wakes(), cores.busy(10_000))
    };
    let (done, wakes, busy) = run(Completion::Event { wake_ns: 40 });
    assert_eq!((done, wakes), (vec![1140, 1240, 5140], 2));
    assert!((busy - 0.038).abs() < 1e-9, "{busy}");
    let (done, wakes, busy) = run(Completion::Polling);
    assert_eq!((done, wakes, busy), (vec![1100, 1200, 5100], 0, 1.0));
}

#[test]
fn a_context_is_set_up_once_for_each_form() {
    let times = ContextTimes {
        init_ns: 100,
        end_ns: 1000,
    };
    let mut context = Context::new(times);
    assert_eq!(context.state(0), ContextState::Closed);
    assert_eq!(context.ready_ns(0, 7, 0), 100);
    assert_eq!(context.state(50), ContextState::Initialising);
    assert_eq!(context.ready_ns(200, 7, 0), 200);
    assert_eq!(context.state(200), ContextState::Ready { form: 7 });
    // Another form has to wait for the jobs in flight, for the old context and for the new one.
    assert_eq!(context.ready_ns(300, 8, 400), 1500);
    assert_eq!(context.state(1000), ContextState::Reconfiguring);
    assert_eq!(context.reconfigured(), 1);
    assert_eq!(context.end(2000, 0), 3000);
    assert_eq!(context.state(2500), ContextState::Ending);
    assert_eq!(context.state(3000), ContextState::Closed);
}
