//! Claims answer or stay silent on any figure: one made of parts of many, with any value.

use overside_model::Library;
use overside_model::check::check;
use overside_model::facts::{Fact, Facts, Meta};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_yaml_ng::Value;

const VALUES: [&str; 14] = [
    "0",
    "-1",
    "1e308",
    "-1e308",
    "5e-324",
    "1e-9",
    "4096",
    "[0, 1]",
    "[1, 1e300]",
    "'<0'",
    "'>1e9'",
    "{BF-2: {'0': 1, '-5': 2, '1e400': 3}, host: {x: 7}}",
    "{'BF-3/BF-2': 0, 'host/BF-3': [1, 2], '': 3, ü: 4}",
    "{A: {BF2: 50, BF3: -50}, GET: {req: 101, resp: 0}, '64MB': 1e18, '99999999999999999999 GB': 1}",
];

/// A fact whose parts are from those of that index each.
fn mixed(parts: [Index; 7]) -> Fact {
    let all = &Facts::published().facts;
    let [device, workload, metric, conditions, unit, body, paper] = parts.map(|one| one.get(all));
    Fact {
        id: "mixed".into(),
        device: device.device.clone(),
        workload: workload.workload.clone(),
        metric: metric.metric.clone(),
        conditions: conditions.conditions.clone(),
        unit: unit.unit.clone(),
        paper: paper.paper.clone(),
        flag: None,
        corrected: None,
        ..body.clone()
    }
}

fn compare(fact: Fact) {
    let facts = Facts {
        meta: Meta::default(),
        facts: vec![fact],
        orderings: Vec::new(),
    };
    let check = check(&facts, Library::published());
    for one in check.figures.iter().filter_map(|one| one.compared()) {
        assert!(one.width >= 1.0 && one.error.is_finite(), "{one:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn parts_of_facts(parts: [Index; 7]) {
        compare(mixed(parts));
    }

    #[test]
    fn facts_with_another_value(fact: Index, value in prop::sample::select(&VALUES[..])) {
        let value: Value = serde_yaml_ng::from_str(value).unwrap();
        let fact = fact.get(&Facts::published().facts).clone();
        compare(Fact { value: Some(value), range: None, values: None, corrected: None, ..fact });
    }

    #[test]
    fn facts_with_other_words(fact: Index, words in "[ -~µ–]{0,60}", which in 0..4) {
        let mut fact = fact.get(&Facts::published().facts).clone();
        match which {
            0 => fact.device = words,
            1 => fact.workload.push_str(&words),
            2 => fact.metric = words,
            _ => fact.conditions = words,
        }
        compare(fact);
    }
}
