//! Advice on how to wait for a device: polling or events.

use serde::Serialize;

use super::question::DeviceRate;
use crate::facts::Facts;
use crate::{Completion, Verdict};

/// Job length in bytes below which polling was published as faster by far (condition of
/// `idio.dma.poll.lat`: 8 KB).
const POLLING_BELOW_BYTES: u64 = 8_000;
/// Job length in bytes from which on an event costs next to nothing (condition of
/// `idio.dma.d3.ev8m`: 8 MB).
const EVENTS_FROM_BYTES: u64 = 8_000_000;
/// Buffer size from which events are likely to be better: one more wake-up takes less time than the bytes.
const EVENTS_LIKELY_BYTES: u64 = 64 << 10;

/// Advised way to wait for a device, and how sure that is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletionAdvice {
    /// Advised way: polling or events.
    pub mode: Completion,
    /// Verdict on that being the better way: "yes" or "cannot tell".
    pub verdict: Verdict,
    /// `measured`, or `modelled`.
    pub provenance: &'static str,
    /// Reason for the choice, in words.
    pub why: String,
    /// Facts that it rests on.
    pub facts: Vec<String>,
}

/// Advice from published times of DMA jobs on such cards; times of other engines were not published.
pub(super) fn published(chunk_bytes: u64) -> CompletionAdvice {
    let (mode, verdict, why, facts): (_, _, &str, &[&str]) = if chunk_bytes < POLLING_BELOW_BYTES {
        (
            Completion::Poll,
            Verdict::Yes,
            "with jobs this short an event takes several times as long as polling; polling keeps \
             one core busy",
            &["idio.dma.poll.lat", "idio.dma.poll.thr", "idio.dma.d3.poll"],
        )
    } else if chunk_bytes >= EVENTS_FROM_BYTES {
        (
            Completion::Event,
            Verdict::Yes,
            "with jobs this long waiting for events takes next to no CPU, polling a whole core",
            &["idio.dma.d3.ev8m", "idio.dma.d3.poll"],
        )
    } else {
        let likely =
            if chunk_bytes < EVENTS_LIKELY_BYTES { Completion::Poll } else { Completion::Event };
        (
            likely,
            Verdict::CannotTell,
            "polling keeps one core busy and events take longer; where they meet between 8 KB and \
             8 MB is not published: `overside calibrate` measures it",
            &["idio.dma.poll.lat", "idio.dma.d3.ev8m", "idio.dma.d3.poll"],
        )
    };
    CompletionAdvice {
        mode,
        verdict,
        provenance: "modelled",
        why: why.into(),
        facts: facts.iter().map(ToString::to_string).collect(),
    }
}

/// Advice from figures of one device in both modes at one size; `None` if it was measured in one only.
pub(super) fn measured(rates: &[&DeviceRate]) -> Option<CompletionAdvice> {
    let find = |mode: &str| rates.iter().find(|one| one.completion == mode);
    let (poll, event) = (find("poll")?, find("event")?);
    let (a, b) = (poll.bytes_per_s, event.bytes_per_s);
    let (mode, verdict) = if a.low > b.high {
        (Completion::Poll, Verdict::Yes)
    } else if b.low > a.high {
        (Completion::Event, Verdict::Yes)
    } else {
        // As fast: the one that takes less of the host.
        match (poll.core_bytes_per_s, event.core_bytes_per_s) {
            (Some(poll), Some(event)) if event.low > poll.high => (Completion::Event, Verdict::Yes),
            (Some(poll), Some(event)) if poll.low > event.high => (Completion::Poll, Verdict::Yes),
            _ => (Completion::Event, Verdict::CannotTell),
        }
    };
    Some(CompletionAdvice {
        mode,
        verdict,
        provenance: "measured",
        why: format!("polling gave {:.0} MB/s, events {:.0} MB/s", a.typ / 1e6, b.typ / 1e6),
        facts: Vec::new(),
    })
}

/// Returns the statement of a fact of the collection and its source. `None` if the collection does
/// not have the fact.
pub(super) fn citation(fact: &str) -> Option<String> {
    let facts = Facts::published();
    let found = facts.get(fact)?;
    let source = facts.meta.citations.get(&found.paper)?;
    Some(format!(
        "section {}: {}, {} of {} ({source})",
        found.section, found.workload, found.metric, found.device
    ))
}
