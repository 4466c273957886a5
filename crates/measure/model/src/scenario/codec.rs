//! One job of a codec: on an engine, with its context kept or set up for it, or on a core.

use overside_config::Error;
use overside_ops::Operation;

use super::{Metric, Point, Row};
use crate::advice::{self, RATES_FROM_BYTES};
use crate::codec::jobs;
use crate::codec::rates::{self, Amount, Codec, Direction, EvidenceTracker, Processor};
use crate::corpus::{File, SILESIA};
use crate::lookup::{Coverage, coverage};
use crate::{
    Answer, BreakEven, Evaluation, Evidence, EvidenceLevel, Interval, Library, NoPrediction,
    OperationProfile, Outcome, OutlookQuestion, Prediction, Quantity, Setting, Unit, Values,
    outlook,
};

/// Far below the sizes that were published, by this factor, the start of an engine decides.
const START_UP_COUNTS: f64 = 10.0;

/// Parameter for the time that a job takes whatever its size.
const START_UP: &str = "start-up";

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
    let machine = machine(point, library)?;
    let machine = machine.as_str();
    let kept = point.word_if_set("context") == Some("kept");
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

/// The machine: the card's profile with the initiator that is asked for.
fn machine(point: &Point, library: &Library) -> Result<String, Error> {
    let named = point.word("profile");
    let card = named.strip_suffix("-soc").unwrap_or(named);
    let machine = match point.word_if_set("initiator") {
        Some("host") => card.to_owned(),
        Some("card") => format!("{card}-soc"),
        _ => named.to_owned(),
    };
    if library.profile(&machine).is_none() {
        let problem = format!("there is no profile {machine}");
        return Err(Error::of_key("initiator", problem, "leave it out"));
    }
    Ok(machine)
}

impl Job<'_> {
    fn metric<O: Into<Outcome>>(
        &self,
        name: &str,
        formula: impl Fn(&Values<'_>, &EvidenceTracker) -> Evaluation<O>,
    ) -> Metric {
        self.point.metric(name, rates::predict(&self.evidence, formula))
    }

    /// The reason why there is no figure of an engine: the card has none for this, or no published
    /// figure tells what one short job takes.
    fn unknown(&self) -> Option<NoPrediction> {
        let profile = self.library.profile(self.machine).filter(|_| self.doer != Processor::Cpu)?;
        let (codec, way) = self.what;
        let format = if codec == Codec::Lz4 { "lz4-block" } else { "deflate" };
        let operation: Operation = format!("{}-{format}", way.name()).parse().ok()?;
        let entry = match profile.able(operation) {
            Ok(entry) => entry,
            Err(error) => {
                let (why, remedy) = (error.to_string(), "ask for on=cpu, or another card".into());
                return Some(NoPrediction { why, remedy });
            }
        };
        let Amount::At(bytes) = self.amount else { return None };
        let is_short = bytes < RATES_FROM_BYTES as f64 && entry.per_job.is_none();
        (is_short && self.doer == Processor::Engine)
            .then(|| advice::no_job_cost(profile, RATES_FROM_BYTES))
    }

    fn row(&self) -> Row {
        let (doer, machine) = (self.doer, self.machine);
        let unknown = self.unknown();
        let level = (self.point.number_if_set("level"))
            .filter(|_| (doer, self.what.1) == (Processor::Cpu, Direction::Compress));
        let rate = |values: &Values<'_>, tracker: &EvidenceTracker| {
            if let Some(level) = level {
                return rates::cpu_rate_at_level(values, machine, self.what.0, level as u64);
            }
            rates::rate(values, tracker, (doer, machine), self.what, self.amount)
        };
        let known = |name: &str, metric: Metric| match &unknown {
            Some(none) => self.point.metric(name, Err(none.clone())),
            None => metric,
        };
        let throughput = self.metric("throughput", |values, tracker| {
            Ok(Outcome { value: rate(values, tracker)?, bottleneck: Some(self.limit().into()) })
        });
        let throughput = known("throughput", throughput);
        let host = self.point.word("host");
        let mut more = vec![self.metric("smaller by", |values, tracker| {
            rates::reduction(values, tracker, self.what.0, host)
        })];
        if doer != Processor::Cpu && self.entry().is_some() {
            more.extend(self.engine());
        }
        let latency = match self.amount {
            Amount::At(bytes) => {
                let time =
                    self.metric("time", |values, tracker| Ok(bytes / rate(values, tracker)? * 1e9));
                Some(known("time", time))
            }
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

    /// Returns the figures of an engine: its contexts, its longest job, and how it compares with
    /// CPUs.
    fn engine(&self) -> Vec<Metric> {
        let card = self.machine;
        let share = format!("{card}/codec.context.init.share");
        let mut more = vec![
            self.metric("context", |values, tracker| rates::context_ns(values, tracker, card)),
            self.metric("context over engine", |values, tracker| {
                rates::context_over_engine(values, tracker, card)
            }),
            self.metric("context set-up share", |values, _| values.get(&share)),
            self.metric("engine, all kinds of job", |values, tracker| {
                rates::all_tasks_rate(values, tracker, card)
            }),
        ];
        let host = self.point.word("host");
        let faster_from = match (self.point.word("threads"), self.doer) {
            ("all", _) => self.faster_from_all(host),
            (_, Processor::Offload) => rates::predict(&self.evidence, |values, tracker| {
                rates::faster_from(values, tracker, (card, host), self.what)
            }),
            _ => self.kept_faster_from(host),
        };
        more.push(self.point.metric("start-up", self.start_up()));
        let won = (faster_from.clone()).map(|from| self.files_won(&from));
        more.push(self.point.metric("faster from", faster_from));
        more.push(self.point.metric("files won", won));
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

    /// Predicts the time that a job takes whatever its size.
    fn start_up(&self) -> Answer {
        let evidence = self.with_start_up()?;
        rates::predict(&evidence, |values, tracker| self.start_up_ns(values, tracker))
    }

    /// Returns the evidence with what was published of whole jobs one at a time, with an older DOCA,
    /// where a context is kept.
    fn with_start_up(&self) -> Result<Evidence, NoPrediction> {
        let mut evidence = self.evidence.clone();
        if self.doer == Processor::Offload {
            return Ok(evidence);
        }
        let sweep = self.entry().and_then(|entry| entry.one_at_a_time.as_ref());
        let Some((sweep, fixed)) = sweep.and_then(|sweep| Some((sweep, sweep.fixed_ns()?))) else {
            let card = self.machine;
            return Err(NoPrediction {
                why: format!(
                    "no published fact gives the time that {card}'s engine takes to start"
                ),
                remedy: "`overside calibrate` measures it on such a card".into(),
            });
        };
        let range = Quantity::range(fixed.low, fixed.high, Unit::Ns);
        evidence.insert(START_UP, Quantity { facts: sweep.facts.clone(), ..range });
        Ok(evidence)
    }

    fn start_up_ns(&self, values: &Values<'_>, tracker: &EvidenceTracker) -> Evaluation<f64> {
        if self.doer == Processor::Offload {
            return rates::context_ns(values, tracker, self.machine);
        }
        tracker.weaken_to(EvidenceLevel::Application);
        values.get(START_UP)
    }

    /// The size from which the engine beats all threads of `host`, in bytes that go in.
    fn faster_from_all(&self, host: &str) -> Answer {
        let mut evidence = self.with_start_up()?;
        if let Some(gain) = rates::thread_gain(self.library, host) {
            evidence.insert(format!("{host}/{}", rates::THREADS), gain);
        }
        rates::predict(&evidence, |values, tracker| {
            let fixed_ns = self.start_up_ns(values, tracker)?;
            rates::faster_from_all(values, tracker, (self.machine, host), self.what, fixed_ns)
        })
    }

    /// Counts the files of the Silesia corpus that are at least as large as `faster_from`.
    fn files_won(&self, faster_from: &Prediction) -> Prediction {
        let (codec, way) = self.what;
        let goes_in = |file: &File| match (way, codec) {
            (Direction::Compress, _) => file.bytes,
            (Direction::Decompress, Codec::Lz4) => file.lz4_bytes,
            (Direction::Decompress, _) => file.deflate_bytes,
        };
        let won = |least: f64| SILESIA.iter().filter(|file| goes_in(file) >= least).count() as f64;
        let Interval { low, typ, high } = faster_from.interval;
        Prediction {
            interval: Interval { low: won(high), typ: won(typ), high: won(low) },
            ..faster_from.clone()
        }
    }

    /// The size from which an engine whose context is kept beats a core of `host`, one job at a
    /// time, in bytes that go in.
    fn kept_faster_from(&self, host: &str) -> Answer {
        let unknown = |why: String| NoPrediction {
            why,
            remedy: "`overside calibrate` measures it on such a card".into(),
        };
        let does = self.profile_operation();
        let Some((profile, operation)) = self.library.profile(self.machine).zip(does) else {
            return Err(unknown(format!("{} does not do this", self.machine)));
        };
        let core = rates::predict(&self.evidence, |values, tracker| {
            let core = (Processor::Cpu, host);
            rates::rate(values, tracker, core, self.what, Amount::Files)
        })?;
        let smaller = rates::predict(&self.evidence, |values, tracker| {
            rates::reduction(values, tracker, self.what.0, host)
        })?;
        let ratio = 1.0 - smaller.interval.typ;
        // A break-even counts the uncompressed side.
        let counted = match self.what.1 {
            Direction::Compress => 1.0,
            Direction::Decompress => ratio,
        };
        let ask = |rate: f64| {
            let question = OutlookQuestion {
                operation,
                patterns: Vec::new(),
                setting: Setting::Static,
                cpu_rate_bytes_per_s: rate / counted,
                ratio,
            };
            outlook(profile, &question).map_err(|error| unknown(error.to_string()))
        };
        let (slow, fast) = (ask(core.interval.low)?, ask(core.interval.high)?);
        match BreakEven::between(&slow, &fast) {
            BreakEven::Range { low_bytes, high_bytes } => {
                let at = Interval { low: low_bytes as f64, ..Interval::exactly(high_bytes as f64) };
                Ok(Prediction {
                    facts: [slow.facts, core.facts].concat(),
                    ..Prediction::given(at.scale(counted))
                })
            }
            BreakEven::NotBelow { bytes, missing } => Err(unknown(format!(
                "not below {:.2} MiB; above that {} is not published",
                bytes as f64 * counted / 1_048_576.0,
                missing.first().map_or("more", String::as_str)
            ))),
            BreakEven::Never { reason } => Err(unknown(reason)),
            BreakEven::None { .. } => Err(unknown("the cost of one job is not published".into())),
        }
    }

    /// Figures that were published by size.
    fn at_size(&self, bytes: f64) -> Vec<Metric> {
        let (codec, way) = self.what;
        let stem = format!("{}/codec.{}.{}", self.machine, codec.name(), way.name());
        let over = |name: &str, parameter: String| {
            self.point.metric(name, by_size(&self.evidence, &parameter, bytes))
        };
        let mut more = vec![
            over("over all threads of the host", format!("{stem}.speedup")),
            over("over all threads of the card", format!("{stem}.speedup.own")),
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

    /// Returns the card profile's entry for the operation; `None` if it has none.
    fn entry(&self) -> Option<&OperationProfile> {
        let operation = self.profile_operation()?;
        self.library.profile(self.machine)?.operation(operation)
    }

    /// The operation, as the card's profile calls it.
    fn profile_operation(&self) -> Option<Operation> {
        let (codec, way) = self.what;
        let codec = match codec {
            Codec::Lz4 => "lz4",
            _ => "deflate",
        };
        let name = format!("{}-{codec}", way.name());
        let entries = self.library.profile(self.machine)?.operations.iter();
        let mut does = entries.flat_map(|entry| &entry.does);
        does.find(|one| one.starts_with(&name))?.parse().ok()
    }
}

/// Returns a ratio that was published by the size of the data. Costs that depend on an engine's
/// start-up have no prediction: it is unpublished in units of time.
pub(super) fn by_size(evidence: &Evidence, parameter: &str, bytes: f64) -> Answer {
    let least = crate::lookup::points(evidence, parameter).first().map(|(at, _)| *at);
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
