//! Tests that the declarations of tasks are consistent.

use std::collections::HashSet;

use overside_measure::tasks::{Kind, tasks};
use overside_ops::Operation;
use serde_json::Value;

/// The parameters in braces.
fn placeholders(template: &str) -> Vec<&str> {
    let parts = template.split('{').skip(1);
    parts.filter_map(|part| part.split('}').next()).collect()
}

#[test]
fn names_are_unique_and_defaults_are_allowed() {
    let mut names = HashSet::new();
    for task in tasks() {
        assert!(names.insert(task.name), "{}", task.name);
        let mut parameters = HashSet::new();
        for parameter in &task.parameters {
            let name = parameter.name;
            assert!(parameters.insert(name), "{} {name}", task.name);
            let (minimum, maximum) = (parameter.minimum, parameter.maximum);
            assert!(minimum <= maximum, "{} {name}", task.name);
            let fits = match (&parameter.default, parameter.kind) {
                (Value::Null, _) => true,
                (Value::String(text), Kind::String) => {
                    let choices = &parameter.choices;
                    choices.is_empty() || choices.iter().any(|choice| choice.name == text)
                }
                (Value::Number(number), Kind::Integer | Kind::Number) => {
                    let is_whole = number.is_u64() || parameter.kind == Kind::Number;
                    is_whole && minimum <= number.as_f64() && number.as_f64() <= maximum
                }
                (Value::Bool(_), Kind::Boolean) | (Value::Array(_), Kind::Strings) => true,
                _ => false,
            };
            assert!(fits, "{} {name} {:?}", task.name, parameter.default);
        }
        let mut metrics = HashSet::new();
        for metric in &task.metrics {
            assert!(metrics.insert(&metric.name), "{} {}", task.name, metric.name);
            assert!(!metric.unit.is_empty() && !metric.description.is_empty());
        }
    }
}

#[test]
fn reports_speak_of_parameters_that_there_are() {
    for task in tasks() {
        let (report, last) = (&task.report, task.report.titles.last());
        assert!(last.is_some_and(|title| title.when.is_none()), "{}", task.name);
        let titles = report.titles.iter();
        let named = (titles.clone().flat_map(|title| placeholders(title.text)))
            .chain(titles.filter_map(|title| title.when))
            .chain(report.ways.iter().copied())
            .chain(report.labels.when)
            .chain(report.labels.parameters.iter().copied())
            .chain(report.axes.iter().map(|axis| axis.name))
            .chain(task.operation.iter().flat_map(|one| placeholders(one)));
        for name in named {
            let is_there = task.parameters.iter().any(|one| one.name == name);
            assert!(is_there, "{} has no parameter {name}", task.name);
        }
        for stage in &report.stages {
            let is_there = task.metrics.iter().any(|one| one.name == stage.name);
            assert!(is_there, "{} has no metric {}", task.name, stage.name);
        }
    }
}

#[test]
fn every_operation_but_steps_of_others_can_be_measured_and_run_beside_traffic() {
    let tasks = tasks();
    let beside = tasks.iter().find(|task| task.name == "network").unwrap();
    let beside = beside.parameters.iter().find(|one| one.name == "jobs").unwrap();
    for operation in Operation::all() {
        let family = operation.family();
        let task = tasks.iter().find(|task| task.name == family.verb).unwrap();
        let is_chosen = family.parameter.is_none_or(|own| {
            let parameter = task.parameters.iter().find(|one| one.name == own.name).unwrap();
            let name = operation.member_name().unwrap();
            parameter.choices.iter().any(|choice| choice.name == name)
        });
        let name = operation.to_string();
        // Parts of streams are for files, not for boxes.
        assert_eq!(is_chosen, !name.ends_with("-deflate-part"), "{name}");
        let is_beside = beside.choices.iter().any(|choice| choice.name == name);
        assert_eq!(is_beside, is_chosen, "{name}");
    }
}
