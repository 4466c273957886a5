//! Every mistake that is planted is caught, and by what it does.

use overside_measure::audit::{Mistake, audit};

#[test]
fn every_planted_mistake_is_caught() {
    let scratch = tempfile::tempdir().unwrap();
    let found = audit(scratch.path()).unwrap();
    assert_eq!(found.len(), Mistake::ALL.len());
    for planted in found {
        assert!(planted.works_without, "{planted:?}");
        assert!(planted.caught, "{planted:?}");
        let said = match planted.mistake {
            Mistake::SoftwareFallback => "cpu ran the job",
            Mistake::BitsForBytes => "contradicts",
            Mistake::LoopRemoved => "says",
            _ => "",
        };
        assert!(planted.said.contains(said), "{planted:?}");
    }
}

#[test]
fn there_is_nothing_to_plant_where_nothing_can_be_written() {
    let scratch = tempfile::tempdir().unwrap();
    assert!(audit(&scratch.path().join("nowhere")).is_err());
}
