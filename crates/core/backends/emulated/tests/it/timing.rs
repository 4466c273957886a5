//! Tests of when completions arrive. They do not assume that this machine is fast or quiet: a
//! completion is never early, and one that the software was too slow for is marked as late.

use crate::common;

use std::time::{Duration, Instant};

use common::{card, config, job, operation, run, text};
use overside_backend_emulated::{EmulatedDevice, Mode};
use overside_device::{Device, Outcome, Provenance, Stages, Timing};
use overside_model::{Work, cost, profile};

const KIB: usize = 1024;

fn busy_ns(stages: &Stages) -> u64 {
    stages.transfer_ns.unwrap() + stages.engine_ns.unwrap()
}

#[test]
fn a_completion_is_never_earlier_than_the_profile_says() {
    // 4 KiB take 4.096 ms each, one after the other.
    for mode in [Mode::Paced, Mode::Replay] {
        let device = EmulatedDevice::new(card(1.0, 1.0), mode);
        let mut context = device.open(config("copy", 4, 4 * KIB)).unwrap();
        let jobs = (0..8).map(|tag| job(&device, tag, text(tag, 4 * KIB), 4 * KIB));
        let (begin, seen) = run(&mut *context, jobs.collect());
        for (index, one) in seen.iter().enumerate() {
            assert_eq!(one.completion.tag, index as u64, "the engine keeps the order");
            let least = Duration::from_nanos(4_096_000 * (index as u64 + 1));
            assert!(one.at - begin >= least, "{index}: {:?} < {least:?}", one.at - begin);
            assert_eq!(one.completion.stages.engine_ns, Some(4_096_000));
        }
    }
}

#[test]
fn the_published_cards_keep_their_times_under_load() {
    for mode in [Mode::Paced, Mode::Replay] {
        let device = EmulatedDevice::new(profile("bf2").unwrap(), mode);
        let mut context = device.open(config("compress-deflate", 16, 64 * KIB)).unwrap();
        for _ in 0..3 {
            let jobs = (0..64).map(|tag| job(&device, tag, text(tag, 64 * KIB), 64 * KIB));
            let (begin, seen) = run(&mut *context, jobs.collect());
            let mut engine_ns = 0;
            for one in &seen {
                let Ok(Outcome::Done(output)) = one.completion.result else {
                    panic!("{:?}", one.completion.result)
                };
                let sizes = (64 * KIB as u64, output.written as u64);
                let work = Work::new(operation("compress-deflate"), sizes.0, sizes.1);
                let modelled = cost(&profile("bf2").unwrap(), &work).unwrap();
                let stages = &one.completion.stages;
                let spent_ns = busy_ns(stages) + stages.start_ns.unwrap();
                assert!(spent_ns.abs_diff(modelled.typ_ns) <= 3, "{stages:?} {modelled:?}");
                engine_ns += stages.engine_ns.unwrap();
                let least = Duration::from_nanos(engine_ns);
                assert!(one.at - begin >= least, "{:?} < {least:?}", one.at - begin);
            }
        }
    }
}

#[test]
fn contexts_of_one_device_share_its_engine() {
    let device = EmulatedDevice::new(card(1.0, 1.0), Mode::Paced);
    let begin = Instant::now();
    let ends: Vec<Instant> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut context = device.open(config("copy", 2, 4 * KIB)).unwrap();
                    let jobs = (0..3).map(|tag| job(&device, tag, text(1, 4 * KIB), 4 * KIB));
                    run(&mut *context, jobs.collect()).1.last().unwrap().at
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let all = ends.into_iter().max().unwrap() - begin;
    assert!(all >= Duration::from_nanos(9 * 4_096_000), "{all:?}");
}

#[test]
fn software_that_is_too_slow_is_counted_as_late() {
    // No machine compresses a megabyte within the two microseconds that are tolerated.
    let device = EmulatedDevice::new(card(1e9, 1.0), Mode::Paced);
    let mut context = device.open(config("compress-deflate", 4, 1024 * KIB)).unwrap();
    let jobs = (0..4).map(|tag| job(&device, tag, text(tag, 1024 * KIB), 1024 * KIB));
    let jobs = jobs.collect();
    let begin = Instant::now();
    let (_, seen) = run(&mut *context, jobs);
    let elapsed = begin.elapsed();
    assert!(seen.iter().all(|one| one.completion.stages.late));
    // Four that wait for each other are overdue at the same time, which counts once.
    let overdue = seen.iter().map(|one| one.completion.stages.overdue_ns);
    let overdue = Duration::from_nanos(overdue.sum());
    assert!(overdue <= elapsed, "{overdue:?} of {elapsed:?}");
    assert!(overdue > Duration::ZERO);
}

#[test]
fn a_replayed_input_is_on_time_though_computing_it_is_not() {
    // 4 MiB in 42 ms, which level 9 of zlib does not keep up with; reading them again does.
    let device = EmulatedDevice::new(card(100.0, 1.0), Mode::Replay);
    let len = 4096 * KIB;
    let mut config = config("compress-deflate", 1, len);
    config.operation.variant = "zlib".into();
    config.operation.level = Some(9);
    let mut context = device.open(config).unwrap();
    let mut once = |tag| {
        let one = run(&mut *context, vec![job(&device, tag, text(1, len), len)]).1.remove(0);
        let Ok(Outcome::Done(output)) = one.completion.result else {
            panic!("{:?}", one.completion.result)
        };
        let bytes = one.completion.destination.unwrap()[..output.written].to_vec();
        (bytes, one.completion.stages.late)
    };
    let (computed, _) = once(0);
    // A busy machine may hold many of them up, not all.
    let on_time = (1..100).find(|tag| {
        let (replayed, late) = once(*tag);
        assert!(replayed == computed, "other bytes the second time");
        !late
    });
    assert!(on_time.is_some());
}

#[test]
fn functional_times_mean_nothing_and_claim_nothing() {
    let device = EmulatedDevice::new(card(1e-3, 60_000.0), Mode::Functional);
    assert_eq!(device.info().timing, Timing::Functional);
    let mut context = device.open(config("copy", 4, 64 * KIB)).unwrap();
    context.reconfigure(config("compress-deflate", 4, 64 * KIB)).unwrap();
    // A minute and more if they were paced.
    let (_, seen) = run(&mut *context, vec![job(&device, 1, text(1, 64 * KIB), 64 * KIB)]);
    assert_eq!(seen[0].completion.stages, Stages::default());
    assert_eq!(context.lifecycle().end_ns, None);
    assert!(device.capabilities().iter().all(|capability| capability.missing.is_empty()));
}

#[test]
fn reconfiguring_takes_what_the_profile_says() {
    for mode in [Mode::Paced, Mode::Replay] {
        let device = EmulatedDevice::new(card(1000.0, 30.0), mode);
        let mut context = device.open(config("copy", 1, 4 * KIB)).unwrap();
        assert_eq!(context.lifecycle().init_ns, None, "no fact says how long");
        let begin = Instant::now();
        context.reconfigure(config("copy", 1, 8 * KIB)).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(30));
        assert!(context.lifecycle().end_ns.unwrap() >= 30_000_000);
    }
}

#[test]
fn a_reconfiguration_that_takes_longer_than_the_card_does_is_late() {
    // 4 KiB take 4.096 ms, of which 5 % are tolerated.
    let first_is_late = |reconfiguration_ms| {
        let device = EmulatedDevice::new(card(1.0, reconfiguration_ms), Mode::Replay);
        let mut context = device.open(config("copy", 1, 4 * KIB)).unwrap();
        context.reconfigure(config("copy", 1, 4 * KIB)).unwrap();
        let jobs = vec![job(&device, 1, text(1, 4 * KIB), 4 * KIB)];
        run(&mut *context, jobs).1[0].completion.stages.late
    };
    // No machine starts a thread within three microseconds.
    assert!(first_is_late(1e-3));
    // A busy machine may hold some of them up, not all.
    assert!((0..20).any(|_| !first_is_late(100.0)));
}

#[test]
fn emulation_is_on_a_ledger_of_its_own() {
    let device = EmulatedDevice::new(card(1000.0, 1.0), Mode::Paced);
    let mut context = device.open(config("compress-deflate", 4, 64 * KIB)).unwrap();
    let jobs = (0..8).map(|tag| job(&device, tag, text(1, 64 * KIB), 64 * KIB)).collect();
    let (_, seen) = run(&mut *context, jobs);
    let applied = &seen[0].completion.applied;
    assert_eq!(
        (applied.device.as_str(), applied.provenance),
        ("emulated:made-up", Provenance::Emulated)
    );
    let closed = context.close(Instant::now() + Duration::from_secs(5));
    assert!(closed.cpu_time.emulator_ns > 0);
    assert_eq!((closed.cpu_time.host_ns, closed.cpu_time.dpu_ns), (0, 0));
}
