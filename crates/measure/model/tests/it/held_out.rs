//! No parameter may rest on a fact that judges the model: not by citing it, not by repeating its
//! number in a profile, and not by repeating it in the code.

use std::path::{Path, PathBuf};

use overside_model::facts::{Facts, Figure, FigureValue, Use};
use overside_model::{Dimension, Library, Profile, Unit};

/// A number of a profile, with the facts that it cites.
struct Value<'a> {
    key: String,
    number: f64,
    unit: Unit,
    facts: &'a [String],
    derivation: Option<&'a str>,
}

fn values(profile: &Profile) -> Vec<Value<'_>> {
    let mut all = Vec::new();
    for (key, quantity) in profile.quantities() {
        for number in [quantity.low, quantity.value, quantity.high] {
            all.extend(number.map(|number| Value {
                key: key.clone(),
                number,
                unit: quantity.unit,
                facts: &quantity.facts,
                derivation: quantity.citation.as_deref(),
            }));
        }
    }
    for (name, table) in &profile.tables {
        all.extend(table.value.iter().map(|number| Value {
            key: format!("tables.{name}"),
            number: *number,
            unit: table.unit,
            facts: &table.facts,
            derivation: table.citation.as_deref(),
        }));
    }
    for (key, sweep) in profile.sweeps() {
        all.extend(sweep.rate.iter().map(|number| Value {
            key: key.clone(),
            number: *number,
            unit: sweep.unit,
            facts: &sweep.facts,
            derivation: None,
        }));
    }
    all
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-3 * a.abs().max(b.abs())
}

fn numbers(figure: &Figure<'_>) -> Vec<f64> {
    match &figure.value {
        FigureValue::Words(text) => (text.split(|at: char| !at.is_ascii_digit() && at != '.'))
            .filter_map(|word| word.parse().ok())
            .collect(),
        value => value.numbers(),
    }
}

/// Returns `true` if a fact prints a value, in the value's unit or in the fact's own.
fn prints(fact: &str, value: &Value<'_>) -> bool {
    let fact = Facts::published().get(fact).expect("a fact that exists");
    let base = value.number * value.unit.in_base();
    fact.figures().iter().any(|figure| {
        let own = figure.known_unit().map(Unit::in_base);
        // Sizes and counts stand in a fact's keys.
        let keys = (figure.path.iter()).filter_map(|key| key.parse::<f64>().ok());
        keys.into_iter().any(|key| key == value.number)
            || numbers(figure).into_iter().any(|published| {
                near(published, value.number) || own.is_some_and(|own| near(published * own, base))
            })
    })
}

#[test]
fn the_collection_is_the_one_that_was_handed_out_with_its_additions() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let shared = std::env::var_os("OVERSIDE_SHARED").map_or(root.join("../shared"), PathBuf::from);
    let read = |path: PathBuf| std::fs::read_to_string(path).ok();
    let (Some(original), Some(additions)) =
        (read(shared.join("facts/published.yaml")), read(shared.join("facts/additions.yaml")))
    else {
        eprintln!("skipped: there are no facts in {}", shared.display());
        return;
    };
    let (_, added) = additions.split_once("facts:\n").unwrap();
    let ours = read(root.join("facts/published.yaml")).unwrap();
    assert!(ours.contains(added), "an addition is missing or differs");
    assert!(
        ours.replacen(added, "", 1) == original,
        "facts/published.yaml differs from {}",
        shared.display()
    );
}

#[test]
fn profiles_cite_only_facts_that_parameters_may_rest_on() {
    for profile in Library::published().profiles() {
        for id in profile.facts.keys() {
            let fact = Facts::published().get(id);
            let fact = fact.unwrap_or_else(|| panic!("{}: there is no fact {id}", profile.name));
            assert_ne!(fact.purpose, Use::Validate, "{}: {id}", profile.name);
            assert!(!fact.is_doubtful(), "{}: {id}", profile.name);
        }
        for value in values(profile) {
            for id in value.facts {
                assert!(profile.facts.contains_key(id), "{}: {id}", value.key);
            }
        }
    }
}

#[test]
fn every_number_of_a_profile_stands_in_a_fact_or_shows_how_it_was_derived() {
    let mut checked = 0;
    for profile in Library::published().profiles() {
        for value in values(profile) {
            let printed = value.facts.iter().any(|id| prints(id, &value));
            let derived = (value.derivation).is_some_and(|text| {
                text.chars().any(|at| at.is_ascii_digit()) || value.facts.is_empty()
            });
            assert!(
                printed || derived,
                "{}: {}: {} is in none of {:?}, and no citation shows how it was derived",
                profile.name,
                value.key,
                value.number,
                value.facts
            );
            checked += 1;
        }
    }
    println!("{checked} numbers");
    assert!(checked > 100);
}

/// The generation of a card, or a host, that a text names.
fn machine(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase().replace("bf-", "bf");
    ["bf1", "bf2", "bf3", "octeon", "host"].into_iter().filter(|name| text.contains(name)).collect()
}

fn significant_digits(number: f64) -> usize {
    let text = format!("{number}");
    let digits = text.replace('.', "");
    digits.trim_start_matches('0').trim_end_matches('0').len()
}

#[test]
fn no_number_of_a_profile_repeats_one_that_judges_the_model() {
    let judging: Vec<_> = (Facts::published().facts.iter())
        .filter(|fact| fact.purpose == Use::Validate)
        .flat_map(|fact| fact.figures())
        .collect();
    for profile in Library::published().profiles() {
        let own = machine(&profile.name);
        for value in values(profile) {
            // A count of 2 or 50 is the same by chance.
            let plain = value.unit.dimension() == Dimension::Count;
            if plain && significant_digits(value.number) < 3 {
                continue;
            }
            let base = value.number * value.unit.in_base();
            let repeated = judging.iter().find(|figure| {
                let about = machine(figure.device());
                let same_machine = about.is_empty() || about.iter().any(|one| own.contains(one));
                let unit = figure.known_unit();
                same_machine
                    && unit.is_some_and(|unit| {
                        unit.dimension() == value.unit.dimension()
                            && (numbers(figure).into_iter())
                                .any(|number| near(number * unit.in_base(), base))
                    })
            });
            if let Some(figure) = repeated {
                assert!(
                    value.facts.iter().any(|id| prints(id, &value)),
                    "{}: {}: {} is the number of {}, which judges the model",
                    profile.name,
                    value.key,
                    value.number,
                    figure.name()
                );
            }
        }
    }
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// Literals of a source file that are not in comments or strings.
fn literals(text: &str) -> Vec<f64> {
    let code = text.lines().map(|line| {
        let line = line.split("//").next().unwrap_or_default();
        line.split('"').step_by(2).collect::<Vec<_>>().join(" ")
    });
    let code: Vec<String> = code.collect();
    code.iter()
        .flat_map(|line| {
            line.split(|at: char| !at.is_ascii_alphanumeric() && at != '.' && at != '_')
        })
        .filter(|word| word.starts_with(|at: char| at.is_ascii_digit()))
        .filter_map(|word| word.replace('_', "").trim_end_matches('.').parse().ok())
        .collect()
}

const PAGE_BYTES: f64 = 4096.0;

#[test]
fn no_literal_in_the_code_repeats_a_number_that_judges_the_model() {
    let figures = |purpose: Use| -> Vec<(String, f64)> {
        (Facts::published().facts.iter())
            .filter(|fact| fact.purpose == purpose)
            .flat_map(|fact| fact.figures())
            .flat_map(|figure| {
                let name = figure.name();
                numbers(&figure).into_iter().map(move |number| (name.clone(), number))
            })
            .collect()
    };
    let may_be_used = figures(Use::Calibrate);
    let judging: Vec<_> = figures(Use::Validate)
        .into_iter()
        // Two digits are the same by chance, and a page has as many bytes as PCIe's longest packet.
        .filter(|(_, number)| significant_digits(*number) >= 3 && *number != PAGE_BYTES)
        .filter(|(_, number)| !may_be_used.iter().any(|(_, known)| known == number))
        .collect();
    assert!(judging.len() > 100);
    let mut files = Vec::new();
    sources(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 10);
    for file in files {
        for literal in literals(&std::fs::read_to_string(&file).unwrap()) {
            if let Some((name, _)) = judging.iter().find(|(_, number)| *number == literal) {
                panic!("{}: {literal} is the number of {name}", file.display());
            }
        }
    }
}
