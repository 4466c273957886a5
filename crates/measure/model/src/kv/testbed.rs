//! A test bed: the known values of a card and of the host that it was measured with.

use std::cell::Cell;

use crate::{Answer, Evaluation, EvidenceLevel, Library, Outcome, Values};

/// Cards with figures of key-value stores, and the other profiles that they stand in for.
///
/// The stores are bound by the card's Arm cores and not by its host link, so that a card with the
/// same cores is expected to do the same, core by core and clock by clock.
pub const CARDS: &[(&str, &str)] = &[
    ("bf1", "bf2-200g"),
    ("bf2", "bf2-200g"),
    ("bf2-200g", "bf2-200g"),
    ("bf2-vpi", "bf2-200g"),
    ("bf3", "bf3-8c"),
    ("bf3-8c", "bf3-8c"),
];

/// The host of study 003.
const HOST: &str = "host-dpukv";

/// Profiles that the formulas read.
const PROFILES: &[&str] =
    &["bf1", "bf2", "bf2-200g", "bf2-vpi", "bf3", "bf3-8c", "host-dpukv", "host-idio"];

/// The values of a card and its host, and how far a formula had to weakest for them.
pub struct Testbed<'a, 'v> {
    values: &'a Values<'v>,
    card: &'a str,
    weakest: &'a Cell<EvidenceLevel>,
}

impl<'a, 'v> Testbed<'a, 'v> {
    /// The same values, of another card.
    pub fn of(&self, card: &'a str) -> Self {
        Self { card, ..*self }
    }

    /// The card whose figures are read: the one asked for, or the one that stands in for it.
    pub fn measured_card(&self) -> &'a str {
        (CARDS.iter().find(|(name, _)| *name == self.card)).map_or(self.card, |(_, bed)| bed)
    }

    /// A value of the card that was measured.
    pub fn card(&self, name: &str) -> Evaluation {
        self.values.get(&format!("{}/kv.{name}", self.measured_card()))
    }

    /// A value of the host of study 003.
    pub fn host(&self, name: &str) -> Evaluation {
        self.values.get(&format!("{HOST}/kv.{name}"))
    }

    /// A value of the host of study 002.
    pub fn pairing_host(&self, name: &str) -> Evaluation {
        self.values.get(&format!("host-idio/kv.{name}"))
    }

    /// The number of Arm cores of the card that was measured.
    pub fn cores(&self) -> Evaluation {
        self.values.get(&format!("{}/cpu.cores", self.measured_card()))
    }

    /// The number of Arm cores of the card asked for.
    pub fn own_cores(&self) -> Evaluation {
        self.values.get(&format!("{}/cpu.cores", self.card))
    }

    /// Cores times clock of the card asked for, over those of the card that was measured.
    pub fn scale(&self) -> Evaluation {
        let measured = self.measured_card();
        if measured == self.card {
            return Ok(1.0);
        }
        self.weaken_evidence(EvidenceLevel::Application);
        let mut ratio = 1.0;
        for name in ["cpu.cores", "cpu.clock"] {
            let own = self.values.get(&format!("{}/{name}", self.card))?;
            ratio *= own / self.values.get(&format!("{measured}/{name}"))?;
        }
        Ok(ratio)
    }

    /// Says that a formula takes a value from conditions as far away as this.
    pub fn weaken_evidence(&self, closeness: EvidenceLevel) {
        self.weakest.set(self.weakest.get().max(closeness));
    }

    /// Tries a formula; if it lacks a value, the evidence that it used is forgotten.
    pub fn attempt<T>(&self, formula: impl FnOnce(&Self) -> Evaluation<T>) -> Option<T> {
        let before = self.weakest.get();
        let result = formula(self).ok();
        if result.is_none() {
            self.weakest.set(before);
        }
        result
    }
}

/// Evaluates `formula` on a card with all values of it and of the test beds in the library; the
/// formula itself sets the closeness of its values.
///
/// # Errors
/// [`crate::NoPrediction`] where a value is not known.
pub fn answer<F, O>(library: &Library, card: &str, formula: F) -> Answer
where
    F: Fn(&Testbed<'_, '_>) -> Evaluation<O>,
    O: Into<Outcome>,
{
    let own = (!PROFILES.contains(&card)).then_some(card);
    let profiles: Vec<&str> = PROFILES.iter().copied().chain(own).collect();
    let evidence = library.evidence(&profiles);
    let weakest = Cell::new(EvidenceLevel::Same);
    let on_bed = |values: &Values<'_>| formula(&Testbed { values, card, weakest: &weakest });
    // Once to learn how far it reaches; that decides how wide the interval is.
    evidence.predict(EvidenceLevel::Same, on_bed)?;
    evidence.predict(weakest.get(), on_bed)
}
