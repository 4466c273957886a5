//! Every planted mistake is caught, and by its effect.

use overside_measure::audit::{Mistake, audit};

#[test]
fn every_planted_mistake_is_caught() {
    let scratch = tempfile::tempdir().unwrap();
    let found = audit(scratch.path()).unwrap();
    for mistake in Mistake::ALL {
        assert!(found.iter().any(|planted| planted.mistake == mistake));
    }
    for planted in found {
        assert!(planted.works_without, "{planted:?}");
        assert!(planted.caught, "{planted:?}");
        let said = match planted.mistake {
            Mistake::SoftwareFallback => "cpu ran the job",
            Mistake::BitsForBytes => "contradicts",
            Mistake::LoopRemoved => "says",
            Mistake::NothingMoved => "not at the peer",
            Mistake::FirstByteOnly => "not at the initiator",
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

#[test]
fn a_swapped_direction_is_planted_in_copies_reads_and_writes() {
    let scratch = tempfile::tempdir().unwrap();
    let found = audit(scratch.path()).unwrap();
    let swapped = (found.iter()).filter(|planted| planted.mistake == Mistake::DirectionSwapped);
    let tests: Vec<&str> = swapped.map(|planted| planted.test.as_str()).collect();
    assert_eq!(tests, ["copy on cpu", "dma write over shm", "dma read over shm"]);
}
