//! The capacity of a plan belongs to the host, its cards and its network: it does not depend on the
//! rate that is asked for, and more of anything never carries less.

use overside_model::advice::{DeviceRate, Host, Plan, Question, WorkloadAdvice, advise};
use overside_model::{Verdict, Workload, profile};
use proptest::prelude::*;

use crate::advice::{device, measured, near};

/// A pipeline on a host, with its rates and limits.
#[derive(Clone, Debug)]
struct Setup {
    decompress_mb_per_s: f64,
    match_mb_per_s: f64,
    threads: Option<u32>,
    cores: Option<u32>,
    cards: Option<u32>,
    network_gb_per_s: Option<u32>,
    buffer_mib: u32,
    /// A device that was measured: its rate, and bytes a second of the cores that feed it.
    device: Option<(f64, f64)>,
}

const SETUP: Setup = Setup {
    decompress_mb_per_s: 500.0,
    match_mb_per_s: 1000.0,
    threads: Some(8),
    cores: None,
    cards: None,
    network_gb_per_s: None,
    buffer_mib: 16,
    device: None,
};

impl Setup {
    fn ask(&self, gb_per_s: f64) -> WorkloadAdvice {
        let mut text = format!(
            "schema = \"workload/1\"\nrate = \"{gb_per_s} Gb/s\"\nbuffer = \"{} MiB\"\n",
            self.buffer_mib
        );
        if let Some(cards) = self.cards {
            text += &format!("cards = {cards}\n");
        }
        if let Some(cores) = self.cores {
            text += &format!("[host]\ncores = {cores}\n");
        }
        if let Some(rate) = self.network_gb_per_s {
            text += &format!("[network]\nrate = \"{rate} Gb/s\"\n");
        }
        text += "[[stages]]\ndo = \"decompress-deflate\"\nratio = 0.5\n\
                 [[stages]]\ndo = \"match-count\"\npatterns = [\"At (.+)Exit (.+)\"]\nkeep = 0.1\n\
                 [[stages]]\ndo = \"send\"\n";
        let workload = Workload::parse("setup.toml", &text).unwrap();
        let mut decompress = measured("decompress-deflate", self.decompress_mb_per_s);
        if let Some((rate, fed)) = self.device {
            decompress.devices.push(DeviceRate {
                core_bytes_per_s: Some(near(fed)),
                ..device(1 << 20, "device", rate)
            });
        }
        let question = Question {
            host: Host { threads: self.threads },
            measured: vec![decompress, measured("match-count", self.match_mb_per_s)],
            buffer_bytes: None,
        };
        let advice = advise(&question, &[profile("bf2").unwrap()], Some(&workload));
        advice.unwrap().workload.unwrap()
    }

    /// Bytes a second that each of the plans carries.
    fn capacities(&self, gb_per_s: f64) -> Vec<f64> {
        self.ask(gb_per_s).plans.iter().map(capacity).collect()
    }
}

fn capacity(plan: &Plan) -> f64 {
    match &plan.carries_bytes_per_s {
        Some(Ok(rate)) => rate.interval.typ,
        Some(Err(none)) => panic!("{none}"),
        None => f64::INFINITY,
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    (
        (50.0..4000.0, 50.0..4000.0),
        proptest::option::of(1..64_u32),
        (proptest::option::of(1..64_u32), proptest::option::of(0..6_u32)),
        (proptest::option::of(1..400_u32), 1..64_u32),
        proptest::option::of((50.0..20_000.0, 50.0..20_000.0)),
    )
        .prop_map(|(rates, threads, (cores, cards), (network, mib), device)| Setup {
            decompress_mb_per_s: rates.0,
            match_mb_per_s: rates.1,
            threads,
            cores,
            cards,
            network_gb_per_s: network,
            buffer_mib: mib,
            device,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_capacity_does_not_depend_on_the_rate_asked(setup in setups()) {
        let at_once = setup.capacities(0.5);
        for gb_per_s in [8.0, 73.0, 900.0] {
            for (one, other) in at_once.iter().zip(setup.capacities(gb_per_s)) {
                prop_assert!(*one == other || (one / other - 1.0).abs() < 1e-9, "{one} {other}");
            }
        }
    }

    #[test]
    fn more_cards_cores_or_network_never_carry_less(setup in setups()) {
        let more = [
            Setup { cards: setup.cards.map(|cards| cards + 1), ..setup.clone() },
            Setup { cores: setup.cores.map(|cores| cores + 1), ..setup.clone() },
            Setup { threads: setup.threads.map(|threads| threads + 1), ..setup.clone() },
            Setup { network_gb_per_s: setup.network_gb_per_s.map(|rate| rate + 1), ..setup.clone() },
        ];
        let before = setup.capacities(10.0);
        for more in more {
            for (before, after) in before.iter().zip(more.capacities(10.0)) {
                prop_assert!(after >= before * (1.0 - 1e-9), "{before} {after} {more:?}");
            }
        }
    }

    #[test]
    fn what_is_enough_needs_no_more_than_there_is(setup in setups(), gb_per_s in 0.5..400.0) {
        let cores = setup.cores.or(setup.threads).map_or(f64::INFINITY, f64::from);
        for plan in setup.ask(gb_per_s).plans {
            if let (Some(cards), Some([.., high])) = (setup.cards, plan.whole_cards) {
                prop_assert!(high <= u64::from(cards), "{plan:?}");
            }
            if plan.enough == Verdict::Yes {
                let needed = plan.cores.as_ref().unwrap().interval.typ;
                prop_assert!(needed <= cores * (1.0 + 1e-9), "{plan:?}");
                prop_assert!(capacity(&plan) >= gb_per_s * 0.125e9);
            }
        }
    }
}

#[test]
fn cards_add_to_what_the_cores_carry() {
    let setup = Setup { cores: Some(8), ..SETUP };
    let with = |cards| {
        let all = Setup { cards: Some(cards), ..setup.clone() };
        all.capacities(1.0)[1]
    };
    // 1 byte that enters is 2 plain ones: 4 ns of decompression and 2 ns of matching.
    let alone = setup.capacities(1.0)[0];
    assert!((alone - 8.0 / 6e-9).abs() < 1e6, "{alone}");
    assert!((with(0) - alone).abs() < 1e-3);
    // 1.3 GB/s of engine for a core that waits for it.
    let (one, two) = (with(1), with(2));
    assert!(one > alone * 1.05 && two > one * 1.05, "{alone} {one} {two}");
}

#[test]
fn without_cores_the_host_that_was_measured_is_the_limit() {
    let plans = SETUP.ask(1.0).plans;
    assert!((capacity(&plans[0]) - 8.0 / 6e-9).abs() < 1e6);
    assert_eq!(plans[0].enough, Verdict::Yes);
    assert_eq!(plans[0].bottleneck.what, "cores");
    assert_eq!(SETUP.ask(100.0).plans[0].enough, Verdict::No);
    // Of a host of which nothing is known, nothing is used up.
    let unknown = Setup { threads: None, ..SETUP };
    let plan = &unknown.ask(100.0).plans[0];
    assert!(plan.carries_bytes_per_s.is_none());
    assert_eq!(plan.bottleneck.what, "stage 1, decompress-deflate");
}

#[test]
fn the_network_bounds_what_cores_and_cards_carry() {
    let setup = Setup { cores: Some(64), network_gb_per_s: Some(1), ..SETUP };
    // A byte that enters becomes two, of which a tenth is sent.
    for plan in setup.ask(1.0).plans {
        assert!((capacity(&plan) - 0.125e9 / 0.2).abs() < 1e3, "{plan:?}");
        assert_eq!(plan.bottleneck.what, "network");
    }
}

#[test]
fn a_card_that_costs_more_cores_than_it_saves_is_left_idle() {
    // A core that waits does more by itself than the engine.
    let setup =
        Setup { decompress_mb_per_s: 40_000.0, match_mb_per_s: 40_000.0, cards: Some(4), ..SETUP };
    let plans = setup.ask(10.0).plans;
    let with = &plans[1];
    assert!(with.cards.is_none(), "{with:?}");
    assert!((capacity(with) / capacity(&plans[0]) - 1.0).abs() < 0.2);
}
