//! Matching by an engine that takes compiled rules.

use crate::common;

use std::collections::VecDeque;
use std::sync::Arc;

use overside_backend_dpdk::RULES;
use overside_device::{
    ContextConfig, Device, Job, JobError, OpenError, Operation, OperationConfig, Outcome,
};
use overside_ops::MatchKind;
use overside_testkit::conformance::PROMISES;

/// One test, because the engine has one set of rules, and the directory with them is the process's.
#[test]
fn records_are_matched_by_compiled_rules() {
    let rules = tempfile::tempdir().unwrap();
    for (name, patterns) in
        [("words", "needle\non (.+) at\n"), ("across", "x[^a]y\n"), ("letters", "[a-z]\n")]
    {
        // What stands for the vendor's compiler changes nothing.
        std::fs::write(rules.path().join(name).with_extension("patterns"), patterns).unwrap();
        std::fs::write(rules.path().join(name).with_extension("compiled"), patterns).unwrap();
    }
    let device = common::card("regex0");
    let config = |patterns: &[&str]| ContextConfig {
        operation: OperationConfig {
            patterns: patterns.iter().map(|&one| one.to_owned()).collect(),
            ..OperationConfig::new(Operation::Match(MatchKind::Count))
        },
        depth: 2,
        max_source_bytes: 16_000,
        max_destination_bytes: 0,
    };
    let open = |patterns: &[&str]| device.open(config(patterns));
    let none = open(&["needle"]).err().unwrap().to_string();
    assert!(none.contains(RULES), "{none}");

    #[allow(unsafe_code)]
    // SAFETY: this test is the only one of its process, and nothing reads the environment now.
    unsafe {
        std::env::set_var(RULES, rules.path())
    };
    let other = open(&["needles"]).err();
    assert!(matches!(other, Some(OpenError::Failed { .. })), "{other:?}");
    for (name, promise) in PROMISES {
        eprintln!("{name}");
        promise(&|| common::card("regex0") as Arc<dyn Device>);
    }

    let run = |patterns: &[&str], text: &[u8]| {
        let mut context = open(patterns).unwrap();
        let mut source = device.alloc(text.len(), 1).unwrap();
        source.copy_from_slice(text);
        let mut jobs = VecDeque::from([Job {
            tag: 1,
            source: source.share().into(),
            destination: device.alloc(0, 1).unwrap(),
            deadline: None,
        }]);
        context.submit(&mut jobs).unwrap();
        let mut out = Vec::new();
        while context.poll(&mut out, 1).unwrap() == 0 {}
        out.remove(0).result
    };
    let counted = run(&["x[^a]y"], b"xby\nxay\nxcy");
    assert!(matches!(counted, Ok(Outcome::Done(output)) if output.value == Some(2)), "{counted:?}");
    // An engine that takes a line's end for any byte would count records that do not match.
    let across = run(&["x[^a]y"], b"x\ny");
    assert!(matches!(across, Err(JobError::Failed(_))), "{across:?}");
    // More matches than it reports are not a count.
    let many = run(&["[a-z]"], &b"a\n".repeat(common::MAX_MATCHES as usize + 1));
    assert!(matches!(many, Err(JobError::Failed(_))), "{many:?}");

    let first = open(&["x[^a]y"]).unwrap();
    let second = open(&["[a-z]"]).err().unwrap().to_string();
    assert!(second.contains("another context"), "{second}");
    drop(first);
    open(&["[a-z]"]).unwrap();
}
