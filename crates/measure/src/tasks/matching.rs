//! `match`: patterns in the records of a data set.

use super::jobs;
use super::spec::{Parameter, Reference, TaskSpec};
use crate::test::PATTERNS_MAX;

#[rustfmt::skip]
pub(super) fn spec() -> TaskSpec {
    let kinds = [
        ("search", "Find the first matching record"),
        ("count", "Count matching records"),
        ("bitmap", "Mark matching records"),
        ("groups", "Find matches and their groups"),
    ];
    let own = vec![
        Parameter::titled("kind", "the first matching line, how many lines match, one bit a \
            line, or each match and what its groups hold", kinds).default("count"),
        Parameter::texts("patterns", "regular expressions, or the published queries q1 to q4; a \
            list is one value", PATTERNS_MAX).default(vec!["q1", "q2", "q3", "q4"])
            .names(Reference::Patterns),
        jobs::data("accidents"),
    ];
    jobs::task(
        "match",
        "find patterns in lines; plain regular expressions check each answer",
        "match-{kind}",
        own,
        jobs::metrics(Vec::new()),
        "{kind}",
    )
    .compared_with(&["regex"])
}
