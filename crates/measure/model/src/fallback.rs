//! Parameters of a machine's link, with other machines' figures where its own are missing.

use crate::{
    Answer, Evidence, EvidenceLevel, Library, MissingParameter, Outcome, ParameterValue, Values,
};

/// Profiles whose figures replace missing ones, in this order.
const SOURCES: [&str; 7] = ["bf2-200g", "bf3-8c", "bf2", "bf3", "bf1", "host-dpbento", "host-idio"];

/// Parameters that differ between generations by more than a half, or depend on a card's link, so that one
/// card's value is not used for another.
const OWN: [&str; 12] = [
    "dma.dpu.peak.cores",
    "dma.host.peak.cores",
    "dma.event.initiator",
    "dma.event.throughput",
    "dma.event.throughput.initiator",
    "rdma.dpu.read.large",
    "rdma.onpath.read.large",
    "rdma.onpath.send.large",
    "rdma.onpath.write.large",
    "tcp.slowpath.deficit",
    "tcp.sm1.rate",
    "tcp.sm2.rate",
];

/// Parameters of machines' links: from their own profiles, and completed with the figures of
/// others.
pub(crate) struct FallbackEvidence {
    own: Evidence,
    with_others: Evidence,
}

impl FallbackEvidence {
    /// Collects the parameters of those profiles. Missing figures of hosts come from hosts, those
    /// of cards from cards.
    pub(crate) fn of(library: &Library, machines: &[&str]) -> Self {
        let own = library.evidence(machines);
        let mut with_others = own.clone();
        for machine in machines {
            let is_host = machine.starts_with("host");
            let sources = SOURCES.iter().filter(|one| *one != machine);
            for source in sources.filter(|one| one.starts_with("host") == is_host) {
                add_from(library, machine, source, &mut with_others);
            }
        }
        Self { own, with_others }
    }

    /// Predicts from their own figures, else with the figures of others.
    pub(crate) fn predict<F, O>(&self, closeness: EvidenceLevel, formula: F) -> Answer
    where
        F: Fn(&Values<'_>) -> Result<O, MissingParameter>,
        O: Into<Outcome>,
    {
        (self.own.predict(closeness, &formula)).or_else(|why| {
            (self.with_others.predict(EvidenceLevel::Application, &formula)).map_err(|_| why)
        })
    }

    /// Predicts from their own published figures only.
    pub(crate) fn own<F, O>(&self, formula: F) -> Answer
    where
        F: Fn(&Values<'_>) -> Result<O, MissingParameter>,
        O: Into<Outcome>,
    {
        self.own.predict(EvidenceLevel::Same, formula)
    }

    /// Returns `true` if the machine's own profile has the parameter.
    pub(crate) fn knows(&self, machine: &str, name: &str) -> bool {
        self.own.get(&format!("{machine}/{name}")).is_some()
    }
}

fn add_from(library: &Library, machine: &str, source: &str, with_others: &mut Evidence) {
    let theirs = library.evidence(&[source]);
    let rate = |evidence: &Evidence, of: &str| match evidence.get(&format!("{of}/pcie.rate")) {
        Some(ParameterValue::Quantity(quantity)) => {
            Some((quantity.interval().typ, quantity.clone()))
        }
        _ => None,
    };
    for (name, known) in theirs.iter() {
        let Some(name) = name.strip_prefix(&format!("{source}/")) else {
            continue;
        };
        let to = format!("{machine}/{name}");
        let moves = ["dma.", "rdma.", "tcp."].iter().any(|it| name.starts_with(it));
        if !moves || OWN.contains(&name) || with_others.get(&to).is_some() {
            continue;
        }
        let mut known = known.clone();
        // What saturates a link saturates another one at the same share of it.
        if let (true, ParameterValue::Quantity(peak)) =
            (name.starts_with("dma.") && name.ends_with(".peak"), &mut known)
        {
            let (Some(mine), Some(other)) = (rate(with_others, machine), rate(&theirs, source))
            else {
                continue;
            };
            for one in [&mut peak.value, &mut peak.low, &mut peak.high] {
                *one = one.map(|value| value * mine.0 / other.0);
            }
            peak.facts.extend(mine.1.facts);
        }
        with_others.insert(to, known);
    }
}
