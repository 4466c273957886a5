//! Scenario for one machine by itself: its cores, memory and storage.

use overside_config::Error;

use super::{Metric, Point, Row};
use crate::machine::{compute, given, memory, storage};
use crate::{Answer, Library};

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let asked = Machine {
        point,
        library,
        machine: point.word("profile"),
        other: point.word_if_set("other"),
        bytes: point.number("bytes"),
        cores: point.number("cores"),
    };
    let mut row = match point.word("work") {
        "arithmetic" => asked.arithmetic(),
        "string" => asked.strings(),
        "hash" => asked.hashes()?,
        "program" => asked.programs(),
        "access" => asked.accesses(),
        "latency" => asked.latency(),
        "stream" => asked.streams(),
        "copy" => asked.copies(),
        _ => asked.storage(),
    };
    row.bottleneck = Some(format!("{}: {}", asked.machine, point.word("work")));
    Ok(vec![row])
}

/// Values of a point's parameters.
struct Machine<'a> {
    point: &'a Point,
    library: &'a Library,
    machine: &'a str,
    other: Option<&'a str>,
    bytes: f64,
    cores: f64,
}

impl Machine<'_> {
    fn metric(&self, name: &str, answer: Answer) -> Metric {
        self.point.metric(name, answer)
    }

    fn given(&self, name: &str, parameter: &str) -> Metric {
        self.metric(name, given(self.library, self.machine, parameter))
    }

    fn arithmetic(&self) -> Row {
        let (kind, operation) = (self.point.word("type"), self.point.word("operation"));
        let rate = compute::rate(self.library, self.machine, kind, operation);
        Row { throughput: Some(self.metric("operations", rate)), ..Row::default() }
    }

    fn strings(&self) -> Row {
        let function = self.point.word("function");
        let rate = compute::string_rate(self.library, self.machine, function, self.bytes);
        Row { throughput: Some(self.metric("calls", rate)), ..Row::default() }
    }

    fn hashes(&self) -> Result<Row, Error> {
        let Some(other) = self.other else {
            let problem = "hash functions were published as ratios between two machines only";
            return Err(Error::of_key("other", problem, "name the other machine"));
        };
        let function = self.point.word("function");
        let ratio = if (function, self.machine, other) == ("any", "bf2-200g", "bf1") {
            given(self.library, self.machine, "hash.any.over-bf1")
        } else {
            compute::hash_ratio(self.library, function, (self.machine, other))
        };
        Ok(Row {
            throughput: Some(self.metric("over the other", ratio)),
            more: vec![self.given("latency saved", "hash.any.latency-saved")],
            ..Row::default()
        })
    }

    fn programs(&self) -> Row {
        match self.point.word("function") {
            "7zip" => {
                Row { throughput: Some(self.given("operations", "compute.7zip")), ..Row::default() }
            }
            "aes-256-cbc" => Row {
                throughput: Some(self.given("moved", "cipher.aes-256-cbc")),
                ..Row::default()
            },
            _ => Row {
                more: vec![
                    self.given("over the generation before", "compute.single-thread.gain"),
                    self.given("behind its host", "compute.single-thread.gap-to-x86"),
                ],
                ..Row::default()
            },
        }
    }

    fn accesses(&self) -> Row {
        let access = self.point.word("access");
        let rate = memory::access_rate(self.library, self.machine, access, self.bytes, self.cores);
        Row { throughput: Some(self.metric("accesses", rate)), ..Row::default() }
    }

    fn latency(&self) -> Row {
        let huge = self.point.word("pages") == "huge";
        let own = memory::latency(self.library, self.machine, huge, self.bytes);
        let mut more = vec![
            self.metric("huge pages save", memory::huge_pages(self.library, self.machine)),
            self.metric(
                "more TLB misses than a BF-2",
                memory::tlb_misses(self.library, self.machine, self.bytes),
            ),
        ];
        if let Some(other) = self.other {
            let ratio = memory::latency_ratio(self.library, (self.machine, other), self.bytes);
            more.push(self.metric("over the other", ratio));
        }
        Row { latency: Some(self.metric("latency", own)), more, ..Row::default() }
    }

    fn streams(&self) -> Row {
        let kernel = self.point.word("kernel");
        let rate = memory::stream(self.library, self.machine, kernel, self.cores);
        Row { throughput: Some(self.metric("moved", rate)), ..Row::default() }
    }

    fn copies(&self) -> Row {
        let name = match self.point.word("function") {
            "memset" => "memory.fill",
            "load" => "memory.load",
            _ => "memory.copy",
        };
        Row { throughput: Some(self.given("moved", name)), ..Row::default() }
    }

    fn storage(&self) -> Row {
        let access = self.point.word("access");
        let latency = |percentile: Option<f64>| {
            storage::latency(self.library, self.machine, access, self.bytes, percentile)
        };
        let rate = storage::rate(self.library, self.machine, access, self.bytes);
        let percentile = self.point.number_if_set("percentile");
        Row {
            throughput: Some(self.metric("moved", rate)),
            latency: Some(self.metric("latency", latency(None))),
            more: (percentile.into_iter())
                .map(|share| self.metric("latency at the percentile", latency(Some(share))))
                .collect(),
            notes: (percentile.iter())
                .map(|_| {
                    "no percentile was published: it is between that of times that do not vary and \
                     that of a memoryless server"
                        .to_owned()
                })
                .collect(),
            ..Row::default()
        }
    }
}
