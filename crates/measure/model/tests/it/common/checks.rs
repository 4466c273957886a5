//! Properties that must hold for any bytes; for the fuzzer, and for its corpus.

use overside_model::check::check;
use overside_model::facts::{Facts, Query};
use overside_model::{Library, Profile, Work, cost};

/// Any text is a collection or refused; every figure of a collection is compared or not, and its
/// record can be serialized.
pub(super) fn facts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(facts) = Facts::parse("fuzz.yaml", text) else {
        return;
    };
    for record in facts.search(&Query::default()).facts {
        assert!(!record.id.is_empty());
    }
    let check = check(&facts, Library::published());
    for compared in check.figures.iter().filter_map(|one| one.compared()) {
        assert!(compared.width >= 1.0 && compared.error.is_finite(), "{compared:?}");
    }
    serde_json::to_string(&check).unwrap();
}

/// Any text is a profile or refused; the values of a profile can be read, and left out.
pub(super) fn profile(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(profile) = Profile::parse("fuzz.toml", text) else {
        return;
    };
    for entry in &profile.operations {
        for name in &entry.does {
            let work = Work::new(name.parse().unwrap(), entry.max_source_bytes(), 1);
            if let Ok(cost) = cost(&profile, &work) {
                assert!(cost.low_ns <= cost.high_ns);
            }
        }
    }
    let known = profile.evidence();
    let ids: Vec<&str> = profile.facts.keys().map(String::as_str).collect();
    let left = Library::new(vec![profile.clone()]).without(&ids);
    assert!(left.profiles()[0].evidence().iter().count() <= known.iter().count());
}
