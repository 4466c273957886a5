//! Check whether a card can run a design in the mode that it is in.

use std::sync::LazyLock;

use overside_config::{Document, Limits};
use overside_kv_offload::Design;
use overside_kv_offload::agent::CardFound;
use serde::Deserialize;

const FILE: &str = "cards.toml";

/// The cards that are known.
static CARDS: LazyLock<Cards> = LazyLock::new(|| {
    let document = Document::toml(FILE, include_str!("cards.toml"), Limits::bytes(1 << 16));
    document.and_then(|document| document.read()).expect("the file is right, as a test shows")
});

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cards {
    #[serde(rename = "schema")]
    _schema: String,
    card: Vec<Card>,
    mode: Vec<Mode>,
    requirement: Vec<Requirement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Card {
    name: String,
    title: String,
    /// Vendor and device, as its network function has them.
    pci: String,
    /// Modes of the card; it is delivered in the first one.
    modes: Vec<String>,
    /// The published fact with the figure.
    fact: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mode {
    name: String,
    title: String,
    /// The command that sets it.
    remedy: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    designs: Vec<String>,
    mode: String,
    reason: String,
    /// Designs that do not need the mode.
    alternatives: Vec<String>,
}

/// A card in a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CardMode {
    card: String,
    mode: String,
}

impl CardMode {
    /// `bf2`, as it comes, or `bf2:separated`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, mode) = match text.split_once(':') {
            None => (text, None),
            Some((name, mode)) => (name, Some(mode)),
        };
        let all = CARDS.card.iter().flat_map(|card| {
            let modes = card.modes.iter();
            modes.map(|mode| Self::of(card, mode))
        });
        let mut fitting =
            all.clone().filter(|one| one.card == name && mode.is_none_or(|mode| one.mode == mode));
        let known = || all.clone().map(|one| one.to_string()).collect::<Vec<_>>();
        fitting.next().ok_or_else(|| known().join(", "))
    }

    /// The card that an agent has found, if it is a known one.
    pub(super) fn found(found: &CardFound) -> Option<Self> {
        let card = CARDS.card.iter().find(|card| card.pci == found.pci)?;
        let others = card.modes.iter().find(|mode| *mode != "dpu");
        let mode = others.filter(|_| !found.has_representors);
        Some(Self::of(card, mode.unwrap_or(&card.modes[0])))
    }

    fn of(card: &Card, mode: &str) -> Self {
        Self { card: card.name.clone(), mode: mode.to_owned() }
    }

    /// Refuses a design that the card cannot carry.
    pub(super) fn check(&self, design: Design) -> Result<(), String> {
        let name = design.name();
        let carries = |one: &&Requirement| one.designs.iter().any(|design| design == name);
        let requirement = CARDS.requirement.iter().find(carries);
        let Some(requirement) = requirement.filter(|one| one.mode != self.mode) else {
            return Ok(());
        };
        let Requirement { mode, reason, .. } = requirement;
        let needed = mode_of(mode);
        let card = CARDS.card.iter().find(|card| card.name == self.card);
        let (title, fact) = card.map_or(("", ""), |card| (&*card.title, &*card.fact));
        let can_be_set = card.is_some_and(|card| card.modes.contains(mode));
        let now = mode_of(&self.mode).title.as_str();
        let remedy = match can_be_set {
            true => format!(
                "This {title} is in {now}; `{}` and a power cycle set the other one",
                needed.remedy
            ),
            false => format!(
                "A {title} has no such mode ({fact} in facts/published.yaml): take --design {}",
                requirement.alternatives.join(" or ")
            ),
        };
        let needed = &needed.title;
        Err(format!("--design {name} needs a card in {needed}, because {reason}. {remedy}"))
    }
}

impl std::fmt::Display for CardMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.card, self.mode)
    }
}

fn mode_of(name: &str) -> &'static Mode {
    let mode = CARDS.mode.iter().find(|mode| mode.name == name);
    mode.expect("the file has every mode, as a test shows")
}

#[cfg(test)]
mod tests {
    use overside_kv_offload::Design;
    use overside_kv_offload::agent::CardFound;

    use super::{CARDS, CardMode, mode_of};

    const FACTS: &str = include_str!("../../../../facts/published.yaml");

    #[test]
    fn every_card_names_a_fact_and_every_mode_and_design_is_known() {
        for card in &CARDS.card {
            assert!(FACTS.contains(&format!("- id: {}\n", card.fact)), "{}", card.fact);
            assert!(!card.modes.is_empty());
            card.modes.iter().for_each(|mode| _ = mode_of(mode));
        }
        let is_design = |name: &String| Design::ALL.iter().any(|design| design.name() == name);
        for one in &CARDS.requirement {
            mode_of(&one.mode);
            assert!(one.designs.iter().chain(&one.alternatives).all(is_design));
        }
    }

    #[test]
    fn a_design_is_refused_by_cards_whose_mode_cannot_carry_it() {
        let check = |card: &str, design: Design| CardMode::parse(card).unwrap().check(design);
        for design in Design::ALL {
            let needs = matches!(design, Design::Dual | Design::Shrd);
            assert_eq!(check("bf3", design).is_err(), needs, "{design:?}");
            assert_eq!(check("bf2", design).is_err(), needs, "{design:?}");
            assert_eq!(check("bf2:separated", design), Ok(()));
        }
        let refused = check("bf3", Design::Dual).unwrap_err();
        assert!(refused.contains("needs a card in separated-host mode"), "{refused}");
        assert!(refused.contains("take --design sav or lat"), "{refused}");
        let refused = check("bf2", Design::Shrd).unwrap_err();
        assert!(refused.contains("is in DPU mode"), "{refused}");
        assert!(refused.contains("INTERNAL_CPU_MODEL=0"), "{refused}");
        assert!(CardMode::parse("bf9").unwrap_err().contains("bf2:separated"));
        assert!(CardMode::parse("bf3:separated").is_err());
    }

    #[test]
    fn a_card_that_an_agent_finds_is_in_the_mode_that_its_representors_tell() {
        for (pci, has_representors, expected) in [
            ("15b3:a2d6", true, Some("bf2:dpu")),
            ("15b3:a2d6", false, Some("bf2:separated")),
            ("15b3:a2dc", false, Some("bf3:dpu")),
            ("8086:1572", false, None),
        ] {
            let found = CardFound { pci: pci.into(), has_representors };
            let mode = CardMode::found(&found).map(|mode| mode.to_string());
            assert_eq!(mode.as_deref(), expected);
        }
    }
}
