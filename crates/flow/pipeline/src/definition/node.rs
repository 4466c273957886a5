//! Nodes: the machines of a pipeline's definition.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use overside_config::{Error, TimeSpan, quoted};
use overside_tables::pack::{Codec, Outer, PackOptions};
use serde::Deserialize;

use crate::definition::word::Word;
use crate::definition::{NAME_CHARS_MAX, THREADS, check_range};

const WINDOW: RangeInclusive<usize> = 1..=1024;
const SLOWDOWN: RangeInclusive<f64> = 1.0..=1000.0;
const RESOURCES_MAX: usize = 16;
const RESOURCE_AMOUNT_MAX: f64 = 1e6;
/// Resources that Ray counts by itself. A stage that needs one of them requests a machine by a
/// custom resource instead.
const OWN_RESOURCES: [&str; 4] = ["CPU", "GPU", "memory", "object_store_memory"];
const TIME: RangeInclusive<u64> = 1_000_000..=3_600_000_000_000;

/// Machine on which stages can run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDefinition {
    /// `grpc://HOST:PORT`, `grpc+tls://HOST:PORT`, or `in-process`: threads of this process in place of
    /// another machine, to try a pipeline without one. Empty if `resources` are set.
    #[serde(default)]
    pub address: String,
    /// Custom resources that a machine of a Ray cluster must have, by name; used instead of an address.
    #[serde(default)]
    pub resources: BTreeMap<String, f64>,
    /// Number of threads of an `in-process` node (default: 1).
    threads: Option<usize>,
    /// Factor by which an `in-process` node is made slower (default: 1).
    slowdown: Option<f64>,
    /// Number of batches after which an `in-process` node is lost.
    pub lost_after: Option<u64>,
    /// Maximum number of batches of one stage on the node at a time (default: 8).
    window: Option<usize>,
    /// Longest time that a batch may wait for the node under `adaptive` before the host takes part
    /// (default: 50 ms).
    queue_delay_max: Option<TimeSpan>,
    /// Time without an answer after which the node counts as lost (default: 10 s).
    timeout: Option<TimeSpan>,
    /// Codec that compresses the buffers of messages to the node and back (default: `none`).
    codec: Option<Word<Codec>>,
    /// Codec that compresses whole messages to the node and back.
    outer: Option<Word<Outer>>,
    /// File whose first line is the token for a node that requires one.
    pub password_file: Option<PathBuf>,
    /// Directory with `ca.pem`, and `host.pem` and `host.key` for a node that requires certificates.
    pub tls_keys: Option<PathBuf>,
}

/// Address of nodes that are part of this process.
pub const IN_PROCESS: &str = "in-process";

impl NodeDefinition {
    /// Returns `true` if the node runs on threads of this process.
    pub fn is_in_process(&self) -> bool {
        self.address == IN_PROCESS
    }

    /// Returns `true` if Ray chooses the machine, so that the definition has no address.
    pub fn is_placed_by_ray(&self) -> bool {
        self.address.is_empty()
    }

    /// Returns the number of threads of an in-process node.
    pub fn threads(&self) -> NonZeroUsize {
        self.threads.and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN)
    }

    /// Returns the factor by which an in-process node is made slower.
    pub fn slowdown(&self) -> f64 {
        self.slowdown.unwrap_or(1.0)
    }

    /// Returns the maximum number of batches of one stage on the node at a time.
    pub fn window(&self) -> usize {
        self.window.unwrap_or(8)
    }

    /// Returns the longest time that a batch may wait for the node under `adaptive`.
    pub fn queue_delay_max(&self) -> TimeSpan {
        self.queue_delay_max.unwrap_or(TimeSpan::millis(50))
    }

    /// Returns the time without an answer after which the node counts as lost.
    pub fn timeout(&self) -> TimeSpan {
        self.timeout.unwrap_or(TimeSpan::millis(10_000))
    }

    /// Returns the compression of messages to the node and back.
    pub fn message_options(&self) -> PackOptions {
        PackOptions {
            codec: self.codec.as_ref().map_or(Codec::None, |word| word.0),
            outer: self.outer.as_ref().map(|word| word.0),
            ..PackOptions::default()
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong =
            |key: &str, problem: &str, remedy: &str| Err(Error::of_key(key, problem, remedy));
        let is_flight =
            ["grpc://", "grpc+tls://"].iter().any(|scheme| self.address.starts_with(scheme));
        if self.is_placed_by_ray() {
            self.check_resources()?;
        } else if !self.resources.is_empty() {
            let problem = "a node has an address, or resources that Ray finds one by";
            return wrong("resources", problem, "leave one of the two out");
        } else if !is_flight && !self.is_in_process() {
            let remedy = "grpc://HOST:PORT, grpc+tls://HOST:PORT or in-process";
            return wrong("address", "not an address of a node", remedy);
        }
        let in_process_only = [
            ("threads", self.threads.is_some()),
            ("slowdown", self.slowdown.is_some()),
            ("lost_after", self.lost_after.is_some()),
        ];
        let flight_only = [
            ("codec", self.codec.is_some()),
            ("outer", self.outer.is_some()),
            ("password_file", self.password_file.is_some()),
            ("tls_keys", self.tls_keys.is_some()),
        ];
        let excluded = if self.is_in_process() { &flight_only[..] } else { &in_process_only };
        if let Some((key, _)) = excluded.iter().find(|(_, is_set)| *is_set) {
            let problem = match self.is_placed_by_ray() {
                true => "a node that Ray places has none".to_owned(),
                false => format!("a node at {} has none", self.address),
            };
            return wrong(key, &problem, "leave it out");
        }
        match (self.outer.as_ref().map(|outer| outer.0.check()), &self.codec) {
            (Some(_), Some(Word(codec))) if *codec != Codec::None => {
                return wrong("outer", "codec and outer exclude each other", "leave one out");
            }
            (Some(Err(error)), _) => {
                return wrong("outer", &error.to_string(), "choose another level");
            }
            _ => {}
        }
        check_range("threads", self.threads, &THREADS)?;
        check_range("window", self.window, &WINDOW)?;
        check_range("slowdown", self.slowdown, &SLOWDOWN)?;
        for (key, time) in [("queue_delay_max", self.queue_delay_max), ("timeout", self.timeout)] {
            if time.is_some_and(|time| !TIME.contains(&time.0)) {
                return wrong(key, "out of range", "1 ms to 3600 s");
            }
        }
        Ok(())
    }

    fn check_resources(&self) -> Result<(), Error> {
        let wrong = |problem: String, remedy: &str| {
            Err(Error::of_key("resources", problem, remedy.to_owned()))
        };
        if self.resources.is_empty() {
            let remedy = "address = \"grpc://HOST:PORT\", or resources = { bf2 = 1 }";
            return Err(Error::of_key("", "no address", remedy));
        }
        if self.password_file.is_some() {
            let problem = "a node that Ray places has a password of its own";
            return Err(Error::of_key("password_file", problem, "leave it out"));
        }
        if self.resources.len() > RESOURCES_MAX {
            return wrong("too many".into(), "at most 16");
        }
        for (name, amount) in &self.resources {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
            if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
                let remedy = "1 to 64 letters, digits and _-.:";
                return wrong(format!("{} is no name", quoted(name)), remedy);
            }
            if OWN_RESOURCES.contains(&name.as_str()) {
                let remedy = "name a custom resource, as in `ray start --resources='{\"bf2\": 1}'`";
                return wrong(format!("Ray counts {name} by itself"), remedy);
            }
            if !(*amount > 0.0 && *amount <= RESOURCE_AMOUNT_MAX) {
                return wrong(format!("{amount} of {name}"), "above 0, up to 1000000");
            }
        }
        Ok(())
    }
}
