//! Verdicts: each follows from the ratio in which shared doubt cancels, against every option, on the
//! figure that decides.

use overside_model::advice::{Advice, advise, published_question};
use overside_model::scenario::{
    Choice, ComparedRow, Report, ScenarioArgs, presets, run, scenarios,
};
use overside_model::{Interval, Library, Verdict, Workload, profile};

use crate::ask::{ask, ask_of, figure, latency_ns, preset, rate};

/// All reports of scenarios as they are by default, and of ready-made questions.
fn reports() -> impl Iterator<Item = (String, Report)> {
    let kinds = scenarios().iter().map(|one| (one.name.clone(), ScenarioArgs::of(&one.name)));
    let ready = presets().iter().map(|one| {
        (one.name.to_owned(), ScenarioArgs::named(one.name).expect("a preset has its question"))
    });
    kinds.chain(ready).map(|(name, asked)| {
        let report = run(&asked, Library::published());
        (name, report.expect("it has an answer"))
    })
}

fn rows(report: &Report) -> &[ComparedRow] {
    report.compared.as_ref().map_or(&[], |compared| &compared.rows)
}

fn choices(report: &Report) -> &[Choice] {
    report.compared.as_ref().map_or(&[], |compared| &compared.choices)
}

#[test]
fn every_choice_names_its_best_options_and_those_that_may_be_as_good() {
    let mut chosen = 0;
    for (name, report) in reports() {
        for choice in choices(&report) {
            let base = &report.compared.as_ref().unwrap().by.baseline;
            let of = |row: &&ComparedRow| row.conditions == choice.conditions;
            for row in rows(&report).iter().filter(of) {
                let option = row.option.as_ref().unwrap();
                let Some(ratio) = row.comparison.ratio else { continue };
                let is_best = choice.best.contains(option);
                let about = format!("{name}: {option} in {choice:?}");
                // What is better than the baseline for certain leaves it no best.
                if row.comparison.verdict == Verdict::Yes {
                    assert!(
                        !choice.best.contains(base) && !choice.rivals.contains(base),
                        "{about}"
                    );
                }
                if is_best && !choice.best.contains(base) && choice.then.is_empty() {
                    assert!(ratio.typ >= 1.0, "{about}");
                }
                if ratio == Interval::exactly(1.0) {
                    assert_eq!(row.comparison.verdict, Verdict::No, "equal is not better: {about}");
                }
            }
            assert!(!choice.best.is_empty(), "{name}: {choice:?}");
            chosen += 1;
        }
    }
    assert!(chosen > 40, "{chosen}");
}

#[test]
fn a_ratio_is_never_further_than_its_two_figures_and_narrower_where_they_share_doubt() {
    let mut narrower = 0;
    for (name, report) in reports() {
        let Some(compared) = &report.compared else { continue };
        let Some(key) = &compared.by.key else { continue };
        for row in rows(&report) {
            let find = |option: &str| {
                let label = (key.clone(), option.to_owned());
                let mut found = report.rows.iter().filter(|one| {
                    one.labels.contains(&label)
                        && row.conditions.iter().all(|other| one.labels.contains(other))
                });
                found.next().unwrap().shown().find(|one| one.kind.name == compared.by.figure)
            };
            let (mine, base) = (find(row.option.as_ref().unwrap()), find(&compared.by.baseline));
            let (Some(mine), Some(base), Some(ratio)) = (mine, base, row.comparison.ratio) else {
                continue;
            };
            let (mine_, base_) = (figure(mine), figure(base));
            let outer = match mine.kind.better {
                overside_model::scenario::Better::Lower => base_.over(mine_),
                _ => mine_.over(base_),
            };
            let slack = 1.0 + 1e-9;
            let within = ratio.low * slack >= outer.low && ratio.high <= outer.high * slack;
            assert!(within, "{name}: {:?} {ratio:?} in {outer:?}", row.option);
            narrower += usize::from(ratio.high / ratio.low < 0.98 * outer.high / outer.low);
        }
    }
    assert!(narrower > 60, "{narrower}");
}

#[test]
fn a_card_that_adds_look_ups_is_better_than_the_host_alone() {
    let report = preset("index-offload");
    for (row, compared) in report.rows.iter().zip(rows(&report)) {
        let gain = figure(row.more.iter().find(|one| one.kind.name == "gain").unwrap());
        let ratio = compared.comparison.ratio.unwrap();
        assert_eq!(compared.comparison.verdict, Verdict::Yes, "{compared:?}");
        assert!((ratio.typ - 1.0 - gain.typ).abs() < 1e-9);
        // The doubt about what the card adds is not one about what the host does anyway.
        assert!(ratio.high < 1.0 + 1.3 * gain.high, "{ratio:?} {gain:?}");
    }
}

#[test]
fn the_faster_primitive_is_told_where_a_ratio_was_published() {
    let report = preset("dma-primitives");
    let told = |row: &&ComparedRow| row.comparison.verdict != Verdict::CannotTell;
    let (mut reads, mut all) = (0, 0);
    for row in rows(&report) {
        let Some(ratio) = row.comparison.ratio else { continue };
        // Far enough from 1, whatever the doubt about another size.
        if !(0.7..1.4).contains(&ratio.typ) {
            all += 1;
            reads += usize::from(told(&row));
        }
    }
    assert!(all >= 4 && reads == all, "{reads} of {all}");
}

#[test]
fn long_writes_of_rdma_and_dma_are_not_called_equal() {
    let settings = [("access", "write"), ("bytes", "2 MiB"), ("initiator", "host,dpu")];
    for row in rows(&ask("dma", &settings)) {
        let ratio = row.comparison.ratio.unwrap();
        assert_eq!(row.comparison.verdict, Verdict::CannotTell);
        assert!(ratio.low < 0.75 && ratio.high > 1.33, "{ratio:?}");
    }
}

#[test]
fn under_a_load_that_all_designs_carry_the_fewest_host_cores_are_best() {
    let report = ask("kv", &[("design", "cpu-only,dpu-only,sav"), ("load", "4 Mops/s")]);
    let [choice] = choices(&report) else { panic!("{report:?}") };
    assert_eq!(choice.best, ["dpu-only"]);
    let cores: Vec<_> = choice.then.iter().map(|(name, one)| (name.as_str(), one.typ)).collect();
    assert_eq!(cores, [("cpu-only", 2.0), ("dpu-only", 0.0), ("sav", 1.0)]);
    assert!(choice.rivals.is_empty());
    // A load that only some carry for certain is a choice by throughput again.
    let report = ask("kv", &[("load", "200 Mops/s")]);
    assert!(choices(&report)[0].then.is_empty());
}

#[test]
fn the_ways_through_a_card_that_cost_much_are_worse_for_certain() {
    let report = preset("network-paths");
    for choice in choices(&report) {
        assert_eq!(choice.best, ["sm4", "sm5", "off-path"], "{choice:?}");
        let of = |row: &&ComparedRow| row.conditions == choice.conditions;
        let slow = rows(&report)
            .iter()
            .filter(of)
            .filter(|row| row.comparison.ratio.is_some_and(|ratio| ratio.typ < 0.8));
        for row in slow {
            assert_eq!(row.comparison.verdict, Verdict::No, "{row:?}");
        }
    }
}

/// Setting a key to the value that a row shows for it changes nothing.
#[test]
fn a_key_set_to_what_is_shown_changes_nothing() {
    let mut tried = 0;
    for scenario in scenarios() {
        let name = &scenario.name;
        let points = ScenarioArgs::of(name).points(scenario, Library::published()).unwrap();
        for point in &points {
            let fixed: Vec<(&str, &str)> = point.iter().collect();
            let Ok(report) = ask_of(Library::published(), name, &fixed) else { continue };
            let [row] = &report.rows[..] else { continue };
            for key in scenario.keys.iter().filter(|key| point.get(&key.name).is_none()) {
                let shown = row
                    .shown()
                    .find(|one| one.kind.name.replace(' ', "_").eq_ignore_ascii_case(&key.name));
                let Some(Ok(shown)) = shown.map(|one| one.answer.as_ref()) else { continue };
                let value = shown.interval.typ.to_string();
                let mut set = fixed.clone();
                set.push((&key.name, &value));
                let Ok(again) = ask_of(Library::published(), name, &set) else { continue };
                assert_eq!(
                    again.rows[0].shown().collect::<Vec<_>>(),
                    row.shown().collect::<Vec<_>>(),
                    "{name}: {fixed:?}, {}={value}",
                    key.name
                );
                tried += 1;
            }
        }
    }
    assert!(tried >= 8, "{tried}");
}

#[test]
fn offloaded_requests_take_as_long_as_follows_from_their_own_rate() {
    for gets in ["50", "95", "100"] {
        let one = |design: &str| {
            let report = ask("kv", &[("design", design), ("gets", gets)]);
            (latency_ns(&report.rows[0]), rate(&report.rows[0]))
        };
        let (dpu, sav) = (one("dpu-only"), one("sav"));
        let in_flight = |(latency_ns, per_s): (f64, f64)| latency_ns * per_s / 1e9;
        assert!((in_flight(sav) / in_flight(dpu) - 1.0).abs() < 1e-6, "{gets}: {sav:?} {dpu:?}");
    }
}

#[test]
fn a_run_with_nothing_on_the_engine_is_one_run() {
    for direction in ["compress", "decompress"] {
        let set = [("direction", direction), ("share", "0"), ("setting", "static,reconfiguration")];
        let report = ask("split", &set);
        let [fixed, anew] = &report.rows[..] else { panic!("two settings") };
        let of = |row: &overside_model::scenario::Row| {
            [&row.throughput, &row.latency].map(|one| figure(one.as_ref().unwrap()))
        };
        assert_eq!(of(fixed), of(anew));
    }
}

#[test]
fn what_the_port_does_not_let_in_is_lost_for_certain() {
    let report =
        ask("interference", &[("profile", "bf2"), ("beside", "dma"), ("traffic", "800 Gb/s")]);
    for row in &report.rows {
        let lost = figure(row.more.iter().find(|one| one.kind.name == "lost").unwrap());
        assert!(lost.low >= 1.0 - 25.0 / 800.0 - 1e-9, "{lost:?}");
        assert!(lost.high <= 1.0);
    }
    let two = ask("interference", &[]);
    let engines =
        two.rows.iter().filter(|row| row.labels.contains(&("beside".into(), "engine".into())));
    assert_eq!(engines.count(), 1, "jobs of engines have no intensity");
}

#[test]
fn short_jobs_have_one_answer_and_engines_that_do_not_exist_none() {
    for profile in ["bf2", "bf2-soc", "bf3"] {
        let set = [
            ("profile", profile),
            ("direction", "decompress"),
            ("context", "kept"),
            ("size", "100 KiB,4 MiB"),
        ];
        let report = ask("codec", &set);
        let [short, long] = &report.rows[..] else { panic!("two sizes") };
        let why = &short.throughput.as_ref().unwrap().answer.as_ref().unwrap_err().why;
        assert!(why.contains("what one job costs"), "{why}");
        assert!(short.latency.as_ref().unwrap().answer.is_err());
        assert!(long.throughput.as_ref().unwrap().answer.is_ok());
    }
    for profile in ["bf3", "bf3-soc"] {
        let report = ask("codec", &[("profile", profile), ("direction", "compress")]);
        for row in &report.rows {
            let why = row.throughput.as_ref().unwrap().answer.as_ref().unwrap_err();
            let advised = overside_model::profile(profile).unwrap();
            let operation = "compress-deflate".parse().unwrap();
            let absent = advised.why_absent(operation);
            assert!(why.why.contains("compress-deflate"), "{why}");
            assert!(absent.is_none_or(|absent| why.why.contains(absent)), "{why}");
        }
    }
}

#[test]
fn a_core_has_no_context() {
    let set = [("on", "cpu"), ("profile", "host-coproc-bf2"), ("direction", "compress,decompress")];
    let report = ask("codec", &set);
    assert_eq!(report.rows.len(), 2);
    assert!(!report.common.contains_key("context") && report.compared.is_none());
}

fn workload(rate: &str, more: &str, stage: &str) -> Workload {
    let text = format!(
        "schema = \"workload/1\"\nrate = \"{rate}\"\nbuffer = \"4 MiB\"\n{more}\n\
         [[stages]]\ndo = \"compress-deflate\"\n{stage}\n[host]\ncores = 32\n"
    );
    Workload::parse("setup.toml", &text).unwrap()
}

fn planned(workload: &Workload) -> Advice {
    let question = published_question(Library::published(), 32);
    advise(&question, &[profile("bf2").unwrap()], Some(workload)).unwrap()
}

#[test]
fn a_card_that_is_sure_to_be_too_little_is_not_worth_it() {
    let advice = planned(&workload("400 Gb/s", "cards = 1", ""));
    let plans = advice.workload.unwrap().plans;
    assert_eq!(plans[1].enough, Verdict::No);
    assert_eq!(plans[1].is_worth_it, Some(Verdict::No));
}

#[test]
fn a_plan_says_what_the_cards_that_it_names_carry() {
    let open = planned(&workload("40 Gb/s", "", "")).workload.unwrap();
    let [.., most] = open.plans[1].whole_cards.unwrap();
    let carry = open.plans[1].whole_cards_carry_bytes_per_s.as_ref().unwrap().as_ref().unwrap();
    let limited = planned(&workload("40 Gb/s", &format!("cards = {most}"), "")).workload.unwrap();
    let known = limited.plans[1].carries_bytes_per_s.as_ref().unwrap().as_ref().unwrap();
    assert!((carry.interval.typ / known.interval.typ - 1.0).abs() < 1e-9, "{carry:?} {known:?}");
}

#[test]
fn the_level_of_a_stage_decides_how_many_cores_it_takes_and_is_named() {
    let cores = |stage: &str| {
        let plans = planned(&workload("40 Gb/s", "", stage)).workload.unwrap().plans;
        (plans[0].cores.as_ref().unwrap().interval, plans[0].stages[0].library.clone())
    };
    let (fast, slow) = (cores("level = 1"), cores("level = 6"));
    assert_eq!(cores(""), fast);
    assert!((15.0..60.0).contains(&fast.0.typ), "{fast:?}");
    assert!((150.0..250.0).contains(&slow.0.typ), "{slow:?}");
    assert!(fast.1.contains("libdeflate level 1") && slow.1.contains("zlib level 6"));
    let plans = planned(&workload("40 Gb/s", "", "level = 9")).workload.unwrap().plans;
    assert!(plans[0].cores.is_err());
}

#[test]
fn a_published_search_has_an_answer_for_each_pattern() {
    let question = published_question(Library::published(), 1);
    let advice = advise(&question, &[profile("bf2").unwrap()], None).unwrap();
    let searches = advice.operations.iter().filter(|one| one.operation == "match-count");
    let told: Vec<_> = searches
        .map(|one| (one.title.clone(), one.targets[0].ranges.last().unwrap().c1.verdict))
        .collect();
    assert_eq!(told.len(), 4);
    let of = |name: &str| told.iter().find(|(title, _)| title.contains(name)).unwrap().1;
    assert_eq!(of("Q4"), Verdict::Yes);
    assert_ne!(of("Q2"), Verdict::Yes);
    assert!(
        question
            .measured
            .iter()
            .filter(|one| one.operation == "match-count")
            .all(|one| one.is_example)
    );
}

#[test]
fn a_doubt_that_both_plans_share_cancels() {
    let plans = planned(&workload("40 Gb/s", "", "")).workload.unwrap().plans;
    let fewer = plans[1].fewer_cores.as_ref().unwrap();
    let naive = figure_of(&plans[0].cores).over(figure_of(&plans[1].cores));
    let ratio = fewer.ratio.unwrap();
    assert!(ratio.high / ratio.low < naive.high / naive.low, "{ratio:?} {naive:?}");
}

fn figure_of(answer: &overside_model::Answer) -> Interval {
    answer.as_ref().unwrap().interval
}
