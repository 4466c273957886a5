//! Tests of the controller's guarantees for any input: fractions are between 0 and 1, memory is
//! bounded, and probes cost no more than their share.

use std::time::Duration;

use overside_placement::controller::{
    Controller, Decision, Epoch, Gate, Settings, SideSample, Verdict, Work,
};
use proptest::prelude::*;

use super::world::{Rates, Truth, play};

/// Any amount, with the extremes often.
fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0_u64..1 << 40, any::<u64>(),]
}

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        Just(Duration::MAX),
        (0_u64..1 << 40).prop_map(Duration::from_nanos),
        (any::<u64>(), 0_u32..1_000_000_000).prop_map(|(s, ns)| Duration::new(s, ns)),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), 0.0_f64..1.0, Just(f64::NAN), Just(f64::INFINITY),]
}

fn share() -> impl Strategy<Value = SideSample> {
    (amount(), time()).prop_map(|(bytes, busy)| SideSample { bytes, busy })
}

fn epoch() -> impl Strategy<Value = Epoch> {
    (number(), share(), share(), time(), time(), amount()).prop_map(
        |(fraction, cpu, device, overhead, elapsed, chunk_bytes)| Epoch {
            fraction,
            cpu,
            device,
            overhead,
            elapsed,
            chunk_bytes,
        },
    )
}

fn settings() -> impl Strategy<Value = Settings> {
    (number(), number(), number(), number(), any::<u32>()).prop_map(
        |(use_below, split_below, hysteresis, probe_share, probe_epochs)| Settings {
            use_below,
            split_below,
            hysteresis,
            probe_share,
            probe_epochs,
        },
    )
}

fn sound(decision: &Decision) -> bool {
    let gate =
        |gate: Option<Gate>| gate.is_none_or(|it| !it.ratio.is_nan() && it.limit.is_finite());
    let seconds = |time: Option<f64>| time.is_none_or(|it| it.is_finite() && it >= 0.0);
    let reason = &decision.reason;
    (0.0..=1.0).contains(&decision.fraction)
        && (0.0..=1.0).contains(&reason.equal_finish)
        && reason.overhead_s.is_finite()
        && [reason.c1, reason.c2].into_iter().all(gate)
        && [reason.cpu_s, reason.device_s, reason.split_s].into_iter().all(seconds)
        && decision.probe == matches!(reason.verdict, Verdict::Probe(_))
}

proptest! {
    #[test]
    fn fractions_are_fractions_whatever_was_observed(
        settings in settings(),
        steps in prop::collection::vec(
            (time(), amount(), amount(), prop::option::of(epoch())), 1..200),
    ) {
        let mut controller = Controller::new(settings);
        for (now, bytes, chunk_bytes, epoch) in steps {
            let decision = controller.decide(now, Work { bytes, chunk_bytes });
            prop_assert!(sound(&decision), "{decision:?}");
            let line = decision.reason.to_string();
            prop_assert!(!line.contains('\n') && !line.contains("NaN"), "{line}");
            if let Some(epoch) = epoch {
                controller.observe(now, epoch);
            }
        }
    }

    #[test]
    fn the_same_observations_give_the_same_decisions(
        steps in prop::collection::vec((time(), epoch()), 1..100),
    ) {
        let [mut one, mut other] = [(); 2].map(|()| Controller::new(Settings::default()));
        for (now, epoch) in steps {
            let work = Work { bytes: epoch.cpu.bytes, chunk_bytes: epoch.chunk_bytes };
            let [left, right] = [&mut one, &mut other].map(|it| it.decide(now, work));
            // Text, because a NaN would not equal itself.
            prop_assert_eq!(format!("{left:?}"), format!("{right:?}"));
            one.observe(now, epoch);
            other.observe(now, epoch);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn memory_does_not_grow_with_what_was_observed(
        epochs in prop::collection::vec((time(), epoch()), 2000),
    ) {
        // All that the controller holds is in its debug output: at most one record for each of 65
        // powers of two, and none of 2,000 epochs.
        const RECORD_TEXT_BYTES: usize = 2000;
        let mut controller = Controller::new(Settings::default());
        for (now, epoch) in epochs {
            controller.decide(now, Work { bytes: epoch.cpu.bytes, chunk_bytes: epoch.chunk_bytes });
            controller.observe(now, epoch);
        }
        let text = format!("{controller:?}");
        prop_assert!(text.len() < 66 * RECORD_TEXT_BYTES, "{}", text.len());
    }

    /// Worlds of any rates, with overhead or without, whose device changes once. All probes
    /// together cost at most their share, but for the first and the last: the first is made before
    /// anything is known, and the cost of one is known only afterwards.
    #[test]
    fn probes_cost_no_more_than_their_share(
        seed in any::<u64>(),
        cpu in 1e7_f64..1e9,
        slowed_by_contention in 0.4_f64..1.0,
        (before, after) in (device(), device()),
        change in 0_u32..4000,
    ) {
        let work = Work { bytes: 16 << 20, chunk_bytes: 1 << 20 };
        let outcome = play(seed, |at, _| {
            let (times, overhead, dead) = if at < change { before } else { after };
            let rates = |rate: f64| Rates { alone: rate, together: rate * slowed_by_contention };
            let cpu_s = work.bytes as f64 / cpu;
            let truth = Truth {
                cpu: rates(cpu),
                device: rates(cpu * times),
                overhead_s: overhead * cpu_s,
                dead_s: dead.map(|times| times * cpu_s),
            };
            (work, truth)
        });
        let costs = &outcome.probe_costs_s;
        let first = costs.first().copied().unwrap_or(0.0);
        let longest = costs.iter().copied().fold(0.0, f64::max);
        let allowed = 0.02 * outcome.controller_s + first + 2.0 * longest;
        let cost: f64 = costs.iter().sum();
        prop_assert!(cost <= allowed, "{cost} s of {} s", outcome.controller_s);
        // Nine decisions from one to the next, unless one is repeated.
        prop_assert!(costs.len() <= 2 * 4000 / 9 + 2, "{}", costs.len());
        prop_assert!(outcome.decisions.iter().all(sound));
    }
}

/// A device: its rate as a multiple of the CPU's, its overhead and its deadline if it is dead, both
/// as multiples of the CPU's time for an epoch.
fn device() -> impl Strategy<Value = (f64, f64, Option<f64>)> {
    (
        prop_oneof![0.01_f64..1.0, 1.0_f64..40.0],
        prop_oneof![Just(0.0), 0.0_f64..5.0],
        prop_oneof![4 => Just(None), 1 => (0.5_f64..10.0).prop_map(Some)],
    )
}
