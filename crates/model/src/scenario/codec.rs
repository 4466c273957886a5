//! One job of a codec: on an engine, with its context kept or set up for it, or on a core.

use overside_config::Error;

use super::{Metric, Point, Row};
use crate::codec::jobs;
use crate::codec::rates::{self, Amount, Codec, Direction, EvidenceTracker, Processor};
use crate::lookup::{Coverage, coverage};
use crate::{
    Answer, Evaluation, Evidence, EvidenceLevel, Interval, Library, NoPrediction, OperationProfile,
    Outcome, Prediction, Values,
};

/// Far below the sizes that were published, by this factor, the start of an engine decides.
const START_UP_COUNTS: f64 = 10.0;

/// A point, read.
struct Job<'a> {
    point: &'a Point,
    library: &'a Library,
    evidence: Evidence,
    machine: &'a str,
    doer: Processor,
    what: (Codec, Direction),
    amount: Amount,
}

/// Answers one point.
pub(super) fn rows(point: &Point, library: &Library) -> Result<Vec<Row>, Error> {
    let machine = point.word("profile");
    let kept = point.word("context") == "kept";
    let size = point.number_if_set("size");
    let amount = match (point.word("inputs"), size) {
        ("below", Some(bytes)) => Amount::Below(bytes),
        ("from", Some(bytes)) => Amount::AtLeast(bytes),
        ("below" | "from", None) => {
            let problem = "which size is meant is not said";
            return Err(Error::of_key("size", problem, "set it"));
        }
        (_, Some(bytes)) => Amount::At(bytes),
        ("corpus", None) => Amount::Corpus,
        ("sweep", None) => Amount::Sweep,
        _ => Amount::Files,
    };
    let job = Job {
        point,
        library,
        evidence: rates::evidence(library, &[machine, point.word("host")]),
        machine,
        doer: match (point.word("on"), kept) {
            ("cpu", _) => Processor::Cpu,
            (_, true) => Processor::Engine,
            _ => Processor::Offload,
        },
        what: (point.choice("codec"), point.choice("direction")),
        amount,
    };
    Ok(vec![job.row()])
}

impl Job<'_> {
    fn metric<O: Into<Outcome>>(
        &self,
        name: &str,
        formula: impl Fn(&Values<'_>, &EvidenceTracker) -> Evaluation<O>,
    ) -> Metric {
        self.point
            .metric(name, rates::predict(&self.evidence, formula))
    }

    fn row(&self) -> Row {
        let (doer, machine) = (self.doer, self.machine);
        let rate = |values: &Values<'_>, tracker: &EvidenceTracker| {
            rates::rate(values, tracker, (doer, machine), self.what, self.amount)
        };
        let throughput = self.metric("throughput", |values, tracker| {
            Ok(Outcome {
                value: rate(values, tracker)?,
                bottleneck: Some(self.limit().into()),
            })
        });
        let mut more = vec![self.metric("smaller by", |values, tracker| {
            rates::reduction(values, tracker, self.what.0)
        })];
        if doer != Processor::Cpu {
            more.extend(self.engine());
        }
        let latency = match self.amount {
            Amount::At(bytes) => Some(self.metric("time", |values, tracker| {
                Ok(bytes / rate(values, tracker)? * 1e9)
            })),
            _ => None,
        };
        Row {
            throughput: Some(throughput),
            latency,
            more,
            notes: vec![
                "Rates count the bytes that go in. A core's DEFLATE is zlib's at levels 1 to 3, \
                 on the files of the Silesia corpus."
                    .into(),
            ],
            ..Row::default()
        }
    }

    fn limit(&self) -> &'static str {
        match self.doer {
            Processor::Cpu => "one core",
            Processor::Engine => "the engine",
            Processor::Offload => "setting up a context",
        }
    }

    /// What belongs to an engine: contexts, its longest job, and what it is against CPUs.
    fn engine(&self) -> Vec<Metric> {
        let card = self.machine;
        let share = format!("{card}/codec.context.init.share");
        let mut more = vec![
            self.metric("context", |values, tracker| {
                rates::context_ns(values, tracker, card)
            }),
            self.metric("context over engine", |values, tracker| {
                rates::context_over_engine(values, tracker, card)
            }),
            self.metric("context set-up share", |values, _| values.get(&share)),
            self.metric("engine, all kinds of job", |values, tracker| {
                rates::all_tasks_rate(values, tracker, card)
            }),
        ];
        if self.doer == Processor::Offload {
            let host = self.point.word("host");
            more.push(self.metric("faster from", |values, tracker| {
                rates::faster_from(values, tracker, (card, host), self.what)
            }));
        }
        if let Some(entry) = self.entry() {
            let longest = entry.max_source_bytes() as f64;
            let given = |value: f64| {
                let known = Prediction::given(Interval::exactly(value));
                let facts = entry.max_source.facts.clone();
                Ok(Prediction { facts, ..known })
            };
            more.push(self.point.metric("longest job", given(longest)));
            if let Amount::At(bytes) = self.amount {
                more.push(self.point.metric("jobs", given(jobs(bytes, longest))));
            }
        }
        if let Amount::At(bytes) = self.amount {
            more.extend(self.at_size(bytes));
        }
        more
    }

    /// Figures that were published by size.
    fn at_size(&self, bytes: f64) -> Vec<Metric> {
        let (codec, way) = self.what;
        let stem = format!("{}/codec.{}.{}", self.machine, codec.name(), way.name());
        let over = |name: &str, parameter: String| {
            self.point
                .metric(name, by_size(&self.evidence, &parameter, bytes))
        };
        let mut more = vec![
            over("over all threads of the host", format!("{stem}.speedup")),
            over(
                "over all threads of the card",
                format!("{stem}.speedup.own"),
            ),
        ];
        if let Some(sweep) = self.entry().and_then(|entry| entry.one_at_a_time.as_ref()) {
            let mut evidence = Evidence::new();
            evidence.insert("one-at-a-time", sweep.table());
            let near = match coverage(&evidence, "one-at-a-time", bytes) {
                Some(Coverage::Given) => EvidenceLevel::Same,
                _ => EvidenceLevel::Card,
            };
            let rate = evidence.predict(near, |values| values.at("one-at-a-time", bytes));
            more.push(self.point.metric("one at a time", rate));
        }
        more
    }

    /// What the card's profile says of the operation.
    fn entry(&self) -> Option<&OperationProfile> {
        let (codec, way) = self.what;
        let codec = match codec {
            Codec::Lz4 => "lz4",
            _ => "deflate",
        };
        let name = format!("{}-{codec}", way.name());
        let profile = self.library.profile(self.machine)?;
        (profile.operations.iter())
            .find(|entry| entry.does.iter().any(|one| one.starts_with(&name)))
    }
}

/// A ratio that was published by the size of the data. What depends on an engine's start-up has no
/// prediction: nobody published that in units of time.
pub(super) fn by_size(evidence: &Evidence, parameter: &str, bytes: f64) -> Answer {
    let least = crate::lookup::points(evidence, parameter)
        .first()
        .map(|(at, _)| *at);
    if least.is_some_and(|least| bytes * START_UP_COUNTS < least) {
        return Err(NoPrediction {
            why: "no published fact gives the time that an engine takes to start".into(),
            remedy: "measure it with `overside calibrate` on such a card".into(),
        });
    }
    let near = match coverage(evidence, parameter, bytes) {
        Some(Coverage::Given) => EvidenceLevel::Same,
        _ => EvidenceLevel::Card,
    };
    evidence.predict(near, |values| values.at(parameter, bytes))
}
